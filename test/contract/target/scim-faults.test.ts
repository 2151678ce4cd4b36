import { afterEach, expect, it } from "vitest";
import { ObjectRefusedError, RefusedError, UnavailableError } from "#errors.ts";
import type { ObjectTarget } from "#connector.ts";
import { servers } from "../../support/scim-target/limits.ts";
import type { Limits } from "../../support/scim-target/limits.ts";
import { contentsOf, openScim, update, write } from "../../support/scim-target/open.ts";
import { ScimApplication } from "../../support/scim-target/server.ts";

const signal = new AbortController().signal;
let application: ScimApplication;
let target: ObjectTarget;
afterEach(async () => {
  await target.close();
  await application.close();
});

async function start(limits: Partial<Limits> = {}, options: Readonly<Record<string, unknown>> = {}): Promise<void> {
  application = await ScimApplication.start({ ...servers["generic"]!, ...limits });
  target = openScim(application, options);
}

const create = (name: string, attributes = {}) =>
  write(target, { action: "create", kind: "user", name, attributes: { displayName: name, ...attributes } });

it("finds what a server has created that answers without an id", async () => {
  await start({ hidesIds: true });
  const made = await create("ada");
  expect(application.users.get(made!.id)?.["userName"]).toBe("ada");
});

it("finds what a server has created by its location, without a search", async () => {
  await start({ answersByLocation: true });
  const made = await create("ada");
  expect(application.users.get(made!.id)?.["userName"]).toBe("ada");
  expect(application.requests.filter(({ query }) => query.has("filter"))).toEqual([]);
});

it("says so when a server answers with success and creates nothing", async () => {
  await start({ ignores: true });
  await expect(create("ada")).rejects.toThrow(/answered with success and without an id, and has no user/);
  await expect(create("ada")).rejects.toThrow(ObjectRefusedError);
});

it("creates nobody twice when the connection ends before the answer", async () => {
  await start();
  application.fault = ({ method }) => (method === "POST" ? "after" : undefined);
  const made = await create("ada");
  expect(made).toMatchObject({ name: "ada" });
  expect(application.created).toEqual(["ada"]);
});

it("does not send a creation again whose outcome is not known", async () => {
  await start();
  application.fault = ({ method }) => (method === "POST" ? "before" : undefined);
  await expect(create("ada")).rejects.toThrow(UnavailableError);
  await expect(create("ada")).rejects.toThrow(/it may have been done/);
  expect(application.writes()).toHaveLength(2);
});

it("sends what may arrive twice again: changes, members, deletions", async () => {
  await start();
  const [ada, bob] = [(await create("ada"))!, (await create("bob"))!];
  const group = (await write(target, { action: "create", kind: "group", name: "all", attributes: {} }))!;
  const failing = new Set<string>();
  application.fault = ({ method, path, body }) => {
    const key = `${method} ${path} ${JSON.stringify(body)}`;
    if (method === "GET" || failing.has(key)) return undefined;
    failing.add(key);
    return "after";
  };
  await update(target, { ...ada, version: undefined }, { title: "Boss" });
  const members = { action: "members", group: group.id, name: "all" } as const;
  await write(target, { ...members, add: [ada, bob], remove: [] });
  // The server says that who was removed is no member.
  await write(target, { ...members, add: [], remove: [ada] });
  await write(target, { ...members, add: [ada], remove: [bob] });
  await write(target, { action: "delete", kind: "user", id: bob.id, name: "bob" });
  expect(application.users.get(ada.id)?.["title"]).toBe("Boss");
  expect([...(application.members.get(group.id) ?? [])]).toEqual([ada.id]);
  expect(application.users.has(bob.id)).toBe(false);
});

it("tells of a name that is taken, with and without a reason of the server's", async () => {
  await start({ scimTypes: false });
  await create("Ada");
  const refused = create("ada");
  await expect(refused).rejects.toThrow(/answered 409 \(409: Refused|answered 409 \(Refused/);
  await expect(refused).rejects.toThrow(/the user "?ada"? is there already/);
  await expect(refused).rejects.toMatchObject({ name: "ObjectRefusedError", status: 409 });
  application.limits = { ...application.limits, scimTypes: true };
  await expect(create("ada")).rejects.toThrow(/409 \(uniqueness: /);
});

it("writes nothing over what has changed meanwhile, where the server has versions", async () => {
  await start();
  const ada = (await create("ada"))!;
  application.users.set(ada.id, { ...application.users.get(ada.id), title: "By hand" });
  await expect(update(target, ada, { title: "Boss" })).rejects.toMatchObject({ status: 412 });
  expect(application.users.get(ada.id)?.["title"]).toBe("By hand");
});

it("replaces whole objects where the server has no PATCH, and keeps what it does not know", async () => {
  await start({ patches: false });
  const [ada, bob] = [(await create("ada", { department: "Sales" }))!, (await create("bob"))!];
  application.users.get(ada.id)!["urn:example:User"] = { shoe: "38" };
  const now = (await target.current("user", ada.id, signal))!;
  await update(target, now, { title: "Boss", department: null });
  expect(application.users.get(ada.id)).toMatchObject({ title: "Boss", "urn:example:User": { shoe: "38" } });
  expect(JSON.stringify(application.users.get(ada.id))).not.toContain("Sales");
  const group = (await write(target, { action: "create", kind: "group", name: "all", attributes: {} }))!;
  const members = { action: "members", group: group.id, name: "all" } as const;
  await write(target, { ...members, add: [ada, bob], remove: [] });
  await write(target, { ...members, add: [], remove: [ada] });
  await update(target, { ...group, version: undefined }, { displayName: "All" });
  expect((await contentsOf(target)).members).toEqual({ All: ["bob"] });
  expect(application.requests.some(({ method }) => method === "PATCH")).toBe(false);
});

it("replaces nobody without saying that they are suspended, where the server does not show it", async () => {
  await start({ patches: false, forgetsActive: true });
  const ada = (await create("ada", { active: true }))!;
  await update(target, { ...ada, version: undefined }, { active: false });
  const suspended = { ...ada, version: undefined, attributes: { ...ada.attributes, active: false } };
  await update(target, suspended, { title: "Boss" });
  expect(application.users.get(ada.id)).toMatchObject({ title: "Boss", active: false });
});

it("one member who is gone does not keep the others out of a group", async () => {
  await start();
  const ids = [];
  for (const name of ["a", "b", "c", "d", "e", "f", "g"]) ids.push({ id: (await create(name))!.id });
  const group = (await write(target, { action: "create", kind: "group", name: "all", attributes: {} }))!;
  application.remove(ids[2]!.id);
  const members = { action: "members", group: group.id, name: "all" } as const;
  const refused = write(target, { ...members, add: ids, remove: [] });
  await expect(refused).rejects.toMatchObject({ name: "ObjectRefusedError", status: 404 });
  await expect(refused).rejects.toThrow(/the group all is gone, or one of its members/);
  expect((await contentsOf(target)).members).toEqual({ all: ["a", "b", "d", "e", "f", "g"] });
  application.remove(group.id);
  application.requests.length = 0;
  await expect(write(target, { ...members, add: ids, remove: [] })).rejects.toMatchObject({ status: 404 });
  expect(application.requests).toHaveLength(2);
});

it("a group that is full gets as many members as it takes, without asking for each of the others", async () => {
  await start({ largestGroup: 10 });
  const ids = Array.from({ length: 200 }, (_, n) => ({ id: application.add("Users", { userName: `u${n}` }) }));
  const group = (await write(target, { action: "create", kind: "group", name: "all", attributes: {} }))!;
  const members = { action: "members", group: group.id, name: "all", remove: [] } as const;
  application.requests.length = 0;
  for (const add of [ids.slice(0, 100), ids.slice(100)])
    await expect(write(target, { ...members, add })).rejects.toThrow(
      "a group has at most 10 members): the server does not take these members of the group all: one may be gone, or the group full",
    );
  expect(application.members.get(group.id)?.size).toBe(10);
  expect(application.requests.length).toBeLessThan(60);
});

it.each([{ references: true }, { shows: "asked" }, { shows: "single" }] as const)(
  "keeps the members of a group that it replaces, where the server shows them in its own way: %o",
  async (limits) => {
    await start({ patches: false, ...limits });
    const [ada, bob, cy] = [(await create("ada"))!, (await create("bob"))!, (await create("cy"))!];
    const group = (await write(target, { action: "create", kind: "group", name: "all", attributes: {} }))!;
    const members = { action: "members", group: group.id, name: "all" } as const;
    await write(target, { ...members, add: [ada, bob], remove: [] });
    await write(target, { ...members, add: [ada, cy], remove: [bob] });
    await update(target, { ...group, version: undefined }, { displayName: "All" });
    expect([...application.members.get(group.id)!]).toEqual([ada.id, cy.id]);
    expect((await contentsOf(target)).members).toEqual({ All: ["ada", "cy"] });
  },
);

it("reads every member of a group that the list cuts off, and asks for no smaller one", async () => {
  await start({ listedMembers: 25 });
  const ids = Array.from({ length: 30 }, (_, index) => application.add("Users", { userName: `user${index}` }));
  const groups = [10, 24, 25, 30].map((count) =>
    application.add("Groups", { displayName: `${count}` }, ids.slice(0, count)),
  );
  const { members } = await contentsOf(target);
  expect(["10", "24", "25", "30"].map((name) => members[name]?.length)).toEqual([10, 24, 25, 30]);
  const asked = application.requests.filter(({ path }) => path.startsWith("Groups/")).map(({ path }) => path.slice(7));
  expect([...new Set(asked)].toSorted()).toEqual(groups.slice(2).toSorted());
});

it("replaces no group whose members the server does not show", async () => {
  await start({ patches: false, shows: "nowhere" }, { profile: { members: "hidden" } });
  const ada = (await create("ada"))!;
  const id = application.add("Groups", { displayName: "all" }, [ada.id]);
  const members = { action: "members", group: id, name: "all", add: [], remove: [] } as const;
  await expect(write(target, members)).rejects.toThrow(/a PUT replaces its members, and the server does not show them/);
  const group = (await target.current("group", id, signal))!;
  await expect(update(target, group, { displayName: "All" })).rejects.toThrow(ObjectRefusedError);
  expect([...application.members.get(id)!]).toEqual([ada.id]);
});

it("says what to set where a server has no PATCH and does not say so", async () => {
  await start({ patches: false });
  application.says.set("ServiceProviderConfig", {});
  await expect(update(target, (await create("ada"))!, { title: "Boss" })).rejects.toThrow(
    /answered 501 .*set profile: { update: put }/,
  );
});

it("waits when the server has had enough, and creates nobody twice", async () => {
  await start({ burst: 3 });
  await Promise.all(["a", "b", "c", "d"].map((name) => create(name)));
  expect(application.created.toSorted()).toEqual(["a", "b", "c", "d"]);
});

it("stops at a token that is refused, and shows it nowhere", async () => {
  await start();
  const wrong = openScim({ url: application.url, token: "s3cret-and-wrong" });
  const failed = await write(wrong, { action: "create", kind: "user", name: "ada", attributes: {} }).catch(
    (error: unknown) => error,
  );
  expect(failed).toBeInstanceOf(RefusedError);
  expect(String(failed)).toMatch(/answered 401.*: check token, or auth$/);
  expect(String(failed)).not.toContain("s3cret");
  await wrong.close();
});

it("says what it reached, and what the profile means", async () => {
  await start({}, { profile: "aws" });
  await create("ada", { "name.givenName": "Ada" });
  const lines = await target.check(signal);
  expect(lines[0]).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/scim\/v2\/, not encrypted \(http\)$/);
  expect(lines.slice(1)).toEqual([
    "as the holder of a token",
    "a SCIM server with 1 user and 0 groups",
    "profile aws: changes by PATCH, up to 100 members at a time; the server does not show who is in a group, so memberships cannot be verified",
  ]);
});

it("finds users and groups where the server says they are, and does without groups where it has none", async () => {
  await start();
  const type = (name: string, endpoint: string) => ({ name, endpoint, schema: `urn:${name}` });
  application.says.set("ResourceTypes", { Resources: [type("User", "/scim/v2/Users"), type("Group", "Groups")] });
  await create("ada");
  expect((await contentsOf(target)).users.size).toBe(1);
  await target.close();
  application.says.set("ResourceTypes", [type("User", `${application.url}/Users`)]);
  target = openScim(application);
  expect((await contentsOf(target)).users.size).toBe(1);
  const group = write(target, { action: "create", kind: "group", name: "all", attributes: {} });
  await expect(group).rejects.toThrow("target app: the server has no groups (its /ResourceTypes)");
  expect(application.requests.some(({ path }) => path.startsWith("Groups/"))).toBe(false);
});

it("asks for no schemas that it would not trust", async () => {
  await start({}, { profile: { trustsSchemas: false } });
  await create("ada");
  expect(application.requests.map(({ path }) => path)).not.toContain("Schemas");
});

it("names attributes that the server does not take, before it writes any", async () => {
  await start();
  const attribute = (name: string, mutability = "readWrite") => ({ name, mutability, type: "string" });
  application.says.set("Schemas", {
    Resources: [
      {
        id: "urn:ietf:params:scim:schemas:core:2.0:User",
        attributes: [attribute("userName"), attribute("displayName"), attribute("active", "readOnly")],
      },
    ],
  });
  const read = async (users: readonly string[]): Promise<void> => {
    for await (const _ of target.read({ signal, warn: () => {}, attributes: { users, groups: [] } })) continue;
  };
  await read(["displayName"]);
  await expect(read(["title", "active", "department"])).rejects.toThrow(
    /rules set attributes that the server does not take: users: active: it is read-only on the server .*; users: title: the server does not have it .*; users: department: the server has no schema urn/,
  );
  await expect(create("ada", { title: "Boss" })).rejects.toThrow(
    /title: the server does not have it \(its \/Schemas\)/,
  );
  expect(application.writes()).toHaveLength(0);
  expect((await target.check(signal)).at(-1)).toMatch(/^its users do not take: active, .*title/);
  await target.close();
  target = openScim(application, { profile: { base: "generic", trustsSchemas: false } });
  await create("ada", { title: "Boss" });
});
