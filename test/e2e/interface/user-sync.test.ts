import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { syncResult } from "#wire/administration.ts";
import { call, login, post } from "../../support/rollcall/service.ts";
import { testGolden } from "./golden.ts";
import { group, user } from "./principals.ts";
import { result, startAdministration } from "./syncing.ts";
import type { Administration } from "./syncing.ts";

let it: Administration;

beforeAll(async () => {
  it = await startAdministration();
});

afterAll(() => it.service.stop());

beforeEach(async () => {
  await it.apply([]);
});

const urlencoded = "application/x-www-form-urlencoded";
const ada = user("ada");

await testGolden("user-sync", () => ({ url: it.service.url, session: it.session }));

/** A multipart body of parts given as headers and content. */
function multipart(...parts: readonly (readonly [disposition: string, content: string])[]): Buffer {
  const sections = parts.map(
    ([disposition, content]) => `--B\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${content}\r\n`,
  );
  return Buffer.from(`${sections.join("")}--B--\r\n`);
}
const multipartType = "multipart/form-data; boundary=B";

async function hasUploads(): Promise<boolean> {
  return (await readdir(join(it.service.data, "service", "uploads"))).length > 0;
}

describe("4.2 what a sync does", () => {
  test("what is in the list alone is created, in the service alone deleted, in both updated", async () => {
    const first = [user("stays"), user("goes"), user("changes"), group("stays"), group("goes"), group("changes")];
    expect(await it.apply(first)).toEqual(
      result({ usersAdded: ["changes", "goes", "stays"], groupsAdded: ["changes", "goes", "stays"] }),
    );
    const changed = { displayName: "Changed" };
    const second = [user("stays"), { ...user("changes"), ...changed }, user("comes"), group("stays"), group("comes")];
    expect(await it.apply([...second, { ...group("changes"), ...changed }])).toEqual({
      usersAdded: ["comes"],
      usersDeleted: ["goes"],
      usersUpdated: ["changes"],
      groupsAdded: ["comes"],
      groupsDeleted: ["goes"],
      groupsUpdated: ["changes"],
    });
    const names = (await it.list()).map(({ name }) => name);
    expect(names).toEqual(["admin", "changes", "comes", "stays", "Administrator", "All", "changes", "comes", "stays"]);
    expect(await it.find("changes")).toMatchObject(changed);
  });

  test.each([
    ["displayName", { displayName: "B" }],
    ["description", { description: "b" }],
    ["mail", { mail: "b@example.com" }],
    ["groupNames", { groupNames: ["All"] }],
  ])("a changed %s is an update", async (_, change) => {
    const list = [{ ...ada, displayName: "A", description: "a", mail: "a@example.com" }];
    await it.apply(list);
    expect(await it.preview(list)).toEqual(result());
    expect(await it.apply([{ ...list[0], ...change }])).toEqual(result({ usersUpdated: ["ada"] }));
    expect(await it.find("ada")).toMatchObject(change);
  });

  test("2.7 a user and a group may share a name, and are told apart", async () => {
    expect(await it.apply([user("x"), group("x")])).toEqual(result({ usersAdded: ["x"], groupsAdded: ["x"] }));
    expect(await it.apply([user("x")])).toEqual(result({ groupsDeleted: ["x"] }));
    expect(await it.apply([group("x")])).toEqual(result({ usersDeleted: ["x"], groupsAdded: ["x"] }));
  });

  test("a deleted user that is created again is another one: its session has ended", async () => {
    await it.apply([user("ada", ["Administrator"])]);
    const session = await login(it.service.url, { name: "ada", password: "ada's password" });
    expect((await call(`${it.service.url}/tspublic/v1/user/list`, { session })).status).toBe(200);
    await it.apply([]);
    await it.apply([user("ada", ["Administrator"])]);
    expect((await call(`${it.service.url}/tspublic/v1/user/list`, { session })).status).toBe(401);
  });
});

describe("B.2 how the list comes", () => {
  const list = JSON.stringify([ada]);
  const added = result({ usersAdded: ["ada"] });

  test("urlencoded, with a charset", async () => {
    const answer = await it.send(`principals=${encodeURIComponent(list)}`, `${urlencoded}; charset=UTF-8`);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, added]);
  });

  test.each([
    ["without filenames", multipart(['name="applyChanges"', "false"], ['name="principals"', list])],
    [
      "with filenames",
      multipart(['name="principals"; filename="p.json"', list], ['name="applyChanges"; filename="x"', "false"]),
    ],
  ])("multipart %s", async (_, body) => {
    const answer = await it.send(body, multipartType);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, added]);
  });

  test.each([
    ["JSON", list, "application/json"],
    ["no content type", `principals=${list}`, undefined],
    ["plain text", `principals=${list}`, "text/plain"],
  ])("%s is a 415 without a body", async (_, body, contentType) => {
    const answer = await it.send(body, contentType);
    expect([answer.status, answer.text]).toEqual([415, ""]);
  });

  test.each([
    ["a form", "applyChanges=false", urlencoded],
    ["an empty form", "", urlencoded],
    ["a multipart form", multipart(['name="applyChanges"', "false"]), multipartType],
    ["a form with a boolean that is none", "applyChanges=x", urlencoded],
  ])("%s without principals is a 415 without a body", async (_, body, contentType) => {
    const answer = await it.send(body, contentType, "?principals=[]");
    expect([answer.status, answer.text]).toEqual([415, ""]);
  });

  test("401 and 403 come before 415", async () => {
    const path = `${it.service.url}/tspublic/v1/user/sync`;
    await it.apply([ada]);
    const session = await login(it.service.url, { name: "ada", password: "ada's password" });
    expect((await call(path, { method: "POST", body: "x" })).status).toBe(401);
    expect((await call(path, { method: "POST", body: "x", session })).status).toBe(403);
  });

  test.each([["principals="], ["principals"], ["principals=%20%20"]])("an empty list is a 400: %s", async (body) => {
    expect((await it.send(body, urlencoded)).status).toBe(400);
  });

  test.each([
    ["cut off", multipart(['name="principals"', list]).subarray(0, -20), multipartType],
    ["without a boundary", multipart(['name="principals"', list]), "multipart/form-data"],
  ])("a multipart form that is %s is a 400, and nothing has changed", async (_, body, contentType) => {
    expect((await it.send(body, contentType, "?applyChanges=true")).status).toBe(400);
    expect((await it.list()).map(({ name }) => name)).not.toContain("ada");
    expect(await hasUploads()).toBe(false);
  });

  test.each([
    ["urlencoded", urlencoded, `applyChanges=true&principals=${encodeURIComponent(list)}&x=`],
    ["multipart", multipartType, multipart(['name="applyChanges"', "true"], ['name="principals"', list]).toString()],
  ])("an upload that is broken off changes nothing and leaves no file: %s", async (_, contentType, body) => {
    const controller = new AbortController();
    const { promise, resolve } = Promise.withResolvers<void>();
    const endless = Readable.from(
      (async function* () {
        yield body;
        resolve();
        await once(controller.signal, "abort");
      })(),
    );
    const sent = call(`${it.service.url}/tspublic/v1/user/sync`, {
      method: "POST",
      session: it.session,
      headers: { "content-type": contentType },
      body: endless,
      signal: controller.signal,
    });
    sent.catch(() => undefined);
    await promise;
    await expect.poll(hasUploads).toBe(true);
    controller.abort();
    await expect(sent).rejects.toThrow(/abort/i);
    await expect.poll(hasUploads).toBe(false);
    expect((await it.list()).map(({ name }) => name)).not.toContain("ada");
  });

  test("a list that is half read while its client pauses holds up nobody, and is compared when it is whole", async () => {
    const groups = Array.from({ length: 80_000 }, (_, index) => group(`g${index}`));
    const [begin, end] = [groups.slice(0, 70_000), groups.slice(70_000)].map((part) =>
      encodeURIComponent(JSON.stringify(part).slice(1, -1)),
    );
    const { promise: paused, resolve: pause } = Promise.withResolvers<void>();
    const { promise: goOn, resolve } = Promise.withResolvers<void>();
    const slow = call(`${it.service.url}/tspublic/v1/user/sync`, {
      method: "POST",
      session: it.session,
      headers: { "content-type": urlencoded },
      body: Readable.from(
        (async function* () {
          yield `principals=%5B${begin}`;
          pause();
          await goOn;
          yield `%2C${end}%5D`;
        })(),
      ),
    });
    await paused;
    await expect
      .poll(async () => (await readdir(join(it.service.data, "service", "uploads"))).length)
      .toBeGreaterThan(1);
    expect(await it.apply([group("g0"), ada])).toEqual(result({ usersAdded: ["ada"], groupsAdded: ["g0"] }));
    resolve();
    const answer = syncResult.parse(JSON.parse((await slow).text));
    expect([answer.groupsAdded.length, answer.usersDeleted]).toEqual([79_999, ["ada"]]);
    expect(await hasUploads()).toBe(false);
  });

  test("nothing of a list is left on disk afterwards", async () => {
    await it.apply([ada]);
    await it.post({ principals: "[}" });
    expect(await hasUploads()).toBe(false);
  });
});

describe("0.3 parameters", () => {
  test("names in any case", async () => {
    const answer = await it.post({ APPLYCHANGES: "True", PrinciPals: JSON.stringify([ada]) });
    expect(answer.status).toBe(200);
    expect(await it.find("ada")).toBeDefined();
  });

  test("the last of several wins", async () => {
    const body = `principals=%5B%5D&principals=nonsense&applyChanges=maybe&principals=${encodeURIComponent(JSON.stringify([ada]))}&applyChanges=true`;
    const answer = await it.send(body, urlencoded);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, result({ usersAdded: ["ada"] })]);
    expect(await it.find("ada")).toBeDefined();
  });

  test("the last of several lists wins, however much of the first is loaded already", async () => {
    const long = JSON.stringify(Array.from({ length: 80_000 }, (_, index) => group(`g${index}`)));
    const parts = [long, "[5]", JSON.stringify([ada])].map((list) => `principals=${encodeURIComponent(list)}`);
    const answer = await it.send(parts.join("&"), urlencoded);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, result({ usersAdded: ["ada"] })]);
  });

  test("the flags may come in the query, the form wins", async () => {
    await it.apply([ada]);
    const asked = await it.post({ principals: "[]" }, { query: "?remoteDeleted=false" });
    expect(JSON.parse(asked.text)).toEqual(result());
    const answer = await it.post({ principals: "[]", applyChanges: "false" }, { query: "?APPLYCHANGES=true" });
    expect(JSON.parse(answer.text)).toEqual(result({ usersDeleted: ["ada"] }));
    expect(await it.find("ada")).toBeDefined();
  });

  test("unknown fields are ignored, however long", async () => {
    expect(await it.preview([ada], { other: "x".repeat(1_000_000) })).toEqual(result({ usersAdded: ["ada"] }));
  });
});

describe("B.3 applyChanges, defaultPassword and their like", () => {
  test("preview is the default and changes nothing", async () => {
    const before = await it.list();
    expect(await it.preview([ada, group("g")])).toEqual(result({ usersAdded: ["ada"], groupsAdded: ["g"] }));
    expect(await it.preview([ada, group("g")], { applyChanges: "false" })).toEqual(
      result({ usersAdded: ["ada"], groupsAdded: ["g"] }),
    );
    expect(await it.list()).toEqual(before);
  });

  test.each([["applyChanges"], ["remoteDeleted"], ["removeDeleted"], ["removeDelete"]])(
    "%s takes true and false alone",
    async (name) => {
      for (const value of ["", "1", "yes", "wahr"]) {
        expect(await it.post({ principals: "[]", [name]: value })).toMatchObject({ status: 400 });
      }
      for (const value of ["false", "FALSE", "False"]) {
        expect(await it.post({ principals: "[]", [name]: value })).toMatchObject({ status: 200 });
      }
    },
  );

  test("aliases that disagree are a 400", async () => {
    const form = { principals: "[]", remoteDeleted: "true", removeDeleted: "false" };
    expect((await it.post(form)).status).toBe(400);
    const passwords = { principals: "[]", defaultPassword: "hunter2", password: "other" };
    const answer = await it.post(passwords);
    expect(answer.status).toBe(400);
    expect(answer.text).not.toContain("hunter2");
  });

  test.each([["defaultPassword"], ["password"]])(
    "%s is the password of every created user, and wins over their own",
    async (name) => {
      const { password: _, ...withoutPassword } = user("eve");
      await it.apply([ada, withoutPassword], { [name]: "common" });
      for (const created of ["ada", "eve"]) {
        expect(await login(it.service.url, { name: created, password: "common" })).toBeTypeOf("string");
      }
      const { status } = await post(`${it.service.url}/tspublic/v1/session/login`, {
        username: "ada",
        password: "ada's password",
      });
      expect(status).toBe(401);
    },
  );

  test("an empty defaultPassword is none", async () => {
    await it.apply([ada], { defaultPassword: "" });
    expect(await login(it.service.url, { name: "ada", password: "ada's password" })).toBeTypeOf("string");
  });
});

describe("B.4 deletion", () => {
  beforeEach(() => it.apply([ada, group("g")]));

  test.each([["remoteDeleted"], ["removeDeleted"], ["removeDelete"]])(
    "%s=false keeps what is not in the list",
    async (name) => {
      expect(await it.apply([user("bob", ["g"])], { [name]: "false" })).toEqual(result({ usersAdded: ["bob"] }));
      expect((await it.list()).map((principal) => principal.name)).toEqual(expect.arrayContaining(["ada", "bob", "g"]));
    },
  );

  test.each([[{}], [{ remoteDeleted: "true" }]])("absent and true delete: %j", async (parameters) => {
    expect(await it.apply([], parameters)).toEqual(result({ usersDeleted: ["ada"], groupsDeleted: ["g"] }));
  });
});

describe("B.6 groupNames is a set", () => {
  test("duplicates and order do not matter, absent and empty are the same", async () => {
    const groups = [group("a"), group("b"), group("c")];
    await it.apply([user("ada", ["c", "a", "b"]), user("bob"), ...groups]);
    const { groupNames: _, ...bob } = user("bob");
    expect(await it.preview([user("ada", ["b", "c", "a", "b", "b"]), bob, ...groups])).toEqual(result());
    expect(await it.preview([user("ada", ["a", "b", "c"]), { ...bob, groupNames: null }, ...groups])).toEqual(result());
    expect((await it.find("ada")).groupNames).toEqual(["a", "b", "c"]);
  });

  test("an absent, null or empty description or mail clears it", async () => {
    const full = { ...ada, description: "d", mail: "m@example.com" };
    for (const cleared of [{}, { description: null, mail: null }, { description: "", mail: "" }]) {
      await it.apply([full]);
      expect(await it.apply([{ ...ada, ...cleared }])).toEqual(result({ usersUpdated: ["ada"] }));
      expect(await it.find("ada")).not.toHaveProperty("description");
      expect((await it.find("ada")).mail).toBe("");
      expect(await it.preview([ada])).toEqual(result());
    }
  });

  test("membership cycles are legal, a group in itself included", async () => {
    const list = [group("a", ["b"]), group("b", ["a"]), group("c", ["c"]), user("ada", ["a", "c"])];
    await it.apply(list);
    expect(await it.preview(list)).toEqual(result());
    const session = await login(it.service.url, { name: "ada", password: "ada's password" });
    expect((await call(`${it.service.url}/tspublic/v1/user/list`, { session })).status).toBe(403);
  });
});

describe("B.7 passwords", () => {
  test("an existing user's password never changes, whatever the list says", async () => {
    await it.apply([ada]);
    expect(await it.preview([{ ...ada, password: "new" }])).toEqual(result());
    await it.apply([{ ...ada, password: "new", displayName: "New" }], { defaultPassword: "newer" });
    expect(await login(it.service.url, { name: "ada", password: "ada's password" })).toBeTypeOf("string");
  });

  test("passwords are kept exactly: spaces, any script, what a form would decode", async () => {
    const passwords = [" leading", "trailing ", "pass+word", "100%41", "&=;", "пароль", "\u{1F511}", "line\nfeed"];
    await it.apply(passwords.map((password, index) => ({ ...user(`u${index}`), password })));
    for (const [index, password] of passwords.entries()) {
      expect(await login(it.service.url, { name: `u${index}`, password })).toBeTypeOf("string");
    }
  });
});

describe("B.8 the answer", () => {
  test("names are sorted by code point, as they stand", async () => {
    const names = ["z", "Z", "é", "\uFF5E", "\u{1F600}", 'quo"te', "back\\slash", "a", "\uFEFFa"];
    const sorted = names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const list = [...names.map((name) => user(name)), ...names.map((name) => group(name))];
    const preview = await it.preview(list);
    expect(preview).toEqual(result({ usersAdded: sorted, groupsAdded: sorted }));
    expect(() => syncResult.parse(preview)).not.toThrow();
    expect(Object.keys(preview)).toEqual(Object.keys(result()));
  });

  test("calls queue behind each other", async () => {
    const lists = Array.from({ length: 6 }, (_, call) =>
      Array.from({ length: 200 }, (_, index) => group(`g${call}-${index}`)),
    );
    const results = await Promise.all(lists.map((list) => it.apply(list)));
    const names = (await it.list()).map(({ name }) => name);
    const winner = lists.find((list) => names.includes(list[0]?.name ?? ""));
    expect(names).toEqual(["admin", "Administrator", "All", ...(winner ?? []).map(({ name }) => name).toSorted()]);
    // Each saw what the one before it had left: everything added but the last was deleted again.
    expect(results.flatMap(({ groupsAdded }) => groupsAdded)).toHaveLength(1200);
    expect(results.flatMap(({ groupsDeleted }) => groupsDeleted)).toHaveLength(1000);
  });
});
