import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { group, user } from "./principals.ts";
import { result, startAdministration } from "./syncing.ts";
import type { Administration } from "./syncing.ts";

let it: Administration;

beforeAll(async () => {
  it = await startAdministration();
});

afterAll(() => it.service.stop());

beforeEach(async () => {
  await it.apply([user("there", ["there"]), group("there")]);
});

/** What stays, so that a list has nothing wrong but what a test is about. */
const there = [user("there", ["there"]), group("there")];
const bad = (principal: unknown): Promise<readonly string[]> => it.problems([...there, principal]);

describe("B.5 names and groups", () => {
  test("two of one kind with one name", async () => {
    expect(await it.problems([...there, group("a"), user("a"), group("a"), group("a")])).toEqual([
      "principals[4].name: is there before as principals[2]: names of one kind must differ",
      "principals[5].name: is there before as principals[2]: names of one kind must differ",
    ]);
    expect(await it.problems([...there, ...there])).toHaveLength(2);
    expect(await it.problems([group("there"), group("new"), group("there")])).toEqual([
      "principals[2].name: is there before as principals[0]: names of one kind must differ",
    ]);
  });

  test("names are compared exactly: case, spaces and normal forms make another", async () => {
    const names = ["a", "A", "a ", " a", "á", "a\u0301", "\uFEFFa"];
    expect((await it.preview([...there, ...names.map((name) => group(name))])).groupsAdded).toHaveLength(names.length);
    expect(await bad(group("new", ["There"]))).toHaveLength(1);
    expect(await bad(group("new", ["there "]))).toHaveLength(1);
  });

  test("every group is in the list or stays", async () => {
    const problem = (index: number, name: string): string =>
      `principals[${index}].groupNames: ${JSON.stringify(name)} is neither in the list nor stays in the service`;
    expect(await bad(user("new", ["nowhere", "there", 'a"b', "There"]))).toEqual(
      ["There", 'a"b', "nowhere"].map((name) => problem(2, name)),
    );
    // A group that goes with this list is no group to be in, for those who do not change either.
    expect(await it.problems([user("there", ["there"])])).toEqual([problem(0, "there")]);
    expect(await it.problems([user("there", ["there"]), user("both", ["there"])])).toEqual([
      problem(0, "there"),
      problem(1, "there"),
    ]);
    expect(await it.preview([user("there", ["there"])], { remoteDeleted: "false" })).toEqual(result());
    expect(await it.preview([...there, user("new", ["All", "Administrator"])])).toEqual(
      result({ usersAdded: ["new"] }),
    );
    // A user is no group.
    expect(await bad(group("new", ["admin"]))).toEqual([problem(2, "admin")]);
  });
});

describe("B.5 passwords", () => {
  const needed = "is needed for a user that is created, unless defaultPassword is set";

  test.each([[undefined], [null], [""]])("a user to be created needs one, %j is none", async (password) => {
    expect(await bad({ ...user("new"), password })).toEqual([`principals[2].password: ${needed}`]);
    expect(await it.preview([...there, { ...user("new"), password }], { defaultPassword: "x" })).toEqual(
      result({ usersAdded: ["new"] }),
    );
  });

  test("a user that exists needs none", async () => {
    const { password: _, ...existing } = user("there", ["there"]);
    expect(await it.preview([{ ...existing, displayName: "New" }, group("there")])).toEqual(
      result({ usersUpdated: ["there"] }),
    );
  });
});
