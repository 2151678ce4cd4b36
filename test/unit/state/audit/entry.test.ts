import { expect, test } from "vitest";
import { auditOfEnd } from "#state/audit/entry.ts";
import { runOf } from "../../../support/runs.ts";

const run = runOf();
const { by } = run;
const approval = { decision: "approved", at: run.startedAt, by, digest: "4f9c" } as const;
const error = { message: "the server did not answer", problems: ["secret detail"], advice: "retry" };

test("a scheduled run that changes nothing has no entry", () => {
  expect(auditOfEnd(run)).toBeUndefined();
  expect(
    auditOfEnd({ ...run, state: "failed", error, stages: [{ stage: "read", startedAt: run.startedAt }] }),
  ).toBeUndefined();
});

test("an unfinished run has no end, and a rejection is recorded as one", () => {
  for (const state of ["running", "pending", "rejected"] as const)
    expect(auditOfEnd({ ...run, cause: "demand", decisions: [approval], state })).toBeUndefined();
});

test("what was or may have been applied, was held, or a person asked for or decided about is told", () => {
  const ended = { event: "ended", by, sync: "staff", run: run.id };
  expect(auditOfEnd({ ...run, state: "applied", digest: "4f9c" })).toEqual({
    ...ended,
    result: "applied",
    digest: "4f9c",
  });
  expect(auditOfEnd({ ...run, state: "held", heldBy: "limits", waiting: ["deletes"] })).toEqual({
    ...ended,
    result: "held",
    heldBy: "limits",
    waiting: ["deletes"],
  });
  const applying = [{ stage: "apply", startedAt: run.startedAt }] as const;
  expect(auditOfEnd({ ...run, state: "failed", error, stages: applying })).toEqual({
    ...ended,
    result: "failed",
    error: "the server did not answer",
  });
  for (const state of ["superseded", "expired"] as const)
    expect(auditOfEnd({ ...run, state })).toEqual({ ...ended, result: state });
  expect(auditOfEnd({ ...run, cause: "demand" })).toEqual({ ...ended, result: "no change" });
  expect(auditOfEnd({ ...run, state: "failed", decisions: [approval] })).toEqual({ ...ended, result: "failed" });
});
