import { gunzipSync } from "node:zlib";
import { request } from "undici";
import { describe, expect, test } from "vitest";
import { call, post } from "../../support/rollcall/service.ts";
import type { Answer } from "../../support/rollcall/service.ts";
import { list } from "./principals.ts";
import { serviceOfFile } from "./service-of-file.ts";

const service = serviceOfFile();
const guid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Every kind of answer that family B gives. */
const answers: Readonly<Record<string, () => Promise<Answer>>> = {
  "a list": () => list(service.url, service.session),
  "a login": () =>
    post(`${service.url}/tspublic/v1/session/login`, {
      username: service.administrator.name,
      password: service.administrator.password,
    }),
  "a refused login": () => post(`${service.url}/tspublic/v1/session/login`, {}),
  "a refused logout": () => post(`${service.url}/tspublic/v1/session/logout`, {}),
  "a preview": () => post(`${service.url}/tspublic/v1/user/sync`, { principals: "[]" }, { session: service.session }),
  "a 400": () => post(`${service.url}/tspublic/v1/user/sync`, { principals: "" }, { session: service.session }),
  "a 401": () => list(service.url, "nonsense"),
  "a 404": () => call(`${service.url}/callosum/v1/tspublic/v1/nothing`),
  "a 415": () => call(`${service.url}/tspublic/v1/user/sync`, { method: "POST", body: "x", session: service.session }),
  "a malformed path": () => call(`${service.url}/tspublic/v1/%zz`),
};

describe("B.10 headers", () => {
  test.each(Object.keys(answers))("are on %s", async (name) => {
    const answer = await answers[name]?.();
    expect(answer?.headers).toMatchObject({
      "x-service-incident-id": expect.stringMatching(guid),
      "x-service-trace-id": expect.stringMatching(guid),
      "x-service-request-time-us": expect.stringMatching(/^\d+$/),
      "x-service-ip": "127.0.0.1",
      "cache-control": expect.stringContaining("no-store"),
    });
  });

  test("are not on family A's answers", async () => {
    const answer = await call(`${service.url}/ts_dataservice/v1/public/ping`);
    expect(Object.keys(answer.headers).filter((name) => name.startsWith("x-service-"))).toEqual([]);
  });
});

/** Asks for `path` and returns the coding of the answer and its decoded text. */
async function fetchCoded(path: string, accept: string | undefined): Promise<{ coding: unknown; text: string }> {
  const headers = {
    cookie: `JSESSIONID=${service.session}`,
    ...(accept === undefined ? {} : { "accept-encoding": accept }),
  };
  const answer = await request(service.url + path, { headers });
  const bytes = Buffer.from(await answer.body.arrayBuffer());
  const coding = answer.headers["content-encoding"];
  expect(answer.headers["vary"]).toBe("accept-encoding");
  return { coding, text: (coding === "gzip" ? gunzipSync(bytes) : bytes).toString("utf8") };
}

describe.each(["/tspublic/v1/user/list", "/tspublic/v1/nothing", "/tspublic/v1/%zz"])(
  "B.10 compression of %s",
  (path) => {
    test.each(["gzip", "br, gzip", "br;q=1, gzip;q=0.1", "*", "deflate, gzip;q=1.0, *;q=0.5"])(
      "%s: gzip",
      async (accept) => {
        const { coding, text } = await fetchCoded(path, accept);
        expect(coding).toBe("gzip");
        expect(JSON.parse(text)).toBeTruthy();
      },
    );

    test.each([undefined, "identity", "br", "gzip;q=0", "gzip;q=0, *", "*;q=0"])("%s: none", async (accept) => {
      const { coding, text } = await fetchCoded(path, accept);
      expect(coding).toBeUndefined();
      expect(JSON.parse(text)).toBeTruthy();
    });
  },
);

test("B.10 an answer without content is not compressed", async () => {
  const form = { username: service.administrator.name, password: service.administrator.password };
  const headers = { "accept-encoding": "gzip" };
  const answer = await post(`${service.url}/tspublic/v1/session/login`, form, { headers });
  expect([answer.status, answer.headers["content-encoding"]]).toEqual([204, undefined]);
});
