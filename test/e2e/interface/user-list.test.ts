import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listedPrincipal } from "#wire/administration.ts";
import { call } from "../../support/rollcall/service.ts";
import { group, user } from "./principals.ts";
import { result, startAdministration } from "./syncing.ts";
import type { Administration } from "./syncing.ts";

let it: Administration;

beforeAll(async () => {
  it = await startAdministration();
});

afterAll(() => it.service.stop());

test("0.7 the administrator and the groups Administrator and All are there from the start, in no group", async () => {
  const started = await it.list();
  expect(started.map(({ name, principalTypeEnum }) => [name, principalTypeEnum])).toEqual([
    ["admin", "LOCAL_USER"],
    ["Administrator", "LOCAL_GROUP"],
    ["All", "LOCAL_GROUP"],
  ]);
  for (const principal of started) {
    expect(() => listedPrincipal.parse(principal)).not.toThrow();
    expect(principal.groupNames).toEqual([]);
  }
});

test("B.9 every field, users first, then groups, each by name", async () => {
  const before = Date.now();
  await it.apply([
    group("b", ["a"]),
    { ...user("zoe", ["b", "a"]), mail: "zoe@example.com", description: "Zoë" },
    { ...group("a"), description: "first", mail: "ignored@example.com" },
    { ...user("Ann"), mail: "" },
    { ...user("b"), description: "" },
  ]);
  const after = Date.now();
  const listed = await it.list();
  const own = listed.filter(({ created }) => created >= before);
  for (const { created, modified } of own) {
    expect(created).toBeLessThanOrEqual(after);
    expect(modified).toBe(created);
  }
  expect(own.map((principal) => ({ ...principal, created: undefined, modified: undefined }))).toEqual([
    {
      name: "Ann",
      displayName: "User Ann",
      mail: "",
      principalTypeEnum: "LOCAL_USER",
      groupNames: [],
      visibility: "DEFAULT",
    },
    {
      name: "b",
      displayName: "User b",
      mail: "",
      principalTypeEnum: "LOCAL_USER",
      groupNames: [],
      visibility: "DEFAULT",
    },
    {
      name: "zoe",
      displayName: "User zoe",
      description: "Zoë",
      mail: "zoe@example.com",
      principalTypeEnum: "LOCAL_USER",
      groupNames: ["a", "b"],
      visibility: "DEFAULT",
    },
    {
      name: "a",
      displayName: "Group a",
      description: "first",
      principalTypeEnum: "LOCAL_GROUP",
      groupNames: [],
      visibility: "DEFAULT",
    },
    { name: "b", displayName: "Group b", principalTypeEnum: "LOCAL_GROUP", groupNames: ["a"], visibility: "DEFAULT" },
  ]);
  expect(listed.map(({ name }) => name)).toEqual(["Ann", "admin", "b", "zoe", "Administrator", "All", "a", "b"]);
});

test("B.9 names are sorted by code point", async () => {
  const names = ["z", "Z", "é", "\uFF5E", "\u{1F600}", "\uFEFFa", "a"];
  await it.apply(names.map((name) => user(name)));
  const byCodePoint = [...names, "admin"].toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const listed = await it.list();
  expect(listed.slice(0, -2).map(({ name }) => name)).toEqual(byCodePoint);
});

test("B.9 modified changes only with an attribute or a membership of the principal itself", async () => {
  const list = [user("ada", ["staff"]), { ...user("bob"), mail: "bob@example.com" }, group("staff"), group("top")];
  await it.apply(list);
  const before = await it.list();
  await it.apply([
    user("ada", ["staff"]),
    { ...user("bob", ["top"]), mail: "bob@example.com" },
    group("staff"),
    group("top"),
  ]);
  const after = await it.list();
  for (const [index, { name, created, modified }] of after.entries()) {
    expect(created).toBe(before[index]?.created);
    if (name === "bob") expect(modified).toBeGreaterThan(before[index]?.modified ?? Infinity);
    else expect(modified).toBe(before[index]?.modified);
  }
});

test("B.9 the answer is JSON, and the same for every query parameter", async () => {
  const answer = await call(`${it.service.url}/tspublic/v1/user/list?pagenumber=2`, { session: it.session });
  expect(answer.status).toBe(200);
  expect(answer.headers["content-type"]).toMatch(/^application\/json/);
  expect(JSON.parse(answer.text)).toEqual(await it.list());
});

test("B.9 its entity tag is another one after every change, and who names it gets 304 and no list", async () => {
  const ask = (tags?: string): ReturnType<typeof call> =>
    call(`${it.service.url}/tspublic/v1/user/list`, {
      session: it.session,
      headers: tags === undefined ? {} : { "if-none-match": tags },
    });
  await it.apply([user("ada")]);
  const { headers } = await ask();
  const tag = String(headers["etag"]);
  expect(tag).toMatch(/^W\/"[\w-]+"$/);
  for (const tags of [tag, tag.slice(2), `"another", ${tag}`, "*"]) {
    const same = await ask(tags);
    expect([same.status, same.text, same.headers["etag"]]).toEqual([304, "", tag]);
  }
  for (const tags of ['"another"', `${tag.slice(0, -1)}0"`]) expect((await ask(tags)).status).toBe(200);
  await it.apply([user("ada")]);
  expect((await ask(tag)).status).toBe(304);
  await it.apply([{ ...user("ada"), displayName: "Countess" }]);
  const changed = await ask(tag);
  expect([changed.status, changed.headers["etag"] === tag]).toEqual([200, false]);
  expect(JSON.parse(changed.text)).toEqual(await it.list());
  expect((await call(`${it.service.url}/tspublic/v1/user/list`, { headers: { "if-none-match": tag } })).status).toBe(
    401,
  );
});

test("B.7 no answer has a password or its hash", async () => {
  await it.apply([user("ada")]);
  const { text } = await call(`${it.service.url}/tspublic/v1/user/list`, { session: it.session });
  expect(text).not.toMatch(/argon2|password/);
});

test("B.8 posting the answer back changes nothing, whatever the texts are", async () => {
  const texts = [
    '"',
    "\\",
    "/",
    "</script>",
    "\u2028",
    "é\u0301",
    "\u{1F600}",
    " ",
    " a ",
    "\uFEFFx",
    "%41+&=",
    "'--",
    "null",
    "[1]",
    "{}",
  ];
  await it.apply([
    ...texts.map((name) => ({
      ...user(name, ["&", "+"]),
      displayName: name,
      mail: `${name}\n\t`,
      description: `\u0000\u007F${name}\r\n`,
    })),
    group("&", ["+"]),
    group("+", ["+", "&"]),
  ]);
  const { text } = await call(`${it.service.url}/tspublic/v1/user/list`, { session: it.session });
  expect(await it.preview(text)).toEqual(result());
  expect(await it.apply(text)).toEqual(result());
  expect((await call(`${it.service.url}/tspublic/v1/user/list`, { session: it.session })).text).toBe(text);
  expect((await it.find("\uFEFFx")).mail).toBe("\uFEFFx\n\t");
  expect((await it.find("null")).description).toBe("\u0000\u007Fnull\r\n");
});

test("B.9 users and groups survive a restart, with their times", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-data-"));
  try {
    const first = await startAdministration({ data: folder });
    await first.apply([user("kept", ["kept"]), group("kept")]);
    const listed = await first.list();
    await first.service.stop();
    const second = await startAdministration({ data: folder });
    expect(await second.list()).toEqual(listed);
    await second.service.stop();
  } finally {
    await rm(folder, { recursive: true });
  }
});
