import { expect, test } from "vitest";
import { when } from "#console/components.ts";
import { layout } from "#console/layout.ts";
import { audit } from "#console/pages/audit.ts";
import type { AuditPage } from "#console/pages/audit.ts";
import type { Sealed } from "#state/audit/chain.ts";
import { beginning } from "#state/audit/chain.ts";
import { hostile, textOf } from "../../support/pages.ts";

const verification = { entries: 3, files: ["audit.jsonl"], head: { sequence: 3, hash: "h3" }, damages: [] };

function entryOf(sequence: number, event: string, facts: Sealed["facts"]): Sealed {
  const at = new Date(Date.parse("2026-11-21T10:00:00.000Z") + sequence * 1000).toISOString();
  return { sequence, at, event, facts, previous: `h${sequence - 1}`, hash: `h${sequence}` };
}

function pageOf(change: Partial<AuditPage>): string {
  const nothing = { entries: [], more: false, first: 1, syncs: [], verification, fields: {}, isRun: () => true };
  return audit({ ...nothing, ...change }).toString();
}

test("text from outside is harmless in the page of the audit log", () => {
  for (const text of hostile) {
    const by = { name: text, from: text };
    const of = { by, sync: text, run: text };
    const entries = [
      entryOf(1, "configuration", { by, file: text, digest: text, before: "d", differences: Array(60).fill(text) }),
      entryOf(2, "rejected", { ...of, digest: text, reason: text }),
      entryOf(3, "undone", { ...of, undoes: text }),
      entryOf(4, text, { by, anything: text }),
      entryOf(5, "stopped", { by: text, process: 1, reason: text }),
    ];
    const broken = { file: text, line: 1, what: "changed", reason: text } as const;
    const page = layout(
      { title: "Audit", version: "1", section: "audit" },
      audit({
        entries,
        more: true,
        first: 1,
        syncs: [text],
        verification: { ...verification, broken },
        fields: { by: text, sync: text, run: text },
        isRun: () => true,
      }),
    ).toString();
    expect(page).not.toMatch(/<script>|<img|onerror=alert\(1\)>/);
    // Fields of forms have what was given, exactly.
    expect(page.replaceAll(/value="[^"]*"/g, "")).not.toMatch(/[\u202E\u200B]/);
    expect(page.match(/<\/html>/g)).toHaveLength(1);
    expect(page).not.toMatch(/ style=| on[a-z]+="/);
  }
});

test("the audit log says first whether it is as it was written", () => {
  expect(textOf(pageOf({}))).toContain("Verified. 3 entries in 1 file: everything is as it was written.");
  const broken = { file: "audit.jsonl", line: 4, what: "changed", reason: "its hash does not match" } as const;
  const page = pageOf({ verification: { ...verification, broken } });
  expect(textOf(page)).toContain("BROKEN: audit.jsonl, line 4 (changed): its hash does not match");
  expect(page).not.toContain("Verified");
  // The wrong entry is the one after the last good one.
  expect(page).toContain('href="/audit?from=5"');
  const missing = { ...verification, entries: 0, head: beginning, broken };
  expect(pageOf({ first: 500, verification: missing })).toContain('href="/audit?from=500"');
  const damages = [entryOf(9, "audit damaged", { what: "removed", reason: "entry 7 is missing", lastGood: beginning })];
  const damaged = pageOf({ verification: { ...verification, damages } });
  expect(textOf(damaged)).toContain("something was lost before:");
  expect(textOf(damaged)).toContain("the audit log is damaged: removed; entry 7 is missing");
  expect(damaged).toContain('href="/audit?from=10"');
});

test("moments of every page are those of the zone in which days are chosen, and say so", () => {
  const page = pageOf({ entries: [entryOf(7, "started", { by: { name: "root", from: "command line" }, process: 1 })] });
  expect(textOf(page)).toMatch(/From \(UTC\).*To \(UTC\).*2026-11-21 10:00:07 UTC/s);
  expect(when("2026-11-21T10:00:07.123Z", Date.parse("2026-11-21T10:00:10Z")).toString()).toContain(
    'title="2026-11-21 10:00:07 UTC">2 seconds ago<',
  );
});

test("details of an entry show code as code", () => {
  const facts = { by: { name: "kim", from: "::1" }, sync: "staff", run: "r1", reason: "as `rollcall plan` says" };
  expect(pageOf({ entries: [entryOf(1, "rejected", facts)] })).toContain("as <code>rollcall plan</code> says");
});

test("pages and downloads of the audit log keep the filter", () => {
  const entries = [entryOf(7, "started", { by: { name: "root", from: "command line" }, process: 1 })];
  const page = pageOf({ entries, more: true, fields: { by: "ro&ot", before: "90" } });
  expect(page).toContain('href="/audit?by=ro%26ot&amp;before=7" rel="next"');
  expect(page).toContain('href="/audit?by=ro%26ot"');
  expect(page).toContain('href="/audit/download?by=ro%26ot&amp;format=csv"');
  expect(textOf(pageOf({ fields: { event: "approved" } }))).toContain("No entry matches.");
  expect(textOf(pageOf({ verification: { ...verification, entries: 0, files: [] } }))).toContain("no audit log yet");
});

test("a run that the journal no longer has is no link", () => {
  const entries = [entryOf(1, "asked", { by: { name: "kim", from: "::1" }, sync: "staff", run: "r1" })];
  expect(pageOf({ entries })).toContain('run <a href="/runs/r1">r1</a> of staff');
  const undone = [entryOf(2, "undone", { by: { name: "kim", from: "::1" }, sync: "staff", run: "r1", undoes: "r2" })];
  expect(pageOf({ entries: undone }).match(/href="\/runs\/r\d">r\d</g)).toHaveLength(2);
  expect(pageOf({ entries, isRun: () => false })).not.toContain('href="/runs/r1"');
});
