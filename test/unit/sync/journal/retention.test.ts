import { describe, expect, test } from "vitest";
import { retain } from "#sync/journal/retention.ts";
import { endedRun } from "../../../support/runs.ts";

const day = 86_400_000;
const now = Date.parse("2026-11-21T12:00:00Z");
const ago = (days: number): string => new Date(now - days * day).toISOString();
const most = { keep: 90 * day, runs: 1000, lists: 20 };

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
    // What is open stays whatever is configured.
    expect(left(0)).toBe("5");
  });

  test("beyond the number of lists, the oldest are no longer kept; the runs stay", () => {
    const runs = ["1", "2", "3"].map((id) => endedRun({ id, state: "applied", kept: true }));
    const open = endedRun({ id: "0", state: "pending", kept: true });
    const left = retain([open, ...runs], { ...most, lists: 1 }, now);
    expect(left.map(({ id, kept }) => `${id}${kept ? "+" : ""}`)).toEqual(["0+", "1", "2", "3+"]);
  });
});
