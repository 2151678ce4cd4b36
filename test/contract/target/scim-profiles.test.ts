import { afterEach, describe, expect, it } from "vitest";
import type { ObjectTarget } from "#connector.ts";
import { profiles } from "#connectors/scim/target/profiles.ts";
import { servers } from "../../support/scim-target/limits.ts";
import { contentsOf, openScim, update, write } from "../../support/scim-target/open.ts";
import { ScimApplication } from "../../support/scim-target/server.ts";

let application: ScimApplication | undefined;
let target: ObjectTarget | undefined;
afterEach(async () => {
  await target?.close();
  await application?.close();
});

/** What a user is created with. */
function person(index: number) {
  return {
    externalId: `e${index}`,
    displayName: `Person ${index}`,
    "name.givenName": "Person",
    "name.familyName": String(index),
    emails: [`p${index}@example.com`],
    department: index % 2 === 0 ? "Sales" : "Research",
    active: true,
  };
}

describe.each(Object.keys(profiles))("profile %s, against a server with its limits", (profile) => {
  it("creates, changes, renames, suspends and deletes, and reads what is there", async () => {
    application = await ScimApplication.start({ ...servers[profile], burst: 0 } as never);
    target = openScim(application, { profile });
    const people = Array.from({ length: 130 }, (_, index) => `p${index}`);
    const ids = await Promise.all(
      people.map(async (name, index) => {
        const made = await write(target!, { action: "create", kind: "user", name, attributes: person(index) });
        return { id: made!.id, kind: "user" as const };
      }),
    );
    const group = await write(target, { action: "create", kind: "group", name: "Everybody", attributes: {} });
    const members = { action: "members", group: group!.id, name: "Everybody" } as const;
    await write(target, { ...members, add: ids, remove: [] });
    await write(target, { ...members, add: [], remove: ids.slice(100) });
    expect(application.members.get(group!.id)?.size).toBe(100);

    const first = await contentsOf(target);
    expect([...first.users.keys()].sort()).toEqual(people.toSorted());
    expect(first.users.get("p7")?.attributes).toMatchObject({ ...person(7), userName: "p7", mail: "p7@example.com" });
    if (target.abilities.readsMembers) expect(first.members["Everybody"]).toEqual(people.slice(0, 100).sort());

    // What is beside the planned attributes stays.
    const seventh = first.users.get("p7")!;
    const stored = application.users.get(seventh.id)!;
    stored["nickName"] = "Seven";
    stored["emails"] = [{ value: "p7@example.com", type: "work", primary: true, display: "Of p7" }];
    const now = (await target.current("user", seventh.id, new AbortController().signal))!;
    await update(target, now, { title: "Boss", department: null, userName: "p7.new", active: false });
    const after = (await target.current("user", seventh.id, new AbortController().signal))!;
    expect(after).toMatchObject({ name: "p7.new", attributes: { title: "Boss", active: false, nickName: "Seven" } });
    expect(after.attributes).not.toHaveProperty("department");
    await update(target, after, { mail: "seven@example.com" });
    expect(application.users.get(seventh.id)?.["emails"]).toEqual([
      { value: "seven@example.com", type: "work", primary: true, display: "Of p7" },
    ]);
    await update(target, { ...group!, version: undefined }, { displayName: "All" });

    await write(target, { action: "delete", kind: "group", id: group!.id, name: "All" });
    await write(target, { action: "delete", kind: "group", id: group!.id, name: "All" });
    await write(target, { action: "delete", kind: "user", id: ids[9]!.id, name: "p9" });
    const last = await contentsOf(target);
    expect(last.groups.size).toBe(0);
    if (target.abilities.deletes.user) expect(last.users.has("p9")).toBe(false);
    else expect(last.users.get("p9")?.attributes["active"]).toBe(false);
    expect(application.created).toHaveLength(131);
  });
});
