import { describe, expect, test } from "vitest";
import type { Change } from "#plan/change.ts";
import type { LimitCheck, LimitName } from "#plan/limits.ts";
import type { RunState } from "#state/record.ts";
import { waitOf } from "#sync/explain/waits.ts";
import type { Status } from "#sync/explain/waits.ts";
import { endedRun, trippedLimit } from "../../../support/runs.ts";

const check = (limit: LimitName): LimitCheck => trippedLimit({ limit });
const status = (change: Partial<Status>): Status => ({
  sync: "staff",
  action: "apply-the-rest",
  approval: "automatic",
  checks: [],
  waiting: [],
  digest: "d1",
  runs: [],
  ...change,
});
const change = (action: Change["action"], rest: Partial<Change> = {}): Change => ({
  action,
  kind: "user",
  name: "ada",
  attributes: [],
  groupsAdded: [],
  groupsRemoved: [],
  ...rest,
});

describe("which limits a change is left out for", () => {
  const all = status({
    checks: (["deletes", "updates", "creates", "membershipsLost", "blanked"] as const).map(check),
    waiting: ["deletes", "updates", "creates", "membershipsLost", "blanked"],
  });
  const blanked = change("update", { attributes: [{ attribute: "mail", from: "a@example.com" }] });
  test.each([
    ["a creation", change("create"), undefined, ["creates"]],
    ["a deletion", change("delete"), undefined, ["deletes"]],
    [
      "of a group, which has members",
      { ...change("delete"), kind: "group" as const },
      undefined,
      ["deletes", "updates", "membershipsLost"],
    ],
    ["an attribute that becomes empty", blanked, undefined, ["updates", "blanked"]],
    [
      "a membership that is lost",
      change("update", { groupsRemoved: ["old"] }),
      undefined,
      ["deletes", "updates", "membershipsLost"],
    ],
    [
      "only the part of it that is left out counts",
      change("update", { groupsAdded: ["new", "there"], attributes: [{ attribute: "mail", to: "b@example.com" }] }),
      change("update", { groupsAdded: ["there"], attributes: [{ attribute: "mail", to: "b@example.com" }] }),
      ["updates", "creates"],
    ],
  ])("%s", (_, whole, rest, names) => {
    const wait = waitOf(whole, rest, all);
    expect(wait?.how).toBe("left out");
    expect(wait?.limits.map(({ limit }) => limit)).toEqual(names);
  });

  test("a source that has shrunk keeps what would be taken away, and nothing else", () => {
    const shrunk = status({ checks: [check("shrink")], waiting: ["deletes", "membershipsLost"] });
    expect(waitOf(change("delete"), undefined, shrunk)?.limits).toMatchObject([{ limit: "shrink" }]);
    expect(waitOf(change("create"), change("create"), shrunk)).toBeUndefined();
  });
});

describe("who must approve it", () => {
  const beyond = { action: "hold", checks: [check("updates")] } as const;
  test.each([
    ["nobody", {}, undefined],
    ["somebody, always", { approval: "required" }, "pending"],
    ["what is beyond the limits is held", beyond, "held"],
    ["also where somebody must always", { ...beyond, approval: "required" }, "held"],
    ["it waits for approval where limits ask for that", { ...beyond, approval: "automatic-within-limits" }, "pending"],
    ["within them it does not", { approval: "automatic-within-limits" }, undefined],
    ["somebody, for once", { caution: "ada has undone the run 1" }, "pending"],
  ] as const)("%s", (_, how, expected) => {
    const update = change("update", { groupsAdded: ["new"] });
    expect(waitOf(update, update, status(how))?.how).toBe(expected);
  });
});

test("it waits since the first run that found it so; failures and ways back say nothing of that, a success ends it", () => {
  const at = (id: string, state: RunState, rest = {}) =>
    endedRun({ id, state, startedAt: `2026-11-2${id}T00:00:00.000Z`, ...rest });
  const open = { expiresAt: "2026-12-01T00:00:00.000Z", digest: "d1" };
  const runs = [
    at("7", "pending", open),
    at("6", "failed"),
    at("5", "pending", { ...open, undoes: "0" }),
    at("4", "superseded"),
    at("3", "expired"),
    at("2", "applied"),
    at("1", "superseded"),
  ];
  const deletion = change("delete");
  expect(waitOf(deletion, deletion, status({ approval: "required", runs }))).toEqual({
    how: "pending",
    limits: [],
    reason: "approval: required",
    since: "2026-11-23T00:00:00.000Z",
    run: "7",
    action: "delete",
    expiresAt: open.expiresAt,
    next: ["rollcall show 7", "rollcall approve 7"],
  });
});
