import { afterEach, expect, test } from "vitest";
import type { Report } from "#sync/context.ts";
import { openScim, write } from "../../support/scim-target/open.ts";
import { servers } from "../../support/scim-target/limits.ts";
import { ScimApplication } from "../../support/scim-target/server.ts";
import { heldBy, Synced } from "../../support/scim-target/synced.ts";

let application: ScimApplication;
let synced: Synced;
afterEach(async () => {
  await synced.close();
  await application.close();
});

test("a name that another record has in other letters stays with the first one's account, however often it runs", async () => {
  application = await ScimApplication.start(servers["generic"]!);
  synced = await Synced.in(application, {}, true);
  const bob = { login: "bob", title: "B", teams: [] };
  await synced.people([{ login: "ada", title: "first", teams: [] }, bob]);
  expect((await synced.run()).outcome).toBe("applied");
  // The login is the id as well: this is somebody else.
  await synced.people([{ login: "Ada", title: "second", teams: [] }, bob]);
  for (let times = 0; times < 3; times += 1) {
    expect((await synced.run()).outcome).toBe("no change");
    expect(heldBy(application)["ada"]).toEqual({ title: "first", teams: [] });
  }
  await synced.run({ overrides: ["reusedNames"] });
  expect(heldBy(application)["ada"]).toEqual({ title: "second", teams: [] });
});

test("a protected name is protected in whichever letters the sources have it", async () => {
  application = await ScimApplication.start(servers["generic"]!);
  const target = openScim(application);
  await write(target, {
    action: "create",
    kind: "user",
    name: "Root",
    attributes: { displayName: "Root", title: "own" },
  });
  await write(target, { action: "create", kind: "group", name: "Owners", attributes: {} });
  await target.close();
  synced = await Synced.in(application, {}, true, { users: ["R*t"], groups: ["Owners"] });
  await synced.people([
    { login: "root", title: "other", teams: ["owners"] },
    { login: "bob", title: "B", teams: ["owners"] },
  ]);
  await synced.run();
  expect(heldBy(application)).toEqual({
    Root: { title: "own", teams: [] },
    bob: { title: "B", teams: [] },
  });
});

test("records, and groups of the rules, whose names differ in case alone are quarantined, and what is there stays", async () => {
  application = await ScimApplication.start(servers["generic"]!);
  synced = await Synced.in(application, {}, false);
  const bob = { login: "bob", title: "B", teams: ["Sales"] };
  await synced.people([{ login: "ada", title: "first", teams: ["Sales", "ops"] }, bob]);
  expect((await synced.run()).outcome).toBe("applied");
  const before = heldBy(application);
  await synced.people([
    { login: "ada", title: "changed", teams: [] },
    { login: "Ada", title: "second", teams: [] },
    { ...bob, teams: ["sales"] },
    { login: "eve", title: "E", teams: ["SALES", "ops"] },
  ]);
  expect((await synced.run()).outcome).toBe("applied");
  expect(heldBy(application)).toEqual({ ...before, eve: { title: "E", teams: ["ops"] } });
});

test.each(["Sales", "sales"])(
  "a group Sales that somebody else made, and rules name %s, gets members and is not taken over",
  async (team) => {
    application = await ScimApplication.start(servers["generic"]!);
    const target = openScim(application);
    await write(target, { action: "create", kind: "group", name: "Sales", attributes: {} });
    await target.close();
    synced = await Synced.in(application, {}, false);
    await synced.people([{ login: "bob", title: "B", teams: [team] }]);
    expect((await synced.run()).outcome).toBe("applied");
    expect(heldBy(application)).toEqual({ bob: { title: "B", teams: ["Sales"] } });
    await synced.people([{ login: "bob", title: "B", teams: [] }]);
    await synced.run();
    expect([...application.groups.values()].map(({ displayName }) => displayName)).toEqual(["Sales"]);
  },
);

test("a group that rules make keeps its members and its id when they name it in other letters", async () => {
  application = await ScimApplication.start(servers["generic"]!);
  synced = await Synced.in(application, {}, false);
  const bob = { login: "bob", title: "B", teams: ["Sales"] };
  await synced.people([bob, { login: "ada", title: "A", teams: ["Sales"] }]);
  await synced.run();
  const groups = [...application.groups.keys()];
  await synced.people([
    { ...bob, teams: ["sales"] },
    { login: "ada", title: "A", teams: [] },
    { login: "eve", title: "E", teams: ["sales"] },
  ]);
  expect((await synced.run()).outcome).toBe("applied");
  expect(heldBy(application)).toEqual({
    ada: { title: "A", teams: [] },
    bob: { title: "B", teams: ["sales"] },
    eve: { title: "E", teams: ["sales"] },
  });
  expect([...application.groups.keys()]).toEqual(groups);
  expect((await synced.run()).outcome).toBe("no change");
});

test("a text that the application cuts off is not sent for ever once it differs beyond the cut", async () => {
  application = await ScimApplication.start(servers["generic"]!);
  application.fault = ({ body }) => {
    cutTitles(body);
    return undefined;
  };
  synced = await Synced.in(application, {}, false);
  const bob = { login: "bob", title: "Head of Engineering North", teams: [] };
  await synced.people([bob]);
  expect((await synced.run()).outcome).toBe("applied");
  await synced.people([{ ...bob, title: "Head of Engineering South" }]);
  expect((await synced.run()).outcome).toBe("applied");
  expect((await synced.run()).outcome).toBe("no change");
  await synced.people([{ ...bob, title: "Clerk" }]);
  expect((await synced.run()).outcome).toBe("applied");
  expect(heldBy(application)).toEqual({ bob: { title: "Clerk", teams: [] } });
});

/** Leaves 12 characters of every title in the body of a request. */
function cutTitles(body: unknown): void {
  if (typeof body !== "object" || body === null) return;
  const { title, path, value, Operations } = body as Record<string, unknown>;
  if (typeof title === "string") Object.assign(body, { title: title.slice(0, 12) });
  if (path === "title" && typeof value === "string") Object.assign(body, { value: value.slice(0, 12) });
  if (Array.isArray(Operations)) Operations.forEach(cutTitles);
}

test("who leaves an application that never shows who is active is suspended once, and active again on return", async () => {
  application = await ScimApplication.start({ ...servers["generic"]!, forgetsActive: true });
  synced = await Synced.in(application, {}, true);
  const [ada, bob] = [
    { login: "ada", title: "A", teams: [] },
    { login: "bob", title: "B", teams: [] },
  ];
  const isActive = () => [...application.users.values()].map(({ userName, active }) => [userName, active]);
  await synced.people([ada, bob]);
  expect((await synced.run()).outcome).toBe("applied");
  await synced.people([ada]);
  const notes: string[] = [];
  const report = async (made: Report): Promise<void> => void notes.push(...made.notes.map(({ text }) => text));
  const left = await synced.run({ report });
  expect([left.outcome, left.counts.users]).toMatchObject(["applied", { suspend: 1 }]);
  expect(notes).toContainEqual(expect.stringMatching(/^suspensions cannot be verified/));
  expect((await synced.run()).outcome).toBe("no change");
  expect(isActive()).toEqual([
    ["ada", true],
    ["bob", false],
  ]);
  await synced.people([ada, { ...bob, title: "Boss" }]);
  const returned = await synced.run();
  expect([returned.outcome, returned.counts.users]).toMatchObject(["applied", { reactivate: 1 }]);
  expect((await synced.run()).outcome).toBe("no change");
  expect(isActive()).toEqual([
    ["ada", true],
    ["bob", true],
  ]);
});
