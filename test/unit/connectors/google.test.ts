import { expect, test } from "vitest";
import { options } from "#connectors/google/options.ts";

const required = { key: { file: "key.json" }, subject: "sync@example.com" };

test("what is left out is Google's, and the subject's customer", () => {
  expect(options.parse(required)).toMatchObject({
    customer: "my_customer",
    endpoints: { token: "https://oauth2.googleapis.com/token", directory: "https://admin.googleapis.com" },
    groups: { proof: "count" },
  });
});

test.each([
  [{ subject: "admin" }, "subject", /the address of an administrator/],
  [{ key: "key.json" }, "key", /expected/],
  [{ groups: true }, "groups", /false, or a mapping/],
  [{ endpoints: { token: "http://oauth2.example.com/token" } }, "endpoints.token", /unencrypted/],
  [{ endpoints: { directory: "https://u:p@admin.example.com" } }, "endpoints.directory", /a user or a password/],
  [{ attempts: 0 }, "attempts", /1 or more/],
])("refuses %j", (wrong, path, message) => {
  const issues = options.safeParse({ ...required, ...wrong }).error?.issues ?? [];
  expect(issues.map((issue) => issue.path.join("."))).toEqual([path]);
  expect(issues[0]?.message).toMatch(message);
});
