import { isOpen, without } from "./ending.ts";
import type { SyncEvent } from "./coordinator.ts";
import type { Audit } from "./audit.ts";
import { auditOfEnd } from "./audit-entry.ts";
import type { AuditEntry } from "./audit-entry.ts";
import type { Journal } from "./journal.ts";
import type { RunRecord, SyncState } from "./record.ts";
import type { Store } from "./store.ts";

export interface Books {
  readonly journal: Journal;
  readonly store: Store;
  readonly audit: Pick<Audit, "append" | "head">;
  readonly emit: (event: SyncEvent) => void;
  /** In epoch milliseconds. */
  readonly now: () => number;
  /** Whether the process is being stopped: what fails then has not failed by itself. */
  readonly isStopping: () => boolean;
}

/**
 * Writes down how a run has ended, and what follows from it: it takes the place of what waited for approval before, or
 * is the same again; the sync has succeeded or failed; after a run was undone, nothing of that sync is applied by itself
 * until a person has approved something; and the oldest goes.
 */
export async function conclude(run: RunRecord, books: Books): Promise<RunRecord> {
  const { journal, store, emit, now } = books;
  const at = new Date(now()).toISOString();
  const twin = isOpen(run) ? journal.document.runs.find((other) => isTwin(run, other)) : undefined;
  if (twin !== undefined) {
    await journal.put({ ...twin, foundAgain: { count: (twin.foundAgain?.count ?? 0) + 1, lastAt: at } });
    const same = without(run, ["expiresAt", "heldBy", "error"]);
    return conclude({ ...same, state: "superseded", sameAs: twin.id, endedAt: at, kept: false }, books);
  }
  if (run.state !== "failed" && run.sameAs === undefined) await supersedeOthers(run, books, at);
  const entry = run.sameAs === undefined ? auditOfEnd(run) : undefined;
  if (entry !== undefined) await tell(entry, books);
  await journal.put(run);
  const failed = run.state === "failed";
  const { failures } = journal.state(run.sync);
  if (!(failed && books.isStopping())) await journal.change(run.sync, (state) => stateAfter(state, run, at));
  emit({ type: "run", run, ...(failures !== undefined && hasSucceeded(run) ? { recovered: true } : {}) });
  await journal.prune(now());
  await store.prune(new Set(journal.document.runs.filter(({ kept }) => kept).map(({ id }) => id)));
  return run;
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
    other.digest === run.digest &&
    other.state === run.state &&
    other.kept &&
    isOpen(other)
  );
}

async function supersedeOthers({ id, sync }: RunRecord, books: Books, endedAt: string): Promise<void> {
  const { journal, emit } = books;
  for (const other of journal.document.runs) {
    if (other.sync !== sync || other.id >= id || !isOpen(other)) continue;
    const run = { ...other, state: "superseded", endedAt } as const;
    const entry = auditOfEnd(run);
    if (entry !== undefined) await tell(entry, books);
    await journal.put(run);
    emit({ type: "run", run });
  }
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

function hasSucceeded({ state }: RunRecord): boolean {
  return state === "applied" || state === "no change";
}

function cautionAfter(before: Pick<SyncState, "caution">, run: RunRecord, at: string): Pick<SyncState, "caution"> {
  if (run.state !== "applied") return before;
  const approved = run.decisions.find(({ decision }) => decision === "approved");
  if (run.undoes === undefined) return approved === undefined ? before : {};
  return { caution: { since: at, reason: `${(approved?.by ?? run.by).name} has undone the run ${run.undoes}` } };
}
