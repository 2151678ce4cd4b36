import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { login } from "../../support/rollcall/service.ts";
import { into, loadingOf, startLoadService } from "./loading.ts";
import type { Loading, LoadService } from "./loading.ts";
import { group, sync, user } from "./principals.ts";
import type { Submitted } from "./principals.ts";

let service: LoadService;
let ada: Loading;
let ben: Loading;
let carl: Loading;

const loader = (name: string, groups: readonly string[]): Submitted => user(name, [...groups]);

beforeAll(async () => {
  service = await startLoadService({ service: { nodeAddress: { host: "node1.example.com", port: 9443 } } });
  await sync(service.url, service.session, [
    loader("ada", ["DataManager"]),
    loader("ben", ["loaders"]),
    loader("carl", []),
    group("loaders", ["DataManager"]),
    group("DataManager"),
  ]);
  const as = async (name: string): Promise<Loading> =>
    loadingOf(service.url, await login(service.url, { name, password: `${name}'s password` }));
  [ada, ben, carl] = [await as("ada"), await as("ben"), await as("carl")];
});

afterAll(() => service.end());

describe("0.6 family A needs data management or administration", () => {
  test("which a group carries, through groups within groups, and the administrator has", async () => {
    for (const loading of [ada, ben, service]) {
      expect(await loading.load(into(), "1,one\n")).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
    }
  });

  test("without it every operation is a 403, whatever the cycle", async () => {
    const id = await ada.start();
    for (const [method, path] of [
      ["POST", "/public/loads"],
      ["GET", "/public/loads"],
      ["POST", `/public/loads/${id}`],
      ["POST", `/public/loads/${id}/commit`],
      ["POST", `/public/loads/nothing/commit`],
      ["POST", `/public/loads/${id}/cancel`],
      ["GET", `/loads/${id}`],
      ["GET", `/public/loads/${id}`],
      ["GET", `/public/loads/${id}/bad_records_file`],
      ["GET", `/public/loads/${id}/input_summary`],
    ] as const) {
      expect(await carl.call(method, path), path).toMatchObject({
        status: 403,
        headers: { "content-type": "text/plain; charset=utf-8" },
        text: "User does not have required privileges. Please contact your administrator.",
      });
    }
    expect(await ada.status(id)).toMatchObject({ internal_stage: "INGESTING" });
  });
});

describe("A.9 a cycle belongs to who started it", () => {
  test("for others it does not exist", async () => {
    const id = await ada.start();
    const text = `Cycle_id=[${id}] does not exist.`;
    expect(await ben.upload(id, "1,one\n")).toMatchObject({ status: 400, text });
    expect(await ben.cancel(id)).toMatchObject({ status: 400, text });
    expect(await ben.call("GET", `/loads/${id}`)).toMatchObject({ status: 400, text });
    expect(await ben.call("GET", `/public/loads/${id}/input_summary`)).toMatchObject({ status: 400, text });
    expect(await ben.commit(id)).toMatchObject({
      status: 500,
      text: `Commit load cycle failed. Error ending load. Unknown cycle_id '${id}'`,
    });
    expect(await ada.status(id)).toMatchObject({ internal_stage: "INGESTING" });
  });

  test("rejected rows are for who sent them", async () => {
    const { cycle_id: id } = await ada.load(into(), "bad,one\n");
    expect(await ada.badRecords(id)).toMatchObject({ status: 200, text: "bad,one\n" });
    const text = `Node does not exist: /tmp/${id}.bad_record`;
    expect(await ben.badRecords(id)).toMatchObject({ status: 500, text });
  });

  test("administrators may do with it what they will", async () => {
    const id = await ada.start();
    expect(await service.upload(id, "1,one\n")).toMatchObject({ status: 202 });
    expect(await service.status(id)).toMatchObject({ bytes_written: "6" });
    expect(await service.cancel(id)).toMatchObject({ status: 200 });
    expect((await ada.status(id)).status.code).toBe("CANCELLED");
  });

  test("A.14 each sees their own in the list", async () => {
    const id = await ada.start();
    const seen = async (loading: Loading): Promise<boolean> =>
      (await loading.call("GET", "/public/loads")).text.includes(id);
    expect([await seen(ada), await seen(ben), await seen(service)]).toEqual([true, false, false]);
  });
});

describe("A.5", () => {
  test("host and port can be configured", async () => {
    const { text } = await service.call("POST", "/public/loads", { body: into() });
    expect(JSON.parse(text)).toMatchObject({ node_address: { host: "node1.example.com", port: 9443 } });
  });
});
