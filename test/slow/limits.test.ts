import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) => `${yaml}    limits: { deletes: 0, updates: { count: 1 } }\n`);
const { command } = company;
const withoutZoe = people.replace("3,zoe,Zoë Ünal,,active,staff", "3,zoe,Zoë Ünal,,left,staff");

test("a limit that is tripped: exit code 3, what it says in text and JSON, and an override for that plan alone", async () => {
  expect(await command("apply")).toMatchObject({ code: 0 });
  await company.write("people.csv", withoutZoe);

  const plan = await command("plan");
  expect(plan.code).toBe(3);
  expect(plan.stdout).toContain("− zoe");
  expect(plan.stdout).toMatch(/Limits\n {2}✗ deletes: 1 user, at most 0 \(as configured\): tripped\n/);
  const digest = /--override deletes --digest ([0-9a-f]{12})`/.exec(plan.stderr)?.[1] ?? "";
  const json = await command("plan", "--json");
  expect(json.code).toBe(3);
  const [run] = JSON.parse(json.stdout).runs;
  expect(run.plan.digest.slice(0, 12)).toBe(digest);
  expect(run.plan.limits).toContainEqual({
    limit: "deletes",
    of: "users",
    value: 1,
    earlier: 0,
    bound: 0,
    basis: "as configured",
    tripped: true,
    overridden: false,
  });
  expect(run.error.message).toMatch(/held by the limit on deletions/);

  expect(await command("apply", "--yes")).toMatchObject({ code: 3 });
  const unnamed = await command("apply", "--override", "deletes");
  expect(unnamed).toMatchObject({ code: 1, stdout: "" });
  expect(unnamed.stderr).toMatch(/--override is for one plan: name it with --digest/);
  expect((await command("apply", "--override", "delete", "--digest", digest)).stderr).toMatch(
    /expected some of deletes/,
  );
  expect((await command("apply", "--override", "deletes", "--digest", "12ab")).stderr).toMatch(
    /at least the 12 hexadecimal/,
  );

  const within = await command("plan", "--override", "deletes");
  expect(within.code).toBe(2);
  // What a plan shows of its digest is enough.
  const [, next = ""] = /apply exactly this: `.* apply --config \S+ (staff --override deletes --digest \S+)`\n$/.exec(
    within.stdout,
  ) ?? [within.stdout];
  expect(next.split(" ").at(-1)).toBe(digest);
  expect((await command("apply", ...next.replace(/\w{12}$/, "0123456789ab").split(" "))).stderr).toContain(
    "the changes differ from the plan that was shown; nothing was applied",
  );
  const applied = await command("apply", ...next.split(" "));
  expect(applied).toMatchObject({ code: 0 });
  expect(applied.stdout).toContain("! deletes: 1 user, at most 0 (as configured): overridden");
  expect(await command("plan")).toMatchObject({ code: 0 });
});

test("where nobody's name can be made any more, nothing is left to do; the run is held instead of succeeding so", async () => {
  await company.configure((yaml) => yaml.replace("deletes: 0", "quarantined: 1"));
  expect(await command("apply")).toMatchObject({ code: 0 });
  await company.write("people.csv", people.replaceAll(/(?<=^[123],)\w+/gm, ""));
  const held = await command("apply", "--yes");
  expect(held).toMatchObject({ code: 3 });
  expect(held.stderr).toMatch(/quarantined: 3 users of company, at most 1 \(as configured\)\n/);
  const run = /approve --config \S+ (\S+) --override quarantined/.exec(held.stderr)?.[1] ?? "";
  expect(await command("approve", run, "--override", "quarantined", "--yes")).toMatchObject({ code: 0 });
});

test("apply-the-rest: what waits is said, with what it would take; exit code 3 although the rest was applied", async () => {
  await company.configure((yaml) => yaml.replace("updates: { count: 1 }", "action: apply-the-rest"));
  await command("apply");
  await company.write("people.csv", withoutZoe.replace("Grace Hopper", "Admiral Hopper"));
  const plan = await command("plan", "--json");
  expect(plan.code).toBe(3);
  expect(JSON.parse(plan.stdout).runs[0]).toMatchObject({ outcome: "planned", waiting: ["deletes"] });
  const applied = await command("apply");
  expect(applied).toMatchObject({ code: 3 });
  expect(applied.stdout).toMatch(
    /these wait: deletions; the rest goes on\. The plan with them: `(?:rollcall|node \S+) plan --config \S+ staff --override deletes`\n/,
  );
  expect(applied.stdout).toContain("staff: applied and verified");
  const { stdout } = await command("plan", "--override", "deletes");
  expect(stdout).toContain("− zoe");
  expect(stdout).not.toContain("grace");
});
