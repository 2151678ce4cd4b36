import type { Kind } from "#principals/principal.ts";

/** When those who are gone from the sources are suspended, and when they are deleted; in milliseconds after they have gone. */
export interface Stages {
  /** The grace period before a principal is deleted. */
  readonly after: number;
  /** The kinds that are never deleted. Absent: none. */
  readonly never?: readonly Kind[] | undefined;
  /** How long a user stays active. Absent: until it is deleted. */
  readonly suspend?: number | undefined;
}

/** The stages of a principal that is gone, in epoch milliseconds. */
export interface StageTimes {
  /** Absent: it is not suspended. */
  readonly suspendedAt?: number | undefined;
  /** Absent: it is never deleted. */
  readonly deletedAt?: number | undefined;
}

/** @param since when it has gone, in epoch milliseconds */
export function stageTimes({ after, never = [], suspend }: Stages, kind: Kind, since: number): StageTimes {
  return {
    suspendedAt: suspend === undefined || kind !== "user" ? undefined : since + suspend,
    deletedAt: never.includes(kind) ? undefined : since + after,
  };
}

/** SQL: when a row with `kind` and `since` is deleted; NULL: never. */
export function deletedAt({ after, never = [] }: Stages): string {
  const kinds = never.map((kind) => `'${kind}'`).join(", ");
  return kinds === "" ? `since + ${after}` : `CASE WHEN kind IN (${kinds}) THEN NULL ELSE since + ${after} END`;
}

/** SQL: when it is suspended; NULL: never. */
export function suspendedAt({ suspend }: Stages): string {
  return suspend === undefined ? "NULL::BIGINT" : `CASE kind WHEN 'user' THEN since + ${suspend} END`;
}

function dateOf(time: number): string {
  return new Date(time).toISOString();
}

/** What becomes of somebody who is gone: `it was suspended on 2026-06-01T00:00:00.000Z, and leaves on …`. */
export function stageWords({ suspendedAt: suspension, deletedAt: deletion }: StageTimes, isSuspended: boolean): string {
  const deleted = deletion === undefined ? "is never deleted" : `leaves on ${dateOf(deletion)}`;
  if (suspension === undefined)
    return deletion === undefined ? `it ${deleted} (deletions.delete: never)` : `it ${deleted} (deletions.after)`;
  const suspended = isSuspended ? "it has been suspended since" : "it is suspended from";
  return `${suspended} ${dateOf(suspension)}${isSuspended ? "" : " on"}, and ${deleted} (deletions)`;
}
