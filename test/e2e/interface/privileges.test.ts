import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { login, post } from "../../support/rollcall/service.ts";
import { group, list, sync, user } from "./principals.ts";
import { serviceOfFile } from "./service-of-file.ts";

const service = serviceOfFile({ service: { privileges: { administration: ["Administrator", "Operators"] } } });
let ada: string;
const credentials = { name: "ada", password: "ada's password" };

beforeAll(async () => {
  await sync(service.url, service.session, [user("ada")]);
  ada = await login(service.url, credentials);
});

async function statuses(): Promise<readonly number[]> {
  const preview = await post(`${service.url}/tspublic/v1/user/sync`, { principals: "[]" }, { session: ada });
  return [(await list(service.url, ada)).status, preview.status];
}

describe("0.6 user/list and user/sync need administration", () => {
  beforeEach(() => sync(service.url, service.session, [user("ada")]));

  test("a user in no group has not got it", async () => {
    expect(await statuses()).toEqual([403, 403]);
  });

  test("the group Administrator carries it", async () => {
    await sync(service.url, service.session, [user("ada", ["Administrator"])]);
    expect(await statuses()).toEqual([200, 200]);
  });

  test("a configured group carries it, through groups within groups", async () => {
    const groups = [group("inner", ["outer"]), group("outer", ["Operators"]), group("Operators")];
    await sync(service.url, service.session, [user("ada", ["inner"]), ...groups]);
    expect(await statuses()).toEqual([200, 200]);
  });

  test("groups that are within each other are followed to their end", async () => {
    const groups = [group("a", ["b"]), group("b", ["c", "b"]), group("c", ["a"])];
    await sync(service.url, service.session, [user("ada", ["a"]), ...groups]);
    expect(await statuses()).toEqual([403, 403]);
    await sync(service.url, service.session, [
      user("ada", ["a"]),
      group("a", ["b"]),
      group("b", ["a", "Administrator"]),
    ]);
    expect(await statuses()).toEqual([200, 200]);
  });

  test("it is lost at the next request after the membership is", async () => {
    await sync(service.url, service.session, [user("ada", ["Administrator"])]);
    expect(await statuses()).toEqual([200, 200]);
    await sync(service.url, service.session, [user("ada")]);
    expect(await statuses()).toEqual([403, 403]);
  });

  test("data management is not administration, and names are compared exactly", async () => {
    const groups = [group("DataManager"), group("administrator")];
    await sync(service.url, service.session, [user("ada", ["DataManager", "administrator", "All"]), ...groups]);
    expect(await statuses()).toEqual([403, 403]);
  });
});

test("0.7 the bootstrap administrator has every privilege in no group at all", async () => {
  await sync(service.url, service.session, []);
  expect((await list(service.url, service.session)).status).toBe(200);
  const principals = JSON.parse((await list(service.url, service.session)).text) as {
    name: string;
    groupNames: string[];
  }[];
  expect(principals.find(({ name }) => name === "admin")?.groupNames).toEqual([]);
});
