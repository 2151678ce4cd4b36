import { expect, test } from "vitest";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";

const company = companyOfEachTest();
const { command, run } = company;

interface Found {
  readonly plan: {
    readonly changes: readonly {
      action: string;
      kind: string;
      name: string;
      groupsAdded: string[];
      groupsRemoved: string[];
    }[];
  };
}

/** What a plan changes, a line each. */
function linesOf({ plan }: Found): string[] {
  return plan.changes.map(({ action, name, groupsAdded, groupsRemoved }) =>
    [
      `${action} ${name}`,
      ...groupsAdded.map((group) => `+${group}`),
      ...groupsRemoved.map((group) => `-${group}`),
    ].join(" "),
  );
}

test("a run for one person or group changes nobody else", async () => {
  const { stdout, code } = await command("plan", "--for", "ADA@example.com");
  expect(code).toBe(2);
  expect(stdout).toContain("only user ada: everything else in the target stays unchanged");
  expect(stdout).toContain(
    "2 memberships left out: the target does not have the group yet, and it is not named with --for:\n",
  );
  expect(stdout).toMatch(
    /apply exactly this: `.*apply --config \S+ staff --for ADA@example.com --digest [0-9a-f]{12}`/,
  );

  expect(linesOf(await run("apply", "--for", "1", "--for", "group:staff"))).toEqual([
    "create staff",
    "create ada +staff",
  ]);
  // Nothing is known of the sync as a whole.
  expect(JSON.parse((await command("status", "--json")).stdout).syncs[0].lastSuccessAt).toBeUndefined();
  expect(linesOf(await run("apply"))).toEqual([
    "create engines +staff",
    "create grace +staff",
    "create zoe +staff",
    "update ada +engines",
  ]);

  await company.write(
    "people.csv",
    people
      .replace("Grace Hopper,grace@example.com,active,staff", "Rear Admiral Hopper,grace@example.com,active,engines")
      .replace("Zoë Ünal,,active,staff", "Zoë,,active,engines")
      .replace(/^1,.*\n/m, ""),
  );
  // A person, with their own memberships.
  expect(linesOf(await run("apply", "--for", "Grace Hopper"))).toEqual(["update grace +engines -staff"]);
  // A group, with its members, but nothing else of these.
  expect(linesOf(await run("plan", "--for", "engines"))).toEqual(["update ada -engines", "update zoe +engines"]);
  // Somebody who is gone.
  expect(linesOf(await run("plan", "--for", "ada"))).toEqual(["delete ada -engines -staff"]);
  // What is left is still known for what it is.
  const rest = await run("plan");
  expect(linesOf(rest)).toEqual(["update zoe +engines -staff", "delete ada -engines -staff"]);
  expect(rest.causes.map(({ kind }: { kind: string }) => kind)).not.toContain("drift");
  const nothing = await command("plan", "--for", "grace");
  expect(nothing).toMatchObject({ code: 0, stdout: expect.stringContaining("user grace: nothing to do; `") });
});

test("a name that nobody has, or several, is an error that says more", async () => {
  await company.applied();
  expect(await command("apply", "--for", "grcae")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(
      '--for "grcae": no user or group of that name is in the sources or the target; similar names: grace',
    ),
  });
  expect((await command("plan", "--for", "left")).stderr).toContain("its record makes no user or group: `");
  await company.write("people.csv", `${people}5,staff,Grace Hopper,,active,\n`);
  expect((await command("plan", "--for", "Grace Hopper")).stderr).toContain(
    'matches several: give one of "user:grace", "user:staff"',
  );
  expect((await command("plan", "--for", "staff")).stderr).toContain(
    'matches several: give one of "user:staff", "group:staff"',
  );
  expect(linesOf(await run("plan", "--for", "user:staff"))).toEqual(["create staff"]);
  await company.configure(
    (yaml) =>
      `${yaml}  other: { from: [company], to: analytics, users: { name: entry.login, displayName: entry.name } }\n`,
  );
  expect((await command("plan", "--for", "ada")).stderr).toContain(
    "--for is about one sync: add its name, one of staff, other",
  );
});

test("limits, approvals and the way through the daemon are those of every run", async () => {
  await company.applied();
  await company.configure((yaml) => `${yaml}    approval: required\n`);
  await company.write("people.csv", people.replace("Grace Hopper", "Rear Admiral").replace("Zoë Ünal", "Zoë"));
  company.start();
  await expect.poll(async () => (await command("health")).code).toBe(0);
  const everybody = await run("apply");
  const one = await run("apply", "--for", "grace");
  expect([everybody.outcome, one.outcome]).toEqual(["pending", "pending"]);
  const { runs } = JSON.parse((await command("runs", "--state", "pending", "--json")).stdout);
  expect(runs.map(({ id, for: names }: { id: string; for?: string[] }) => [id, names])).toEqual([
    [one.run, ["grace"]],
    [everybody.run, undefined],
  ]);
  expect((await command("show", one.run)).stdout).toMatch(/^ {2}only +grace$/m);
  expect((await command("audit")).stdout).toContain("only for: grace");
  expect(await command("approve", one.run, "--yes")).toMatchObject({ code: 0 });
  expect(linesOf(await run("plan"))).toEqual(["update zoe"]);
  await company.configure((yaml) => yaml.replace("approval: required", "limits: { updates: 0, floor: 0 }"));
  const held = await command("plan", "--for", "zoe");
  expect(held.code).toBe(3);
  expect(held.stderr).toMatch(/apply --config \S+ staff --for zoe --override updates --digest/);
});
