import { expect, test } from "vitest";
import { layout } from "#console/layout.ts";
import { leavers } from "#console/pages/leavers.ts";
import { leaversCsv } from "#daemon/leavers.ts";
import type { StagedLeaver, SyncLeavers } from "#daemon/leavers.ts";
import { hostile, textOf } from "../../support/pages.ts";

const now = Date.parse("2026-11-21T12:00:00.000Z");

function leaving(name: string, more: Partial<StagedLeaver> = {}): StagedLeaver {
  return { kind: "user", name, since: "2026-11-20T12:00:00.000Z", stage: "grace", ...more };
}

test("a page has who is leaving, at which stage and until when, and what is not known", () => {
  const syncs: readonly SyncLeavers[] = [
    {
      sync: "staff",
      target: "grafana",
      leavers: [
        leaving("eve", { suspendedOn: "2026-11-21T11:00:00.000Z", deletedOn: "2026-12-01T12:00:00.000Z" }),
        leaving("bob", { stage: "suspended", deletedOn: "2026-12-20T12:00:00.000Z" }),
        leaving("kim", { stage: "suspended" }),
        leaving("ops", { kind: "group", deletedOn: "2026-11-21T10:00:00.000Z" }),
      ],
    },
    { sync: "quiet", target: "grafana", leavers: [] },
    ...["other", "third"].map((sync) => {
      return {
        sync,
        target: "slack",
        error: { message: "another run is under way", problems: [], advice: "retry" },
      } as const;
    }),
  ];
  const text = textOf(leavers({ now, syncs }).toString());
  expect(text).toContain("staff 3 users and 1 group in grafana");
  expect(text).toMatch(/eve in grace 1 day ago by the next run in 10 days 2026-12-01/);
  expect(text).toMatch(/bob suspended 1 day ago (?:– )?in 29 days/);
  expect(text).toMatch(/kim suspended 1 day ago (?:– )?never/);
  expect(text).toMatch(/ops in grace 1 day ago (?:– )?by the next run/);
  expect(text).toContain("Nobody is in grace or suspended by quiet.");
  expect(text).toContain("other , third : another run is under way.");
  expect([...leaversCsv(syncs)].slice(1, 3)).toEqual([
    '"staff","user","eve","2026-11-20T12:00:00.000Z","grace","2026-11-21T11:00:00.000Z","2026-12-01T12:00:00.000Z"\n',
    '"staff","user","bob","2026-11-20T12:00:00.000Z","suspended",,"2026-12-20T12:00:00.000Z"\n',
  ]);
});

test("text from outside is harmless in it", () => {
  for (const text of hostile) {
    const syncs: readonly SyncLeavers[] = [
      { sync: text, target: text, leavers: [leaving(text)] },
      { sync: text, target: text, error: { message: text, problems: [], advice: "stop" } },
    ];
    const page = layout({ title: text, version: "1", section: "leavers" }, leavers({ now, syncs })).toString();
    expect(page).not.toMatch(/<script>|<img|onerror=alert\(1\)>/);
    expect(page.match(/<\/html>/g)).toHaveLength(1);
    expect(page).not.toMatch(/ style=| on[a-z]+="/);
  }
});
