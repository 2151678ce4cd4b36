import { UnavailableError } from "#errors.ts";
import type { AuditEntry, Head } from "#state/audit/entry.ts";
import type { AuditChain } from "#state/audit/chain.ts";
import type { Access, AccessChange } from "#state/access.ts";
import type { Inboxes } from "#state/inbox/inbox.ts";
import type { RunRecord, SyncEvent, SyncState } from "./record.ts";
import type { Retention } from "./runs.ts";
import type { Throttle, ThrottleOptions } from "#throttle.ts";

/*
 * What a daemon knows: runs and the states of syncs, the audit log, who may use the console and the API, and files (ledgers, stored plans, quarantined records,
 * baselines, export records, unsent notices), and what providers have pushed. It is in the data folder, or in PostgreSQL, where several daemons share it. Both
 * are held to one suite, `test/contract/state`.
 */

/** The state, open for a process that writes it. */
export interface Store {
  /** Its folder, or `host:port/database`. */
  readonly place: string;
  /** Whether other processes may write it at the same time. */
  readonly isShared: boolean;
  readonly journal: Journal;
  readonly audit: AuditLog;
  readonly access: AccessStore;
  /** Counts failed sign-ins: over all processes that share the state. */
  throttle(options: Omit<ThrottleOptions, "now">): Throttle;
  readonly files: StateFiles;
  readonly inboxes: Inboxes;
  readonly lease: Lease;
  /** Waits for what is under way, and gives the lease back. */
  close(): Promise<void>;
}

export interface StoreOptions {
  /** The daemon's folder on this machine. */
  readonly folder: string;
  readonly retention: Retention;
  /** Called with what is found to be wrong with the audit log, when it is opened or later. */
  readonly warn: (message: string) => void;
}

/** The state, for a process that only reads it: needs no lock, and disturbs nobody who writes. */
export interface Reader {
  /** What messages call it. */
  readonly place: string;
  /** Runs and states as they are now. @throws {InputError} when the journal is damaged */
  journal(): Promise<KnownJournal>;
  /** Every entry of the audit log, for `verifyAudit`. */
  readonly audit: AuditChain;
  readonly access: Pick<AccessStore, "read">;
  /** They cannot be saved. */
  readonly files: StateFiles;
  readonly inboxes: Pick<Inboxes, "read">;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface KnownJournal {
  /** The oldest first. One whose process has ended is shown as far as its end is known (`lostRecord`). */
  readonly runs: readonly RunRecord[];
  readonly syncs: Readonly<Record<string, SyncState>>;
}

/** The runs, and the states of the syncs. Each process knows it as of its last `refresh`, with its own changes. */
export interface Journal {
  /** The oldest first. */
  readonly runs: readonly RunRecord[];
  find(id: string): RunRecord | undefined;
  /**
   * Adds or replaces runs and changes the state of a sync, all of it or nothing. When it resolves, that survives a power
   * failure.
   * @param events what follows from it, for the process that notifies people: only where several processes share the journal
   * @throws {SlotTakenError} when another process has begun the run of the slot
   */
  put(
    runs: RunRecord | readonly RunRecord[],
    state?: { readonly sync: string; readonly change: Change },
    events?: readonly SyncEvent[],
  ): Promise<void>;
  /** Replaces a run that is under way, for people who look at it: it is written soon, or with the next write. */
  note(run: RunRecord): void;
  remove(id: string): Promise<void>;
  state(sync: string): SyncState;
  change(sync: string, change: Change): Promise<void>;
  /** Removes runs, and marks those whose plans are no longer stored, by the retention. @param now in epoch milliseconds */
  prune(now: number): Promise<void>;
  /** Reads what other processes have written. @returns the runs that they have begun or changed */
  refresh(): Promise<readonly RunRecord[]>;
  /** Whether this process is at work on a run, as far as the journal knows. */
  isHere(id: string): boolean;
  /** Whether another process is at work on a run, and has its lease. */
  isElsewhere(id: string): boolean;
}

export type Change = (state: SyncState) => SyncState;

/** Another process has begun the run of this slot. */
export class SlotTakenError extends UnavailableError {}

/** The audit log: one chain of entries, each with the hash of the one before. */
export interface AuditLog {
  /**
   * Appends an entry; entries come in the order of the calls. When it resolves, the entry survives a power failure.
   * @throws {RollcallError} when it could not be written; then nothing is known to be in the log
   */
  append(entry: AuditEntry): Promise<void>;
  /** The last entry. */
  head(): Head;
}

/** Accounts, sessions and access tokens of people. */
export interface AccessStore {
  /**
   * As they are; where several processes share them, as of half a second ago at the longest.
   * @throws {InputError} when they are damaged; {UnavailableError} when the store does not answer
   */
  read(): Promise<Access>;
  /**
   * Changes them: all of it or nothing, one change at a time over all processes. When it resolves, that survives a power failure.
   * @throws what `work` throws, and as `read` does
   */
  change<Result>(work: AccessChange<Result>): Promise<Result>;
}

/** The files of the state, in a folder of this machine. Which of them is said by the beginnings of their paths: `paths`. */
export interface StateFiles {
  readonly folder: string;
  /** Those of the folder are copies: what is read of a `Reader` stays as it was fetched while others write. */
  readonly isCopy: boolean;
  /**
   * Makes those files of the folder what the store has, each as a whole. Nobody may have them open.
   * @throws {InputError} when one is damaged in the store; {UnavailableError} when it does not answer
   */
  fetch(beginnings: readonly string[]): Promise<void>;
  /**
   * Makes the store have those files as the folder has them: all of them or nothing.
   * @throws {InputError} when a ledger is not there any more; then the store keeps it
   * @throws {UnavailableError} when the lease is lost, or the store does not answer
   */
  save(beginnings: readonly string[]): Promise<void>;
  /** Removes everything below a folder from the store, except what is below the names that are kept. */
  prune(folder: string, isKept: (name: string) => boolean): Promise<void>;
}

/** Where the parts of the state are. */
export const paths = {
  ledger: (place: string) => [`ledgers/${encodeURIComponent(place)}.duckdb`],
  baseline: (sync: string) => [`baselines/${sync}.json`, `baselines/${sync}@`],
  exports: (place: string) => [`exports/${encodeURIComponent(place)}.json`],
  plans: (...ids: readonly string[]) => ids.map((id) => `runs/${id}/`),
  outbox: ["outbox/"],
  configuration: ["configuration.json"],
} as const;

/** The right of a process to write. */
export interface Lease {
  /** Whole epoch milliseconds, as tables have them, by the clock that all processes go by. */
  now(): number;
  /** @throws {UnavailableError} when the lease may have ended */
  check(): void;
  /** Aborted when it is lost. */
  lost(): AbortSignal;
  /** Does something while no other process does anything under this name, and waits for that as long as it takes. */
  whileClaimed<Result>(name: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result>;
}
