import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { InputError, RefusedError } from "#errors.ts";
import { bomb, startScripted } from "../../support/scripted-server.ts";
import type { Behaviour } from "../../support/scripted-server.ts";
import { ids, numbers, paged, records, small } from "./scim-reading.ts";

// Answers that would end the process, or never end.

const deep = "[".repeat(300_000);

const plain =
  (status: number, body: string): Behaviour =>
  (response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  };

test.each<[string, Behaviour, RegExp]>([
  [
    "packed users without end",
    bomb(`{"id":"1","userName":"${"x".repeat(9_000)}"},`, '{"Resources":['),
    /grows to more than 200 times/,
  ],
  ["packed brackets", bomb("[", '{"Resources":['), /more than 100 arrays and objects inside each other, at its line 1/],
  ["packed text", bomb("x", '{"Resources":[{"id":"'), /grows to more than 200 times|a value of more than 16 MiB/],
  ["brackets", plain(200, `{"Resources":[{"id":"1","a":${deep}`), /more than 100 arrays and objects inside/],
  ["names", plain(200, `{"Resources":[{${'"a":1,'.repeat(10_001)}`), /an object with more than 10,000 names/],
])("a list with %s is refused, and not asked for again", async (_, behaviour, message) => {
  const server = await paged(small());
  server.intercept((request, response) => {
    if (request.url?.includes("/Users") !== true) return false;
    void behaviour(response, request);
    return true;
  });
  const error: unknown = await records({ url: server.url }).catch((error: unknown) => error);
  expect(error instanceof InputError || error instanceof RefusedError).toBe(true);
  expect(String(error)).toMatch(message);
  expect(String(error)).toMatch(/source corp: GET http.*\/Users/);
  expect(server.requests.filter((path) => path.includes("/Users"))).toHaveLength(1);
});

test.each([
  ["one group", "/Groups/g0", { groups: { members: "each" } }],
  ["what the server supports", "/ServiceProviderConfig", {}],
])("%s is no deeper", async (_, path, options) => {
  const server = await paged(small());
  server.intercept((request, response) => {
    if (request.url?.includes(path) !== true) return false;
    void plain(200, `{"id":"g0","a":${deep}`)(response, request);
    return true;
  });
  await expect(records({ url: server.url, ...options })).rejects.toThrow(/more than 100 arrays and objects inside/);
  expect(server.requests.filter((each) => each.includes(path))).toHaveLength(1);
});

test("what an error says is left out where it has no bounds", async () => {
  const server = await paged(small());
  server.intercept((request, response) => {
    if (request.url?.includes("/Users") !== true) return false;
    void plain(403, `{"detail":${deep}`)(response, request);
    return true;
  });
  await expect(records({ url: server.url })).rejects.toThrow(/answered 403: the credentials are not sufficient/);
});

test("neither is the answer of a token endpoint", async () => {
  const tokens = await startScripted({ "oauth/token": plain(200, `{"access_token":${deep}`) });
  onTestFinished(() => tokens.close());
  const server = await paged(small());
  const oauth = { tokenUrl: `${tokens.url}/oauth/token`, clientId: "rollcall", clientSecret: "s3cret-s3cret" };
  const reading = records({ url: server.url, auth: { oauth } });
  await expect(reading).rejects.toThrow(/POST .*\/oauth\/token: the answer has more than 100 arrays and objects/);
  expect(tokens.arrived).toHaveLength(1);
});

test("files have the same bounds", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bounds-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const read = async (content: string | Buffer): Promise<readonly string[]> => {
    await writeFile(join(folder, "users.json"), content);
    return ids({ files: { users: "users.json" } }, { folder });
  };
  expect(await read('[{"id":1},\n{"id":"2"}]')).toEqual(numbers(2));
  await expect(read(`[{"id":"1"},\n{"id":"2","a":${deep}`)).rejects.toThrow(/users\.json:2: has more than 100 arrays/);
  const packed = gzipSync(Buffer.alloc(64 * 2 ** 20, "["));
  await expect(read(packed)).rejects.toThrow(/users\.json:1: has more than 100 arrays and objects/);
});
