import { expect, test } from "vitest";
import { describeFailure } from "#daemon/output.ts";
import type { Output } from "#daemon/output.ts";
import { approvalQuestion, openDocuments, showEnd } from "#cli/run-output.ts";
import { endedRun, trippedLimit } from "../../support/runs.ts";

/** Collects what is written and said. */
function listen(json: boolean): { readonly output: Output; readonly heard: string[] } {
  const heard: string[] = [];
  const write = async (text: string): Promise<void> => void heard.push(text);
  const say = (line: string): void => void heard.push(`${line}\n`);
  const output: Output = {
    json,
    colour: false,
    interactive: false,
    terminal: false,
    width: 100,
    write,
    say,
    progress: () => {},
  };
  return { output, heard };
}

test("a run whose end was unknown shows what was found out about it", async () => {
  const recovery = "the target was read again: nothing of it was applied";
  const error = { message: "target t: was answered 500", problems: [], advice: "retry" };
  const run = endedRun({ state: "failed", error, recovery });

  const person = listen(false);
  expect(await showEnd(openDocuments(person.output, {}).next("staff"), run)).toBe(1);
  expect(person.heard.join("")).toBe(`staff: target t: was answered 500\n  ${recovery}\n`);

  const program = listen(true);
  const documents = openDocuments(program.output, {});
  await showEnd(documents.next("staff"), run);
  await documents.end();
  expect(JSON.parse(program.heard.join(""))).toEqual({
    runs: [{ sync: "staff", warnings: [], run: run.id, recovery, error }],
  });
});

test.each([
  ["failed", "stop", 1],
  ["failed", "fix", 1],
  ["held", "stop", 3],
  // What was being approved was no longer what had been shown, and waits again.
  ["pending", "stop", 3],
  ["pending", "retry", 1],
] as const)("a run that is %s with an error that says %s ends with %i", async (state, advice, code) => {
  const run = endedRun({ state, error: { message: "no", problems: [], advice } });
  expect(await showEnd(openDocuments(listen(false).output, {}).next("staff"), run)).toBe(code);
});

test("an error lists each problem once, even if one of them is the message", () => {
  const error = { message: "tables.sql:1: no", advice: "fix" };
  expect(describeFailure({ ...error, problems: [error.message] })).toBe("tables.sql:1: no");
  expect(describeFailure({ ...error, problems: ["a", "b"] })).toBe("tables.sql:1: no\n  a\n  b");
});

test("the question repeats what decides: the totals, and the limits that the plan is beyond", () => {
  const kind = { before: 0, after: 0, create: 0, update: 0, delete: 0 };
  const counts = {
    users: { ...kind, create: 2832, update: 1 },
    groups: { ...kind, create: 24 },
    membershipsAdded: 12,
    membershipsRemoved: 0,
  };
  const plan = { target: "analytics", counts, limits: [] };
  expect(approvalQuestion(plan)).toBe(
    "analytics: 2,832 users and 24 groups created, 1 user updated, 12 memberships added. Apply?",
  );
  expect(approvalQuestion({ ...plan, limits: [trippedLimit(), trippedLimit({ tripped: false })] })).toMatch(
    / added\. Beyond the limits: deletes: .*, at most .*\. Apply\?$/,
  );
  expect(approvalQuestion(plan, { only: ["update"], except: [{ kind: "user", name: "eve" }] })).toBe(
    "analytics: 1 user updated. Apply this part of it (only update; all but user eve)?",
  );
});
