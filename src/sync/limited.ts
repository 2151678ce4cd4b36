import { HeldError } from "#errors.ts";
import type { Plan } from "#plan/change.ts";
import type { Connection } from "#plan/database.ts";
import { checkLimits, measure, scopeOf, sizesOf } from "#plan/limits.ts";
import type { Amount, History, LimitCheck, Overridable, Measure, SourceSize } from "#plan/limits.ts";
import { createPlan } from "#plan/plan.ts";
import { describeCheck } from "#plan/render/limits.ts";
import { waitingFor, withhold } from "#plan/withhold.ts";
import type { Sync } from "./sync.ts";

/** A plan that was held against the limits of its sync. */
export interface LimitedPlan {
  readonly plan: Plan;
  readonly checks: readonly LimitCheck[];
  /** What is left out of the plan because of limits. Empty where a limit that is tripped holds the run. */
  readonly waiting: readonly Measure[];
  /** What the plan does. */
  readonly amounts: readonly Amount[];
  readonly sizes: readonly SourceSize[];
}

/**
 * Plans the difference between `actual` and `desired`, and holds it against the limits. Where those say so, what a limit
 * is about is taken out of `desired`, and the plan is what is left. Expects the tables of `makeDesired`.
 * @param options.unread names of sources that could not be read: nothing is concluded from how little they have
 */
export async function planWithinLimits(
  connection: Connection,
  { sources, limits }: Sync,
  options: {
    readonly unread: readonly string[];
    readonly history: History;
    readonly overrides: readonly Overridable[];
  },
): Promise<LimitedPlan> {
  const { unread, history, overrides } = options;
  const read = sources.map(({ name }) => name).filter((name) => !unread.includes(name));
  const sizes = await sizesOf(connection, read);
  const inScope = unread.length === 0 ? { inScope: await scopeOf(connection) } : {};
  const plan = await createPlan(connection);
  const amounts = await measure(connection);
  const checks = checkLimits(limits, { amounts, sizes, ...inScope, history, overrides });
  const waiting = limits.action === "hold" ? new Set<Measure>() : waitingFor(checks);
  if (waiting.size === 0) return { plan, checks, waiting: [], amounts, sizes };
  await withhold(connection, waiting);
  const rest = await createPlan(connection);
  return { plan: rest, checks, waiting: [...waiting], amounts: await measure(connection), sizes };
}

/** @throws {HeldError} naming every limit that is tripped, and how a person lets exactly this plan pass */
export function holdBeyondLimits(sync: Sync, { plan, checks }: LimitedPlan): void {
  if (sync.limits.action !== "hold") return;
  const tripped = checks.filter(({ tripped, overridden }) => tripped && !overridden);
  if (tripped.length === 0) return;
  const names = [...new Set(checks.filter((check) => check.tripped).map(({ limit }) => limit))];
  const holding = [...new Set(tripped.map(({ limit }) => limit))];
  throw new HeldError(
    `target ${sync.target.name}: held by ${holding.length === 1 ? "the limit" : "the limits"} ${holding.join(", ")}; nothing was applied`,
    [
      ...tripped.map(describeCheck),
      "look at the sources and the rules first; if it is meant, this applies exactly this plan: " +
        `rollcall apply ${sync.name} --override ${names.join(",")} --digest ${plan.digest}`,
    ],
  );
}
