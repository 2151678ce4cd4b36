import { expect, test } from "vitest";
import { groupAttributes, proposeInclude } from "#cli/init/draft.ts";
import { Examples } from "#cli/init/examples.ts";

function examplesOf(records: readonly Readonly<Record<string, string | boolean>>[]): Examples {
  const examples = new Examples();
  for (const record of records) for (const [name, value] of Object.entries(record)) examples.add(name, value);
  return examples;
}

test.each([
  ["Entra ID", [{ accountEnabled: true }, { accountEnabled: false }], "entry.accountEnabled != false"],
  ["a directory in which nobody has left yet", [{ active: true }, { active: true }], "entry.active != false"],
  ["Google", [{ suspended: false, archived: true }], "entry.suspended != true && entry.archived != true"],
  ["Okta", [{ status: "ACTIVE" }, { status: "SUSPENDED" }, { status: "STAGED" }], 'entry.status != "SUSPENDED"'],
  [
    "a file",
    [{ Status: "left" }, { Status: "active" }, { Status: "inactive" }],
    '!(entry.Status in ["inactive","left"])',
  ],
  ["a file whose flag is a text", [{ active: "1" }, { active: "0" }], 'entry.active != "0"'],
  [
    "a name that is none of CEL",
    [{ "account status": "left" }, { "account status": "active" }],
    'entry["account status"] != "left"',
  ],
  ["a state that everybody has", [{ status: "active" }], undefined],
  ["a state that says everybody has left, so it means something else", [{ status: "0" }, { status: "no" }], undefined],
  ["too many states", Array.from({ length: 20 }, (_, at) => ({ status: at === 0 ? "left" : `at ${at}` })), undefined],
])("a rule leaves out those who have gone: %s", (_, records, expected) => {
  expect(proposeInclude(examplesOf(records))).toBe(expected);
});

test("groups are made of values that several people share, not of names, addresses, lists or states", () => {
  const people = Array.from({ length: 8 }, (_, at) => ({
    login: `person${at}`,
    mail: at % 2 === 0 ? "all@example.com" : "some@example.com",
    department: at % 2 === 0 ? "Sales" : "IT",
    roles: at % 2 === 0 ? "a;b" : "b",
    status: at % 2 === 0 ? "active" : "on leave",
    company: "Example",
  }));
  expect(groupAttributes(examplesOf(people))).toEqual(["department"]);
});
