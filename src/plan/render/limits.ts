import type { LimitCheck } from "#plan/limits.ts";
import { number, visible } from "#text.ts";

/** A limit and what it says of a plan, as a line: `deletes: 40 users, at most 10 (10% of 100)`. */
export function describeCheck(check: LimitCheck): string {
  const { limit, of, value, earlier, bound, basis } = check;
  const before = earlier === 0 ? "" : ` in 24 hours, ${number(earlier)} of them already`;
  const counted = visible(value === 1 ? of.replace(/^([a-z]+)s\b/, "$1") : of);
  const [most, what] =
    limit === "minUsers" || limit === "minGroups"
      ? ["at least", counted]
      : ["at most", limit === "shrink" ? `${counted} fewer than before` : counted];
  return `${limit}: ${number(value)} ${what}${before}, ${most} ${number(bound)} (${basis})`;
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
