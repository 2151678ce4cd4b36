import { Readable } from "node:stream";
import { request } from "undici";
import { describe, expect, test } from "vitest";
import { errorBody } from "#wire/errors.ts";
import { call, login, post } from "../../support/rollcall/service.ts";
import { testGolden } from "./golden.ts";
import { list, sync, user } from "./principals.ts";
import { serviceOfFile } from "./service-of-file.ts";

const service = serviceOfFile();

await testGolden("errors", () => service);

describe("B.1", () => {
  test("what is wrong with a request is a 400 with code 10002, one string for each problem", async () => {
    const principals = JSON.stringify([
      { ...user("a"), displayName: "" },
      { ...user("b"), displayName: "" },
    ]);
    const answer = await post(`${service.url}/tspublic/v1/user/sync`, { principals }, { session: service.session });
    expect(answer.status).toBe(400);
    const { code, debug } = errorBody.parse(JSON.parse(answer.text));
    expect(code).toBe(10_002);
    expect(JSON.parse(debug)).toEqual([
      expect.stringContaining("principals[0].displayName"),
      expect.stringContaining("principals[1].displayName"),
    ]);
  });

  test("a missing privilege is a 403 with code 10003, before 415 and 400", async () => {
    await sync(service.url, service.session, [user("ada")]);
    const own = await login(service.url, { name: "ada", password: "ada's password" });
    const answers = [
      await list(service.url, own),
      await call(`${service.url}/tspublic/v1/user/sync`, {
        method: "POST",
        session: own,
        headers: { "content-type": "text/plain" },
        body: "x",
      }),
      await post(`${service.url}/tspublic/v1/user/sync`, { principals: "broken" }, { session: own }),
    ];
    for (const answer of answers) {
      expect(answer.status).toBe(403);
      expect(errorBody.parse(JSON.parse(answer.text))).toMatchObject({
        code: 10_003,
        debug: '["User does not have required privileges. Please contact your administrator."]',
      });
    }
  });

  test("the GUIDs are those of the headers, and others at every request", async () => {
    const incidents = new Set<string>();
    for (let time = 0; time < 3; time++) {
      const answer = await call(`${service.url}/tspublic/v1/user/list`);
      const body = errorBody.parse(JSON.parse(answer.text));
      expect(answer.headers["x-service-incident-id"]).toBe(body.incident_id_guid);
      expect(answer.headers["x-service-trace-id"]).toBe(body.trace_id_guid);
      incidents.add(body.incident_id_guid);
    }
    expect(incidents.size).toBe(3);
  });
});

describe.each([
  ["A.25", "/ts_dataservice/v1/public/session", /^The body may have 65536 bytes/],
  ["B.1", "/tspublic/v1/session/login", /"code":10000.*The body may have 65536 bytes/],
])("%s a login that is too large is a 413", (_number, path, expected) => {
  test("when its length says so", async () => {
    const answer = await call(service.url + path, { method: "POST", body: "x".repeat(100_000) });
    expect([answer.status, answer.text]).toEqual([413, expect.stringMatching(expected)]);
  });

  test("when it just goes on", async () => {
    const answer = await call(service.url + path, { method: "POST", body: Readable.from(endless(200)) });
    expect([answer.status, answer.text]).toEqual([413, expect.stringMatching(expected)]);
  });
});

test("a large body that nobody may send is refused without being kept", async () => {
  const answer = await request(`${service.url}/tspublic/v1/user/sync`, {
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: Readable.from(endless(2000)),
  });
  expect(answer.statusCode).toBe(401);
  expect(errorBody.parse(await answer.body.json()).code).toBe(10_000);
});

async function* endless(pieces: number): AsyncGenerator<Buffer> {
  const piece = Buffer.alloc(16 * 1024, "x");
  for (let index = 0; index < pieces; index++) yield piece;
}
