import { setImmediate } from "node:timers/promises";
import { actionsOf, byDanger, changes, countOf, usualWords } from "#plan/change.ts";
import type { Change, Counts, KindCounts, Part, Plan, Words } from "#plan/change.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import { amountOf, describeCause } from "#plan/causes.ts";
import type { Cause } from "#plan/causes.ts";
import { expectationOf, isExpectation } from "#plan/limits.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import type { ExpectationLimit, LimitCheck, LosingGroup, Measure, Overridable } from "#plan/limits.ts";
import { formatNumber, formatPrincipals, formatSizes, pluralize, quote, shortName, visible } from "#text.ts";
import type { Note } from "#plan/note.ts";

/** The formats of a report. */
export const planFormats = ["text", "json", "markdown", "html", "csv"] as const;
export type PlanFormat = (typeof planFormats)[number];

/** How much of a plan is shown, and the facts shown with it. */
export interface RenderOptions {
  /** The sync and its target. */
  readonly title: string;
  /** How many changes of each section are shown; 20 when absent, `Infinity` for all. */
  readonly limit?: number | undefined;
  /** The checks of its limits. */
  readonly limits?: readonly LimitCheck[] | undefined;
  /** The sync's expectations. */
  readonly expectations?: readonly ExpectationCheck[] | undefined;
  /** What a person should know besides the changes, a line each. */
  readonly notes?: readonly Note[] | undefined;
  /** Why the changes are there, those that explain most first. */
  readonly causes?: readonly Cause[] | undefined;
  /** Principals gone from the sources and still in their grace period. */
  readonly leaving?: LeavingCounts | undefined;
  /** What happens to principals; `created`, `updated` and `deleted` when absent. */
  readonly words?: Words | undefined;
  /** About the plan itself, such as the state of its run. Shown first. */
  readonly facts?: readonly Fact[] | undefined;
  /** Shown when the plan has changes, but none of those that were selected. */
  readonly nothing?: string | undefined;
}

/** A labelled fact for a person. */
export interface Fact {
  readonly label: string;
  readonly lines: readonly string[];
  /** Decides its colour. */
  readonly tone?: "good" | "bad" | "waiting" | undefined;
}

/** The changes of one action on one kind. Deletions come first, since people fear them most. */
export interface Section extends Part {
  /** `Deleted users`. */
  readonly heading: string;
  readonly count: number;
  /** The count for a person: `27`, or `3 of 27` where only some are selected. */
  readonly total: string;
}

/** How many causes are shown. */
const causesShown = 8;

/** The causes as lines, `rest` more of them; none where there is nothing to tell. */
export function causeLines(causes: readonly Cause[] = []): {
  readonly lines: readonly string[];
  readonly rest: number;
} {
  if (causes.every(({ kind }) => kind === "first")) return { lines: [], rest: 0 };
  const shown = causes.slice(0, causesShown);
  const [ids, amounts] = [shown.map(({ id }) => id.length), shown.map((cause) => amountOf(cause).length)];
  const [idWidth, amountWidth] = [Math.max(...ids), Math.max(...amounts)];
  const lines = shown.map((cause) => {
    const { id, example, users, groups } = cause;
    const such = users + groups > 1 ? `, such as ${shortName(example.name)}` : `: ${shortName(example.name)}`;
    return `${id.padEnd(idWidth)}  ${amountOf(cause).padStart(amountWidth)}  ${visible(describeCause(cause))}${such}`;
  });
  return { lines, rest: causes.length - shown.length };
}

/** The text with a capital letter at its start. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The sections of a plan that are not empty. */
export function sectionsOf({ counts, shown = counts }: Pick<Plan, "counts" | "shown">, words = usualWords): Section[] {
  return byDanger.flatMap((action) =>
    (["user", "group"] as const).flatMap((kind) => {
      const [count = 0, whole = 0] = [shown[`${kind}s`][action], counts[`${kind}s`][action]];
      const heading = `${capitalized(words[action])} ${kind}s`;
      const total = count === whole ? formatNumber(count) : `${formatNumber(count)} of ${formatNumber(whole)}`;
      return count === 0 ? [] : [{ action, kind, heading, count, total }];
    }),
  );
}

/** What decides about those who leave: as long as a limit holds them, they only would. */
type Departing = Pick<RenderOptions, "leaving" | "limits">;

/** A plan in one line: `12 users and 3 groups created, 1 user updated, 3 memberships added and 2 removed`. */
export function totalsOf(
  counts: Counts,
  { words = usualWords, ...departing }: Pick<RenderOptions, "words"> & Departing = {},
): string {
  const { users, groups, membershipsAdded, membershipsRemoved } = counts;
  const parts = actionsOf(counts).flatMap((action) =>
    countOf(counts, action) > 0
      ? [`${formatPrincipals(users[action] ?? 0, groups[action] ?? 0)} ${words[action]}`]
      : [],
  );
  const [added, removed] = [pluralize(membershipsAdded, "membership"), pluralize(membershipsRemoved, "membership")];
  if (membershipsAdded > 0 && membershipsRemoved > 0)
    parts.push(`${added} added and ${formatNumber(membershipsRemoved)} removed`);
  else if (membershipsAdded > 0) parts.push(`${added} added`);
  else if (membershipsRemoved > 0) parts.push(`${removed} removed`);
  const { leaving } = departing;
  if (leaving === undefined) return parts.join(", ") || "no change";
  return [...(parts.length === 0 ? [] : [parts.join(", ")]), leavingWords(leaving, areHeld(departing))].join("; ");
}

/** A plan without changes in one line, with those who are on their way out: they are what it is about, if there are any. */
export function noChange({ users, groups }: Counts, departing: Departing): string {
  const { leaving } = departing;
  const sizes = formatSizes(users.after, groups.after);
  if (leaving === undefined) return `no change (${sizes})`;
  return `${leavingWords(leaving, areHeld(departing))} (${sizes} now)`;
}

function areHeld({ limits = [] }: Departing): boolean {
  return limits.some((check) => verdictOf(check) === "tripped");
}

/**
 * `352 users will leave, the first on 22 December 2026`; all on one day: `352 users will leave on 22 December 2026`.
 * @param held a limit holds the plan by which they leave, so they only would
 */
export function leavingWords({ users, groups, first, days = [] }: LeavingCounts, held = false): string {
  const isOneDay = users + groups === 1 || (days.length === 1 && days[0]?.users === users && days[0].groups === groups);
  return `${formatPrincipals(users, groups)} ${held ? "would" : "will"} leave${isOneDay ? "" : ", the first"} on ${dayOf(first)}`;
}

/** `22 December 2026`, in UTC. @param iso ISO 8601 */
function dayOf(iso: string): string {
  return new Date(iso).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });
}

/** Whether a plan would change anything at all, whatever of it is shown. */
export function isEmpty(counts: Counts): boolean {
  return changes(counts) === 0;
}

/** The share that a plan deletes: the number that shows a mass deletion. */
export function share(kind: KindCounts): string {
  if (kind.delete === 0 || kind.before === 0) return "";
  const percent = (kind.delete / kind.before).toLocaleString("en", { style: "percent", maximumSignificantDigits: 2 });
  return ` (${percent} of ${formatNumber(kind.before)})`;
}

/** Up to `limit` changes of a section. Reads no more than that. */
export async function* changesOf(plan: Plan, section: Section, limit = 20): AsyncIterable<Change> {
  let shown = 0;
  if (limit <= 0) return;
  for await (const change of plan.changes(section, limit)) {
    yield change;
    if (++shown >= limit) return;
  }
}

/** Joins the pieces of a long text into chunks worth a write, and yields the event loop between two of them. */
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

/** What limits are called in sentences and on meters; the configuration and `--override` have their keys. */
const limitWords: Readonly<Record<Exclude<Overridable, ExpectationLimit>, string>> = {
  deletes: "deletions",
  suspends: "suspensions",
  updates: "updates",
  creates: "creations",
  membershipsLost: "memberships lost",
  "membershipsLost.perGroup": "groups losing members",
  emptied: "groups emptied",
  blanked: "values removed",
  shrink: "shrinkage",
  quarantined: "quarantined records",
  heldNames: "held names",
  drift: "drift",
  pushed: "pushed losses",
  minUsers: "remaining users",
  minGroups: "remaining groups",
  renames: "renames",
  reusedNames: "reused names",
};

/** A limit where a person reads: `deletions`; an expectation by its name. */
export function limitName(limit: Overridable): string {
  return isExpectation(limit) ? (expectationOf(limit) ?? limit) : (limitWords[limit] ?? limit);
}

/** Limits by their names: `the limits on deletions, updates and the expectation "badges"`. */
export function nameLimits(limits: readonly Overridable[]): string {
  const all = [...new Set(limits)];
  const others = all.filter((limit) => !isExpectation(limit));
  const expectations = all.flatMap((limit) => expectationOf(limit) ?? []).map(quote);
  return [...severally("limit", others.map(limitName), " on"), ...severally("expectation", expectations)].join(" and ");
}

/** What limits have left out of a plan: `because of the limits, these wait: deletions`. */
export function waitingWords(waiting: readonly Measure[]): string {
  return `because of the limits, these wait: ${waiting.map((each) => wordsOfWaiting[each]).join(", ")}`;
}

const wordsOfWaiting: Record<Measure, string> = {
  deletes: "deletions",
  suspends: "suspensions",
  updates: "changes to existing users and groups",
  creates: "creations",
  membershipsLost: "losses of memberships",
  "membershipsLost.perGroup": "the members that single groups would lose",
  emptied: "the members of groups that would lose all",
  blanked: "attributes that become empty",
};

function severally(one: string, names: readonly string[], on = ""): string[] {
  return names.length === 0 ? [] : [`the ${one}${names.length === 1 ? "" : "s"}${on} ${names.join(", ")}`];
}

/** The check of a limit as a line, by its key, which a command takes: `deletes: 40 users, at most 10 (10% of 100)`. */
export function describeCheck(check: LimitCheck): string {
  return checkLine(check, check.limit);
}

/** The same, for pages: `Deletions: 40 users, at most 10 (10% of 100)`. */
export function describeCheckInWords(check: LimitCheck): string {
  return checkLine(check, capitalized(limitName(check.limit)));
}

function checkLine(check: LimitCheck, called: string): string {
  const { limit, of, value, earlier, bound, basis, groups = [] } = check;
  const expectation = expectationOf(limit);
  if (expectation !== undefined)
    return `expectation ${quote(expectation)}: ${
      of === "counts"
        ? `${visible(basis)} is not true`
        : `${formatNumber(value)} ${value === 1 ? `${of.slice(0, -1)} breaks` : `${of} break`} it, at most ${formatNumber(bound)} may`
    }`;
  const before = earlier === 0 ? "" : ` ${earlierWords(check)}`;
  const counted = visible(value === 1 ? of.replace(/^([a-z]+)s\b/, "$1") : of);
  const [most, what] =
    limit === "minUsers" || limit === "minGroups"
      ? ["at least", counted]
      : ["at most", limit === "shrink" ? `${counted} fewer than before` : counted];
  return `${called}: ${formatNumber(value)} ${what}${before}, ${most} ${formatNumber(bound)} (${basis})${losingWords(groups, value - earlier)}`;
}

/** How much of what a limit counts was applied before the plan; not empty, where there is any. */
export function earlierWords({ value, earlier }: Pick<LimitCheck, "value" | "earlier">): string {
  return `in 24 hours, ${earlier === value ? "none in this plan" : `${formatNumber(earlier)} of them already`}`;
}

/** How many groups a line names. */
const groupsNamed = 5;

/** The groups of a limit: `: Finance loses 40 of 50, Sales 12 of 20 and 3 more`. */
export function losingWords(groups: readonly LosingGroup[], count: number): string {
  if (groups.length === 0) return "";
  const shown = groups.slice(0, groupsNamed).map(({ name, lost, members }, place) => {
    const loses = place === 0 ? " loses" : "";
    return `${shortName(name)}${loses} ${lost === members ? "all" : `${formatNumber(lost)} of`} ${formatNumber(members)}`;
  });
  const more = count - shown.length;
  return `: ${shown.join(", ")}${more > 0 ? ` and ${formatNumber(more)} more` : ""}`;
}

/** Whether the limit holds the plan. */
export function verdictOf({ tripped, overridden }: LimitCheck): "tripped" | "overridden" | "within" {
  if (!tripped) return "within";
  return overridden ? "overridden" : "tripped";
}

/** The checks worth a line: those that count anything at all. Expectations have lines of their own. */
export function worthShowing(checks: readonly LimitCheck[]): LimitCheck[] {
  return checks.filter(
    ({ value, tripped, limit }) => !isExpectation(limit) && (tripped || (value > 0 && !limit.startsWith("min"))),
  );
}
