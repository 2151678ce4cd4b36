import { setImmediate } from "node:timers/promises";
import type { Action, Change, Counts, KindCounts, Part, Plan } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { formatNumber, visible } from "#text.ts";

/** How much of a plan is shown, and what is said beside it. */
export interface RenderOptions {
  /** What is planned: the sync and its target. */
  readonly title: string;
  /** How many changes of each section are shown; 20 when absent, `Infinity` for all. */
  readonly limit?: number | undefined;
  /** What the limits say of it. */
  readonly limits?: readonly LimitCheck[] | undefined;
  /** What a person should know beside the changes, a line each. */
  readonly notes?: readonly string[] | undefined;
  /** What is said of principals; that they are created, updated and deleted when absent. */
  readonly words?: Words | undefined;
  /** What is known of the plan itself: how the run stands that made it. Comes before everything else. */
  readonly facts?: readonly Fact[] | undefined;
  /** What is said where a plan has changes, and none of them is among those to be shown. */
  readonly nothing?: string | undefined;
}

/** Something with a name, for a person. */
export interface Fact {
  readonly label: string;
  readonly lines: readonly string[];
  /** How it is to be felt about. */
  readonly tone?: "good" | "bad" | "waiting" | undefined;
}

/** What an action does, as it is said of principals: `created`. */
export type Words = Readonly<Record<Action, string>>;

export const usualWords: Words = { delete: "deleted", create: "created", update: "updated" };

/** The changes of one action on one kind, as they are shown: deletions first, since they are what is feared. */
export interface Section extends Part {
  /** `Deleted users`. */
  readonly heading: string;
  readonly count: number;
  /** The count for a person: `27`, or `3 of 27` where only some are chosen. */
  readonly total: string;
}

/** The sections of a plan that are not empty. */
export function sectionsOf({ counts, shown = counts }: Pick<Plan, "counts" | "shown">, words = usualWords): Section[] {
  return (["delete", "create", "update"] as const).flatMap((action) =>
    (["user", "group"] as const).flatMap((kind) => {
      const [count, whole] = [shown[`${kind}s`][action], counts[`${kind}s`][action]];
      const heading = `${words[action].charAt(0).toUpperCase()}${words[action].slice(1)} ${kind}s`;
      const total = count === whole ? formatNumber(count) : `${formatNumber(count)} of ${formatNumber(whole)}`;
      return count === 0 ? [] : [{ action, kind, heading, count, total }];
    }),
  );
}

/** Whether a plan would change anything at all, whatever of it is shown. */
export function isEmpty({ users, groups }: Counts): boolean {
  return [users, groups].every((kind) => kind.create + kind.update + kind.delete === 0);
}

/** How much of what there is a plan deletes: the number that a mass deletion shows in. */
export function share(kind: KindCounts): string {
  if (kind.delete === 0 || kind.before === 0) return "";
  const percent = (kind.delete / kind.before).toLocaleString("en", { style: "percent", maximumSignificantDigits: 2 });
  return ` (${percent} of ${formatNumber(kind.before)})`;
}

/** Up to `limit` changes of a section. Reads no more than that. */
export async function* changesOf(plan: Plan, section: Section, limit = 20): AsyncIterable<Change> {
  let shown = 0;
  if (limit <= 0) return;
  for await (const change of plan.changes(section)) {
    yield change;
    if (++shown >= limit) return;
  }
}

/** The pieces of a long text, put together to pieces worth a write. Between two of them others have their turn. */
export async function* inChunks(pieces: AsyncIterable<string>): AsyncIterable<string> {
  let chunk = "";
  for await (const piece of pieces) {
    chunk += piece;
    if (chunk.length < 32_768) continue;
    yield chunk;
    chunk = "";
    await setImmediate();
  }
  if (chunk !== "") yield chunk;
}

/** A limit and what it says of a plan, as a line: `deletes: 40 users, at most 10 (10% of 100)`. */
export function describeCheck(check: LimitCheck): string {
  const { limit, of, value, earlier, bound, basis } = check;
  const before = earlier === 0 ? "" : ` in 24 hours, ${formatNumber(earlier)} of them already`;
  const counted = visible(value === 1 ? of.replace(/^([a-z]+)s\b/, "$1") : of);
  const [most, what] =
    limit === "minUsers" || limit === "minGroups"
      ? ["at least", counted]
      : ["at most", limit === "shrink" ? `${counted} fewer than before` : counted];
  return `${limit}: ${formatNumber(value)} ${what}${before}, ${most} ${formatNumber(bound)} (${basis})`;
}

/** What is said of a limit beside that: whether it holds something up. */
export function verdictOf({ tripped, overridden }: LimitCheck): "tripped" | "overridden" | "within" {
  if (!tripped) return "within";
  return overridden ? "overridden" : "tripped";
}

/** The limits worth a line of their own: those that a plan comes near to at all. */
export function worthShowing(checks: readonly LimitCheck[]): LimitCheck[] {
  return checks.filter(({ value, tripped, limit }) => tripped || (value > 0 && !limit.startsWith("min")));
}
