import { expect, test } from "vitest";
import { readSyncParameters } from "#service/directory/receive.ts";

const read = (given: Record<string, string>) => readSyncParameters(new Map(Object.entries(given)));
const problemsOf = (given: Record<string, string>): unknown => {
  try {
    return read(given);
  } catch (error) {
    return (error as { problems: unknown }).problems;
  }
};

test("B.3 preview is the default, B.4 and deletion too", () => {
  expect(read({})).toEqual({ apply: false, removeDeleted: true });
});

test("B.3 booleans in any case", () => {
  expect(read({ applychanges: "TRUE", remotedeleted: "False" })).toEqual({ apply: true, removeDeleted: false });
});

test.each(["", "1", "yes", " true", "null", "constructor"])("B.3 %j is no boolean", (value) => {
  expect(problemsOf({ applychanges: value })).toEqual(["applyChanges: must be true or false"]);
  expect(problemsOf({ removedelete: value })).toEqual(["removeDelete: must be true or false"]);
});

test.each(["remotedeleted", "removedeleted", "removedelete"])("B.3 %s", (name) => {
  expect(read({ [name]: "false" })).toMatchObject({ removeDeleted: false });
});

test("B.3 aliases that agree, and those that disagree", () => {
  expect(read({ remotedeleted: "false", removedeleted: "FALSE" })).toMatchObject({ removeDeleted: false });
  expect(problemsOf({ remotedeleted: "false", removedelete: "true" })).toEqual([
    "remoteDeleted and removeDelete are the same parameter and disagree: give one of them",
  ]);
  expect(read({ defaultpassword: "a", password: "a" })).toMatchObject({ defaultPassword: "a" });
});

test("B.3 passwords that disagree are not repeated", () => {
  expect(JSON.stringify(problemsOf({ defaultpassword: "hunter2", password: "secret" }))).not.toMatch(/hunter2|secret/);
});

test("B.3 an empty default password is none", () => {
  expect(read({ defaultpassword: "" }).defaultPassword).toBeUndefined();
  expect(read({ defaultpassword: "", password: "b" })).toMatchObject({ defaultPassword: "b" });
});
