import { beforeEach, expect, test } from "vitest";
import ldap from "#connectors/ldap/index.ts";
import { compileRules } from "#principals/compile.ts";
import type { RunResult } from "#sync/context.ts";
import { type Directory, groupOf, person, startDirectory, unit } from "../support/ldap/directory.ts";
import { call, login } from "../support/rollcall/service.ts";
import { useStaff } from "../e2e/sync/staff.ts";

/** Runs with a directory that says success and means less, against a real service: nobody is lost. */

const staff = useStaff();

const base = "dc=example,dc=com";
const [north, south, groups] = [`ou=north,${base}`, `ou=south,${base}`, `ou=groups,${base}`];
const north5 = ["n0", "n1", "n2", "n3", "n4"];
const south40 = Array.from({ length: 40 }, (_, index) => `s${String(index).padStart(2, "0")}`);

let directory: Directory;
let warnings: string[];
beforeEach(async () => {
  directory = await startDirectory([
    unit(base),
    unit(north),
    unit(south),
    unit(groups),
    ...north5.map((name) => person(name, north)),
    ...south40.map((name) => person(name, south)),
    groupOf("staff", groups, [`uid=s00,${south}`]),
  ]);
  warnings = [];
  return () => directory[Symbol.asyncDispose]();
});

const rules = compileRules({
  users: { name: "entry.uid", displayName: "entry.cn" },
  groups: { name: "entry.cn", displayName: "entry.cn" },
});

/** A run without limits: what it would delete, it deletes. */
function runIt(more: object = {}): Promise<RunResult> {
  const users = { base: [north, south] };
  const options = ldap.options.parse({ url: directory.url, users, groups: { base: groups }, pageSize: 10, ...more });
  const source = ldap.open(options, { name: "corp", folder: "/" });
  const sources = [{ name: "corp", source, digest: JSON.stringify(more) }];
  const sync = staff.syncOf({}, { rules, sources, limits: { sources: {}, floor: 1_000, action: "hold" } });
  return staff.runIt(sync, true, { warn: (message) => warnings.push(message) });
}

const everybody = ["admin", ...north5, ...south40].sort();
const move = (uid: string, from: string, to: string): void => {
  directory.entries = directory.entries.filter(({ dn }) => dn !== `uid=${uid},${from}`);
  directory.entries.push(person(uid, to));
  directory.entries = directory.entries.map((entry) => {
    const member = entry.attributes["member"]?.map((dn) => (dn === `uid=${uid},${from}` ? `uid=${uid},${to}` : dn));
    return member === undefined ? entry : { ...entry, attributes: { ...entry.attributes, member } };
  });
};
/** Does something once, right after the answer to the first page of the search below a place. */
const after = (place: string, change: () => void): void => {
  directory.answer = ({ base: asked, scope }, found) => {
    if (asked !== place || scope === "base") return found;
    directory.answer = undefined;
    change();
    return found;
  };
};

test("one of two bases is renamed: the run fails", async () => {
  await runIt();
  directory.entries = directory.entries.filter(({ dn }) => !dn.endsWith(south));
  await expect(runIt()).rejects.toThrow(`${south} does not exist, or may not be seen by this login`);
  expect(await staff.users()).toEqual(everybody);
});

test("a part of the tree is offline: the run fails until that is allowed", async () => {
  const whole = { users: { base } };
  await runIt(whole);
  directory.offline = [south];
  await expect(runIt(whole)).rejects.toThrow(`no users below ${south}, where the last good read found 40`);
  await expect(runIt(whole)).rejects.toThrow(`no users below ${south}`);
  expect(await staff.users()).toEqual(everybody);
  expect(await runIt({ ...whole, emptyContainers: "allowed" })).toMatchObject({ outcome: "applied" });
  expect(await staff.users()).toEqual(["admin", ...north5]);
});

test("somebody moves between two bases during the read: the source is read again, and nobody is deleted", async () => {
  await runIt();
  after(north, () => move("s07", south, north));
  expect(await runIt()).toMatchObject({ outcome: "no change" });
  expect(warnings.join("\n")).toContain('the user "s07" was not read but is there');
  expect(await staff.users()).toEqual(everybody);
});

test("a member moves between the reads of users and groups: the membership stays", async () => {
  await runIt();
  after(south, () => move("s00", south, north));
  expect(await runIt()).toMatchObject({ outcome: "no change" });
  expect(warnings.join("\n")).toContain('the user "s00" moved or was renamed while it was read');
  const { url } = staff.service();
  const { text } = await call(`${url}/tspublic/v1/user/list`, { session: await login(url) });
  const list = JSON.parse(text) as { name: string; groupNames: string[] }[];
  expect(list.find(({ name }) => name === "s00")?.groupNames).toContain("staff");
});

test.each([
  ["the server", {}, /the user with the id ".*" came twice, and 9 more records likewise/],
  ["a person", { users: { base: [north, south], id: "uid" } }, /the user ".*" was not read but is there/],
])("entries that come twice prove that others did not come, where %s gives the ids", async (_, more, message) => {
  await runIt(more);
  directory.answer = ({ base: asked, scope, matches }, found) =>
    // Those who are looked up by id do not match here.
    asked === south && scope === "sub" && matches({ objectClass: ["inetOrgPerson"] })
      ? { entries: [...found.entries.slice(0, 30), ...found.entries.slice(5, 15)] }
      : found;
  await expect(runIt(more)).rejects.toThrow(message);
  expect(await staff.users()).toEqual(everybody);
});

test("somebody leaves between two pages by offset: only they are deleted", async () => {
  await runIt();
  after(south, () => {
    directory.entries = directory.entries.filter(({ dn }) => dn !== `uid=s03,${south}`);
  });
  expect(await runIt()).toMatchObject({ outcome: "applied" });
  expect(warnings.join("\n")).toContain("was not read but is there");
  expect(await staff.users()).toEqual(everybody.filter((name) => name !== "s03"));
});

test("nobody may see the members any more: the memberships stay", async () => {
  await runIt();
  directory.entries = directory.entries.map((entry) => ({
    ...entry,
    attributes: { ...entry.attributes, member: [] },
  }));
  await expect(runIt()).rejects.toThrow("no memberships, where the last good read found 1");
});
