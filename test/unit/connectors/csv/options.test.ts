import { expect, test } from "vitest";
import { z } from "zod";
import { dialectOf, options } from "#connectors/csv/options.ts";

const users = { file: "people.csv", id: "number" };

function problems(value: unknown): readonly string[] {
  const { error } = options.safeParse(value);
  return (error?.issues ?? []).map((issue) => `${issue.path.join(".")}: ${issue.message}`);
}

test("needs no more than a file and its id", () => {
  expect(options.parse({ users })).toEqual({ users });
});

test("separates references by semicolons, and calls users user and groups group by default", () => {
  expect(
    options.parse({
      users: { ...users, memberOf: { column: "groups" } },
      groups: { ...users, members: { column: "members", separator: "|" } },
      memberships: { file: "pairs.csv", group: "g", member: "m", kind: { column: "k", user: "U" } },
    }),
  ).toMatchObject({
    users: { memberOf: { separator: ";" } },
    groups: { members: { separator: "|" } },
    memberships: { kind: { user: "U", group: "group" } },
  });
});

test("lets a file differ from the others in how it is written", () => {
  const source = options.parse({ users: { ...users, quote: "" }, delimiter: ";", encoding: "latin1" });
  expect(dialectOf(source, source.users)).toMatchObject({ delimiter: ";", quote: "", encoding: "windows-1252" });
  expect(dialectOf({})).toMatchObject({ delimiter: ",", quote: '"', encoding: "utf-8" });
});

test.each<[string, unknown, string]>([
  ["no users", {}, "users: "],
  ["no id", { users: { file: "people.csv" } }, "users.id: "],
  ["an unknown key", { users: { ...users, seperator: ";" } }, ': Unrecognized key: "seperator"'],
  ["members on users", { users: { ...users, members: { column: "m" } } }, ': Unrecognized key: "members"'],
  ["an empty file name", { users: { ...users, file: "" } }, "users.file: expected a path"],
  ["no keys", { users: { ...users, keys: [] } }, "users.keys: expected at least one column"],
  ["an unknown encoding", { users, encoding: "cp850" }, "encoding: expected an encoding such as utf-8, utf-16,"],
  ["an encoding with states", { users, encoding: "iso-2022-jp" }, "encoding: expected an encoding such as utf-8"],
  [
    "a delimiter of two characters",
    { users, delimiter: "\\t" },
    'delimiter: expected one character; a tab is "\\t" in',
  ],
  ["a newline as delimiter", { users, delimiter: "\n" }, "delimiter: expected one character"],
  ["a quote of two characters", { users, quote: '""' }, 'quote: expected one character, or "" for none'],
  ["a delimiter that quotes", { users, delimiter: '"' }, "delimiter: is also the quote"],
  [
    "a trailer that is no expression",
    { users, trailer: "T (" },
    "trailer: expected a regular expression with one group",
  ],
  ["a trailer without a group", { users: { ...users, trailer: "^T" } }, "users.trailer: expected a regular expression"],
  ["a quote of one file that delimits", { users: { ...users, quote: "," } }, "users.delimiter: is also the quote"],
  [
    "an empty separator",
    { users: { ...users, memberOf: { column: "g", separator: "" } } },
    "users.memberOf.separator: ",
  ],
  ["negative minRows", { users: { ...users, minRows: -1 } }, "users.minRows: expected 0 or more"],
  ["half a row", { users: { ...users, minRows: 0.5 } }, "users.minRows: expected a whole number"],
  [
    "an unknown kind",
    { users, memberships: { file: "p.csv", group: "g", member: "m", kind: "person" } },
    "memberships.kind: expected user, group or {column, user, group}",
  ],
])("refuses %s", (_, value, problem) => {
  expect(problems(value)).toEqual([expect.stringContaining(problem)]);
});

test("describes every option to editors", () => {
  const undescribed: string[] = [];
  const walk = (schema: z.core.JSONSchema.BaseSchema, path: string): void => {
    for (const [name, value] of Object.entries(schema.properties ?? {})) {
      if (typeof value === "boolean") continue;
      if (value.description === undefined) undescribed.push(`${path}${name}`);
      walk(value, `${path}${name}.`);
    }
  };
  walk(z.toJSONSchema(options, { io: "input" }), "");
  expect(undescribed).toEqual([]);
});
