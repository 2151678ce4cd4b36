import { InputError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import type { Audit } from "#sync/audit/audit.ts";
import type { AuditEntry } from "#sync/audit/entry.ts";
import type { Journal } from "#sync/journal.ts";
import { idAfter } from "#sync/journal.ts";
import { openStore, partOf, planFromStore } from "#sync/plans/stored.ts";
import { planTheWayBack } from "#sync/plans/undo.ts";
import type { Decision, RunRecord, SyncState } from "#sync/record.ts";
import type { ApprovalPolicy, Report } from "#sync/run.ts";
import type { Begun, Coordinator, SyncEvent, SyncStatus, Watcher } from "./coordinator.ts";
import { carryOut } from "./execute.ts";
import type { Means, Wanted } from "./execute.ts";
import { close, endedByError, isOpen, tell, tidy, without } from "./finish.ts";
import { createRecovery } from "./recover.ts";
import {
  hasApplied,
  isPart,
  notOpen,
  passedOver,
  refuseOtherTarget,
  refuseUnapprovable,
  refuseUndoing,
} from "./refusals.ts";
import { createTurns } from "./turns.ts";

/** What of a sync decides on its runs. */
export interface SyncSettings {
  readonly target: string;
  /** What tells the target from every other. */
  readonly place: string;
  readonly approval: ApprovalPolicy;
  /** How long a plan can be approved, in milliseconds. */
  readonly approvalExpires: number;
  readonly schedule?: string;
}

export interface CoordinatorOptions extends Pick<Means, "folder" | "memory" | "interruption" | "open" | "after"> {
  readonly journal: Journal;
  readonly audit: Audit;
  /** The syncs of the configuration, as it is now. */
  readonly syncs: () => Readonly<Record<string, SyncSettings>>;
  /** Is told of the plan of every run that nobody else watches, once the service has said what it thinks of it. */
  readonly report?: (report: Report, run: RunRecord) => Promise<void>;
  /** In epoch milliseconds; absent: the clock. */
  readonly now?: () => number;
  /** What else there is to say of a sync. */
  readonly statusOf?: (sync: string) => Partial<Pick<SyncStatus, "nextSlotAt" | "overdue">>;
}

/** The coordinator of this process. */
export interface LocalCoordinator extends Coordinator {
  /** Tells the subscribers. */
  emit(event: SyncEvent): void;
  /** What is remembered of a sync. */
  state(sync: string): SyncState;
  /** Remembers something else of it. */
  change(sync: string, change: (state: SyncState) => SyncState): Promise<void>;
  /**
   * Finds out how the runs have ended that a process which was killed has left under way. What it takes to read a
   * target is waited for by the runs to it, not by the caller.
   */
  recover(): Promise<void>;
  /** Waits for the runs that are under way, and for what is being found out of earlier ones. Stop them first. */
  close(): Promise<void>;
}

/** How often it is looked for plans that nobody has approved in time, in milliseconds. */
const expiryInterval = 30_000;

/**
 * Runs the syncs of a data folder, at most one at a time for each target, each written down before anything is applied.
 * Nobody else may write to the daemon's folder meanwhile. `recover` is to be called once there are subscribers.
 */
export async function openCoordinator(options: CoordinatorOptions): Promise<LocalCoordinator> {
  const { journal, audit, interruption, now = Date.now } = options;
  const listeners = new Set<(event: SyncEvent) => void>();
  const turns = createTurns();
  const iso = (): string => new Date(now()).toISOString();
  const emit = (event: SyncEvent): void => {
    for (const listener of listeners) {
      try {
        listener(event);
      } catch {
        // Whoever listens must not fail a run.
      }
    }
  };
  const store = openStore(options.folder);
  const inOrder = createQueue();
  const books = { journal, audit, store, emit, now, inOrder, isStopping: () => interruption.stop.aborted };
  const { stop } = interruption;
  const recovery = createRecovery({ ...options, ...books, stop, isUnderWay: turns.isUnderWay });
  const means: Means = { ...options, ...books, findEnd: recovery.findEnd };

  const settingsOf = (sync: string): SyncSettings => {
    const settings = options.syncs()[sync];
    if (settings !== undefined) return settings;
    const names = Object.keys(options.syncs());
    throw new InputError(`no sync is called ${sync}: the configuration has ${names.join(", ") || "none"}`);
  };
  const runOf = (id: string): RunRecord => {
    const run = journal.find(id);
    if (run === undefined) throw new InputError(`there is no run ${id}: \`rollcall runs --all\` lists them`);
    return run;
  };
  const work = async (run: RunRecord, wanted: Wanted, watcher?: Watcher): Promise<RunRecord> => {
    try {
      await recovery.before(run.sync);
      const { report } = options;
      const usual: Watcher = report === undefined ? {} : { report: (found) => report(found, run) };
      return await carryOut(run, wanted, means, watcher ?? usual);
    } catch (error) {
      // What has become of an earlier run cannot be written down.
      const failed = endedByError(run, error, iso(), iso());
      emit({ type: "run", run: failed });
      return failed;
    }
  };
  /** Nothing begins that is not written down: who asked for what, and that it has begun. */
  const start = async (
    run: RunRecord,
    wanted: Wanted,
    entries: readonly AuditEntry[],
    watcher?: Watcher,
  ): Promise<Begun> => {
    const before = journal.find(run.id);
    try {
      for (const entry of entries) await tell(entry, books);
      await journal.put(run);
    } catch (error) {
      const isScheduled = before === undefined && run.cause !== "demand" && run.cause !== "undo";
      const failed = isScheduled ? endedByError(run, error, iso(), iso()) : before;
      await (failed === undefined ? journal.remove(run.id) : journal.put(failed)).catch(() => undefined);
      // Nobody waits for an answer who could tell.
      if (isScheduled && failed !== undefined) emit({ type: "run", run: failed });
      throw error;
    }
    emit({ type: "run", run });
    return { run, ended: turns.take(run, settingsOf(run.sync).place, () => work(run, wanted, watcher)) };
  };
  const newRun = (
    sync: string,
    rest: Pick<RunRecord, "cause" | "by" | "undoes" | "decisions" | "caution">,
  ): RunRecord => ({
    id: idAfter(journal.document.runs.at(-1)?.id, now()),
    sync,
    target: settingsOf(sync).target,
    startedAt: iso(),
    state: "running",
    stages: [],
    limits: [],
    waiting: [],
    notes: [],
    kept: false,
    ...rest,
  });

  const expire = async (): Promise<void> => {
    for (const run of journal.document.runs) {
      if (!isOpen(run) || run.expiresAt === undefined || Date.parse(run.expiresAt) > now()) continue;
      await close({ ...run, state: "expired", endedAt: iso() }, books);
    }
  };
  const statusOf = (sync: string): SyncStatus => {
    const { target, schedule } = settingsOf(sync);
    const running = turns.runOf(sync);
    const pending = journal.document.runs.findLast((run) => run.sync === sync && isOpen(run))?.id;
    return {
      ...journal.state(sync),
      sync,
      target,
      overdue: false,
      ...someOf({ schedule, running, pending }),
      ...options.statusOf?.(sync),
    };
  };
  const expiring = setInterval(() => {
    void inOrder(expire).catch(() => undefined);
  }, expiryInterval);
  expiring.unref();

  return {
    emit,
    state: journal.state,
    change: journal.change,
    begin: ({ sync, cause, by, digest, overrides = [] }, watcher) =>
      inOrder(async () => {
        const settings = settingsOf(sync);
        await expire();
        const approved: Decision[] =
          digest === undefined ? [] : [{ decision: "approved", at: iso(), by, digest, ...someOf({ overrides }) }];
        const { caution } = journal.state(sync);
        const approval = caution === undefined ? settings.approval : "required";
        const isCautious = caution !== undefined && settings.approval !== "required" && digest === undefined;
        const reason = isCautious ? caution.reason : undefined;
        const run = newRun(sync, { cause, by, decisions: approved, ...someOf({ caution: reason }) });
        const notes = isCautious ? [`${caution.reason}: until somebody approves a run, none is applied without`] : [];
        const wanted = { approval, approvalExpires: settings.approvalExpires, storedAs: run.id, overrides, notes };
        const of = { by, sync, run: run.id };
        const entries: AuditEntry[] =
          cause === "demand" ? [{ event: "asked", ...of, cause, ...someOf({ digest }) }] : [];
        if (digest !== undefined && overrides.length > 0)
          entries.push({ event: "overridden", ...of, digest, overrides });
        return start(run, { ...wanted, ...someOf({ digest }) }, entries, watcher);
      }),
    approve: (id, { by, digest, overrides = [], selection }, watcher) =>
      inOrder(async () => {
        await expire();
        const run = runOf(id);
        refuseUnapprovable(run, { ...someOf({ digest, selection }), overrides });
        const { approvalExpires, target } = settingsOf(run.sync);
        refuseOtherTarget(run, target, "approved");
        // What was shown to be beyond the limits, and is approved all the same, passes them.
        const passing = [...new Set([...overrides, ...(run.state === "pending" ? passedOver(run) : [])])];
        const approved = {
          digest: run.digest ?? "",
          ...someOf({ overrides: passing, selection: isPart(selection) ? selection : undefined }),
        };
        const decisions: Decision[] = [...run.decisions, { decision: "approved", at: iso(), by, ...approved }];
        const running = { ...without(run, ["error", "endedAt", "recovery"]), state: "running", decisions } as const;
        const planner = planFromStore(store, run, selection);
        const wanted: Wanted = {
          approvalExpires,
          overrides: passing,
          planner,
          ...(isPart(selection) ? { storedAs: partOf(id) } : {}),
        };
        return start(running, wanted, [{ event: "approved", by, sync: run.sync, run: id, ...approved }], watcher);
      }),
    reject: (id, { by, reason }) =>
      inOrder(async () => {
        await expire();
        const run = runOf(id);
        if (!isOpen(run)) throw notOpen(run, "rejected");
        const decision = {
          decision: "rejected",
          at: iso(),
          by,
          digest: run.digest ?? "",
          ...someOf({ reason }),
        } as const;
        const facts = { by, sync: run.sync, run: id, ...someOf({ digest: run.digest, reason }) };
        await tell({ event: "rejected", ...facts }, books);
        const rejected = {
          ...run,
          state: "rejected",
          endedAt: iso(),
          decisions: [...run.decisions, decision],
        } as const;
        return close(rejected, books);
      }),
    undo: (id, { by }, watcher) =>
      inOrder(async () => {
        await expire();
        const undone = runOf(id);
        const later = journal.document.runs.filter(
          (other) => other.sync === undone.sync && other.id >= id && hasApplied(other),
        );
        refuseUndoing(undone, later);
        for (const each of later) refuseOtherTarget(each, settingsOf(undone.sync).target, "undone");
        const run = newRun(undone.sync, { cause: "undo", by, undoes: id, decisions: [] });
        const planner = planTheWayBack(
          store,
          later.map((each) => each.id),
        );
        const { approvalExpires } = settingsOf(undone.sync);
        const entry = { event: "undone", by, sync: run.sync, run: run.id, undoes: id } as const;
        return start(run, { approval: "required", approvalExpires, storedAs: run.id, planner }, [entry], watcher);
      }),
    runs: () => journal.document.runs.toReversed(),
    syncs: () => Object.keys(options.syncs()).map(statusOf),
    recover: async () => {
      await recovery.ofNeverSent();
      await inOrder(expire);
      await tidy(books);
      for (const { sync } of recovery.left())
        turns.precede(options.syncs()[sync]?.place ?? "", () => recovery.before(sync));
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: async () => {
      clearInterval(expiring);
      await turns.over();
    },
  };
}

/** The keys that have a value. */
function someOf<Values extends Record<string, unknown>>(
  values: Values,
): { [Key in keyof Values]?: Exclude<Values[Key], undefined> } {
  return Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0)),
  ) as never;
}
