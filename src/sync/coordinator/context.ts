import { createKeyedQueue, createQueue } from "#queue.ts";
import type { KeyedQueue, Queue } from "#queue.ts";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import type { Audit } from "#sync/audit/audit.ts";
import type { AuditEntry } from "#sync/audit/entry.ts";
import type { Interruption } from "#sync/interruption.ts";
import type { Journal } from "#sync/journal.ts";
import { openStore } from "#sync/plans/stored.ts";
import type { Store } from "#sync/plans/stored.ts";
import type { RunRecord } from "#sync/record.ts";
import type { ApprovalPolicy, Report } from "#sync/run.ts";
import type { Sync } from "#sync/sync.ts";
import type { SyncEvent, SyncStatus } from "./coordinator.ts";

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
  readonly audit: Pick<Audit, "append" | "head">;
  /** The syncs of the configuration, as it is now. */
  readonly syncs: () => Readonly<Record<string, SyncSettings>>;
  /** Opens a sync. The coordinator closes its target after use. */
  readonly open: (name: string) => Promise<Sync>;
  /** Runs after every success, for the export. The result goes into the run's record. Never rejects. */
  readonly after?: ((sync: string, outcome: "no change" | "applied") => Promise<RunRecord["export"]>) | undefined;
  /** Receives the plan of every run without a watcher of its own, once the service's preview agrees. */
  readonly report?: ((report: Report, run: RunRecord) => Promise<void>) | undefined;
  /** In epoch milliseconds; default: the clock. */
  readonly now?: (() => number) | undefined;
  /** Adds to the status of a sync what only the scheduler knows. */
  readonly statusOf?: ((sync: string) => Partial<Pick<SyncStatus, "nextSlotAt" | "overdue">>) | undefined;
}

/** What all steps of the coordinator share. */
export interface Context extends Pick<
  CoordinatorOptions,
  "folder" | "memory" | "interruption" | "journal" | "audit" | "open" | "after" | "report"
> {
  readonly store: Store;
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
  const { interruption, syncs, now = Date.now } = options;
  return {
    ...options,
    now,
    emit,
    store: openStore(options.folder),
    isStopping: () => interruption.stop.aborted,
    decisions: createQueue(),
    targets: createKeyedQueue(),
    underWay: new Map(),
    settingsOf: (sync) => {
      const settings = syncs()[sync];
      if (settings !== undefined) return settings;
      const names = Object.keys(syncs());
      throw new InputError(`no sync is called ${sync}: the configuration has ${names.join(", ") || "none"}`);
    },
  };
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
