import { afterEach, beforeEach, expect, test } from "vitest";
import { startForeignTarget } from "../../support/foreign-target.ts";
import type { ForeignTarget } from "../../support/foreign-target.ts";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";

const { command, configure, write } = companyOfEachTest();
let target: ForeignTarget;
beforeEach(async () => {
  target = await startForeignTarget([
    '{"name":"guest","displayName":"=1+1","mail":"guest@example.net","principalTypeEnum":"LOCAL_USER","groupNames":["ops","club"]}',
    '{"name":"ops","displayName":"Ops","principalTypeEnum":"LDAP_GROUP"}',
    '{"name":"club","displayName":"Club","principalTypeEnum":"LOCAL_GROUP"}',
    '{"name":"robot-7","displayName":"Robot","principalTypeEnum":"LOCAL_USER"}',
    // A record has that name.
    '{"name":"grace","displayName":"Grace","principalTypeEnum":"SAML_USER"}',
  ]);
  await configure((yaml) =>
    yaml.replace("analytics: embedded", `analytics: { url: "${target.url}", username: admin, password: secret }`),
  );
});
afterEach(() => target.close());

test("unmanaged lists who is in the target and in no source, and what becomes of them", async () => {
  await configure(
    (yaml) => `${yaml}    protect: { users: ["robot-*"] }
    deletions: { after: 30d }
  other:
    from: [company]
    to: analytics
    users: { include: entry.login == "zoe", name: '"other-" + entry.login', displayName: entry.name }
`,
  );
  expect((await command("apply")).code).toBe(0);
  await write("people.csv", people.replace(/^1,.*\n/m, ""));
  const found = await command("unmanaged", "staff");
  expect(found.code).toBe(2);
  const lines = found.stdout.split("\n").map((line) => line.trimEnd().replaceAll(/ {2,}/g, "  "));
  expect(lines[0]).toBe("staff → analytics: 4 principals in the target and in no source");
  expect(lines.slice(3, 7)).toEqual([
    expect.stringMatching(
      /^user {2}ada {2}Ada Lovelace {2}ada@example.com {2}engines, staff {2}deleted on \d{4}-\d\d-\d\d/,
    ),
    "user  guest  =1+1  guest@example.net  club, ops  left alone",
    "group  club  Club  left alone",
    "LDAP_GROUP  ops  Ops  left alone: no sync manages this type",
  ]);
  expect(lines.slice(7)).toEqual([
    "left out: 1 principal whose name is protected",
    "left out: 1 principal of other syncs",
    "",
  ]);

  const csv = await command("unmanaged", "staff", "--csv");
  expect(csv.stdout).toContain(
    '﻿"sync","type","name","displayName","mail","groups","fate","leavesAt"\n"staff","LOCAL_USER","ada"',
  );
  expect(csv.stdout).toContain(`"staff","LOCAL_USER","guest","'=1+1","guest@example.net","club;ops","not owned",\n`);
  const both = JSON.parse((await command("unmanaged", "--json")).stdout);
  expect(both.unmanaged).toMatchObject([
    { sync: "staff", count: 4, leftOut: { protected: 1, others: 1, inDoubt: 0 } },
    { sync: "other", leftOut: { others: 4 } },
  ]);
  expect(both.unmanaged[0].principals[1]).toEqual({
    type: "LOCAL_USER",
    name: "guest",
    displayName: "=1+1",
    mail: "guest@example.net",
    groups: ["club", "ops"],
    fate: "not owned",
    leavesAt: null,
  });
});

test("who may be in a source is not listed, and a source that cannot be read lists nobody", async () => {
  await configure((yaml) => `${yaml}    manage: everything\n`);
  target.replace([
    '{"name":"zoe","displayName":"Zoe","principalTypeEnum":"LOCAL_USER"}',
    '{"name":"ada","displayName":"Ada","principalTypeEnum":"LOCAL_USER"}',
  ]);
  expect(await command("unmanaged")).toMatchObject({
    code: 0,
    stdout: "staff → analytics: everybody in the target is in a source\n",
  });
  await write("people.csv", `${people.replace(/^1,.*\n/m, "")}5,zoe,Another Zoë,,active,\n`);
  const { code, stdout } = await command("unmanaged");
  expect(code).toBe(2);
  expect(stdout).toMatch(/^user +ada +Ada +the next run deletes it$/m);
  expect(stdout).toContain("left out: 1 principal that a source may have");
  await write("people.csv", "id,login\n1,ada,too,many\n");
  expect(await command("unmanaged")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("people.csv"),
  });
});

test("a plan says whom a sync owned that was renamed, and what to do", async () => {
  expect((await command("apply")).code).toBe(0);
  await configure((yaml) => yaml.replace("  staff:", "  people:"));
  await write("people.csv", people.replace(/^1,.*\n/m, ""));
  expect((await command("plan")).stdout).toContain(
    "\n  1 of them: owned by staff, a sync that the configuration no longer has. If it was renamed, call it staff again",
  );
  await configure((yaml) => yaml.replace("  people:", "  staff:"));
  expect((await command("plan")).stdout).toMatch(/1 deleted[^]*− ada /);
});
