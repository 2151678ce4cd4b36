import { randomBytes } from "node:crypto";
import { appendFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Submission } from "#client/client.ts";
import { RefusedError, UnavailableError } from "#errors.ts";
import { answer, loggedIn, unread } from "../../support/scripted-server.ts";
import type { Behaviour } from "../../support/scripted-server.ts";
import { bench, defaultPassword, soon } from "./harness.ts";

const result = JSON.stringify({ usersAdded: ["ann"] });

async function setUp(): Promise<Awaited<ReturnType<typeof bench>> & Record<"preview" | "apply", Submission>> {
  const at = await bench();
  const preview = { principals: await at.principals(), applyChanges: false, deleteOthers: true, defaultPassword };
  return { ...at, preview, apply: { ...preview, applyChanges: true } };
}

/** Reads some of the body, then breaks the connection: the server cannot have had the whole request. */
const cutOff = unread((_, request) => {
  request.once("data", () => {
    request.socket.resetAndDestroy();
  });
});

/** Larger than what the sockets between client and server hold. */
const large = `[${"x".repeat(30_000_000)}]`;

test("B.3 B.4 a list is sent as an urlencoded form, the flags before it, and its answer written to the file", async () => {
  const { serve, client, destination, preview, apply, answer: written } = await setUp();
  const server = await serve({ "user/sync": answer(200, result) });
  const opened = client(server.url);
  await opened.sync(preview, destination, soon());
  expect(await written()).toBe(result);
  await opened.sync({ ...apply, deleteOthers: false, defaultPassword: "" }, destination, soon());
  const [first, second] = server.to("user/sync");
  expect(first?.headers["content-type"]).toBe("application/x-www-form-urlencoded");
  expect(first?.headers["content-length"]).toBe(String(first?.body.length));
  expect([...new URLSearchParams(first?.body.toString())]).toEqual([
    ["applyChanges", "false"],
    ["defaultPassword", defaultPassword],
    ["remoteDeleted", "true"],
    ["principals", '[{"name":"ann"}]'],
  ]);
  expect([...new URLSearchParams(second?.body.toString())].slice(0, 2)).toEqual([
    ["applyChanges", "true"],
    ["remoteDeleted", "false"],
  ]);
});

test("B.2 after a 415 the list is sent as a multipart form, and so from then on", async () => {
  const { serve, client, destination, preview, apply, answer: written } = await setUp();
  const server = await serve({
    "user/sync": [answer(200, result), answer(415), answer(200, "{}"), answer(200, result)],
  });
  const opened = client(server.url);
  await opened.sync(preview, destination, soon()); // a service may refuse only what is large
  await opened.sync(preview, destination, soon());
  expect(await written()).toBe("{}");
  await opened.sync(apply, destination, soon());
  expect(await written()).toBe(result);
  expect(server.to("user/sync").map(({ headers }) => headers["content-type"]?.replace(/;.*/, ""))).toEqual([
    "application/x-www-form-urlencoded",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "multipart/form-data",
  ]);
});

test("B.2 where a service is known to take a multipart form, the list is sent as one at once", async () => {
  const { serve, client, destination, preview, answer: written } = await setUp();
  const server = await serve({ "user/sync": answer(200, result) });
  await client(server.url, { form: "multipart" }).sync(preview, destination, soon());
  expect(await written()).toBe(result);
  expect(server.to("user/sync").map(({ headers }) => headers["content-type"]?.replace(/;.*/, ""))).toEqual([
    "multipart/form-data",
  ]);
});

test("B.2 a service that takes neither form is named", async () => {
  const { serve, client, destination, apply, failure } = await setUp();
  const server = await serve({ "user/sync": answer(415) });
  const error = await failure(client(server.url).sync(apply, destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toBe(
    "target analytics: user/sync (apply) was refused (415): the service takes the list neither as an urlencoded nor as a multipart form",
  );
  expect(server.to("user/sync")).toHaveLength(2);
});

test("B.1 B.5 a 400 carries the problems that the service names, the first twenty", async () => {
  const { serve, client, destination, preview, failure } = await setUp();
  const problems = Array.from({ length: 33 }, (_, index) => `principals[${index}].name: empty`);
  problems[0] = `principals[0].password: ${defaultPassword} is\u001B[31m\ntoo short`;
  problems[1] = "x".repeat(10_000);
  const body = { code: 10_002, incident_id_guid: "g", trace_id_guid: "g", debug: JSON.stringify(problems) };
  const server = await serve({ "user/sync": answer(400, JSON.stringify(body)) });
  const error = await failure(client(server.url).sync(preview, destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  const lines = error.message.split("\n");
  expect(lines[0]).toBe(
    "target analytics: user/sync (preview) was refused (400): the service rejected the request as invalid",
  );
  expect(lines[1]).toBe("  principals[0].password: *** is [31m too short");
  expect(lines[2]).toHaveLength(2 + 500 + 1);
  expect(lines[20]).toBe("  principals[19].name: empty");
  expect(lines.slice(21)).toEqual(["  … and 13 more"]);
});

test.each([
  ["no body", ""],
  ["HTML", "<html>"],
  ["no debug", "{}"],
  ["a debug that is no list", JSON.stringify({ debug: "{}" })],
  ["null", "null"],
])("a 400 with %s is a 400 all the same", async (_, body) => {
  const { serve, client, destination, preview, failure } = await setUp();
  const server = await serve({ "user/sync": answer(400, body) });
  const error = await failure(client(server.url).sync(preview, destination, soon()));
  expect(error).toMatchObject({ status: 400 });
  expect(error.message).toMatch(/the service rejected the request as invalid$/);
});

test.each<[string, Behaviour]>([
  ["500", answer(500)],
  ["502", answer(502)],
  ["503", answer(503, "", { "retry-after": "0" })],
  ["504", answer(504)],
  [
    "a reset",
    (response) => {
      response.socket?.resetAndDestroy();
    },
  ],
  [
    "an answer that breaks off",
    (response) => {
      response.writeHead(200, { "content-length": "100" }).write("{", () => response.destroy());
    },
  ],
])(
  "after %s a preview is sent again; an apply is not, and says that its outcome is not known",
  async (_, behaviour) => {
    const { serve, client, destination, preview, apply, failure, answer: written } = await setUp();
    const server = await serve({ "user/sync": [behaviour, answer(200, result), behaviour] });
    const opened = client(server.url);
    await opened.sync(preview, destination, soon());
    expect(await written()).toBe(result);
    expect(server.to("user/sync")).toHaveLength(2);
    const error = await failure(opened.sync(apply, destination, soon()));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(error.message).toMatch(
      /^target analytics: user\/sync \(apply\): .*It is not known whether the changes were made/,
    );
    expect(server.to("user/sync")).toHaveLength(3);
  },
);

test.each<[string, Behaviour]>([
  ["is 520", answer(520)],
  ["is HTML", answer(200, "<html>", { "content-type": "text/html" })],
  [
    "stands still",
    (response) => {
      response.writeHead(200).write("{");
    },
  ],
  ["does not come", () => undefined],
])("the outcome of an apply whose answer %s is not known either", async (_, behaviour) => {
  const { serve, client, destination, apply, failure } = await setUp();
  const server = await serve({ "user/sync": behaviour });
  const timeouts = { headers: 1000, body: 1000 };
  const error = await failure(client(server.url, { timeouts }).sync(apply, destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toContain("It is not known whether the changes were made");
  expect(server.to("user/sync")).toHaveLength(1);
});

test("an apply that cannot have arrived whole is sent again", async () => {
  const { serve, client, destination, apply, principals, answer: written } = await setUp();
  const server = await serve({ "user/sync": [cutOff, cutOff, answer(200, result)] });
  await client(server.url).sync({ ...apply, principals: await principals(large) }, destination, soon());
  expect(await written()).toBe(result);
  const sent = server.to("user/sync");
  expect(sent).toHaveLength(3);
  expect(new URLSearchParams(sent[2]?.body.toString("latin1")).get("principals")).toBe(large);
});

test("an apply that was not processed is sent again: 429, and 401 with a new session", async () => {
  const { serve, client, destination, apply, answer: written } = await setUp();
  const server = await serve({
    "user/sync": [answer(429, "", { "retry-after": "0" }), answer(401), answer(200, result)],
  });
  await client(server.url).sync(apply, destination, soon());
  expect(await written()).toBe(result);
  expect(server.to("user/sync")).toHaveLength(3);
  expect(server.to("session/login")).toHaveLength(2);
});

test.each(["urlencoded", "multipart"] as const)(
  "what is sent of a list as %s form is the list, however slowly it is read",
  async (form) => {
    const { serve, client, destination, preview, principals } = await setUp();
    const pieces: Buffer[] = [];
    const slowly = unread(async (response, request) => {
      // Until the sockets between client and server are full, each time.
      for await (const piece of request) if (pieces.push(piece as Buffer) % 128 === 1) await setTimeout(50);
      response.end(result);
    });
    const server = await serve({ "user/sync": slowly });
    const list = Array.from({ length: 300 }, (_, index) => `"${index}", `.repeat(9_999)).join("");
    await client(server.url, { form }).sync({ ...preview, principals: await principals(list) }, destination, soon());
    const body = Buffer.concat(pieces).toString();
    expect(form === "multipart" ? body.includes(list) : new URLSearchParams(body).get("principals") === list).toBe(
      true,
    );
  },
);

test.each([401, 415])("a %i that comes while the list is still being sent is understood", async (status) => {
  const { serve, client, destination, apply, principals, answer: written } = await setUp();
  // Answers as soon as it has the header, and closes the connection with the body unread.
  const early: Behaviour = unread((response, request) => {
    request.pause();
    response.shouldKeepAlive = false;
    response.writeHead(status, { "content-length": "0", connection: "close" }).end();
  });
  const server = await serve({ "user/sync": [early, answer(200, result)] });
  await client(server.url).sync({ ...apply, principals: await principals(large) }, destination, soon());
  expect(await written()).toBe(result);
  expect(server.to("user/sync")).toHaveLength(2);
});

test("a list that cannot be read is no one else's fault", async () => {
  const { serve, client, destination, apply } = await setUp();
  const server = await serve({ "user/sync": answer(200, result) });
  const call = client(server.url).sync({ ...apply, principals: `${destination}.none` }, destination, soon());
  await expect(call).rejects.toThrow(/ENOENT/);
  expect(server.arrived).toHaveLength(0);
});

test("a list that grows while it is sent is not sent, and no length is lied about", async () => {
  const { serve, client, destination, apply, principals, failure } = await setUp();
  const file = await principals("x".repeat(1_000_000));
  // The client knows the length before it logs in.
  const meanwhile: Behaviour = async (response, request) => {
    await appendFile(file, "y");
    await loggedIn(response, request);
  };
  const server = await serve({ "session/login": meanwhile, "user/sync": answer(200, result) });
  const error = await failure(client(server.url).sync({ ...apply, principals: file }, destination, soon()));
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toBe("target analytics: user/sync (apply): the list was changed while it was being sent");
});

test("a 200 for an apply is not repeated even when the answer is large and random", async () => {
  const { serve, client, destination, apply, answer: written } = await setUp();
  const names = JSON.stringify({ usersAdded: Array.from({ length: 20_000 }, () => randomBytes(20).toString("hex")) });
  const server = await serve({ "user/sync": answer(200, names) });
  await client(server.url).sync(apply, destination, soon());
  expect(await written()).toBe(names);
  expect(server.to("user/sync")).toHaveLength(1);
});
