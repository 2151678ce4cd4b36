import { errorDocument, HeldError } from "#errors.ts";
import type { Queue } from "#queue.ts";
import type { Audit } from "#sync/audit/audit.ts";
import { auditOfEnd } from "#sync/audit/entry.ts";
import type { AuditEntry } from "#sync/audit/entry.ts";
import type { Journal } from "#sync/journal.ts";
import type { Store } from "#sync/plans/stored.ts";
import type { RunRecord, SyncState } from "#sync/record.ts";
import type { RunResult } from "#sync/run.ts";
import type { SyncEvent } from "./coordinator.ts";

export interface Books {
  readonly journal: Journal;
  readonly store: Store;
  readonly audit: Pick<Audit, "append" | "head">;
  readonly emit: (event: SyncEvent) => void;
  /** In epoch milliseconds. */
  readonly now: () => number;
  /** Whether the process is being stopped: what fails then has not failed by itself. */
  readonly isStopping: () => boolean;
  /** Does one thing after the other: what is decided about runs, and how they end, must not come between each other. */
  readonly inOrder: Queue;
}

/**
 * Writes down how a run has ended, and what follows from it: it takes the place of what waited for approval before, or
 * is the same again; the sync has succeeded or failed; after a run was undone, nothing of that sync is applied by itself
 * until a person has approved something; and the oldest goes. What follows is written with the end, at once: no end is
 * ever known without it.
 */
export async function conclude(run: RunRecord, books: Books): Promise<RunRecord> {
  return books.inOrder(async () => {
    const { journal, now } = books;
    // It was being approved, which has failed; that it waits is known.
    if (isOpen(run) && journal.find(run.id)?.expiresAt !== undefined) return close(run, books);
    const at = new Date(now()).toISOString();
    const twin = isOpen(run) ? journal.document.runs.find((other) => isTwin(run, other)) : undefined;
    if (twin === undefined) return close(run, books, supersededBy(run, journal, at));
    const foundAgain = { count: (twin.foundAgain?.count ?? 0) + 1, lastAt: at };
    const again = { ...without(twin, ["error"]), ...errorOf(run, twin.id), foundAgain };
    const same = without(run, ["expiresAt", "heldBy", "error"]);
    return write({ ...same, state: "superseded", sameAs: twin.id, endedAt: at, kept: false }, [again], books);
  });
}

/** Writes down how a run has ended, and others by it, if any. To be called in order. */
export async function close(run: RunRecord, books: Books, superseded: readonly RunRecord[] = []): Promise<RunRecord> {
  for (const each of [...superseded, run]) {
    const entry = auditOfEnd(each);
    if (entry !== undefined) await tell(entry, books);
  }
  return write(run, superseded, books);
}

async function write(run: RunRecord, others: readonly RunRecord[], books: Books): Promise<RunRecord> {
  const { journal, emit, now, isStopping } = books;
  const at = new Date(now()).toISOString();
  const failed = run.state === "failed";
  const { failures } = journal.state(run.sync);
  const change = (state: SyncState): SyncState => (failed && isStopping() ? state : stateAfter(state, run, at));
  await journal.put([...others, run], { sync: run.sync, change });
  for (const other of others) if (other.state === "superseded") emit({ type: "run", run: other });
  emit({ type: "run", run, ...(failures !== undefined && hasSucceeded(run) ? { recovered: true } : {}) });
  await journal.prune(now());
  await tidy(books);
  return run;
}

/** Removes the lists that no run of the journal needs any more. */
export async function tidy({ journal, store }: Pick<Books, "journal" | "store">): Promise<void> {
  const { runs } = journal.document;
  await store.prune({
    ended: runs.filter(({ kept }) => kept).map(({ id }) => id),
    underWay: runs.filter(isUnderWay).map(({ id }) => id),
  });
}

/** Appends to the audit file. The journal remembers how far it goes with what is written to it next. */
export async function tell(entry: AuditEntry, { audit, journal }: Pick<Books, "audit" | "journal">): Promise<void> {
  await audit.append(entry);
  journal.audited(audit.head());
}

/** Does an earlier run of the sync wait for the same? */
function isTwin(run: RunRecord, other: RunRecord): boolean {
  return (
    other.id < run.id &&
    other.sync === run.sync &&
    other.undoes === run.undoes &&
    other.digest === run.digest &&
    other.state === run.state &&
    other.kept &&
    isOpen(other)
  );
}

/** Why it waits; what came of an attempt to approve it is over. */
function errorOf({ id, error }: RunRecord, twin: string): Pick<RunRecord, "error"> {
  if (error === undefined) return {};
  return { error: { ...error, problems: error.problems.map((problem) => problem.replaceAll(id, twin)) } };
}

function supersededBy(run: RunRecord, { document }: Journal, endedAt: string): RunRecord[] {
  return document.runs
    .filter((other) => isOpen(other) && supersedes(run, other))
    .map((other): RunRecord => Object.assign({}, other, { state: "superseded", endedAt }));
}

/**
 * Is what another run has planned no longer what is to be done? It is not when something else was applied, nor when it was
 * planned anew with another result, be it that the same changes are held now, or that a source which had lost too much
 * has everything again: both plans are empty. The way back from a run, and what the sources say, are not the same.
 */
function supersedes(run: RunRecord, other: RunRecord): boolean {
  if (other.sync !== run.sync || other.id === run.id || run.state === "failed") return false;
  if (run.state === "applied" || run.heldBy === "verification") return true;
  const takesItsPlace = run.state === "no change" || isOpen(run);
  return other.id < run.id && other.undoes === run.undoes && (other.digest !== run.digest || takesItsPlace);
}

function isUnderWay({ state, endUnknown }: RunRecord): boolean {
  return state === "running" || endUnknown === true;
}

function stateAfter(state: SyncState, run: RunRecord, at: string): SyncState {
  const { failures, caution, overdueSince: _, ...rest } = state;
  if (run.state === "failed")
    return { ...state, failures: { count: (failures?.count ?? 0) + 1, since: failures?.since ?? at } };
  // What waits, or has waited for too long, is no success: of a failure before it nothing is over.
  if (!hasSucceeded(run)) return state;
  const cautious = caution === undefined ? {} : { caution };
  return { ...rest, ...cautionAfter(cautious, run, at), lastSuccessAt: run.endedAt ?? at };
}

function cautionAfter(before: Pick<SyncState, "caution">, run: RunRecord, at: string): Pick<SyncState, "caution"> {
  if (run.state !== "applied") return before;
  const approved = run.decisions.findLast(({ decision }) => decision === "approved");
  if (run.undoes === undefined) return approved === undefined ? before : {};
  return { caution: { since: at, reason: `${(approved?.by ?? run.by).name} has undone the run ${run.undoes}` } };
}

/**
 * How a run stands after what it returned.
 * @param expiresAt until when it can be approved where it must be, ISO 8601
 */
export function endedWith(run: RunRecord, result: RunResult, at: string, expiresAt: string): RunRecord {
  const { outcome, digest, counts, limits, waiting } = result;
  const found = { ...without(run, ["error", "heldBy", "expiresAt"]), digest, counts, limits, waiting };
  if (outcome === "pending") return { ...found, state: "pending", expiresAt };
  return { ...found, state: outcome === "applied" ? "applied" : "no change", endedAt: at };
}

/**
 * How a run stands after an error. What is held by limits can still be approved; what was being approved still awaits
 * that, unless something has been applied.
 */
export function endedByError(run: RunRecord, error: unknown, at: string, expiresAt: string): RunRecord {
  const failed = { ...run, error: errorDocument(error) };
  const wasDecided = run.decisions.some(({ decision }) => decision === "approved") && run.expiresAt !== undefined;
  if (wasDecided && run.sentAt === undefined) return { ...failed, state: run.heldBy === "limits" ? "held" : "pending" };
  if (!(error instanceof HeldError)) return { ...failed, state: "failed", endedAt: at };
  const held = { ...failed, state: "held", heldBy: error.by } as const;
  return error.by === "limits" ? { ...held, expiresAt } : { ...without(held, ["expiresAt"]), endedAt: at };
}

/**
 * How a run stands whose end cannot be written down: it has failed, whatever it has done, and the next one finds out about
 * it. What is kept of it says that it is still under way.
 */
export function notWrittenDown(run: RunRecord, error: unknown, at: string): RunRecord {
  const { message, advice } = errorDocument(error);
  const became =
    run.error?.message ??
    `the run ${run.id} ${run.state === "applied" ? "was applied and verified" : `is ${run.state}`}`;
  return {
    ...without(run, ["expiresAt", "heldBy"]),
    state: "failed",
    endedAt: at,
    error: {
      message: `${became}. That cannot be written down: ${message}`,
      problems: run.error?.problems ?? [],
      advice,
    },
  };
}

/** A record without some of what it may have. */
export function without(run: RunRecord, keys: readonly (keyof RunRecord)[]): RunRecord {
  return Object.fromEntries(Object.entries(run).filter(([key]) => !(keys as readonly string[]).includes(key))) as never;
}

/** A run that can be approved: its plan is kept, and it is pending or held by limits. */
export function isOpen({ state, heldBy }: RunRecord): boolean {
  return state === "pending" || (state === "held" && heldBy === "limits");
}

/** There was nothing to do, or it has been done and proven. */
export function hasSucceeded(run: RunRecord): run is RunRecord & { state: "applied" | "no change" } {
  const { state } = run;
  return state === "applied" || state === "no change";
}
