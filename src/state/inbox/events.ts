import type { Database, Document, InboxKind } from "./resources.ts";

/** A request of a provider. */
export interface Push {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The id of its token. */
  readonly token: string;
}

/** What counts for brakes, and what people are shown. */
export type EventKind = "created" | "changed" | "deactivated" | "reactivated" | "deleted" | "joined" | "left";

/** What providers can take away, by the keys of the brakes. */
export type Loss = "deletions" | "deactivations" | "membershipsLost";

/** How much of something was pushed with a token. */
export interface Pushes {
  readonly token: string;
  readonly amount: number;
}

/** What was lost since a time and is still lost. */
export interface Lost {
  readonly loss: Loss;
  readonly of: "users" | "groups" | "memberships";
  /** The most first. */
  readonly by: readonly Pushes[];
  /** How much there is, with what was lost. */
  readonly base: number;
}

/** Something that was pushed. */
export interface StoredEvent {
  readonly kind: EventKind;
  /** Epoch milliseconds. */
  readonly at: number;
  /** 1; of members that joined or left a group, how many. */
  readonly amount: number;
  /** The id of the token. */
  readonly token: string;
  readonly resourceKind: InboxKind;
  readonly resource: string;
  /** As it is now. Absent: it was deleted. */
  readonly document?: Document | undefined;
}

/** How a source stands. */
export interface Activity {
  /** One more with each change: what is equal is unchanged. */
  readonly revision: number;
  /** When something was pushed, in epoch milliseconds. Absent: nothing ever was. */
  readonly first?: number | undefined;
  readonly last?: number | undefined;
}

const day = 86_400_000;

/** How long events are stored, in milliseconds: those that brakes count for as long as a sync may be held. */
const eventsKept: Readonly<Record<EventKind, number>> = {
  created: 30 * day,
  changed: 30 * day,
  deactivated: 400 * day,
  reactivated: 400 * day,
  deleted: 400 * day,
  joined: 400 * day,
  left: 400 * day,
};

/** After how many changes old events are removed, and how many of a kind: more than may have come meanwhile. */
export const pruneEvery = 100;
const prunedAtOnce = 1_000;

export async function pruneEvents(source: string, database: Database, now: number): Promise<void> {
  for (const [kind, kept] of Object.entries(eventsKept))
    await database.rows(
      `DELETE FROM rollcall.inbox_events WHERE source = $1 AND kind = $2 AND (revision, resource) IN
         (SELECT revision, resource FROM rollcall.inbox_events WHERE source = $1 AND kind = $2 AND at < $3
            ORDER BY at LIMIT $4)`,
      [source, kind, now - kept, prunedAtOnce],
    );
}

/** How much was pushed with all tokens. */
export function sumOf(pushes: readonly Pushes[]): number {
  return pushes.reduce((sum, { amount }) => sum + amount, 0);
}
