import { expect, test } from "vitest";
import { ownPath } from "#console/app.ts";

const pages = ["/", "/runs", "/runs/:id", "/runs/:id/plan"];

test.each([
  ["/runs?state=applied", "/runs?state=applied"],
  ["/runs/r1/plan?x=//evil.example", "/runs/r1/plan?x=//evil.example"],
  ["/runs/x/../r1", "/runs/r1"],
  ["/runs/%2F%2Fevil.example", "/runs/%2F%2Fevil.example"],
])("after signing in, %s leads to a page", (next, path) => {
  expect(ownPath(next, pages)).toBe(path);
});

test.each([
  undefined,
  ["/runs"],
  "",
  "runs",
  "//evil.example",
  "///evil.example",
  "/..//evil.example",
  "/.//evil.example",
  "/./..//evil.example/runs",
  "/%2e%2e//evil.example",
  "/%2e//evil.example",
  "/runs/..//evil.example",
  "/\\evil.example",
  "\\\\evil.example",
  "/..\\/evil.example",
  "/\t/evil.example",
  "/\n/evil.example",
  "\t//evil.example",
  "/.\r/\n/evil.example",
  "https://evil.example/runs",
  "https:evil.example",
  "javascript:alert(1)",
  "http://console.invalid/runs",
  "/runs/",
  "/runs//plan",
  "//",
  "/sign-in",
  "/elsewhere",
])("after signing in, %j leads to the overview", (next) => {
  expect(ownPath(next, pages)).toBe("/");
});
