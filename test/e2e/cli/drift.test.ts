import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command, run } = company;

/** Another sync, which somebody else lets write to the same target. */
const meddling = `  other:
    from: [company]
    to: analytics
    users: { include: entry.login == "ada", name: entry.login, displayName: entry.name, mail: '"mine@example.net"' }
`;

test("drift shows what somebody else changed in the target, says what a run would do, and changes nothing", async () => {
  await company.configure((yaml) => `${yaml}${meddling}`);
  await command("apply", "staff");
  expect(await command("drift", "staff")).toMatchObject({ code: 0, stdout: "staff → analytics: no drift\n" });
  await company.applyOther();
  await company.write("people.csv", people.replace("Grace Hopper", "Rear Admiral Hopper"));
  const shown = await command("drift", "staff");
  expect(shown.code).toBe(2);
  expect(shown.stdout).toBe(
    "staff → analytics: 1 principal changed in the target from outside; a run takes it back\n" +
      "  ~ ada  mail: mine@example.net → ada@example.com\n",
  );
  await company.configure((yaml) => yaml.replace(/^ {2}staff:\n/m, "  staff:\n    drift: leave\n"));
  expect((await command("drift", "staff")).stdout).toContain("a run leaves it");
  const { drift } = JSON.parse((await command("drift", "staff", "--json")).stdout);
  expect(drift).toMatchObject([{ sync: "staff", causes: [{ kind: "drift" }], changes: [{ name: "ada" }] }]);
  const { plan, notes } = await run("plan", "staff");
  expect(plan.changes).toMatchObject([{ name: "grace", causes: ["c1"] }]);
  expect(notes).toContain("1 principal left as changed in the target (drift: leave)");
});

test("causes select what show shows and what approve applies", async () => {
  await company.configure((yaml) => `${yaml}    approval: required\n`);
  const latest = async (): Promise<string> => (await run("apply")).run;
  await command("approve", await latest(), "--yes");
  await company.write("people.csv", people.replace("Grace Hopper", "Rear Admiral Hopper").replace(/^3,.*\n/m, ""));
  const pending = await latest();
  const shown = await command("show", pending);
  expect(shown.stdout).toContain("gone from company: zoe");
  expect(shown.stdout).toContain('name changed from "Grace Hopper" to "Rear Admiral Hopper" (company): grace');
  const [, id = ""] = /(c\d)\s+1 user\s+gone/.exec(shown.stdout) ?? [];
  const filtered = await command("show", pending, "--cause", id, "--json");
  expect(JSON.parse(filtered.stdout).plan.changes).toMatchObject([{ action: "delete", name: "zoe", causes: [id] }]);
  expect((await command("approve", pending, "--yes", "--only-cause", "c9")).stderr).toContain('no cause "c9"');
  expect((await command("approve", pending, "--yes", "--except-cause", id)).code).toBe(0);
  const rest = await run("plan");
  expect(rest.plan.changes).toMatchObject([{ action: "delete", name: "zoe" }]);
});
