import { stat } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { request } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compactData, fullData, visualizationHeader } from "#wire/pinboards.ts";
import { call, login } from "../../support/rollcall/service.ts";
import { testGolden } from "./golden.ts";
import { fixture, startPinboardService } from "./pinboards.ts";
import type { PinboardService } from "./pinboards.ts";
import { createUser } from "./principals.ts";

let service: PinboardService;

const golden = "9A000000-0000-4000-8000-000000000001";
const values = "9a000000-0000-4000-8000-000000000002";

beforeAll(async () => {
  service = await startPinboardService([], { service: { pinboards: fixture } });
});

afterAll(() => service.end());

await testGolden("pinboards", () => service);

const headers = (id: string, path = "metadata/listvizheaders") =>
  call(`${service.url}/tspublic/v1/${path}?id=${id}`, { session: service.session });

describe("B.14", () => {
  test("2.6 the objects of listvizheaders, in the file's order, with the file's author and times", async () => {
    const answer = await headers(golden);
    expect(answer).toMatchObject({ status: 200, headers: { "content-type": "application/json" } });
    const { birthtimeMs, mtimeMs } = await stat(join(fixture, "golden.yaml"));
    const author = "9a000000-0000-4000-8000-0000000000ff";
    const common = {
      author,
      created: Math.floor(Math.min(birthtimeMs, mtimeMs)),
      modified: Math.floor(mtimeMs),
      modifiedBy: author,
      owner: golden,
    };
    const list = JSON.parse(answer.text) as object[];
    expect(list).toEqual([
      {
        id: "9a000000-0000-4000-8000-000000000011",
        name: "Numbers",
        ...common,
        vizType: "TABLE",
        title: { value: { text: 'Seven numbers, "quoted"' } },
      },
      {
        id: "9a000000-0000-4000-8000-000000000012",
        name: "Names",
        ...common,
        vizType: "CHART",
        title: { value: { text: "Names that occur twice" } },
      },
      {
        id: "9a000000-0000-4000-8000-0000000000aB",
        name: "Nothing",
        ...common,
        vizType: "HEADLINE",
        title: { value: { text: "No rows" } },
      },
    ]);
    for (const each of list) visualizationHeader.parse(each);
  });

  test("both paths give the same", async () => {
    expect((await headers(golden, "pinboard/listvizheaders")).text).toBe((await headers(golden)).text);
  });

  test("without an author in the file it is the administrator, always the same", async () => {
    const [first] = JSON.parse((await headers(values)).text) as { author: string; modifiedBy: string }[];
    expect(visualizationHeader.parse(first)).toMatchObject({ author: first?.modifiedBy, owner: values });
    expect(JSON.parse((await headers(values)).text)).toMatchObject([{ author: first?.author }, {}]);
  });
});

test("the answers are what the wire's schemas say", async () => {
  const ask = async (format: string): Promise<unknown> => {
    const query = `id=${golden}&formattype=${format}`;
    return JSON.parse((await call(`${service.url}/tspublic/v1/pinboarddata?${query}`, service)).text) as unknown;
  };
  expect(Object.keys(compactData.parse(await ask("COMPACT")))).toEqual([
    "9a000000-0000-4000-8000-000000000011",
    "9a000000-0000-4000-8000-000000000012",
    "9a000000-0000-4000-8000-0000000000aB",
  ]);
  fullData.parse(await ask("FULL"));
});

test("0.6 pinboards need any session: a user in no group has them", async () => {
  const ada = { name: "ada", password: "ada's password" };
  await createUser(service.url, service.session, ada);
  const session = await login(service.url, ada);
  for (const path of [`pinboarddata?id=${golden}`, `metadata/listvizheaders?id=${golden}`]) {
    expect((await call(`${service.url}/tspublic/v1/${path}`, { session })).status, path).toBe(200);
  }
});

test("B.10 the answers are compressed for whoever takes gzip", async () => {
  for (const path of [`pinboarddata?id=${golden}`, `metadata/listvizheaders?id=${golden}`, "metadata/listvizheaders"]) {
    const answer = await request(`${service.url}/tspublic/v1/${path}`, {
      headers: { cookie: `JSESSIONID=${service.session}`, "accept-encoding": "gzip" },
    });
    expect(answer.headers["content-encoding"], path).toBe("gzip");
    const plain = await call(`${service.url}/tspublic/v1/${path}`, service);
    expect(gunzipSync(Buffer.from(await answer.body.arrayBuffer())).toString(), path).toBe(plain.text);
  }
});
