import { createKeyedQueue, createQueue } from "#queue.ts";
import type { KeyedQueue, Queue } from "#queue.ts";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import type { Interruption } from "#sync/interruption.ts";
import { Plans } from "#state/plans.ts";
import type { RunRecord, SyncEvent, SyncStatus } from "#state/record.ts";
import type { Store } from "#state/store.ts";
import type { ApprovalPolicy } from "#sync/context.ts";
import type { Sync } from "#sync/sync.ts";

/** The part of a sync's configuration that decides about its runs. */
export interface SyncSettings {
  readonly target: string;
  /** Identifies the target's service: runs to the same place never overlap. */
  readonly place: string;
  readonly approval: ApprovalPolicy;
  /** How many different people must approve a plan, and one beyond a limit. */
  readonly approvers: { readonly people: number; readonly beyondLimits: number; readonly notTheRequester: boolean };
  /** How long a plan can be approved, in milliseconds. */
  readonly approvalExpires: number;
  readonly schedule?: string | undefined;
}

export interface CoordinatorOptions {
  readonly store: Store;
  /** DuckDB's memory limit for a run, in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  /** The syncs of the configuration, as it is now. */
  readonly syncs: () => Readonly<Record<string, SyncSettings>>;
  /** Opens a sync. The coordinator closes its target after use. */
  readonly open: (name: string) => Promise<Sync>;
  /** Runs after every success, for the export. The result goes into the run's record. Never rejects. */
  readonly after?: ((sync: string, outcome: "no change" | "applied") => Promise<RunRecord["export"]>) | undefined;
  /** Runs before a list is sent to be applied, and before that is written down. */
  readonly applying?: ((sync: string) => Promise<void>) | undefined;
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
  "memory" | "interruption" | "store" | "syncs" | "open" | "after" | "applying"
> {
  readonly plans: Plans;
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
  const { interruption, syncs, store, now = () => store.lease.now() } = options;
  const [decisions, targets] = [createQueue(), createKeyedQueue()];
  /** Waits for this process's turn first, then for those of the others; and knows then what they have written. */
  const inTurn = <Result>(claim: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> =>
    store.lease.whileClaimed(
      claim,
      async () => {
        await refresh(store, emit);
        return work();
      },
      signal,
    );
  return {
    ...options,
    now,
    emit,
    plans: new Plans(store.files),
    isStopping: () => interruption.stop.aborted,
    decisions: Object.assign(
      <Result>(work: () => Promise<Result>, signal?: AbortSignal) =>
        decisions(() => inTurn("decisions", work, signal), signal),
      { idle: decisions.idle },
    ),
    targets: Object.assign(
      <Result>(place: string, work: () => Promise<Result>, signal?: AbortSignal) =>
        targets(place, () => inTurn(`target ${place}`, work, signal), signal),
      { idle: targets.idle },
    ),
    underWay: new Map(),
    settingsOf: (sync) => {
      const settings = syncs()[sync];
      if (settings !== undefined) return settings;
      const names = Object.keys(syncs());
      throw new InputError(`no sync is called ${sync}: the configuration has ${names.join(", ") || "none"}`);
    },
  };
}

/** Reads what other processes have written, and tells the subscribers. */
export async function refresh({ journal }: Pick<Store, "journal">, emit: Context["emit"]): Promise<void> {
  for (const run of await journal.refresh()) emit({ type: "run", run, elsewhere: true });
}

/** What stops a run that begins now. Without its lease, this process may send nothing. */
export function interruptionOf({ interruption, store }: Pick<Context, "interruption" | "store">): Interruption {
  const lost = store.lease.lost();
  return {
    stop: AbortSignal.any([interruption.stop, lost]),
    abandon: AbortSignal.any([interruption.abandon, lost]),
  };
}

/** The time now, ISO 8601. */
export function timestamp({ now }: Pick<Context, "now">): string {
  return new Date(now()).toISOString();
}

/** @throws {InputError} when there is no such run */
export function findRun({ store }: Pick<Context, "store">, id: string): RunRecord {
  const run = store.journal.find(id);
  if (run === undefined) throw new InputError(`there is no run ${id}: \`${command("runs", "--all")}\` lists them`);
  return run;
}
