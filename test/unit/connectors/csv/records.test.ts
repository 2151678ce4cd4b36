import { expect, test } from "vitest";
import { Header } from "#connectors/csv/header.ts";
import { options } from "#connectors/csv/options.ts";
import { entryOf, membershipOf } from "#connectors/csv/records.ts";

const header = (...fields: string[]) => new Header({ line: 1, fields }, "f.csv");
const row = (...fields: string[]) => ({ line: 17, fields });

const user = (over: object, columns: readonly string[], cells: readonly string[]) => {
  const { users } = options.parse({ users: { file: "f.csv", id: "id", ...over } });
  return entryOf("user", users, header(...columns), "f.csv")(row(...cells));
};

const group = (over: object, columns: readonly string[], cells: readonly string[]) => {
  const { groups } = options.parse({
    users: { file: "u.csv", id: "id" },
    groups: { file: "f.csv", id: "id", ...over },
  });
  if (groups === undefined) throw new Error("no groups");
  return entryOf("group", groups, header(...columns), "f.csv")(row(...cells));
};

const membership = (over: object, columns: readonly string[], cells: readonly string[]) => {
  const { memberships } = options.parse({
    users: { file: "u.csv", id: "id" },
    memberships: { file: "f.csv", group: "g", member: "m", ...over },
  });
  if (memberships === undefined) throw new Error("no memberships");
  return membershipOf(memberships, header(...columns), "f.csv")(row(...cells));
};

test("makes an attribute of every column that has a name and a value", () => {
  expect(user({}, ["id", " mail ", "", "note", ""], ["7", " a@b ", "x", "", "y"])).toEqual({
    kind: "user",
    id: "7",
    origin: "f.csv:17",
    attributes: { id: "7", mail: " a@b " },
    keys: ["7"],
    memberOf: [],
    members: [],
  });
});

test("makes attributes of the mapped columns alone", () => {
  const entry = user({ columns: { uid: "Login", also: "Login" } }, ["id", "Login", "secret"], ["7", "ada", "x"]);
  expect(entry.attributes).toEqual({ uid: "ada", also: "ada" });
});

test("compares ids, keys and references without outer spaces and in one Unicode form", () => {
  const options = { keys: ["id", "login"], memberOf: { column: "groups", separator: "|" } };
  const entry = user(options, ["id", "login", "groups"], [" 7", "zoe\u{308} ", "|Öl | O\u{308}l||a b|"]);
  expect(entry).toMatchObject({ id: "7", keys: ["7", "zoë"], memberOf: ["Öl", "Öl", "a b"] });
});

test("takes ids that only resemble a number of Excel", () => {
  for (const id of ["1E5", "12E+04", "E+11", "1.2e+11", "1.2E+11 B"]) expect(user({}, ["id"], [id]).id).toBe(id);
});

test("leaves out a key that a record does not have", () => {
  expect(user({ keys: ["login", "id"] }, ["id", "login"], ["7", " "]).keys).toEqual(["7"]);
});

test("reads the members of a group, of either kind or one", () => {
  const cells = ["id", "who"];
  expect(group({ members: { column: "who" } }, cells, ["7", "ada; grace"]).members).toEqual([
    { key: "ada" },
    { key: "grace" },
  ]);
  expect(group({ members: { column: "who", kind: "user" } }, cells, ["7", "ada"]).members).toEqual([
    { kind: "user", key: "ada" },
  ]);
});

test("makes a membership of a pair, of either kind, one, or what a column says", () => {
  const expected = { kind: "membership", group: "1", origin: "f.csv:17" };
  expect(membership({}, ["m", "g"], ["7", "1"])).toEqual({ ...expected, member: { key: "7" } });
  expect(membership({ kind: "group" }, ["m", "g"], ["7", "1"])).toEqual({
    ...expected,
    member: { kind: "group", key: "7" },
  });
  const byColumn = { kind: { column: "k", user: "P" } };
  expect(membership(byColumn, ["m", "g", "k"], ["7", "1", "P "]).member).toEqual({ kind: "user", key: "7" });
  expect(membership(byColumn, ["m", "g", "k"], ["7", "1", "group"]).member).toEqual({ kind: "group", key: "7" });
});

test("what only resembles an error of Excel is a group", () => {
  const groups = user({ memberOf: { column: "g" } }, ["id", "g"], ["7", "#general;C#;#1;#NA;#Ops!;N/A"]).memberOf;
  expect(groups).toEqual(["#general", "C#", "#1", "#NA", "#Ops!", "N/A"]);
});

test.each<[string, () => unknown, string]>([
  ["an empty id", () => user({}, ["id"], ["  "]), 'f.csv:17: column "id" is empty; every row needs an id'],
  [
    "an id that Excel has shortened",
    () => user({}, ["id"], ["1.23457E+11"]),
    "f.csv:17: an id or key is a number that",
  ],
  [
    "a key that a German Excel has shortened",
    () => user({ keys: ["no"] }, ["id", "no"], ["a", "1,23457E+11"]),
    "format the column as text, and export it again",
  ],
  ["an id that Excel could not find", () => user({}, ["id"], ["#N/A"]), "f.csv:17: an id or key is an error of Excel"],
  [
    "a pair whose member Excel has shortened",
    () => membership({}, ["m", "g"], ["1.23457E+11", "1"]),
    "f.csv:17: a refer",
  ],
  [
    "a pair whose group is an error",
    () => membership({}, ["m", "g"], ["7", "#BEZUG!"]),
    "f.csv:17: a reference is an err",
  ],
  [
    "a group that Excel could not find",
    () => user({ memberOf: { column: "g" } }, ["id", "g"], ["7", "Ops; #NV"]),
    "f.csv:17: a reference is an error of Excel, such as #N/A; correct the formula, or have it give an empty text",
  ],
  [
    "a member that Excel has shortened",
    () => group({ members: { column: "who" } }, ["id", "who"], ["7", "1,23457E+11;2"]),
    "f.csv:17: a reference is a number that Excel has shortened",
  ],
  ["a pair without member", () => membership({}, ["m", "g"], ["", "1"]), 'f.csv:17: column "m" is empty'],
  [
    "a kind that is none",
    () => membership({ kind: { column: "k" } }, ["m", "g", "k"], ["1", "1", ""]),
    'f.csv:17: column "k": expected "user" or "group"',
  ],
  [
    "a missing column",
    () => user({ keys: ["login"] }, ["id", "Logins"], []),
    'f.csv:1: the header has no column "login"; did you mean "Logins"?',
  ],
  [
    "a missing attribute column",
    () => user({ columns: { a: "cn" } }, ["id", "xy"], []),
    'f.csv:1: the header has no column "cn"; is the header line missing,',
  ],
  ["another delimiter", () => user({}, ["id;name"], []), 'this looks like a single column: set delimiter to ";"'],
  ["UTF-16 taken for UTF-8", () => user({}, ["i\0d\0", "n\0"], []), "this looks like UTF-16: set encoding"],
  [
    "one name for two columns",
    () => user({}, ["id", "x", " x"], []),
    "f.csv:1: columns 2 and 3 of the header have the same name",
  ],
  [
    "an attribute that JavaScript reserves",
    () => user({}, ["id", "__proto__"], []),
    '"__proto__" cannot be the name of an attribute',
  ],
])("refuses %s", (_, action, message) => {
  expect(action).toThrow(message);
});
