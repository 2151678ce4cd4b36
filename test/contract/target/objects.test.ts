import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ObjectRefusedError } from "#errors.ts";
import type { Kind, ObjectTarget, RemoteObject } from "#connector.ts";
import { objectTarget, ObjectStore } from "../../support/object-target.ts";
import { servers } from "../../support/scim-target/limits.ts";
import { contentsOf, openScim, update, write } from "../../support/scim-target/open.ts";
import { ScimApplication } from "../../support/scim-target/server.ts";

/** What a sync relies on of every target that is written change by change, on each of them. */
interface Medium {
  open(): Promise<{ readonly target: ObjectTarget; close(): Promise<void> }>;
}

const media: Readonly<Record<string, Medium>> = {
  "objects in memory": {
    open: async () => ({ target: objectTarget(new ObjectStore()), close: async () => {} }),
  },
  "a SCIM server": {
    open: async () => {
      const application = await ScimApplication.start(servers["generic"]!);
      return { target: openScim(application), close: () => application.close() };
    },
  },
};

const signal = new AbortController().signal;

describe.each(Object.entries(media))("%s", (_, medium) => {
  let target: ObjectTarget;
  let close: () => Promise<void>;
  beforeEach(async () => {
    ({ target, close } = await medium.open());
  });
  afterEach(async () => {
    await target.close();
    await close();
  });

  const create = async (
    kind: Kind,
    name: string,
    attributes: RemoteObject["attributes"] = {},
  ): Promise<RemoteObject> => {
    const own: RemoteObject["attributes"] =
      kind === "user" ? { userName: name, displayName: name, active: true } : { displayName: name };
    const made = await write(target, { action: "create", kind, name, attributes: { ...own, ...attributes } });
    expect(made?.id).toBeTruthy();
    const found = await target.current(kind, made?.id ?? "", signal);
    if (found === undefined) throw new Error(`${name} is not there`);
    return found;
  };
  const members = (group: RemoteObject, add: readonly RemoteObject[], remove: readonly RemoteObject[]) =>
    write(target, { action: "members", group: group.id, name: group.name, add, remove });

  test("what is created is read, once, by its id and name, with what it was given", async () => {
    const ada = await create("user", "ada", { title: "Countess" });
    const maths = await create("group", "maths");
    const { users, groups, members: all } = await contentsOf(target);
    expect([...users.values()].map(({ id, name }) => [id, name])).toEqual([[ada.id, "ada"]]);
    expect(users.get("ada")?.attributes).toMatchObject({ title: "Countess", active: true });
    expect([...groups.values()].map(({ id, name }) => [id, name])).toEqual([[maths.id, "maths"]]);
    expect(all).toEqual({});
  });

  test("a name that is taken is refused alone", async () => {
    await create("user", "ada");
    await expect(create("user", "ada")).rejects.toBeInstanceOf(ObjectRefusedError);
    await create("user", "grace");
    expect([...(await contentsOf(target)).users.keys()].toSorted()).toEqual(["ada", "grace"]);
  });

  test("an update changes what it names, clears null, and keeps the id under a new name", async () => {
    const ada = await create("user", "ada", { title: "Countess" });
    await update(target, ada, { title: null, displayName: "Ada Lovelace" });
    const changed = await target.current("user", ada.id, signal);
    expect(changed?.attributes).toMatchObject({ displayName: "Ada Lovelace", active: true });
    expect(changed?.attributes).not.toHaveProperty("title");
    if (changed === undefined || !target.abilities.renames.user) return;
    await update(target, changed, { userName: "lovelace" });
    expect(await target.current("user", ada.id, signal)).toMatchObject({ name: "lovelace" });
  });

  test("members are added and removed, and it does not matter whether they are there", async () => {
    const [ada, grace, maths] = [
      await create("user", "ada"),
      await create("user", "grace"),
      await create("group", "maths"),
    ];
    await members(maths, [ada, grace], []);
    await members(maths, [ada], []);
    expect((await contentsOf(target)).members).toEqual({ maths: ["ada", "grace"] });
    await members(maths, [], [ada]);
    await members(maths, [], [ada]);
    expect((await contentsOf(target)).members).toEqual({ maths: ["grace"] });
  });

  test("what is deleted is gone, with its memberships, and may be deleted again", async () => {
    const [ada, maths] = [await create("user", "ada"), await create("group", "maths")];
    await members(maths, [ada], []);
    for (const time of ["once", "twice"]) {
      await write(target, { action: "delete", kind: "user", id: ada.id, name: "ada" });
      expect([time, await target.current("user", ada.id, signal)]).toEqual([time, undefined]);
    }
    expect((await contentsOf(target)).members).toEqual({});
    await write(target, { action: "delete", kind: "group", id: maths.id, name: "maths" });
    expect((await contentsOf(target)).groups.size).toBe(0);
  });

  test("an object that has changed since it was read is not changed, where the target can tell", async () => {
    const ada = await create("user", "ada");
    if (ada.version === undefined) return;
    await update(target, ada, { title: "Countess" });
    await expect(update(target, ada, { title: "Queen" })).rejects.toBeInstanceOf(ObjectRefusedError);
    expect((await target.current("user", ada.id, signal))?.attributes).toMatchObject({ title: "Countess" });
  });

  test("it can be checked, and says what was reached", async () => {
    expect((await target.check(signal)).length).toBeGreaterThan(0);
  });
});
