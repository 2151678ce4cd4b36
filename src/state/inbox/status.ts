import { formatNumber, pluralize } from "#text.ts";
import type { EventKind, Loss, Lost, Pushes, StoredEvent } from "./events.ts";
import type { InboxReader } from "./reader.ts";
import { sumOf } from "./events.ts";
import { isoOf } from "#times.ts";

/** The inbox of a source, as it is configured. Durations are in milliseconds. */
export interface InboxSettings {
  /** Tokens that the configuration has. */
  readonly tokens: readonly string[];
  /** It is read once nothing has come for so long; after `maxWait` anyway. */
  readonly settle: number;
  readonly maxWait: number;
  /** Nobody is absent before no new user has come for so long. */
  readonly firstCycle: number;
  /** What may be lost within a time. False: anything. */
  readonly brakes: false | Brakes;
  /** What would trip a brake is refused. */
  readonly refuse: boolean;
  /** Of each token. */
  readonly requestsPerSecond: number;
  readonly allowPlainHttp: boolean;
}

/**
 * Finds out whose token it is, and counts the request.
 * @param token undefined: the request has none
 * @param address of the client
 * @returns the id of the token, or what to answer; `retryAfter` in seconds
 */
export type Admit = (
  source: string,
  token: string | undefined,
  address: string,
) => Promise<
  { readonly token: string } | { readonly status: 401 } | { readonly status: 429; readonly retryAfter: number }
>;

/** How much may be lost within the window, in milliseconds. An absent bound does not apply. */
export interface Brakes extends Readonly<Partial<Record<Loss, LossBound | undefined>>> {
  readonly window: number;
}

/** How much may be lost, absolutely or of all there is. */
export interface LossBound {
  readonly count?: number | undefined;
  readonly percent?: number | undefined;
}

/** What a brake is about. */
export interface BrakedLoss extends Pick<Lost, "loss" | "of"> {
  readonly lost: number;
  /** The most that may be lost, and why that is so: `10% of 500`. */
  readonly most: number;
  readonly basis: string;
  /** `okta (400), a token that was revoked (2)`. */
  readonly pushers: string;
}

/** How far earlier runs have come, in epoch milliseconds: pushes until then. */
export interface SeenPushes {
  /** At the last good read. Absent: there was none. */
  readonly read?: number | undefined;
  /** A person has let pass what was lost until then. */
  readonly accepted?: number | undefined;
}

/** What a run must know of a source that providers push to. */
export interface Pushed {
  /** When something was pushed last, in epoch milliseconds. */
  readonly until: number;
  /** Present: nobody is gone because the inbox does not have them, before this time at least (epoch milliseconds). */
  readonly firstCycleUntil?: number | undefined;
  readonly losses: readonly BrakedLoss[];
  /** How many users were reactivated since the last good read, and still are. */
  readonly restored: number;
}

/** In a small company one person is many percent: so many may always go, but never more than half. */
const floor = 10;

function mostLost({ count, percent = 0 }: LossBound, base: number): Pick<BrakedLoss, "most" | "basis"> {
  if (count !== undefined) return { most: count, basis: "as configured" };
  const share = Math.floor((base * percent) / 100 + 1e-9);
  const half = Math.floor(base / 2);
  const whole = formatNumber(base);
  if (share >= Math.min(floor, half)) return { most: share, basis: `${percent}% of ${whole}` };
  return half < floor
    ? { most: half, basis: `half of ${whole}; the floor of ${floor} would be more` }
    : { most: floor, basis: `${percent}% of ${whole} is less than the floor` };
}

/** What a brake counts, in a line for people. */
export function brakeLine({ loss, of, lost, most, basis, pushers }: BrakedLoss): string {
  return `brake ${loss}: ${pluralize(lost, of.replace(/s$/, ""))}, at most ${formatNumber(most)} (${basis}); pushed with ${pushers}`;
}

/** What was lost since a time, that excluded, and is bounded by a brake. */
export async function brakedLosses(
  inbox: InboxReader,
  { brakes }: Pick<InboxSettings, "brakes">,
  since: number,
): Promise<BrakedLoss[]> {
  if (brakes === false) return [];
  const names = new Map((await inbox.tokens()).map(({ id, name }) => [id, name]));
  return (await inbox.lost(since)).flatMap(({ loss, of, by, base }) => {
    const bound = brakes[loss];
    return bound === undefined
      ? []
      : [{ loss, of, lost: sumOf(by), ...mostLost(bound, base), pushers: pushersOf(by, names) }];
  });
}

const revoked = "a token that was revoked";

function pushersOf(by: readonly Pushes[], names: ReadonlyMap<string, string>): string {
  return by.map(({ token, amount }) => `${names.get(token) ?? revoked} (${formatNumber(amount)})`).join(", ");
}

/** What was pushed, for a run. Losses count that no run has read, and those of the window, as far as nobody has let them pass. */
export async function pushedSince(
  inbox: InboxReader,
  settings: Pick<InboxSettings, "brakes" | "firstCycle">,
  { read, accepted = 0 }: SeenPushes,
  now: number,
): Promise<Pushed> {
  const { brakes } = settings;
  const { last = 0 } = await inbox.activity();
  const window = brakes === false ? 0 : brakes.window;
  // The last push is earlier only where the clock was set back since: nobody knows what of that was let pass.
  const passed = accepted <= last ? accepted : 0;
  const since = Math.max(passed, Math.min(read ?? Infinity, now - window));
  return {
    until: last,
    firstCycleUntil: await firstCycleUntil(inbox, settings, now),
    losses: await brakedLosses(inbox, settings, since),
    restored: await inbox.restored(read ?? since),
  };
}

/** When the first cycle ends if no new user comes. Undefined: it is over. */
export async function firstCycleUntil(
  inbox: InboxReader,
  { firstCycle }: Pick<InboxSettings, "firstCycle">,
  now: number,
): Promise<number | undefined> {
  const end = (await inbox.firstCycleEnd(firstCycle)) ?? now + firstCycle;
  return end <= now ? undefined : end;
}

/** When it may be read if nothing more comes, or at the latest; in epoch milliseconds. */
export async function readyAt(
  inbox: InboxReader,
  { settle, maxWait }: Pick<InboxSettings, "settle" | "maxWait">,
  now: number,
): Promise<number> {
  const since = await inbox.restlessSince(settle, now);
  if (since === undefined) return now;
  const { last = now } = await inbox.activity();
  return Math.min(last + settle, since + maxWait);
}

/** How an inbox stands, for people. Times are ISO 8601. */
export interface InboxStatus {
  readonly source: string;
  readonly users: number;
  readonly groups: number;
  /** When something was pushed for the first time, and last. Absent: never. */
  readonly first?: string | undefined;
  readonly last?: string | undefined;
  /** Present: a run waits until then, if nothing more comes. */
  readonly waitsUntil?: string | undefined;
  /** Present: nobody is deleted for being absent before then. Absent also where nothing was pushed. */
  readonly firstCycleUntil?: string | undefined;
  /** What brakes count now, of the window. */
  readonly losses: readonly BrakedLoss[];
  readonly tokens: readonly ListedInboxToken[];
}

/** A token as everybody may see it who manages them: without itself. Times are ISO 8601. */
export interface ListedInboxToken {
  readonly id: string;
  readonly name: string;
  readonly created: string;
  /** Absent: never. */
  readonly used?: string | undefined;
}

export async function inboxStatus(
  inbox: InboxReader,
  source: string,
  settings: InboxSettings,
  now: number,
): Promise<InboxStatus> {
  const { brakes } = settings;
  const { first, last } = await inbox.activity();
  const ready = await readyAt(inbox, settings, now);
  return {
    source,
    users: await inbox.count("user"),
    groups: await inbox.count("group"),
    first: isoOf(first),
    last: isoOf(last),
    waitsUntil: ready <= now ? undefined : isoOf(ready),
    firstCycleUntil: last === undefined ? undefined : isoOf(await firstCycleUntil(inbox, settings, now)),
    losses: brakes === false ? [] : await brakedLosses(inbox, settings, now - brakes.window),
    tokens: await listedInboxTokens(inbox),
  };
}

export async function listedInboxTokens(inbox: InboxReader): Promise<ListedInboxToken[]> {
  return (await inbox.tokens()).map(({ id, name, created, used }) => ({
    id,
    name,
    created: new Date(created).toISOString(),
    used: isoOf(used),
  }));
}

/** What was pushed lately, for people. */
export interface RecentPushes {
  /** How many principals and memberships each kind of event had within a day. */
  readonly counts: Partial<Readonly<Record<EventKind, number>>>;
  /** The newest first. */
  readonly events: readonly InboxEvent[];
}

/** `at` is ISO 8601. */
export interface InboxEvent extends Pick<StoredEvent, "kind" | "amount" | "resourceKind" | "resource"> {
  readonly at: string;
  /** What the provider calls the user or the group. Absent: it was deleted, or has no name. */
  readonly name?: string | undefined;
  /** The name of the token. */
  readonly pusher: string;
}

/** @param limit of the events */
export async function recentPushes(inbox: InboxReader, limit: number, now: number): Promise<RecentPushes> {
  const names = new Map((await inbox.tokens()).map(({ id, name }) => [id, name]));
  const events = (await inbox.events(limit)).map(
    ({ kind, amount, resourceKind, resource, token, at, document }): InboxEvent => {
      const name = document?.[resourceKind === "user" ? "userName" : "displayName"];
      return {
        kind,
        amount,
        resourceKind,
        resource,
        at: new Date(at).toISOString(),
        name: typeof name === "string" ? name : undefined,
        pusher: names.get(token) ?? revoked,
      };
    },
  );
  return { counts: await inbox.counts(now - day), events };
}

const day = 86_400_000;
