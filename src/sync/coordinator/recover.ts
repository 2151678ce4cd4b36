import { join } from "node:path";
import type { Connection } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { InputError, messageOf, RefusedError } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { changes } from "#plan/change.ts";
import { writePrincipals } from "#plan/lists.ts";
import { createPlan } from "#plan/diff.ts";
import { adoptNames } from "#plan/renames.ts";
import { finishCreated, unfinished } from "#plan/remote.ts";
import { tables } from "#plan/tables.ts";
import type { AuditEntry } from "#state/audit/entry.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import { forgetBaseline } from "#sync/planning/baseline.ts";
import { readTarget } from "#sync/planning/target.ts";
import { partOf } from "#state/plans.ts";
import { carryOver } from "#sync/plans/stored.ts";
import { laterTimes } from "#state/runs.ts";
import { isOpen, isUnfinished, unsent, withError, without, withPart } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import type { Sync } from "#sync/sync.ts";
import { ledgerOf, passwordOf } from "#sync/sync.ts";
import { interruptionOf, timestamp } from "./context.ts";
import type { Context } from "./context.ts";
import { finish } from "./finish.ts";

/** How long to wait for a target, in milliseconds. */
const patience = 60_000;

/**
 * The runs that nobody has seen end: their process was killed, or the target's answer got lost.
 * @param own only those of this process: their end could not be written down
 */
export function lostRuns({ store, underWay }: Context, own = false): readonly RunRecord[] {
  const { journal } = store;
  const isLost = (id: string): boolean => (own ? journal.isHere(id) : !journal.isElsewhere(id));
  return journal.runs.filter((run) => isUnfinished(run) && !underWay.has(run.id) && isLost(run.id));
}

/** Finishes the lost runs that sent nothing: they applied nothing. */
export async function recoverUnsent(context: Context): Promise<void> {
  for (const run of lostRuns(context)) if (run.sentAt === undefined) await finishUnsent(context, run);
}

/** Finds out how the lost runs of a sync ended, before another one begins: by reading the target. */
export async function recoverSync(context: Context, sync: string): Promise<void> {
  for (const run of lostRuns(context))
    if (run.sync === sync) await (run.sentAt === undefined ? finishUnsent(context, run) : recover(context, run));
}

/**
 * The record of a run whose list was sent, after reading the target: what became of it. Never rejects.
 * @param storedAs the name of its stored plan
 */
export async function findOutcome(
  context: Context,
  run: RunRecord,
  storedAs: string,
  signal: AbortSignal = AbortSignal.timeout(patience),
): Promise<RunRecord> {
  const failed = {
    ...without(run, ["endUnknown"]),
    state: "failed",
    endedAt: run.endedAt ?? timestamp(context),
  } as const;
  let sync: Sync | undefined;
  try {
    // Without a lease, it is for others to find out.
    context.store.lease.check();
    sync = await context.open(run.sync);
    const outcome = await outcomeOf(context, sync, run, storedAs, signal);
    const recovery = explanations[outcome];
    if (outcome === "nothing" || outcome === "neither") return { ...failed, recovery };
    return { ...without(failed, ["error"]), state: "applied", endedAt: timestamp(context), recovery };
  } catch (error) {
    return { ...failed, endUnknown: true, recovery: `its outcome is not known yet: ${messageOf(error)}` };
  } finally {
    await sync?.target.close();
  }
}

async function recover(context: Context, run: RunRecord): Promise<void> {
  const { plans, store } = context;
  const isSelected = run.decisions.at(-1)?.selection !== undefined;
  // It may have replaced the plan already, and only the end of the run could not be written down.
  const isPart = isSelected && (await plans.isStored(partOf(run.id)));
  const begun = isSelected && !isPart ? withPart(run) : run;
  const signal = AbortSignal.any([interruptionOf(context).stop, AbortSignal.timeout(patience)]);
  let ended = await findOutcome(context, begun, isPart ? partOf(run.id) : run.id, signal);
  if (isPart && ended.endUnknown !== true) {
    await plans.replaceByPart(run.id);
    ended = withPart(ended);
  }
  if (ended.state === "applied") await forgetBaseline(store.files, run.sync);
  if (ended.endUnknown !== true) await store.audit.append(recovered(ended));
  // Its failure is known already.
  if (run.state === "failed" && ended.state === "failed") await store.journal.put(ended);
  else await finish(context, withError(await withExport(context, ended)));
}

/** The export may have run already, without the journal saying so. */
async function withExport(context: Context, run: RunRecord): Promise<RunRecord> {
  const exported = run.state === "applied" ? await context.after?.(run.sync, "no change") : undefined;
  return exported === undefined ? run : { ...run, export: exported };
}

async function finishUnsent(context: Context, run: RunRecord): Promise<void> {
  const ended = unsent(run, timestamp(context));
  // A run that failed has an entry for its end.
  if (isOpen(ended)) await context.store.audit.append(recovered(ended));
  await finish(context, ended);
}

function recovered({ by, sync, id: run, state: result, digest, recovery: finding = "" }: RunRecord): AuditEntry {
  return { event: "recovered", by, sync, run, result, finding, digest };
}

/**
 * What became of a list that was sent. `settled`: the run itself verified that all of it arrived. `arrived`: all of it
 * has. `nothing`: the target is unchanged. `neither`: the target is something else.
 */
type Outcome = "settled" | "arrived" | "nothing" | "neither";

const explanations: Record<Outcome, string> = {
  settled: "it had been applied and verified before that could be written down",
  arrived: "the target was read again: all of it has arrived",
  nothing: "the target was read again: nothing of it was applied",
  neither:
    "the target was read again: it matches neither its earlier state nor the plan; the next run starts from its current state",
};

/**
 * Finds out what became of a list that was sent: from the ledger, else by reading the target. If all of it has arrived,
 * writes into the ledger what the run would have written.
 * @throws when the target or the stored plan cannot be read; then nothing is known
 */
async function outcomeOf(
  { memory, store: { files, journal }, plans, now }: Context,
  sync: Sync,
  run: RunRecord,
  storedAs: string,
  signal: AbortSignal,
): Promise<Outcome> {
  // Changes count from the moment the list was sent.
  const sentAt = run.sentAt === undefined ? now() : Date.parse(run.sentAt);
  await using workbench = await Workbench.open({ folder: join(files.folder, "work"), memory });
  const { connection } = workbench;
  try {
    const ledger = await Ledger.open(connection, {
      files,
      ...ledgerOf(sync),
      mode: "write",
      signal,
      now: sentAt,
    });
    try {
      if (ledger.settled === run.id) return "settled";
      const seal = storedAs === run.id ? run.seal : run.partSeal;
      await plans.verify(storedAs, seal);
      const { digest, scope, amounts } = await plans.load(storedAs, connection, sync.rules.declared);
      if (run.decisions.at(-1)?.overrides?.includes("heldNames") === true) await adoptNames(connection);
      await findNotCreated(connection, sync);
      const list = async (): Promise<void> => {
        await readTarget(sync.target, workbench, "actual", { declared: sync.rules.declared, signal, warn: () => {} });
        await carryOver(connection, sync.target);
      };
      await list();
      await waitForQueue(sync, workbench, signal);
      await list();
      const left = await createPlan(connection, sync.rules.declared);
      await connection.run("INSERT INTO unwritten SELECT action, kind, name FROM changes WHERE action <> 'update'");
      await plans.saveUnwritten(storedAs, connection);
      if (left.digest === digest) return "nothing";
      if (changes(left.counts) > 0) return "neither";
      // Those of the stored plan do not know what was overridden when it was approved.
      const { declared } = sync.rules;
      if (sync.target.takes === "changes") {
        await finishCreated(connection, "changes");
        await ledger.settleRemote();
      }
      // Not by the runs since then: the grace periods began with this one.
      const later = laterTimes(
        journal.runs.filter(({ id }) => id <= run.id),
        sentAt,
      );
      await ledger.settle({ run: run.id, now: sentAt, later, declared, amounts, checks: run.limits, scope });
      return "arrived";
    } finally {
      await ledger.close().catch(() => undefined);
    }
  } catch (error) {
    throw naming(`the folder ${files.folder}`, error);
  }
}

/**
 * Begins `unwritten`: of a target that is written change by change, those of the plan that the ledger does not know as created.
 * Whoever has such a name may be somebody else.
 */
async function findNotCreated(connection: Connection, { target }: Sync): Promise<void> {
  await connection.run(`CREATE OR REPLACE TEMP TABLE unwritten (${tables.unwritten})`);
  if (target.takes !== "changes") return;
  await connection.run(`
    INSERT INTO unwritten SELECT action, kind, name FROM shown WHERE action = 'create' AND (kind, name) NOT IN (${unfinished})`);
}

/**
 * The service may still have the list in its queue, or be applying it. A preview queues behind it (B.8); a listing does
 * not.
 */
async function waitForQueue(sync: Sync, workbench: Workbench, signal: AbortSignal): Promise<void> {
  const { target } = sync;
  if (target.takes === "changes") return;
  const principals = workbench.file("desired.json");
  await writePrincipals(workbench.connection, principals);
  const request = { principals, applyChanges: false, deleteOthers: true, defaultPassword: passwordOf(sync) };
  await target.sync(request, workbench.file("preview.json"), signal).catch((error: unknown) => {
    // Whether the service accepts the list no longer matters.
    if (!(error instanceof RefusedError || error instanceof InputError)) throw error;
  });
}
