import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { FolderJournal, readJournal } from "#state/folder/journal.ts";
import { idAfter, laterTimes, retain } from "#state/runs.ts";
import type { RunRecord, Stage } from "#state/record.ts";
import { endedRun } from "../../../support/runs.ts";

const day = 86_400_000;
const now = Date.parse("2026-11-21T12:00:00Z");
const ago = (days: number): string => new Date(now - days * day).toISOString();
const most = { keep: 90 * day, runs: 1000, lists: 20 };

test("what the clock has shown before it was set back is known from the runs", () => {
  const at = (...minutes: readonly number[]): RunRecord[] => {
    const runs: RunRecord[] = [];
    for (const minute of minutes) {
      const time = now + minute * 60_000;
      runs.push(endedRun({ id: idAfter(runs.at(-1)?.id, time), startedAt: new Date(time).toISOString() }));
    }
    return runs;
  };
  const minutesOf = (runs: readonly RunRecord[]): number[] =>
    laterTimes(runs, now)
      .map((time) => Math.floor((time - now) / 60_000))
      .toSorted((one, other) => one - other);
  expect(minutesOf([])).toEqual([]);
  // Processes may differ a little.
  expect(minutesOf(at(-20, -10, 1))).toEqual([]);
  expect(minutesOf(at(500, 510, 20, 30, -5))).toEqual([30, 510, 510]);
  // It may have jumped ahead before.
  expect(minutesOf(at(10, 20, 500, 510, -5))).toEqual([20, 510, 510]);
  // The rest was forgotten.
  expect(minutesOf(at(500, 510, 20, 30, -5).slice(-1))).toEqual([510]);
});

describe("retention", () => {
  test("what stays is the same value when nothing goes", () => {
    const runs = [endedRun({ id: "a", kept: true }), endedRun({ id: "b" })];
    expect(retain(runs, most, now)).toBe(runs);
  });

  test("what has ended too long ago goes; what can still be approved, is under way or has an unknown end stays", () => {
    const old = { startedAt: ago(100), endedAt: ago(100) };
    const runs = [
      endedRun({ ...old, id: "gone", state: "applied" }),
      endedRun({ ...old, id: "running", state: "running" }),
      endedRun({ ...old, id: "pending", state: "pending" }),
      endedRun({ ...old, id: "held", state: "held", heldBy: "limits", expiresAt: ago(-1) }),
      endedRun({ ...old, id: "held for good", state: "held", heldBy: "opinions" }),
      endedRun({ ...old, id: "unknown", state: "failed", endUnknown: true }),
      endedRun({ id: "young", startedAt: ago(100), endedAt: ago(1) }),
    ];
    expect(retain(runs, most, now).map(({ id }) => id)).toEqual(["running", "pending", "held", "unknown", "young"]);
  });

  test("a clock that is ahead takes no more than ten runs at once", () => {
    const runs = Array.from({ length: 30 }, (_, index) =>
      endedRun({ id: String(index + 10), startedAt: ago(30 - index), endedAt: ago(30 - index) }),
    );
    const left = retain(runs, most, now + 365 * day);
    expect(left.map(({ id }) => id)).toEqual(runs.slice(10).map(({ id }) => id));
    expect(retain(left, most, now)).toBe(left);
  });

  test("beyond the number of runs, those without change go first, then the oldest", () => {
    const runs = [
      endedRun({ id: "1", state: "applied" }),
      endedRun({ id: "2" }),
      endedRun({ id: "3", state: "failed" }),
      endedRun({ id: "4" }),
      endedRun({ id: "5", state: "pending" }),
      endedRun({ id: "6", state: "applied" }),
    ];
    const left = (count: number): string =>
      retain(runs, { ...most, runs: count }, now)
        .map(({ id }) => id)
        .join("");
    expect(left(5)).toBe("13456");
    expect(left(3)).toBe("356");
    // What is open stays whatever is configured, and so does the last one.
    expect(left(0)).toBe("56");
  });

  test("the last run of a sync stays, though it changed nothing and there are more runs with changes than are remembered", () => {
    const runs = [
      endedRun({ id: "1", state: "applied" }),
      endedRun({ id: "2", state: "applied" }),
      endedRun({ id: "3" }),
      endedRun({ id: "4", sync: "partners" }),
      endedRun({ id: "5" }),
    ];
    const left = (count: number): string[] => retain(runs, { ...most, runs: count }, now).map(({ id }) => id);
    expect(left(3)).toEqual(["2", "4", "5"]);
    expect(left(1)).toEqual(["4", "5"]);
  });

  test("the last run that has read everything stays: what it had in doubt is shown", () => {
    const counts = { users: none, groups: none, membershipsAdded: 0, membershipsRemoved: 0 };
    const source = { source: "corp", users: 1, groups: 0, quarantined: 1 };
    const read = { counts, sources: [source] };
    const repeated = { counts, sources: [{ ...source, unchangedSince: "2026-11-20T00:00:00.000Z" }] };
    const runs = [
      endedRun({ id: "1", ...read }),
      endedRun({ id: "2", ...read }),
      endedRun({ id: "3", ...repeated }),
      endedRun({ id: "4", ...repeated }),
    ];
    const left = (count: number): string[] => retain(runs, { ...most, runs: count }, now).map(({ id }) => id);
    expect(left(3)).toEqual(["2", "3", "4"]);
    expect(left(1)).toEqual(["2", "4"]);
  });

  test("beyond the number of lists, the oldest are no longer kept; the runs stay", () => {
    const runs = ["1", "2", "3"].map((id) => endedRun({ id, state: "applied", kept: true }));
    const open = endedRun({ id: "0", state: "pending", kept: true });
    const left = retain([open, ...runs], { ...most, lists: 1 }, now);
    expect(left.map(({ id, kept }) => `${id}${kept ? "+" : ""}`)).toEqual(["0+", "1", "2", "3+"]);
  });
});

const none = { before: 0, after: 0, create: 0, update: 0, delete: 0 };

test("what was put is in the file when that resolves, however many are put at once", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "rollcall-journal-"));
  const journal = await FolderJournal.open(folder.path, most);
  const ids = Array.from({ length: 30 }, (_, index) => `run ${index}`);
  const found = ids.map(async (id, index) => {
    // Some come while others are being written.
    await delay(index % 10);
    await journal.put(endedRun({ id }));
    const { runs } = await readJournal(folder.path);
    return runs.some((run) => run.id === id);
  });
  expect(await Promise.all(found)).toEqual(ids.map(() => true));
});

test("what was noted is known at once, and in the file with the next write, or soon without one", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "rollcall-journal-"));
  const journal = await FolderJournal.open(folder.path, most);
  const stages = async (): Promise<string[][]> =>
    (await readJournal(folder.path)).runs.map((run) => run.stages.map(({ stage }) => stage));
  const run = endedRun({ id: "1", state: "running", stages: [] });
  const at = (...names: Stage[]): RunRecord => ({
    ...run,
    stages: names.map((stage) => ({ stage, startedAt: ago(0) })),
  });
  await journal.put(run);
  journal.note(at("read"));
  journal.note(at("read", "plan"));
  expect(journal.find("1")?.stages).toHaveLength(2);
  expect(await stages()).toEqual([[]]);
  await journal.put(endedRun({ id: "2", stages: [] }));
  expect(await stages()).toEqual([["read", "plan"], []]);
  journal.note(at("read", "plan", "preview"));
  expect(await stages()).toEqual([["read", "plan"], []]);
  await expect.poll(stages, { timeout: 20_000 }).toEqual([["read", "plan", "preview"], []]);
});

const later = Date.parse("2026-11-21T10:12:35.999Z");

test("an id tells the time in UTC, and sorts behind those before it: of the same moment, and when the clock was set back", () => {
  expect(idAfter(undefined, later)).toMatch(/^20261121-101235-3e7[0-9a-f]{3}$/);
  let newest = idAfter(undefined, later);
  for (const clock of [later, later, later, later + 1, later - 3_600_000, later - 7_200_000, later + 2]) {
    const next = idAfter(newest, clock);
    expect(next > newest, `${next} after ${newest}`).toBe(true);
    newest = next;
  }
  expect(idAfter("20261121-101235-ffffff", later) > "20261121-101235-ffffff").toBe(true);
  expect(idAfter("20261121-101235-000000", later + 60_000)).toMatch(/^20261121-101335-/);
});
