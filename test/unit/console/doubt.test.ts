import { expect, test } from "vitest";
import { doubt, membershipsAsCsv, quarantinedAsCsv } from "#console/pages/doubt.ts";
import { layout } from "#console/layout.ts";
import type { SyncInDoubt } from "#console/pages/doubt.ts";
import { isDoubt } from "#plan/note.ts";
import { quarantineNotes, unresolvedNotes } from "#sync/planning/notes.ts";
import { hostile, textOf } from "../../support/pages.ts";
import { appliedRun } from "../../support/runs.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");

/** A sync whose last run was in doubt about records of this name, with the notes that runs have. */
function inDoubt(name: string, sync = "staff"): SyncInDoubt {
  const origin = `people.csv, line 7 ${name}`;
  const examples = [
    { name, sourceId: "7", origin },
    { sourceId: `${name}8`, origin },
  ];
  const run = appliedRun({
    notes: [
      { text: "something else" },
      ...quarantineNotes({
        count: 6,
        reasons: [
          { reason: `${name}: no mail`, kind: "user", count: 4, examples },
          { reason: "no name", kind: "group", count: 1, examples: examples.slice(0, 1) },
        ],
        more: 1,
      }),
      { text: "2 principals of the target left alone: not owned by this sync" },
      ...unresolvedNotes({
        count: 5,
        excluded: 1,
        reasons: [{ reason: `the group "${name}" does not exist`, count: 4, origin }],
        more: 0,
        alike: true,
      }),
    ],
  });
  return { sync, run, doubts: run.notes.filter(isDoubt), hasRecords: false };
}

async function joined(pieces: AsyncIterable<string>): Promise<string> {
  return (await Array.fromAsync(pieces)).join("");
}

const notStored = async (): Promise<undefined> => undefined;

test("text from outside is harmless in the page of what is in doubt, and in its lists", async () => {
  for (const text of [...hostile, "  x", "1 record quarantined: they stay unchanged in the target"]) {
    const syncs = [inDoubt(text, text)];
    expect(syncs[0]!.doubts.map(({ details }) => details?.length)).toEqual([3, 1]);
    const page = layout({ title: text, version: "1", section: "doubt" }, doubt({ now, syncs })).toString();
    expect(page).not.toMatch(/<script>|<img|onerror=alert\(1\)>/);
    expect(page).not.toMatch(/[\u202E\u200B]/);
    expect(page.match(/<\/html>/g)).toHaveLength(1);
    expect(page).not.toMatch(/ style=| on[a-z]+="/);
    const csv = await joined(quarantinedAsCsv(syncs, notStored));
    expect(csv).not.toMatch(/[\u202E\u200B]/);
    // The header, a row for each cause, and what follows the last line end.
    expect(csv.split("\n")).toHaveLength(5);
    const record = { kind: "user", name: text, source: text, id: text, origin: text, reason: text } as const;
    const stored = {
      all: async function* () {
        yield [record, { ...record, name: null }];
      },
    };
    const records = await joined(quarantinedAsCsv(syncs, async () => stored));
    expect(records).not.toMatch(/[\u202E\u200B]/);
    expect(records.split("\n")).toHaveLength(4);
  }
});

test("the lists are no formulas to a spreadsheet", async () => {
  const csv = await joined(membershipsAsCsv([inDoubt("kim", "=1+1")]));
  expect(csv.split("\n")[1]).toMatch(/^"'=1\+1","[^"]+",,,"the group ""kim"" does not exist: 4 memberships/);
  expect(await joined(quarantinedAsCsv([inDoubt("@SUM(A1)")], notStored))).toContain(`"'@SUM(A1)`);
});

test("a sync without doubts is told, and one that has read nothing is none of them", () => {
  const nothing = doubt({ now, syncs: [{ sync: "staff", doubts: [], hasRecords: false }] }).toString();
  expect(textOf(nothing)).toContain("No sync has read its sources yet.");
  const run = appliedRun({ startedAt: "2026-11-21T10:00:00.000Z" });
  const sure = textOf(doubt({ now, syncs: [{ sync: "staff", run, doubts: [], hasRecords: false }] }).toString());
  expect(sure).toMatch(/Nothing is in doubt in staff ?\(read 2 hours ago ?\)\./);
  // Of many, the time of the oldest stands for all.
  const many = Array.from({ length: 9 }, (_, index) => ({
    sync: `s${index}`,
    run: appliedRun({ startedAt: `2026-11-21T1${index === 4 ? 0 : 1}:00:00.000Z` }),
    doubts: [],
    hasRecords: false,
  }));
  expect(textOf(doubt({ now, syncs: many }).toString())).toMatch(
    /in s0 ?, s1 ?, .*s8 ?\(read 2 hours ago or later\)\./,
  );
});

test("the page says what the list has: each record, or the causes that the notes name", () => {
  const said = (hasRecords: boolean): string =>
    textOf(doubt({ now, syncs: [{ ...inDoubt("kim"), hasRecords }] }).toString());
  expect(said(true)).toContain("The list has a row for each record");
  expect(said(false)).toContain("a row for each cause above: the records of this run are not stored");
});
