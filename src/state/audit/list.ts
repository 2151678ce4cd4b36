import { nfc } from "#text.ts";
import type { Sealed } from "./chain.ts";
import type { Verification, VerifyOptions } from "./verify.ts";
import { actorOf } from "./words.ts";

/** Which entries to list; one must match all of it. */
export interface AuditFilter {
  readonly event?: string | undefined;
  /** A part of the name of who did it. */
  readonly by?: string | undefined;
  readonly sync?: string | undefined;
  /** The run that it is about, or that it undoes. */
  readonly run?: string | undefined;
  /** In epoch milliseconds: from then on. */
  readonly since?: number | undefined;
  /** In epoch milliseconds: before then. */
  readonly until?: number | undefined;
}

export function matching({ event, by, sync, run, since, until }: AuditFilter): (entry: Sealed) => boolean {
  const part = by === undefined ? undefined : folded(by);
  return (entry) => {
    const { facts } = entry;
    const at = Date.parse(entry.at);
    return (
      (event === undefined || entry.event === event) &&
      (sync === undefined || facts["sync"] === sync) &&
      (run === undefined || facts["run"] === run || facts["undoes"] === run) &&
      (since === undefined || at >= since) &&
      (until === undefined || at < until) &&
      (part === undefined || folded(actorOf(entry)?.name ?? "").includes(part))
    );
  };
}

function folded(text: string): string {
  return nfc(text).toLowerCase();
}

/** Reads the audit log, and checks it against the last entry that the journal knows. */
export type ReadAudit = (options: Omit<VerifyOptions, "expected">) => Promise<Verification>;

export interface AuditPageOptions {
  readonly filter: AuditFilter;
  /** Only entries with lower numbers. */
  readonly before?: number | undefined;
  readonly limit: number;
  /** The first entry that counts, as for `verifyAudit`. Absent: all that there are are listed, and checked from the first. */
  readonly from?: number | undefined;
}

/** A page of the audit log. */
export interface AuditPage {
  /** The newest first. */
  readonly entries: readonly Sealed[];
  /** There are earlier ones that match. */
  readonly more: boolean;
  /** The number of the first entry that is there. */
  readonly first?: number | undefined;
  /** Every sync that the log has something about. */
  readonly syncs: readonly string[];
  readonly verification: Verification;
}

/** The newest entries that match. Every entry is checked for it. @throws {InputError} when a file cannot be read */
export async function listAudit(
  read: ReadAudit,
  { filter, before = Number.POSITIVE_INFINITY, limit, from }: AuditPageOptions,
): Promise<AuditPage> {
  const isChosen = matching(filter);
  const syncs = new Set<string>();
  const found: Sealed[] = [];
  let first: number | undefined;
  const visit = (entry: Sealed): void => {
    const { sequence, facts } = entry;
    first ??= sequence;
    if (typeof facts["sync"] === "string") syncs.add(facts["sync"]);
    if (sequence >= before || !isChosen(entry)) return;
    found.push(entry);
    if (found.length > limit + 1) found.shift();
  };
  const listed = await read({ from: from ?? 0, visit });
  // What is listed begins with the first entry that is there; what is checked, with the first that was written.
  const verification = from === undefined && first !== 1 ? await read({ from: 1 }) : listed;
  return {
    entries: found.slice(-limit).reverse(),
    more: found.length > limit,
    first,
    syncs: [...syncs].sort(),
    verification,
  };
}
