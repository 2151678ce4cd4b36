import { join } from "node:path";
import { redact } from "#redact.ts";
import { isDeepStrictEqual } from "node:util";
import { openWorkbench } from "#duckdb/workbench.ts";
import { isOutOfMemory } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { HeldError, InputError, messageOf } from "#errors.ts";
import { naming } from "#files/disk.ts";
import type { Cause } from "#plan/causes.ts";
import { changes } from "#plan/change.ts";
import type { Counts, Plan } from "#plan/change.ts";
import type { DriftLeft } from "#plan/drift.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import type { Departures } from "#plan/departures.ts";
import type { LimitCheck, Measure, Overridable } from "#plan/limits.ts";
import type { Note } from "#plan/note.ts";
import { openLedger } from "#state/ledger/ledger.ts";
import type { Ledger } from "#state/ledger/ledger.ts";
import { beyondLimits, holdBeyondLimits } from "#sync/planning/limits.ts";
import { forgetBaseline, loadBaseline, renewSettings, storeBaseline } from "#sync/planning/baseline.ts";
import type { Baseline } from "#sync/planning/baseline.ts";
import { agreeOnLastList, forgetLastList, storeLastList } from "#sync/planning/last-list.ts";
import type { Listed } from "#sync/planning/desired.ts";
import { compareOpinions, planFromSources } from "#sync/planning/planning.ts";
import { findNews, Recognized } from "#sync/planning/repeat.ts";
import type { Planned, Planner } from "#sync/planning/planning.ts";
import { watch } from "./interruption.ts";
import type { Interruption } from "./interruption.ts";
import type { Target } from "./ports.ts";
import type { SourceRead, Stage } from "#state/record.ts";
import { prepareList, verify } from "./apply.ts";
import type { Sync } from "./sync.ts";

export interface RunOptions {
  /** Identifies the run in the ledger, which then says whether it finished; absent: nothing does. */
  readonly id?: string | undefined;
  /** False: a dry run. It reads exactly what a real run reads, and changes nothing. */
  readonly apply: boolean;
  /** Whether a person must approve the plan: always, never, or when it trips a limit. Default: never. */
  readonly approval?: ApprovalPolicy | undefined;
  /** The digest of the plan that a person was shown and wants applied, or its beginning; any other plan is held. */
  readonly digest?: string | undefined;
  /** The limits that a person overrides for this plan. */
  readonly overrides?: readonly Overridable[] | undefined;
  /** True: it undoes earlier runs. */
  readonly undoes?: boolean | undefined;
  /** Names of users and groups: only these change, everything else stays as it is in the target. */
  readonly for?: readonly string[] | undefined;
  /** Makes the plan; default: reads the sources. */
  readonly planner?: Planner | undefined;
  /** The time of the run, in epoch milliseconds; absent: now. */
  readonly now?: number | undefined;
  /** The daemon's folder for workbenches and ledgers. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  /** Called when a stage begins, and while records are read. */
  readonly progress?: ((stage: Stage, records?: number) => void) | undefined;
  /** Called with warnings of the sources. */
  readonly warn: (message: string) => void;
  /** Called once the plan and the service's preview of it are there, before anything is applied. */
  readonly report?: ((report: Report) => Promise<void>) | undefined;
  /** Stores a plan that has changes or exceeds limits, before it is held, left pending or applied. */
  readonly store?: ((workbench: Workbench, planned: Planned) => Promise<void>) | undefined;
  /** Stores the quarantined records of a run whose plan is not stored. */
  readonly storeQuarantined?: ((workbench: Workbench) => Promise<void>) | undefined;
  /** Called when the ledger, or what the next plan finds its causes with, was written, and nobody has the files open. */
  readonly saved?: ((what: "ledger" | "baseline") => Promise<void>) | undefined;
  /** Called right before the list is sent to be applied: from then on the target may have changed. */
  readonly applying?: (() => Promise<void>) | undefined;
  /** Called before each piece of the list is sent to be applied. Throws when it may be sent no more. */
  readonly sending?: (() => void) | undefined;
}

export type ApprovalPolicy = "required" | "automatic" | "automatic-within-limits";

/** What a run would change. `plan` can be read only while `report` is running. */
export interface Report {
  readonly sync: string;
  readonly target: string;
  readonly plan: Plan;
  readonly limits: readonly LimitCheck[];
  /** What limits leave out of the plan. */
  readonly waiting: readonly Measure[];
  readonly notes: readonly Note[];
  /** Why the changes are there, those that explain most first. Absent: not asked for, or an undo. */
  readonly causes?: readonly Cause[] | undefined;
  /** What stays as somebody made it in the target. */
  readonly drift?: DriftLeft | undefined;
  /** What the sync expects of the target, and what the plan makes of it. Absent: nothing. */
  readonly expectations?: readonly ExpectationCheck[] | undefined;
  /** Who leaves later or never. Absent for a stored plan. */
  readonly departures?: Departures | undefined;
  /** How many records are quarantined. Absent for a stored plan. */
  readonly quarantined?: number | undefined;
  /** What was found in each source. Absent for a stored plan. */
  readonly sources?: readonly SourceRead[] | undefined;
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
  /** What limits left out of the plan. */
  readonly waiting: readonly Measure[];
}

/**
 * Runs a sync: read, assemble, protect, diff, limit, preview, compare, apply, verify. Where nothing is new since the last run
 * had nothing to change, before anything is read or after it, it says that instead.
 * @throws {HeldError} when a limit is tripped, the service's preview differs from the plan, or the plan from the one
 *   that was shown
 * @throws {IncompleteReadError | InputError | UnavailableError | RefusedError} from the sources and the target;
 *   before `apply` nothing has changed
 */
export async function run(sync: Sync, options: RunOptions): Promise<RunResult> {
  const { progress, planner = planFromSources, now = Date.now() } = options;
  const workbench = await openWorkbench({ folder: join(options.folder, "work"), memory: options.memory });
  const { connection } = workbench;
  const watching = watch(connection, options.interruption);
  let ledger: Ledger | undefined;
  try {
    ledger = await openLedger(connection, {
      folder: join(options.folder, "ledgers"),
      place: sync.place,
      sync: sync.name,
      mode: options.apply ? "write" : "read",
      signal: watching.signal(),
      now,
      saved: options.saved && (async () => options.saved?.("ledger")),
    });
    const warnings: string[] = [];
    const warn = (message: string): void => {
      const shown = redact(message);
      warnings.push(shown);
      options.warn(shown);
    };
    const news =
      options.apply && isOrdinary(options)
        ? await findNews(sync, ledger.kept, { now, signal: watching.signal() })
        : undefined;
    const repeat = async (planned: Planned): Promise<RunResult> => {
      await options.report?.(reportOf(sync, planned));
      const { digest, counts } = planned.plan;
      return { outcome: "no change", digest, counts, limits: planned.checks, waiting: planned.waiting };
    };
    if (news?.none !== undefined) {
      progress?.("read");
      for (const each of news.none.warnings) warn(each);
      return await repeat(news.none.planned);
    }
    const baseline = sync.causes ? await loadBaseline(connection, options.folder, sync.name) : undefined;
    const planned = await planner(sync, workbench, {
      ...options,
      warn,
      baseline,
      now,
      history: ledger.history,
      signal: watching.signal(),
      recognize: news?.recognize,
      listsLate: news?.mayRecognize,
    }).catch((error: unknown) => {
      if (error instanceof Recognized) return error;
      throw error;
    });
    if (planned instanceof Recognized) {
      await ledger.keep(planned.documentOf(warnings));
      return await repeat(planned.planned);
    }
    const { plan, checks: limits, waiting } = planned;
    const changed = changes(plan.counts) > 0;
    // Without changes, the list that is sent is the one that the target has: of that the service has spoken already.
    const isAgreed = !changed && planned.listed?.last?.isAgreed === true;
    let send: Awaited<ReturnType<typeof prepareList>> | undefined;
    let disagreements: readonly string[] = [];
    if (!isAgreed) {
      progress?.("preview");
      send = await prepareList(sync, workbench, plan, options.sending);
      disagreements = await compareOpinions(connection, await send(false, watching.signal()), "would");
    }
    // Where the target says that its list has not changed, and it has, the next run must not believe it again.
    if (disagreements.length > 0 && options.apply) await forgetLastList(options.folder, sync.name);
    await options.report?.(reportOf(sync, planned));
    const beyond = beyondLimits(sync, planned);
    const isBeyond = beyond.length > 0;
    if ((changed || isBeyond) && options.apply) await options.store?.(workbench, planned);
    else if ((planned.quarantined ?? 0) > 0 && options.apply) await options.storeQuarantined?.(workbench);
    holdUnlessAgreed(sync.target, plan, disagreements, options.digest);
    const policy = options.apply && options.digest === undefined ? (options.approval ?? "automatic") : "automatic";
    // Sources that have lost too much are held even if the plan has no changes, yet, to approve.
    const asks = !options.apply || options.digest !== undefined || options.approval !== undefined;
    if (policy !== "automatic-within-limits" || !changed)
      await holdBeyondLimits(connection, sync, planned, { run: options.id, asks, for: options.for });
    const result = { digest: plan.digest, counts: plan.counts, limits, waiting };
    if (changed && !options.apply) return { outcome: "planned", ...result };
    const mustAsk = options.digest === undefined && beyond.some(({ otherwise }) => otherwise === "approve");
    if (changed && (policy === "required" || (policy !== "automatic" && isBeyond) || mustAsk))
      return { outcome: "pending", ...result };
    if (options.apply) {
      watching.enterApply();
      await ledger.claim();
      let arrived: string | undefined;
      if (changed && send !== undefined) {
        await options.applying?.();
        progress?.("apply");
        const differences = await compareOpinions(connection, await send(true, watching.signal()), "did");
        progress?.("verify");
        arrived = await verify(sync.target, workbench, differences, watching.signal());
      }
      const gains = !changed && sync.causes && options.for === undefined && (await givesMore(connection, sync));
      const isKnown = !sync.causes || isDeepStrictEqual(baseline?.settings, sync.settings);
      const keep = !changed && !gains && isKnown ? news?.documentOf(planned, warnings) : undefined;
      await ledger.settle({ now, ...planned, run: options.id, keep });
      const isOlder = planned.quarantined === undefined;
      await storeState(sync, connection, { changed: changed || gains, known: baseline, isOlder, ...options, now });
      await keepList(sync, connection, { ...planned.listed, changed, arrived, isAgreed, ...options, now });
    }
    return { outcome: changed ? "applied" : "no change", ...result };
  } catch (error) {
    const explained = watching.explain(error);
    throw isOutOfMemory(explained)
      ? outOfMemory(options.memory, explained)
      : naming(`the folder ${options.folder}`, explained);
  } finally {
    watching.end();
    await ledger?.close().catch(() => undefined);
    await workbench.close();
  }
}

function outOfMemory(limit: number, cause: unknown): InputError {
  return new InputError(
    `the run needs more memory than it may take: raise memory in the configuration, of the service or of the daemon; it is ${Math.round(limit / 2 ** 20)}MiB now`,
    { cause },
  );
}

function reportOf({ name, target }: Sync, planned: Planned): Report {
  return { sync: name, target: target.name, limits: planned.checks, ...planned };
}

/** Whether a run is for everybody, from the sources, and nobody has said what it may do. */
function isOrdinary({ planner, for: people, digest, overrides = [] }: RunOptions): boolean {
  return planner === undefined && people === undefined && digest === undefined && overrides.length === 0;
}

/** Stores what the next plan finds its causes with. The run has succeeded whether that can be written or not. */
async function storeState(
  sync: Sync,
  connection: Connection,
  {
    changed,
    known,
    isOlder,
    id,
    undoes = false,
    for: people,
    folder,
    now,
    saved,
    warn,
  }: Pick<RunOptions, "id" | "undoes" | "for" | "folder" | "saved" | "warn"> & {
    /** The target, or what the sync gives of what is in it. */
    readonly changed: boolean;
    readonly known: Baseline | undefined;
    /** The plan was stored, or is an undo: no sources were read. */
    readonly isOlder: boolean;
    readonly now: number;
  },
): Promise<void> {
  // A run for some leaves the rest to the next run, with what has changed since the last one for all.
  const isPart = people !== undefined;
  if (!sync.causes || (isPart && (!changed || known === undefined))) return;
  const settings = isPart ? (known?.settings ?? {}) : sync.settings;
  const baseline = { run: id, at: new Date(now).toISOString(), settings };
  try {
    if (changed || known === undefined)
      await storeBaseline(connection, folder, sync.name, baseline, {
        undone: undoes,
        isOlder: isOlder && known !== undefined && sync.keepManual.length > 0,
      });
    else await renewSettings(folder, sync.name, known, sync.settings);
    await saved?.("baseline");
  } catch (error) {
    warn(`the next plan cannot name its causes: ${messageOf(naming(`the folder ${folder}`, error))}`);
    // By an older one, what this run has given would pass for added by hand.
    if (sync.keepManual.length === 0) return;
    await forgetBaseline(folder, sync.name).catch(() => undefined);
    await saved?.("baseline").catch(() => undefined);
  }
}

/**
 * Stores the target's list as it was read last, so that the next run need not read it again if nothing has changed there.
 * The run has succeeded whether that can be written or not.
 */
async function keepList(
  sync: Sync,
  connection: Connection,
  {
    tag,
    last,
    changed,
    arrived,
    isAgreed,
    folder,
    warn,
    now,
  }: Partial<Listed> & {
    readonly changed: boolean;
    /** The entity tag of the list after changes were applied. */
    readonly arrived: string | undefined;
    readonly isAgreed: boolean;
    readonly now: number;
  } & Pick<RunOptions, "folder" | "warn">,
): Promise<void> {
  try {
    if (changed) {
      if (arrived !== undefined)
        await storeLastList(sync, connection, folder, { table: "arrived", tag: arrived, agreed: false, now });
    } else if (last !== undefined && !isAgreed) await agreeOnLastList(folder, sync.name);
    else if (last === undefined && tag !== undefined)
      await storeLastList(sync, connection, folder, { table: "actual", tag, agreed: true, now });
  } catch (error) {
    warn(`the next run lists the target again: ${messageOf(naming(`the folder ${folder}`, error))}`);
  }
}

/** Whether the sync gives, or keeps, memberships that the baseline does not have: in a target that had them already. */
async function givesMore(connection: Connection, { keepManual }: Sync): Promise<boolean> {
  if (keepManual.length === 0) return false;
  const rows = await connection.rows(`
    SELECT true FROM (FROM desired SEMI JOIN managed USING (kind, name)) m
    LEFT JOIN baseline_target b ON b.kind = m.kind AND b.name = m.name
    WHERE b.name IS NULL OR NOT list_has_all(b.group_names, m.group_names) LIMIT 1`);
  return rows.length > 0;
}

function holdUnlessAgreed(
  target: Target,
  plan: Plan,
  disagreements: readonly string[],
  digest: string | undefined,
): void {
  if (disagreements.length > 0) {
    throw new HeldError(
      `target ${target.name}: the service's preview is not what was planned; nothing was applied`,
      disagreements,
      "opinions",
    );
  }
  if (digest !== undefined && !plan.digest.startsWith(digest)) {
    throw new HeldError(
      "the changes are no longer those that were shown; nothing was applied. Plan again",
      [],
      "digest",
    );
  }
}
