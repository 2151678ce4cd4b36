import { countValues } from "#connector.ts";
import type { ReadContext, ValueCounts } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import type { Options } from "./options.ts";

/** What a read counts, and reports as counted. */
export const countNames = ["users", "groups", "memberships"] as const;
export type Counts = Record<(typeof countNames)[number], number>;

const settings = { users: "minUsers", groups: "minGroups", memberships: "minMemberships" } as const;

/**
 * A server that lost sight of something says so by success and less. Where the configuration does not say how much there
 * is at least, the last good read does.
 * @throws {IncompleteReadError} there is less
 */
export function assertEnough(
  counts: Counts,
  options: Options,
  subject: string,
  last: ReadContext["lastCounts"] = {},
): void {
  const hasGroups = counts.groups > 0;
  const first: Counts = { users: 1, groups: 0, memberships: hasGroups ? 1 : 0 };
  for (const name of countNames) {
    const setting = settings[name];
    const configured = options[setting];
    // Without groups, and that is right, nobody can be in one.
    if (name === "memberships" && !hasGroups && configured === undefined) continue;
    const found = counts[name];
    const before = last[name] ?? 0;
    const least = configured ?? Math.max(first[name], leastAfter(before));
    if (found >= least) continue;
    const number = found.toLocaleString("en");
    if (configured !== undefined)
      throw new IncompleteReadError(`${subject}: ${number} ${name}, expected at least ${configured} (${setting})`);
    if (before > 0) {
      throw new IncompleteReadError(
        `${subject}: ${number} ${name}, and ${before.toLocaleString("en")} at the last good read; if that is right, set ${setting}: ${found}`,
      );
    }
    if (name === "users") throw new IncompleteReadError(`${subject}: ${number} users, expected at least 1 (minUsers)`);
    const isApart = options.groups !== false && options.groups.members === "each";
    const hint = isApart ? "" : "a server that leaves members out of lists needs groups: { members: each }; ";
    throw new IncompleteReadError(
      `${subject}: no group has a member, and no user is in a group; ${hint}if all groups are empty, set minMemberships: 0`,
    );
  }
}

/** What counts the attributes that rules name, of users and of groups. */
export function valueCountsOf({ users, groups }: Options, context: ReadContext): readonly ValueCounts[] {
  const of = (kind: Kind, part: Options["users"]): ValueCounts => {
    const names = [context.required, context.attributes].flatMap((wanted) => wanted?.[`${kind}s`] ?? []);
    return countValues(kind, names, context, new Set(part.optionalAttributes));
  };
  return [of("user", users), ...(groups === false ? [] : [of("group", groups)])];
}

/**
 * A token that lost a scope may leave an attribute out of every resource.
 * @throws {IncompleteReadError} an attribute that rules read had values at the last good read, and has none
 */
export function assertValues(values: readonly ValueCounts[], subject: string): void {
  for (const each of values) {
    const [name] = each.end();
    if (name === undefined) continue;
    throw new IncompleteReadError(
      `${subject}: no record has entry.${name}, and ${each.before(name).toLocaleString("en")} had it at the last good read; if no record has it, list it under optionalAttributes`,
    );
  }
}

/** Below this, half of them may well leave at a time. */
const fewEnough = 20;

/** What is believed without being configured, where the last good read counted so many: one, and of 20 or more the half. */
function leastAfter(before: number): number {
  return before < fewEnough ? Math.min(before, 1) : Math.ceil(before / 2);
}
