import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FolderInboxes } from "#state/folder/inbox.ts";
import { serveInboxes, token } from "../support/inbox/served.ts";
import { contentsOf, openScim, update, write } from "../support/scim-target/open.ts";
import { startScimmy } from "../support/scim-target/scimmy.ts";

/** SCIM servers that were not written for these tests. */
interface Foreign {
  readonly url: string;
  readonly token: string;
  readonly close: () => Promise<void>;
}

async function startInbox(): Promise<Foreign> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-inbox-"));
  const inboxes = new FolderInboxes(folder);
  const served = await serveInboxes(inboxes);
  return {
    url: served.urlOf("app"),
    token,
    close: async () => {
      await served.stop();
      await inboxes.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

describe.each([
  ["scimmy-routers", startScimmy],
  ["Rollcall's own inbox", startInbox],
])("%s as a target", (_, start) => {
  let server: Foreign;
  beforeAll(async () => {
    server = await start();
  });
  afterAll(() => server.close());

  it("takes what a plan changes, and shows it", async () => {
    const target = openScim(server);
    const names = ["ada", "bob", "cy"];
    const ids = [];
    for (const name of names) {
      const attributes = {
        displayName: name.toUpperCase(),
        "name.givenName": name,
        "name.familyName": "Example",
        emails: [`${name}@example.com`, `${name}@example.org`],
        phoneNumbers: ["+31 20 123"],
        department: "Sales",
        externalId: `x-${name}`,
        active: true,
      };
      ids.push({ id: (await write(target, { action: "create", kind: "user", name, attributes }))!.id });
    }
    const group = (await write(target, { action: "create", kind: "group", name: "all", attributes: {} }))!;
    await write(target, { action: "members", group: group.id, name: "all", add: ids, remove: [] });
    await write(target, { action: "members", group: group.id, name: "all", add: [], remove: ids.slice(1, 2) });
    const first = await contentsOf(target);
    expect(first.members).toEqual({ all: ["ada", "cy"] });
    expect(first.users.get("ada")?.attributes).toMatchObject({
      displayName: "ADA",
      mail: "ada@example.com",
      emails: ["ada@example.com", "ada@example.org"],
      phoneNumbers: ["+31 20 123"],
      department: "Sales",
      externalId: "x-ada",
      active: true,
    });

    const ada = (await target.current("user", ids[0]!.id, new AbortController().signal))!;
    await update(target, ada, {
      userName: "ada.l",
      title: "Boss",
      department: null,
      active: false,
      emails: ["ada@example.org"],
      phoneNumbers: null,
    });
    await update(target, { ...group, version: undefined }, { displayName: "All" });
    await write(target, { action: "delete", kind: "user", id: ids[2]!.id, name: "cy" });
    await write(target, { action: "delete", kind: "user", id: ids[2]!.id, name: "cy" });
    const second = await contentsOf(target);
    expect([...second.users.keys()].sort()).toEqual(["ada.l", "bob"]);
    expect([...second.groups.keys()]).toEqual(["All"]);
    const changed = second.users.get("ada.l")!;
    expect(changed.id).toBe(ids[0]!.id);
    expect(changed.attributes).toMatchObject({ title: "Boss", active: false, emails: ["ada@example.org"] });
    expect(changed.attributes).not.toHaveProperty("department");
    expect(changed.attributes).not.toHaveProperty("phoneNumbers");
    const taken = write(target, { action: "create", kind: "user", name: "BOB", attributes: {} });
    await expect(taken).rejects.toMatchObject({ name: "ObjectRefusedError", status: 409 });
    expect(await target.check(new AbortController().signal)).toHaveLength(4);
    await target.close();
  });

  it("has both of two addresses that were one, when one of them changes or goes", async () => {
    const target = openScim(server, { attributes: { work: { path: 'emails[type eq "work"].value' } } });
    const [x, w] = ["x@example.com", "w@example.com"];
    const attributes = { mail: x, work: x };
    const { id } = (await write(target, { action: "create", kind: "user", name: "joan", attributes }))!;
    const joan = () => target.current("user", id, new AbortController().signal);
    await update(target, (await joan())!, { work: w });
    expect((await joan())?.attributes).toMatchObject({ mail: x, work: w });
    await update(target, (await joan())!, { mail: w });
    await update(target, (await joan())!, { work: null });
    const { attributes: last } = (await joan())!;
    expect(last).toMatchObject({ mail: w });
    expect(last).not.toHaveProperty("work");
    await target.close();
  });
});
