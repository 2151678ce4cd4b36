import type { Counts, KindCounts } from "#plan/change.ts";
import type { Fact } from "#plan/render/shared.ts";
import { formatNumber } from "#text.ts";
import type { Selection, Subject } from "#plan/selection.ts";
import { actorWords, stateName } from "#state/record.ts";
import type { Decision, RunRecord, StateName } from "#state/record.ts";

/** The colour of each state. */
export const tones: Readonly<Record<StateName, NonNullable<Fact["tone"]> | undefined>> = {
  running: undefined,
  pending: "waiting",
  held: "bad",
  "no change": "good",
  applied: "good",
  failed: "bad",
  rejected: undefined,
  superseded: undefined,
  expired: "waiting",
  cancelled: undefined,
};

/** The same at a terminal. */
export const toneStyles = { good: "green", bad: "red", waiting: "yellow" } as const;

/** The state of a run: `held by limits`. */
export function stateOf(run: Pick<RunRecord, "state" | "heldBy" | "cancelled">): string {
  return run.heldBy === undefined || run.state !== "held" ? stateName(run) : `held by ${run.heldBy}`;
}

/** Why a run began, and for whom: `schedule`, `on demand by ada (command line)`. */
export function causeOf({ cause, by }: Pick<RunRecord, "cause" | "by">): string {
  if (by.name === "rollcall") return cause;
  return cause === "demand" ? `on demand by ${actorWords(by)}` : `${cause}, by ${actorWords(by)}`;
}

/** The counts of a plan in short: `users +3 ~1 −2, groups +1`. */
export function shortCounts({ users, groups }: Counts): string {
  const parts = (
    [
      ["users", users],
      ["groups", groups],
    ] as const
  ).flatMap(([name, kind]) => {
    const signs = signsOf(kind);
    return signs === "" ? [] : [`${name} ${signs}`];
  });
  return parts.join(", ");
}

function signsOf(kind: KindCounts): string {
  const parts = [
    ["+", kind.create],
    ["~", kind.update],
    ["‖", kind.suspend ?? 0],
    ["↺", kind.reactivate ?? 0],
    ["−", kind.delete],
  ] as const;
  return parts.flatMap(([sign, count]) => (count === 0 ? [] : [`${sign}${formatNumber(count)}`])).join(" ");
}

/** What somebody decided: `approved by ada (command line), overriding deletes; only create`. */
export function decisionWords({ decision, by, overrides = [], selection, reason }: Decision): string {
  return [
    `${decision} by ${actorWords(by)}`,
    ...(overrides.length === 0 ? [] : [`overriding ${overrides.join(", ")}`]),
    ...selectionWords(selection),
    ...(reason === undefined ? [] : [`because: ${reason}`]),
  ].join("; ");
}

/** Which part of a plan is selected; empty for all of it. */
export function selectionWords({ only, except = [], these, onlyCauses, exceptCauses = [] }: Selection = {}): string[] {
  return [
    ...(onlyCauses === undefined ? [] : [`only what ${onlyCauses.join(", ")} explains`]),
    ...(exceptCauses.length === 0 ? [] : [`all but what ${exceptCauses.join(", ")} explains`]),
    ...(only === undefined ? [] : [`only ${only.join(", ")}`]),
    ...(these === undefined ? [] : [`only ${namesOf(these)}`]),
    ...(except.length === 0 ? [] : [`all but ${namesOf(except)}`]),
  ];
}

function namesOf(subjects: readonly Subject[]): string {
  return subjects.map(({ kind, name }) => `${kind} ${name}`).join(", ");
}

/** How long a run worked, in milliseconds, once it has ended: without the time it waited for a person or a process. */
export function tookOf({ stages, endedAt }: Pick<RunRecord, "stages" | "endedAt">): number | undefined {
  return endedAt === undefined ? undefined : stages.reduce((sum, { milliseconds = 0 }) => sum + milliseconds, 0);
}
