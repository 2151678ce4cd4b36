import { describe, expect, test } from "vitest";
import { HeldError, UnavailableError } from "#errors.ts";
import { endedByError } from "#sync/coordinator/finish.ts";
import type { RunRecord } from "#state/record.ts";
import type { SyncSettings } from "#sync/coordinator/context.ts";
import {
  checkHasApplied,
  checkSameTarget,
  checkApprovable,
  checkStored,
  settingsOfRun,
} from "#sync/coordinator/refusals.ts";
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
      "it is superseded (2026-11-21T10:12:40.000Z), and the run q waits with the same plan",
    ],
    ["running", endedRun({ id: "r", state: "running" }), "it is running"],
    [
      "held by something else",
      endedRun({ id: "r", state: "held", heldBy: "opinions" }),
      "it is held, because the service does not agree with the plan",
    ],
  ])("not what is %s", (_, run, words) => {
    expect(() => {
      checkApprovable(run, {});
    }).toThrow(words);
  });

  test("another digest, and limits that are not named, say what to do", () => {
    expect(() => {
      checkApprovable(pending, { digest: "e".repeat(64) });
    }).toThrow(/the run r has another plan: its digest is d+, not e+; look at it again: `rollcall show r`/);
    const words = "the run r is held by limits; approve it despite them: `rollcall approve r --override deletes`";
    for (const overrides of [[], ["updates"]] as const)
      expect(() => {
        checkApprovable(held, { overrides });
      }).toThrow(words);
  });

  test("all limits that hold the plan must be named, of a plan that leaves changes out those that concern all of it", () => {
    const both: RunRecord = { ...held, limits: [trippedLimit(), trippedLimit({ limit: "updates" })] };
    const words = "the run r is held by limits; approve it despite them: `rollcall approve r --override";
    for (const overrides of [["deletes"], ["updates"]] as const)
      expect(() => {
        checkApprovable(both, { overrides });
      }).toThrow(`${words} deletes,updates`);
    checkApprovable(both, { overrides: ["updates", "deletes"] });
    const rest: RunRecord = {
      ...held,
      waiting: ["deletes"],
      limits: [trippedLimit(), trippedLimit({ limit: "drift" })],
    };
    expect(() => {
      checkApprovable(rest, {});
    }).toThrow(`${words} drift`);
    checkApprovable(rest, { overrides: ["drift"] });
  });

  test("a pending run, a held one with its limits named, and a part of a held one, whose limits are found out", () => {
    checkApprovable(pending, { digest });
    checkApprovable({ ...pending, limits: [trippedLimit()] }, {});
    checkApprovable(held, { overrides: ["deletes"] });
    checkApprovable(held, { selection: { only: ["create"] } });
    expect(() => {
      checkApprovable(held, { selection: { except: [] } });
    }).toThrow(/held by limits/);
  });

  test("not for another target than it was planned for", () => {
    const [here, there] = ["https://here.example", "https://there.example"];
    const check =
      (target: string, place: string, run: Partial<RunRecord>, what: "approved" | "undone" = "approved") =>
      (): void => {
        checkSameTarget({ ...pending, ...run }, { target, place }, what);
      };
    expect(check("analytics", there, {})).not.toThrow();
    expect(check("elsewhere", there, {})).toThrow(
      "it was for the target analytics, and staff has another one now (elsewhere); plan again: `rollcall plan staff`",
    );
    expect(check("elsewhere", there, { undoes: "q" })).toThrow(
      "; to undo the run q, give staff the target analytics again",
    );
    // The place decides where it is known: a target may have another name, and a name another target.
    expect(check("elsewhere", here, { place: here }, "undone")).not.toThrow();
    expect(check("analytics", there, { place: here }, "undone")).toThrow(
      "the run r cannot be undone: it was for the target analytics at https://here.example, and analytics is at https://there.example now; to undo it, give analytics that address again",
    );
  });

  test("nor of a sync that the configuration no longer has", () => {
    const settings = { target: "analytics" } as SyncSettings;
    const context = (name: string) => ({ syncs: () => ({ [name]: settings }), settingsOf: () => settings });
    expect(settingsOfRun(context("staff"), pending, "approved")).toBe(settings);
    expect(() => settingsOfRun(context("people"), pending, "approved")).toThrow(
      "the run r cannot be approved: the configuration no longer has the sync staff (it has people); put it back, or reject the run: `rollcall reject r`",
    );
    expect(() => settingsOfRun(context("people"), pending, "undone")).toThrow(/to undo the run, put the sync back$/);
  });
});

describe("what can be undone", () => {
  test("not what has applied nothing, nor where a list on the way is no longer kept", () => {
    expect(() => {
      checkHasApplied(pending);
    }).toThrow("the run r applied nothing (it is pending), so there is nothing to undo");
    const run = endedRun({ id: "r", state: "applied", kept: true });
    checkStored(run, [run]);
    expect(() => {
      checkStored(run, [run, endedRun({ id: "s", state: "applied" })]);
    }).toThrow("the changes of run s are no longer stored (see journal.lists in the configuration)");
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
