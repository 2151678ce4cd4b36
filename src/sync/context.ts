import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import type { Counts } from "#plan/change.ts";
import type { LimitCheck, Measure, Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { redact } from "#redact.ts";
import type { Stage } from "#state/record.ts";
import type { StateFiles } from "#state/store.ts";
import type { Interruption, Watch } from "./interruption.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import type { Planned } from "#sync/planning/limits.ts";
import type { Seen } from "#sync/planning/pushes.ts";
import type { Planner } from "#sync/planning/planning.ts";
import { ledgerOf } from "./sync.ts";
import type { Sync } from "./sync.ts";
import { Unchanged } from "./unchanged.ts";

export interface RunOptions {
  /** Identifies the run in the ledger, which then says whether it finished; absent: nothing does. */
  readonly id?: string | undefined;
  /** False: a dry run. It reads exactly what a real run reads, and changes nothing. */
  readonly apply: boolean;
  /** Whether a person must approve the plan: always, never, or when it trips a limit. Default: never. */
  readonly approval?: ApprovalPolicy | undefined;
  /** The digest of the plan that a person was shown and wants applied, or its beginning; any other plan is held. */
  readonly digest?: string | undefined;
  /** Where one person may not be enough: how many must approve a plan, and one beyond a limit, and how many have. */
  readonly approvers?: { readonly people: number; readonly beyondLimits: number; readonly given: number } | undefined;
  /** The limits that a person overrides for this plan. */
  readonly overrides?: readonly Overridable[] | undefined;
  /** How far earlier runs have come with what providers pushed. Absent: that is not known. */
  readonly seenPushes?: Seen | undefined;
  /** The run that it undoes, with the later ones of its sync. */
  readonly undoes?: string | undefined;
  /** Names of users and groups: only these change, everything else in the target stays unchanged. */
  readonly for?: readonly string[] | undefined;
  /** The part of a stored plan that is applied. Absent: all of it. */
  readonly selection?: Selection | undefined;
  /** Makes the plan; default: reads the sources. */
  readonly planner?: Planner | undefined;
  /** The time of the run, in epoch milliseconds; absent: now. */
  readonly now?: number | undefined;
  /** Later times than that, before the clock was set back (`laterTimes`). Absent: that is not known. */
  readonly later?: readonly number[] | undefined;
  /** The state, as far as it is files. Workbenches are in its folder, too. */
  readonly files: StateFiles;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  /** How long to wait, in milliseconds, before late lists of a target are read again, each time. Absent: some seconds. */
  readonly lags?: readonly number[] | undefined;
  readonly interruption: Interruption;
  /** Called when a stage begins, and while records are read. */
  readonly progress?: ((stage: Stage, records?: number) => void) | undefined;
  /** Called with warnings of the sources. */
  readonly warn: (message: string) => void;
  /** Called when a source waits until no more is on its way. Absent: `warn` is. */
  readonly waiting?: ((message: string) => void) | undefined;
  /** Called once the plan and the service's preview of it are there, before anything is applied. */
  readonly report?: ((report: Report) => Promise<void>) | undefined;
  /** Stores a plan that has changes or exceeds limits, before it is held, left pending or applied. */
  readonly store?: ((workbench: Workbench, planned: Planned) => Promise<void>) | undefined;
  /** Stores the quarantined records of a run whose plan is not stored. */
  readonly storeQuarantined?: ((workbench: Workbench) => Promise<void>) | undefined;
  /** Stores which changes of a plan that was applied were not made: the rows of `unwritten`. */
  readonly storeUnwritten?: ((workbench: Workbench) => Promise<void>) | undefined;
  /** Called right before the list is sent to be applied: from then on the target may have changed. */
  readonly applying?: (() => Promise<void>) | undefined;
  /** Called before each piece of the list is sent to be applied. Throws when it may be sent no more. */
  readonly sending?: (() => void) | undefined;
}

export type ApprovalPolicy = "required" | "automatic" | "automatic-within-limits";

/** What a run would change. `plan` can be read only while `report` is running. */
export interface Report extends Pick<
  Planned,
  "plan" | "waiting" | "notes" | "causes" | "drift" | "expectations" | "departures" | "quarantined" | "sources"
> {
  readonly sync: string;
  readonly target: string;
  readonly limits: readonly LimitCheck[];
}

export interface RunResult {
  /**
   * `planned`: a dry run found changes. `pending`: a person must approve them. `applied`: applied, and verified by listing
   * the target again.
   */
  readonly outcome: "no change" | "planned" | "pending" | "applied";
  readonly digest: string;
  readonly counts: Counts;
  readonly limits: readonly LimitCheck[];
  /** The measures that limits left out of the plan. */
  readonly waiting: readonly Measure[];
  /** How many principals the plan adopts by their names. */
  readonly adopted: number;
}

/** What the steps of a run share. */
export interface Run {
  readonly sync: Sync;
  readonly options: RunOptions;
  readonly workbench: Workbench;
  readonly connection: Connection;
  readonly watching: Watch;
  readonly ledger: Ledger;
  readonly unchanged: Unchanged;
  /** In epoch milliseconds. */
  readonly now: number;
  /** The warnings of the sources, without secrets. */
  readonly warnings: readonly string[];
  readonly warn: (message: string) => void;
}

/** What a plan amounts to. */
export interface Verdict {
  readonly changed: boolean;
  /** The limits that hold it, or ask for its approval. */
  readonly beyond: readonly LimitCheck[];
  /** It waits, since more people must approve it than have. */
  readonly mustBeShared: boolean;
}

/** Opens the ledger, and asks the sources for their versions. Close the ledger after use. */
export async function openRun(sync: Sync, options: RunOptions, workbench: Workbench, watching: Watch): Promise<Run> {
  const { connection } = workbench;
  const { apply, files, now = Date.now() } = options;
  const { folder } = files;
  const signal = watching.signal();
  const ledger = await Ledger.open(connection, {
    files,
    ...ledgerOf(sync),
    mode: apply ? "write" : "read",
    signal,
    now,
  });
  const warnings: string[] = [];
  const warn = (message: string): void => {
    const shown = redact(message);
    warnings.push(shown);
    options.warn(shown);
  };
  const mayEnd = apply && isOrdinary(options);
  try {
    const { kept, others } = ledger;
    const unchanged = await Unchanged.open(sync, { folder, kept, others, now, signal, mayEnd, stores: apply });
    return { sync, options, workbench, connection, watching, ledger, unchanged, now, warnings, warn };
  } catch (error) {
    await ledger.close().catch(() => undefined);
    throw error;
  }
}

/** Whether a run is for everybody, from the sources, and nobody has said what it may do. */
function isOrdinary({ planner, for: people, digest, overrides = [] }: RunOptions): boolean {
  return planner === undefined && people === undefined && digest === undefined && overrides.length === 0;
}
