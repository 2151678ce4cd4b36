import { afterEach, beforeEach, expect, test } from "vitest";
import { startForeignTarget } from "../../support/foreign-target.ts";
import type { ForeignTarget } from "../../support/foreign-target.ts";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const own =
  '"visibility":"NON_SHARABLE","quota":{"bytes":12345678901234567890,"factor":1e400,"rate":0.10},"tag":1,"tag":2';
const foreign = {
  lea: '{ "principalTypeEnum" : "LDAP_USER", "name":"lea", "displayName":"Lea", "uid": 1e400, "groupNames":["engines", "ops"] }',
  ops: '{"name":"ops","displayName":"Ops","principalTypeEnum":"LDAP_GROUP","groupNames":[],"sids":[12345678901234567890,1.0]}',
  grace: '{"name":"grace","displayName":"Another","principalTypeEnum":"SAML_USER"}',
};
const local = (type: "USER" | "GROUP", name: string, rest: string): string =>
  `{"name":"${name}","displayName":"${name}","principalTypeEnum":"LOCAL_${type}",${rest}}`;
/** What was in the target before Rollcall came. */
const before = [
  local("USER", "admin", '"groupNames":["Administrator"],"mail":"","created":1700000000000,"modified":1700000000001'),
  local("GROUP", "Administrator", '"groupNames":[],"visibility":"DEFAULT"'),
  ...Object.values(foreign),
  local("USER", "guest", `${own},"groupNames":["ops"]`),
  local("USER", "ada", `"groupNames":["ops"],${own}`),
  local("GROUP", "engines", '"groupNames":[],"mail":"engines@example.net","colour":"red"'),
];

const { command, configure, run, write } = companyOfEachTest();
let target: ForeignTarget;
beforeEach(async () => {
  target = await startForeignTarget(before);
  await configure((yaml) =>
    yaml.replace("analytics: embedded", `analytics: { url: "${target.url}", username: admin, password: secret }`),
  );
});
afterEach(() => target.close());

/** Everything that no sync manages is what it was. */
function expectUntouched(): void {
  for (const [name, text] of Object.entries(foreign)) expect(target.text(name)).toBe(text);
  expect(target.text("guest")).toBe(local("USER", "guest", `"groupNames":["ops"],${own}`));
  expect(target.text("engines")).toMatch(/,"mail":"engines@example.net","colour":"red"}$/);
}

test("a list that is sent back takes nothing from a target with other types and fields of its own", async () => {
  const planned = await run("plan");
  expect(planned.plan.changes.map(({ action, name }: { action: string; name: string }) => `${action} ${name}`)).toEqual(
    ["create staff", "update engines", "create zoe", "update ada"],
  );
  expect(planned.notes).toEqual(
    expect.arrayContaining([
      "1 record withheld: the target has the name as another type",
      "  user grace: SAML_USER",
      "3 principals of other types left as the target has them: 1 LDAP_GROUP, 1 LDAP_USER, 1 SAML_USER",
    ]),
  );
  expect(target.texts()).toEqual(before);

  expect(await command("apply")).toMatchObject({ code: 0 });
  expectUntouched();
  expect(target.text("ada")).toBe(
    `{"name":"ada","displayName":"Ada Lovelace","mail":"ada@example.com","principalTypeEnum":"LOCAL_USER","groupNames":["engines","ops","staff"],${own}}`,
  );
  expect(target.text("admin")).toBe(local("USER", "admin", '"groupNames":["Administrator"]'));
  expect(target.text("zoe")).not.toContain("visibility");
  expect((await run("plan")).plan.changes).toEqual([]);

  const explained = await command("explain", "lea");
  expect(explained.stdout).toContain(
    "LDAP_USER lea: nothing to do, it is left as the target has it: no sync manages this type\n  in engines\n  in ops\n",
  );
  expect((await command("explain", "grace")).stdout).toContain(
    "user grace: nothing to do, it is not created: the target has that name as SAML_USER",
  );

  // A group that somebody of another type is in stays, and says so.
  await write("groups.csv", "id,name,within\nstaff,Staff,\n");
  await write("people.csv", people.replace(/^1,.*\n/m, ""));
  await configure((yaml) => `${yaml}    limits: { deletes: none, shrink: none, membershipsLost: none }\n`);
  const leaving = await run("apply");
  expect(leaving.notes).toContain("  group engines: a principal of another type is in it");
  expect(target.text("ada")).toBeUndefined();
  expectUntouched();

  // Who comes back by an undo has the target's own fields again.
  const undone = await run("undo", leaving.run);
  expect(await command("approve", undone.run, "--yes")).toMatchObject({ code: 0 });
  expect(target.text("ada")).toContain(`"groupNames":["engines","ops","staff"],${own}}`);
  expectUntouched();
});

test("a plan that waits is not applied over what somebody has made of another type since", async () => {
  await configure((yaml) => `${yaml}    approval: required\n`);
  const { run: waiting } = await run("apply");
  target.replace([...before, '{"name":"zoe","displayName":"Z","principalTypeEnum":"LDAP_USER"}']);
  const refused = await command("approve", waiting, "--yes");
  expect(refused.code).toBe(3);
  expect(refused.stderr).toContain("user zoe: it was to be created, but the target has that name as LDAP_USER now");
});

test("a target that takes principals of other types away is found out", async () => {
  await target.close();
  target = await startForeignTarget(before, { forgets: "LDAP_GROUP" });
  await configure((yaml) => yaml.replace(/http:\/\/127\.0\.0\.1:\d+/, target.url));
  const applied = await command("apply");
  expect(applied.code).not.toBe(0);
  expect(applied.stderr).toContain("gone, although it was in the list: LDAP_GROUP ops");
});
