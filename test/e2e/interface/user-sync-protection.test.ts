import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { call, login } from "../../support/rollcall/service.ts";
import { group, user } from "./principals.ts";
import { result, startAdministration } from "./syncing.ts";
import type { Administration } from "./syncing.ts";

let it: Administration;
/** The session of a user who is an administrator through a group. */
let ada: string;

const lasting = ["admin", "Administrator", "All"];
const names = async (): Promise<string[]> => (await it.list()).map(({ name }) => name);

beforeAll(async () => {
  it = await startAdministration();
});

afterAll(() => it.service.stop());

beforeEach(async () => {
  await it.apply([{ ...user("admin"), displayName: "Administrator" }, group("Administrator"), group("All")]);
  await it.apply([user("ada", ["operators", "Administrator"]), group("operators", ["Administrator"])]);
  ada = await login(it.service.url, { name: "ada", password: "ada's password" });
});

async function applyAsAda(principals: unknown): Promise<unknown> {
  const answer = await it.post({ applyChanges: "true", principals: JSON.stringify(principals) }, { session: ada });
  expect(answer.status).toBe(200);
  return JSON.parse(answer.text);
}

test("0.7 the administrator and the groups Administrator and All are never deleted", async () => {
  expect(await it.preview([])).toEqual(result({ usersDeleted: ["ada"], groupsDeleted: ["operators"] }));
  await it.apply([]);
  expect(await names()).toEqual(lasting);
  expect(await login(it.service.url)).toBeTypeOf("string");
});

test("0.7 they may be updated, but for the password", async () => {
  const changed = { displayName: "Changed", description: "d" };
  const list = [
    { ...user("admin"), ...changed, mail: "root@example.com", password: "other" },
    { ...group("Administrator"), ...changed },
    { ...group("All", ["Administrator"]), ...changed },
  ];
  expect(await it.apply(list)).toEqual(
    result({
      usersDeleted: ["ada"],
      usersUpdated: ["admin"],
      groupsDeleted: ["operators"],
      groupsUpdated: ["Administrator", "All"],
    }),
  );
  expect(await it.find("admin")).toMatchObject({ ...changed, mail: "root@example.com" });
  expect((await it.find("All")).groupNames).toEqual(["Administrator"]);
  expect(await login(it.service.url)).toBeTypeOf("string");
});

test("0.7 the caller is never deleted, and loses memberships in deleted groups, which is an update", async () => {
  expect(await applyAsAda([])).toEqual(result({ usersUpdated: ["ada"], groupsDeleted: ["operators"] }));
  expect((await it.find("ada")).groupNames).toEqual(["Administrator"]);
  expect((await call(`${it.service.url}/tspublic/v1/user/list`, { session: ada })).status).toBe(200);
  expect(await applyAsAda([])).toEqual(result());
});

test("0.7 the caller keeps memberships in groups that are listed or last", async () => {
  expect(await applyAsAda([group("operators", ["Administrator"])])).toEqual(result());
  expect((await it.find("ada")).groupNames).toEqual(["Administrator", "operators"]);
});

test("0.7 others are deleted, whoever calls", async () => {
  await it.apply([user("ada", ["Administrator"]), user("bob", ["Administrator"])]);
  expect(await applyAsAda([])).toEqual(result({ usersDeleted: ["bob"] }));
});

test("0.7 a caller who is listed may be updated", async () => {
  const answer = await applyAsAda([{ ...user("ada", ["Administrator"]), displayName: "Countess" }]);
  expect(answer).toEqual(result({ usersUpdated: ["ada"], groupsDeleted: ["operators"] }));
  expect((await it.find("ada")).displayName).toBe("Countess");
});

test("0.7 a group with the caller's or the administrator's name is not protected", async () => {
  await it.apply([user("ada", ["Administrator"]), group("ada"), group("admin"), user("All")]);
  expect(await applyAsAda([])).toEqual(result({ usersDeleted: ["All"], groupsDeleted: ["ada", "admin"] }));
});

test("0.7 a lasting group loses memberships in deleted groups too", async () => {
  await it.apply([group("outer"), group("All", ["outer"]), { ...user("admin", ["outer", "All"]) }]);
  expect(await it.apply([])).toEqual(
    result({ usersUpdated: ["admin"], groupsDeleted: ["outer"], groupsUpdated: ["All"] }),
  );
  expect((await it.find("admin")).groupNames).toEqual(["All"]);
  expect((await it.find("All")).groupNames).toEqual([]);
});

test("B.4 nothing that stays loses anything when nothing is removed", async () => {
  const before = await it.list();
  expect(await it.apply([group("new")], { remoteDeleted: "false" })).toEqual(result({ groupsAdded: ["new"] }));
  expect((await it.list()).filter(({ name }) => name !== "new")).toEqual(before);
});
