import { createKeyedQueue, createQueue } from "#queue.ts";
import type { KeyedQueue, Queue } from "#queue.ts";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import type { Audit } from "#state/folder/audit.ts";
import type { AuditEntry } from "#state/audit/entry.ts";
import type { Interruption } from "#sync/interruption.ts";
import type { Journal } from "#state/folder/journal.ts";
import { filesOf, openSharedStore } from "#state/postgres/plans.ts";
import type { RunFiles } from "#state/postgres/plans.ts";
import type { SharedState } from "#state/postgres/store.ts";
import { openPlans } from "#state/plans.ts";
import type { Plans } from "#state/plans.ts";
import type { RunRecord, SyncEvent, SyncStatus } from "#state/record.ts";
import type { ApprovalPolicy, Report } from "#sync/context.ts";
import type { Sync } from "#sync/sync.ts";

/** The part of a sync's configuration that decides about its runs. */
export interface SyncSettings {
  readonly target: string;
  /** Identifies the target's service: runs to the same place never overlap. */
  readonly place: string;
  readonly approval: ApprovalPolicy;
  /** How long a plan can be approved, in milliseconds. */
  readonly approvalExpires: number;
  readonly schedule?: string | undefined;
}

export interface CoordinatorOptions {
  /** The daemon's folder. */
  readonly folder: string;
  /** DuckDB's memory limit for a run, in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  readonly journal: Journal;
  /** Present: other processes run the same syncs, and the journal is that of all. */
  readonly shared?: SharedState | undefined;
  readonly audit: Pick<Audit, "append" | "head">;
  /** The syncs of the configuration, as it is now. */
  readonly syncs: () => Readonly<Record<string, SyncSettings>>;
  /** Opens a sync. The coordinator closes its target after use. */
  readonly open: (name: string) => Promise<Sync>;
  /** Runs after every success, for the export. The result goes into the run's record. Never rejects. */
  readonly after?: ((sync: string, outcome: "no change" | "applied") => Promise<RunRecord["export"]>) | undefined;
  /** Runs before a list is sent to be applied, and before that is written down. */
  readonly applying?: ((sync: string) => Promise<void>) | undefined;
  /** Receives the plan of every run without a watcher of its own, once the service's preview agrees. */
  readonly report?: ((report: Report, run: RunRecord) => Promise<void>) | undefined;
  /** In epoch milliseconds; default: the clock. */
  readonly now?: (() => number) | undefined;
  /** Adds to the status of a sync what only the scheduler knows. */
  readonly statusOf?:
    | ((sync: string) => Partial<Pick<SyncStatus, "nextSlotAt" | "scheduleProblem" | "overdue">>)
    | undefined;
}

/** What all steps of the coordinator share. */
export interface Context extends Pick<
  CoordinatorOptions,
  "folder" | "memory" | "interruption" | "journal" | "shared" | "audit" | "open" | "after" | "applying" | "report"
> {
  readonly store: Plans;
  /** Tells the subscribers. */
  readonly emit: (event: SyncEvent) => void;
  readonly now: () => number;
  /** A run that fails while the process stops does not count as a failure of its sync. */
  readonly isStopping: () => boolean;
  /** Decisions about runs and the ends of runs go through here: none sees another one half done. */
  readonly decisions: Queue;
  /** One queue for each target: a list made while another run changes the target would undo that run. */
  readonly targets: KeyedQueue;
  /** The runs that are running or queued: ids to syncs. */
  readonly underWay: Map<string, string>;
  /** @throws {InputError} when the configuration has no such sync */
  readonly settingsOf: (sync: string) => SyncSettings;
}

/** @param emit must not throw */
export function createContext(options: CoordinatorOptions, emit: (event: SyncEvent) => void): Context {
  const { interruption, syncs, shared, now = shared?.node.now ?? Date.now } = options;
  const [decisions, targets] = [createQueue(), createKeyedQueue()];
  const own = openPlans(options.folder);
  return {
    ...options,
    now,
    emit,
    store: shared === undefined ? own : openSharedStore(own, shared.files),
    isStopping: () => interruption.stop.aborted,
    decisions: shared === undefined ? decisions : sharedQueue(decisions, shared, emit),
    targets: shared === undefined ? targets : sharedTargets(targets, shared, emit),
    underWay: new Map(),
    settingsOf: (sync) => {
      const settings = syncs()[sync];
      if (settings !== undefined) return settings;
      const names = Object.keys(syncs());
      throw new InputError(`no sync is called ${sync}: the configuration has ${names.join(", ") || "none"}`);
    },
  };
}

/** Waits for this process's turn first, then for those of the others; and knows then what they have written. */
function sharedQueue(queue: Queue, shared: SharedState, emit: Context["emit"]): Queue {
  return Object.assign(
    <Result>(work: () => Promise<Result>, signal?: AbortSignal) =>
      queue(() => inTurn(shared, "decisions", emit, work, signal), signal),
    { idle: queue.idle },
  );
}

function sharedTargets(queue: KeyedQueue, shared: SharedState, emit: Context["emit"]): KeyedQueue {
  return Object.assign(
    <Result>(place: string, work: () => Promise<Result>, signal?: AbortSignal) =>
      queue(place, () => inTurn(shared, `target ${place}`, emit, work, signal), signal),
    { idle: queue.idle },
  );
}

function inTurn<Result>(
  shared: SharedState,
  claim: string,
  emit: Context["emit"],
  work: () => Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  return shared.node.whileClaimed(
    claim,
    async () => {
      await refresh(shared, emit);
      return work();
    },
    signal,
  );
}

/** Reads what other processes have written, and tells the subscribers. */
export async function refresh({ journal }: Pick<SharedState, "journal">, emit: Context["emit"]): Promise<void> {
  for (const run of await journal.refresh()) emit({ type: "run", run, elsewhere: true });
}

/** What stops a run that begins now. Without its lease, this process may send nothing. */
export function interruptionOf({ interruption, shared }: Pick<Context, "interruption" | "shared">): Interruption {
  if (shared === undefined) return interruption;
  const lost = shared.node.lost();
  return {
    stop: AbortSignal.any([interruption.stop, lost]),
    abandon: AbortSignal.any([interruption.abandon, lost]),
  };
}

/** Brings the files of a sync here as the last run, wherever it was, has left them. */
export async function pull(
  { shared, settingsOf }: Pick<Context, "shared" | "settingsOf">,
  sync: string,
): Promise<void> {
  if (shared === undefined) return;
  const { place } = settingsOf(sync);
  await shared.files.pull(Object.values(filesOf).flatMap((of) => of(sync, place)));
}

/** Gives files of a sync, which nobody has open, to the runs that follow, wherever they are. */
export async function push(
  { shared, settingsOf }: Pick<Context, "shared" | "settingsOf">,
  sync: string,
  which: readonly RunFiles[],
): Promise<void> {
  if (shared === undefined) return;
  const { place } = settingsOf(sync);
  await shared.files.push(which.flatMap((each) => filesOf[each](sync, place)));
}

/** The time now, ISO 8601. */
export function timestamp({ now }: Pick<Context, "now">): string {
  return new Date(now()).toISOString();
}

/** @throws {InputError} when there is no such run */
export function findRun({ journal }: Pick<Context, "journal">, id: string): RunRecord {
  const run = journal.find(id);
  if (run === undefined) throw new InputError(`there is no run ${id}: \`${command("runs", "--all")}\` lists them`);
  return run;
}

/** Appends to the audit log. The journal's next write remembers how far the log goes. */
export async function writeAudit(
  { audit, journal }: Pick<Context, "audit" | "journal">,
  entry: AuditEntry,
): Promise<void> {
  await audit.append(entry);
  journal.audited(audit.head());
}
