import { join } from "node:path";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { InputError, messageOf, RefusedError } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { changes } from "#plan/change.ts";
import { writePrincipals } from "#plan/lists.ts";
import { createPlan } from "#plan/plan.ts";
import type { AuditEntry } from "#sync/audit/entry.ts";
import { openLedger } from "#sync/ledger/ledger.ts";
import { listTarget } from "#sync/planning/desired.ts";
import { partOf } from "#sync/plans/stored.ts";
import type { Store } from "#sync/plans/stored.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Sync } from "#sync/sync.ts";
import { passwordOf } from "#sync/sync.ts";
import type { Means } from "./execute.ts";
import { conclude, isOpen, tell, without } from "./finish.ts";
import type { Books } from "./finish.ts";

export interface RecoveryOptions extends Books, Pick<Means, "after"> {
  readonly folder: string;
  readonly memory: number;
  readonly open: (name: string) => Promise<Sync>;
  readonly isUnderWay: (id: string) => boolean;
  /** Ends what is only caught up on. */
  readonly stop: AbortSignal;
}

/** What becomes of runs that nobody has seen end. */
export interface Recovery {
  /** The runs of which it is not known how they ended. */
  left(): readonly RunRecord[];
  /** Of those whose list was never sent, it is: nothing was applied. */
  ofNeverSent(): Promise<void>;
  /** Reads the target to find out about the runs of a sync, before another one begins. */
  before(sync: string): Promise<void>;
  /** The end of one run whose list was sent: by reading the target. Never rejects. */
  findEnd(run: RunRecord, storedAs: string): Promise<RunRecord>;
}

/** How long a target is waited for, in milliseconds. */
const patience = 60_000;

const words = {
  settled: "it had been applied and verified before that could be written down",
  arrived: "the target was read again: all of it has arrived",
  nothing: "the target was read again: nothing of it was applied",
  neither:
    "the target was read again: it is neither what it was nor what was planned; the next run plans from what it is",
};

export function createRecovery(options: RecoveryOptions): Recovery {
  const { journal, store, now, open, folder, memory, isUnderWay, stop } = options;
  const iso = (): string => new Date(now()).toISOString();
  const left = (): RunRecord[] =>
    journal.document.runs.filter(
      ({ id, state, endUnknown }) => (state === "running" || endUnknown === true) && !isUnderWay(id),
    );

  const find = async (run: RunRecord, storedAs: string, signal: AbortSignal): Promise<RunRecord> => {
    const failed = { ...without(run, ["endUnknown"]), state: "failed", endedAt: run.endedAt ?? iso() } as const;
    let sync: Sync | undefined;
    try {
      sync = await open(run.sync);
      const sentAt = run.sentAt === undefined ? now() : Date.parse(run.sentAt);
      const found = await findOut(sync, store, run.id, { folder, memory, signal, sentAt, storedAs });
      const recovery = words[found];
      if (found === "nothing" || found === "neither") return { ...failed, recovery };
      return { ...without(failed, ["error"]), state: "applied", endedAt: iso(), recovery };
    } catch (error) {
      return { ...failed, endUnknown: true, recovery: `what became of it is not known yet: ${messageOf(error)}` };
    } finally {
      await sync?.target.close();
    }
  };
  /** What came after it may have been done, but for its being written down. */
  const withExport = async (run: RunRecord): Promise<RunRecord> => {
    const exported = run.state === "applied" ? await options.after?.(run.sync, "no change") : undefined;
    return exported === undefined ? run : { ...run, export: exported };
  };
  const recover = async (run: RunRecord): Promise<void> => {
    const isPart = run.decisions.at(-1)?.selection !== undefined;
    const signal = AbortSignal.any([stop, AbortSignal.timeout(patience)]);
    const ended = await find(run, isPart ? partOf(run.id) : run.id, signal);
    if (ended.state === "applied" && isPart) await store.replaceByPart(run.id);
    if (ended.endUnknown !== true) await tell(recovered(ended), options);
    // Its failure is known already.
    if (run.state === "failed" && ended.state === "failed") await journal.put(ended);
    else await conclude(withError(await withExport(ended)), options);
  };
  const concludeNeverSent = async (run: RunRecord): Promise<void> => {
    const ended = neverSent(run, iso());
    // Of another one that a person has asked for it is told that it has failed, and why.
    if (isOpen(ended)) await tell(recovered(ended), options);
    await conclude(ended, options);
  };
  return {
    left,
    findEnd: (run, storedAs) => find(run, storedAs, AbortSignal.timeout(patience)),
    ofNeverSent: async () => {
      for (const run of left()) if (run.sentAt === undefined) await concludeNeverSent(run);
    },
    before: async (sync) => {
      for (const run of left())
        if (run.sync === sync) await (run.sentAt === undefined ? concludeNeverSent(run) : recover(run));
    },
  };
}

function recovered({ by, sync, id: run, state: result, digest, recovery: finding = "" }: RunRecord): AuditEntry {
  return { event: "recovered", by, sync, run, result, finding, ...(digest === undefined ? {} : { digest }) };
}

/** A run that ended with its process before it sent anything. What was being approved awaits that again. */
function neverSent(run: RunRecord, at: string): RunRecord {
  const stage = run.stages.at(-1)?.stage;
  const recovery = `its process ended, or could not write down more,${stage === undefined ? "" : ` after the stage ${stage}`}: nothing was applied`;
  if (run.expiresAt !== undefined) return { ...run, state: run.heldBy === "limits" ? "held" : "pending", recovery };
  return withError({ ...run, state: "failed", endedAt: at, recovery });
}

function withError(run: RunRecord): RunRecord {
  if (run.state !== "failed" || run.error !== undefined) return run;
  return { ...run, error: { message: run.recovery ?? "its process ended", problems: [], advice: "retry" } };
}

export interface FindOutOptions {
  /** The daemon's folder. */
  readonly folder: string;
  /** DuckDB's memory limit, in bytes. */
  readonly memory: number;
  readonly signal: AbortSignal;
  /** When the list was sent, in epoch milliseconds: from then on counts what was changed. */
  readonly sentAt: number;
  /** As what the store has the plan. */
  readonly storedAs: string;
}

/**
 * What became of a list that was sent. `settled`: the run itself had proven that all of it arrived. `arrived`: all of it
 * has. `nothing`: the target is what it was. `neither`: it is something else.
 */
export type Found = "settled" | "arrived" | "nothing" | "neither";

/**
 * Finds out what became of a plan that was being applied when its process ended, or the answer was lost: from the
 * ledger, else by reading the target. Where all of it has arrived, what the run would have written into the ledger is
 * written now.
 * @param run its id
 * @throws when the target cannot be read, or the plan is no longer there; then nothing is known
 */
async function findOut(sync: Sync, store: Store, run: string, options: FindOutOptions): Promise<Found> {
  const { folder, memory, signal, sentAt, storedAs } = options;
  const workbench = await openWorkbench({ folder: join(folder, "work"), memory });
  const { connection } = workbench;
  try {
    const ledger = await openLedger(connection, {
      folder: join(folder, "ledgers"),
      place: sync.place,
      sync: sync.name,
      mode: "write",
      signal,
      now: sentAt,
    });
    try {
      if (ledger.settled === run) return "settled";
      const { digest, scope, checks, amounts } = await store.load(storedAs, connection);
      await waitForTheOthers(sync, workbench, signal);
      await listTarget(sync.target, workbench, "actual", signal);
      const left = await createPlan(connection);
      if (left.digest === digest) return "nothing";
      if (changes(left.counts) > 0) return "neither";
      await ledger.settle({ run, now: sentAt, amounts, checks, scope });
      return "arrived";
    } finally {
      await ledger.close().catch(() => undefined);
    }
  } catch (error) {
    throw naming(`the folder ${folder}`, error);
  } finally {
    await workbench.close();
  }
}

/**
 * The list may have reached the service, and wait or be worked on there at this moment. A further one queues behind it
 * (B.8), also when nothing is to be applied; a listing does not.
 */
async function waitForTheOthers(sync: Sync, workbench: Workbench, signal: AbortSignal): Promise<void> {
  const principals = workbench.file("desired.json");
  await writePrincipals(workbench.connection, "desired", principals);
  const request = { principals, applyChanges: false, deleteOthers: true, defaultPassword: passwordOf(sync) };
  await sync.target.sync(request, workbench.file("preview.json"), signal).catch((error: unknown) => {
    // What the service thinks of it is of no interest any more.
    if (!(error instanceof RefusedError || error instanceof InputError)) throw error;
  });
}
