import { expect, test } from "vitest";
import { StageRecorder } from "#sync/coordinator/execute.ts";

test("stages with their times and records; a running or aborted one has no end", () => {
  let now = Date.parse("2026-11-21T10:00:00Z");
  const before = [{ stage: "read", startedAt: "2026-11-20T10:00:00.000Z", milliseconds: 3 }] as const;
  const recorder = new StageRecorder(() => now, before);
  expect(recorder.stages()).toEqual(before);
  recorder.progress("read");
  now += 250;
  recorder.progress("read", 7);
  const read = { stage: "read", startedAt: "2026-11-21T10:00:00.000Z", records: 7 };
  expect(recorder.stages()).toEqual([...before, read]);
  recorder.progress("list");
  now += 10;
  recorder.end();
  recorder.end();
  const list = { stage: "list", startedAt: "2026-11-21T10:00:00.250Z", milliseconds: 10 };
  expect(recorder.stages()).toEqual([...before, { ...read, milliseconds: 250 }, list]);
});
