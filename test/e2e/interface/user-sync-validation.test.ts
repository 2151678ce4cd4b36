import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { group, user } from "./principals.ts";
import { debugOf, result, startAdministration } from "./syncing.ts";
import type { Administration } from "./syncing.ts";

let it: Administration;

/** What stays, so that a list has nothing wrong but what a test is about. */
const there = [user("there", ["there"]), group("there")];

beforeAll(async () => {
  it = await startAdministration();
  await it.apply(there);
});

afterAll(() => it.service.stop());

/** Applies a list that others should not find. */
async function applyForThisTest(principals: readonly unknown[]): Promise<void> {
  onTestFinished(async () => void (await it.apply(there)));
  await it.apply([...there, ...principals]);
}

/** What is wrong with a list of these principals, which are one kind of wrong: the message of each. */
const bad = (principals: readonly unknown[]): Promise<readonly string[]> => it.problems([...there, ...principals]);
const each = (principals: readonly unknown[], problem: string): string[] =>
  principals.map((_, index) => `principals[${there.length + index}]${problem}`);

/** A group for each value, which it has in this field. */
const groupsWith = (field: string, values: readonly unknown[]): object[] =>
  values.map((value, index) => ({ ...group(`new${index}`), [field]: value }));

describe("B.5 valid JSON", () => {
  test.each([
    ["a trailing comma", '[{"name":"a","displayName":"a","principalTypeEnum":"LOCAL_GROUP"},]'],
    ["a trailing comma in an object", '[{"name":"a","displayName":"a","principalTypeEnum":"LOCAL_GROUP",}]'],
    ["NaN", '[{"name":"a","displayName":"a","principalTypeEnum":"LOCAL_GROUP","x":NaN}]'],
    ["an infinity", '[{"name":"a","displayName":"a","principalTypeEnum":"LOCAL_GROUP","x":-Infinity}]'],
    ["an object", '{"name":"a","displayName":"a","principalTypeEnum":"LOCAL_GROUP"}'],
    ["a text", '"[]"'],
    ["null", "null"],
    ["cut off", '[{"name":"a"'],
    ["two lists", "[][]"],
    ["single quotes", "[{'name':'a'}]"],
    ["a comment", "[/* nobody */]"],
    ["a control character", '[{"name":"a\tb"}]'],
    ["a field twice", '[{"name":"a","name":"b","displayName":"a","principalTypeEnum":"LOCAL_GROUP"}]'],
    [
      "a field twice, once in disguise",
      '[{"name":"a","n\\u0061me":"b","displayName":"a","principalTypeEnum":"LOCAL_GROUP"}]',
    ],
    ["half a surrogate pair", '[{"name":"a\\ud800","displayName":"a","principalTypeEnum":"LOCAL_GROUP"}]'],
  ])("%s is a 400", async (_, principals) => {
    expect(await it.problems(principals)).toEqual([expect.stringMatching(/^principals/)]);
  });

  test("bytes that are not UTF-8 are a 400", async () => {
    const body = "principals=%5B%7B%22name%22%3A%22%FF%22%7D%5D";
    const answer = await it.send(body, "application/x-www-form-urlencoded");
    expect([answer.status, debugOf(answer)]).toEqual([
      400,
      [expect.stringMatching(/^principals: not valid JSON.*UTF-8/)],
    ]);
  });

  test("no message repeats the list", async () => {
    const secret = "hunter2";
    for (const list of [
      `[{"password":"${secret}",}]`,
      `[{"password":"${secret}","passw\\u006frd":"${secret}"}]`,
      `[{"password":["${secret}"]}]`,
    ]) {
      expect(JSON.stringify(await it.problems(list))).not.toContain(secret);
    }
  });

  test("white space and any order of fields are fine", async () => {
    const list =
      '\r\n[ {\n"displayName" :\t"A" , "principalTypeEnum":"LOCAL_GROUP",\r\n"name":"a"}\n\n , \n{"name":"b","principalTypeEnum":"LOCAL_GROUP","displayName":"B"} ]\n';
    expect(await it.preview(list, { remoteDeleted: "false" })).toEqual(result({ groupsAdded: ["a", "b"] }));
  });

  test("escapes are what they stand for", async () => {
    const list = String.raw`[{"n\u0061me":"\u0061\ud83d\ude00\/","displayName":"\"\\","principalTypeEnum":"LOCAL\u005fGROUP"}]`;
    expect(await it.preview(list, { remoteDeleted: "false" })).toEqual(result({ groupsAdded: ["a\u{1F600}/"] }));
  });
});

describe("B.5 elements and types", () => {
  test("an element is an object", async () => {
    const wrong = [5, null, "ada", true, [], [{}]];
    expect(await bad(wrong)).toEqual(each(wrong, ": must be an object"));
  });

  test("an empty object lacks what is required", async () => {
    expect(await bad([{}])).toEqual([
      "principals[2].displayName: must be a string that is not empty",
      "principals[2].name: must be a string that is not empty",
      'principals[2].principalTypeEnum: must be "LOCAL_USER" or "LOCAL_GROUP"',
    ]);
  });

  test.each([["name"], ["displayName"]])(
    "%s must be a string of 1 to 255 code points without control characters",
    async (field) => {
      const none = [undefined, null, 5, true, ["a"], { a: "a" }, ""];
      const control = ["a\u0000", "\u001Fa", "a\nb", "\u007F", "\u0080", "a\u009F"];
      const characters = ["a", "é", "\u{1F600}", "\u0301"];
      const tooLong = characters.map((character) => character.repeat(256));
      for (const [values, problem] of [
        [none, "must be a string that is not empty"],
        [control, "must not have control characters"],
        [tooLong, "may have 255 characters at the most"],
      ] as const)
        expect(await bad(groupsWith(field, values))).toEqual(each(values, `.${field}: ${problem}`));
      const longest = characters.map((character) => character.repeat(255));
      const good = groupsWith(field, [...longest, "\u00A0", "\u00AD", "\u200B", "\uFEFF", "\uFFFF", " "]);
      expect((await it.preview([...there, ...good])).groupsAdded).toHaveLength(good.length);
    },
  );

  test("principalTypeEnum is one of the two", async () => {
    const types = [undefined, null, "", "LOCAL", "local_user", "LDAP_USER", 5, ["LOCAL_USER"]];
    const problem = '.principalTypeEnum: must be "LOCAL_USER" or "LOCAL_GROUP"';
    expect(await bad(groupsWith("principalTypeEnum", types))).toEqual(each(types, problem));
  });

  test.each([["description"], ["mail"], ["password"]])(
    "%s must be a string, or null, which is absent",
    async (field) => {
      const wrong = [5, false, {}, ["a"]].map((value, index) => ({ ...user(`new${index}`), [field]: value }));
      const parameters = { defaultPassword: "x" };
      expect(await it.problems([...there, ...wrong], parameters)).toEqual(each(wrong, `.${field}: must be a string`));
      expect(await it.preview([...there, { ...user("new"), [field]: null }], parameters)).toEqual(
        result({ usersAdded: ["new"] }),
      );
    },
  );

  test("groupNames is an array of strings", async () => {
    const wrong = ["a", 5, [{}], ["there", 5], [null], [["there"]]];
    expect(await bad(groupsWith("groupNames", wrong))).toEqual(each(wrong, ".groupNames: must be an array of strings"));
  });

  test("a group's mail and password are ignored whatever they hold", async () => {
    const groups = [5, {}, ["x"], null, "", "x\u0000"].map((value, index) => ({
      ...group(`new${index}`),
      mail: value,
      password: value,
    }));
    expect(await it.preview([...there, ...groups])).toEqual(result({ groupsAdded: groups.map(({ name }) => name) }));
    await applyForThisTest([{ ...group("new"), mail: 5 }]);
    expect(await it.find("new")).not.toHaveProperty("mail");
  });

  test("unknown fields are ignored, whatever they hold", async () => {
    const extra = {
      id: 1,
      created: 5e9,
      visibility: ["DEFAULT"],
      deep: { name: 5, groupNames: [{ mail: [] }] },
      Name: 5,
      "": null,
    };
    expect(await it.preview([...there, { ...group("new"), ...extra }])).toEqual(result({ groupsAdded: ["new"] }));
  });

  test("a description may hold anything", async () => {
    const description = "a\u0000\n\u{1F600}".repeat(10_000);
    await applyForThisTest([{ ...group("new"), description }]);
    expect((await it.find("new")).description).toBe(description);
  });

  test("an element may be large", async () => {
    const groups = Array.from({ length: 3 }, (_, index) => group(`g${index}`));
    const description = "x".repeat(20_000_000);
    await applyForThisTest([...groups, { ...group("new", ["g0"]), description }]);
    expect((await it.find("new")).description).toHaveLength(20_000_000);
  });
});

describe("B.5 every problem", () => {
  test("of every element is named, in order", async () => {
    const problems = await it.problems([
      ...there,
      user("b", ["x"]),
      7,
      { ...group("c"), displayName: "", groupNames: 1 },
      group("b"),
      group("b"),
    ]);
    expect(problems.map((problem) => problem.slice(0, problem.indexOf(":")))).toEqual([
      "principals[2].groupNames",
      "principals[3]",
      "principals[4].displayName",
      "principals[4].groupNames",
      "principals[6].name",
    ]);
  });

  test("the first hundred by index", async () => {
    const problems = await it.problems([
      ...there,
      ...Array.from({ length: 500 }, (_, index) => ({ ...group(`g${index}`), displayName: "" })),
    ]);
    expect(problems).toEqual(
      Array.from(
        { length: 100 },
        (_, index) => `principals[${index + 2}].displayName: must be a string that is not empty`,
      ),
    );
  });

  test("wherever in a long list it is", async () => {
    const groups: unknown[] = Array.from({ length: 60_000 }, (_, index) => group(`g${index}`));
    const list = groups
      .with(12_345, { ...group("x"), displayName: "" })
      .with(54_321, group("g0"))
      .with(59_998, { ...group("z"), description: 5 })
      .with(59_999, group("y", ["nowhere"]));
    expect(await it.problems(list, { remoteDeleted: "false" })).toEqual([
      "principals[12345].displayName: must be a string that is not empty",
      "principals[54321].name: is there before as principals[0]: names of one kind must differ",
      "principals[59998].description: must be a string",
      'principals[59999].groupNames: "nowhere" is neither in the list nor stays in the service',
    ]);
  });
});
