import { describe, expect, test } from "vitest";
import { HeldError, UnavailableError } from "#errors.ts";
import { endedByError } from "#sync/coordinator/finish.ts";
import type { RunRecord } from "#sync/record.ts";
import { refuseOtherTarget, refuseUnapprovable, refuseUndoing } from "#sync/coordinator/refusals.ts";
import { endedRun, trippedLimit } from "../../../support/runs.ts";

const digest = "d".repeat(64);
const pending = endedRun({ id: "r", state: "pending", digest, expiresAt: "2026-11-22T10:00:00.000Z" });
const held: RunRecord = { ...pending, state: "held", heldBy: "limits", limits: [trippedLimit()] };

describe("who can approve what", () => {
  test.each<[string, RunRecord, string]>([
    [
      "applied",
      endedRun({ id: "r", state: "applied" }),
      "the run r cannot be approved: it is applied (2026-11-21T10:12:40.000Z)",
    ],
    [
      "found before",
      endedRun({ id: "r", state: "superseded", sameAs: "q" }),
      "it is superseded (2026-11-21T10:12:40.000Z), and the run q stands for it.",
    ],
    ["running", endedRun({ id: "r", state: "running" }), "it is running"],
    [
      "held by something else",
      endedRun({ id: "r", state: "held", heldBy: "opinions" }),
      "it is held, because the service does not agree with the plan",
    ],
  ])("not what is %s", (_, run, words) => {
    expect(() => {
      refuseUnapprovable(run, {});
    }).toThrow(words);
  });

  test("another digest, and limits that are not named, say what to do", () => {
    expect(() => {
      refuseUnapprovable(pending, { digest: "e".repeat(64) });
    }).toThrow(/the run r has another plan: its digest is d+, not e+; look at it again: rollcall show r/);
    const words =
      "the run r is held by limits: name those that do not count for this plan: rollcall approve r --override deletes";
    for (const overrides of [[], ["updates"]] as const)
      expect(() => {
        refuseUnapprovable(held, { overrides });
      }).toThrow(words);
  });

  test("a pending run, a held one with its limits named, and a part of a held one, whose limits are found out", () => {
    refuseUnapprovable(pending, { digest });
    refuseUnapprovable({ ...pending, limits: [trippedLimit()] }, {});
    refuseUnapprovable(held, { overrides: ["deletes"] });
    refuseUnapprovable(held, { selection: { only: ["create"] } });
    expect(() => {
      refuseUnapprovable(held, { selection: { except: [] } });
    }).toThrow(/held by limits/);
  });

  test("not for another target than it was planned for", () => {
    refuseOtherTarget(pending, "analytics", "approved");
    expect(() => {
      refuseOtherTarget(pending, "elsewhere", "approved");
    }).toThrow("it was for the target analytics, and staff has another one now (elsewhere)");
  });
});

describe("what can be undone", () => {
  test("not what has applied nothing, nor where a list on the way is no longer kept", () => {
    expect(() => {
      refuseUndoing(pending, []);
    }).toThrow("the run r has applied nothing (it is pending): there is nothing to undo");
    const run = endedRun({ id: "r", state: "applied", kept: true });
    refuseUndoing(run, [run]);
    expect(() => {
      refuseUndoing(run, [run, endedRun({ id: "s", state: "applied" })]);
    }).toThrow("what the run s has changed is no longer kept (see journal.lists in the configuration)");
  });
});

describe("how an error ends a run", () => {
  const [at, expiresAt] = ["2026-11-21T11:00:00.000Z", "2026-11-22T11:00:00.000Z"];
  const away = new UnavailableError("the target does not answer");
  const approved = { decision: "approved", at, by: pending.by, digest } as const;

  test("what was being approved awaits that again, until the same time; not when its list was sent", () => {
    const running: RunRecord = { ...pending, state: "running", decisions: [approved] };
    const { state, expiresAt: until } = endedByError(running, away, at, expiresAt);
    expect({ state, until }).toEqual({ state: "pending", until: pending.expiresAt });
    expect(endedByError({ ...running, heldBy: "limits" }, away, at, expiresAt).state).toBe("held");
    expect(endedByError({ ...running, sentAt: at }, away, at, expiresAt)).toMatchObject({
      state: "failed",
      endedAt: at,
    });
  });

  test("what is held by limits can be approved; what is held for another reason has ended", () => {
    const running = endedRun({ id: "r", state: "running" });
    expect(endedByError(running, new HeldError("held", [], "limits"), at, expiresAt)).toMatchObject({
      state: "held",
      expiresAt,
    });
    const ended = endedByError(running, new HeldError("held", [], "digest"), at, expiresAt);
    expect(ended).toMatchObject({ state: "held", heldBy: "digest", endedAt: at });
    expect(ended.expiresAt).toBeUndefined();
  });
});
