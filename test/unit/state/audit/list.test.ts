import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { beginning, sealed } from "#state/audit/chain.ts";
import type { Sealed } from "#state/audit/chain.ts";
import type { AuditEntry, Head } from "#state/audit/entry.ts";
import { listAudit, renderAudit } from "#state/audit/list.ts";
import type { AuditFilter, ReadAudit } from "#state/audit/list.ts";
import type { Verification } from "#state/audit/verify.ts";

const kim = { name: "Kim", from: "10.0.0.7" };
const schedule = { name: "rollcall", from: "schedule" };

/** A log in memory, with an entry on each day of November. */
function logOf(entries: readonly AuditEntry[], { first = 1, broken }: Partial<Verification> & { first?: number } = {}) {
  let head: Head = { ...beginning, sequence: first - 1 };
  const lines = entries.map((entry, index) => {
    const one = sealed(entry, head, new Date(Date.UTC(2026, 10, 1 + index, 12)));
    ({ head } = one);
    return one.line;
  });
  const asked: (number | undefined)[] = [];
  const read: ReadAudit = async ({ from, visit }) => {
    asked.push(from);
    for (const line of lines) {
      const { sequence, at, event, previous, hash, ...facts } = JSON.parse(line) as Sealed;
      await visit?.({ sequence, at, event, previous, hash, facts }, Buffer.from(line));
    }
    return { entries: lines.length, files: ["audit.jsonl"], head, damages: [], broken };
  };
  return { read, lines, asked };
}

const entries: readonly AuditEntry[] = [
  { event: "started", by: { name: "root", from: "command line" }, process: 1 },
  { event: "asked", by: kim, sync: "staff", run: "r1", cause: "demand" },
  { event: "ended", by: kim, sync: "staff", run: "r1", result: "applied" },
  { event: "ended", by: schedule, sync: "guests", run: "r2", result: "held" },
  { event: "rejected", by: kim, sync: "guests", run: "r2", reason: '=HYPERLINK("http://evil")\n\u202E' },
  { event: "undone", by: kim, sync: "staff", run: "r3", undoes: "r1" },
  { event: "audit torn", kept: "audit.torn-1", line: 7, bytes: 3 },
];

async function numbersOf(filter: AuditFilter): Promise<number[]> {
  const { entries: found } = await listAudit(logOf(entries).read, { filter, limit: 100 });
  return found.map(({ sequence }) => sequence);
}

test("entries are found by event, person, sync, run and time, the newest first", async () => {
  expect(await numbersOf({})).toEqual([7, 6, 5, 4, 3, 2, 1]);
  expect(await numbersOf({ event: "ended" })).toEqual([4, 3]);
  expect(await numbersOf({ by: "ki" })).toEqual([6, 5, 3, 2]);
  expect(await numbersOf({ sync: "guests" })).toEqual([5, 4]);
  expect(await numbersOf({ run: "r1" })).toEqual([6, 3, 2]);
  expect(await numbersOf({ since: Date.UTC(2026, 10, 3), until: Date.UTC(2026, 10, 5) })).toEqual([4, 3]);
  expect(await numbersOf({ by: "kim", event: "ended", sync: "guests" })).toEqual([]);
});

test("entries are listed page by page, with all syncs that the log has", async () => {
  const { read } = logOf(entries);
  const page = async (before?: number): Promise<unknown> => {
    const { entries: found, more, syncs } = await listAudit(read, { filter: { by: "kim" }, limit: 2, before });
    return [found.map(({ sequence }) => sequence), more, syncs];
  };
  expect(await page()).toEqual([[6, 5], true, ["guests", "staff"]]);
  expect(await page(5)).toEqual([[3, 2], false, ["guests", "staff"]]);
  expect(await page(2)).toEqual([[], false, ["guests", "staff"]]);
});

test("what is missing at the beginning is listed without, and checked with", async () => {
  const whole = logOf(entries);
  await listAudit(whole.read, { filter: {}, limit: 9 });
  expect(whole.asked).toEqual([0]);
  const archived = logOf(entries, { first: 500 });
  expect(await listAudit(archived.read, { filter: {}, limit: 9 })).toMatchObject({ first: 500 });
  expect(archived.asked).toEqual([0, 1]);
  await listAudit(archived.read, { filter: {}, limit: 9, from: 500 });
  expect(archived.asked).toEqual([0, 1, 500]);
});

test("downloads have the lines as they were written, or rows that no spreadsheet runs", async () => {
  const { read, lines } = logOf(entries);
  expect(await text(renderAudit("jsonl", read, { filter: {} }))).toBe(`${lines.join("\n")}\n`);
  const [header, row, ...others] = (await text(renderAudit("csv", read, { filter: { event: "rejected" } }))).split(
    "\n",
  );
  expect(header).toContain('"number","time","event","name","from","sync","run","what","details"');
  expect(row).toBe(
    '"5","2026-11-05T12:00:00.000Z","rejected","Kim","10.0.0.7","guests","r2","rejected run r2 of guests","\'=HYPERLINK(""http://evil"")\\u{000a}\\u{202e}"',
  );
  expect(others).toEqual([""]);
});

test("downloads of a broken log end with where it is broken, and fail where it cannot be read", async () => {
  const broken = { file: "audit.jsonl", line: 8, what: "changed", reason: "its hash does not match" } as const;
  const { read } = logOf(entries, { broken });
  expect((await text(renderAudit("jsonl", read, { filter: {} }))).split("\n").at(-2)).toBe(JSON.stringify({ broken }));
  expect((await text(renderAudit("csv", read, { filter: {} }))).split("\n").at(-2)).toContain(
    '"BROKEN","","","","","audit.jsonl, line 8 (changed): its hash does not match"',
  );
  const failing: ReadAudit = () => Promise.reject(new Error("permission denied"));
  await expect(text(renderAudit("csv", failing, { filter: {} }))).rejects.toThrow("permission denied");
});
