import { join } from "node:path";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { HeldError } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { changes } from "#plan/change.ts";
import type { Counts, Plan } from "#plan/change.ts";
import type { Departures } from "#plan/departures.ts";
import { createChanges } from "#plan/diff.ts";
import type { LimitCheck, Measure, Overridable } from "#plan/limits.ts";
import { writePrincipals } from "#plan/lists.ts";
import { openLedger } from "#sync/ledger/ledger.ts";
import type { Ledger } from "#sync/ledger/ledger.ts";
import { listTarget } from "#sync/planning/desired.ts";
import { beyondLimits, holdBeyondLimits } from "#sync/planning/limits.ts";
import { compareOpinions, planFromSources } from "#sync/planning/planning.ts";
import type { Planned, Planner } from "#sync/planning/planning.ts";
import { watch } from "./interruption.ts";
import type { Interruption } from "./interruption.ts";
import type { Target } from "./ports.ts";
import type { NoteSubject } from "./record.ts";
import { passwordOf } from "./sync.ts";
import type { Stage, Sync } from "./sync.ts";

export interface RunOptions {
  /** Under which it is written down, and by which it is known later whether it came to its end; absent: it is not. */
  readonly id?: string;
  /** False: a dry run. It reads exactly what a real run reads, and changes nothing. */
  readonly apply: boolean;
  /** Who lets a plan be applied: a person, nobody, or a person where a limit is tripped. Absent: nobody. */
  readonly approval?: ApprovalPolicy;
  /** The digest of the plan that was shown to a person who wants it applied; another one is held. */
  readonly digest?: string;
  /** Limits that do not count for this plan, as a person has said who saw it. */
  readonly overrides?: readonly Overridable[];
  /** What makes the plan; absent: the sources are read. */
  readonly planner?: Planner;
  /** The time of the run, in epoch milliseconds; absent: now. */
  readonly now?: number;
  /** The daemon's folder for workbenches and ledgers. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  /** Called when a stage begins, and while records are read. */
  readonly progress?: (stage: Stage, records?: number) => void;
  /** Called with what a source wants a person to know. */
  readonly warn: (message: string) => void;
  /** Called once the plan is made and the service has said what it thinks of it, before anything is applied. */
  readonly report?: (report: Report) => Promise<void>;
  /**
   * Keeps a plan that has changes, or is beyond the limits, with what it takes to apply it later, before it is held, left
   * pending or applied.
   */
  readonly keep?: (workbench: Workbench, planned: Planned) => Promise<void>;
  /** Called right before the list is sent to be applied; from here on the target may be changed. */
  readonly applying?: () => Promise<void>;
}

export type ApprovalPolicy = "required" | "automatic" | "automatic-within-limits";

/** What a run found out. `plan` can be read only while `report` is running. */
export interface Report {
  readonly sync: string;
  readonly target: string;
  readonly plan: Plan;
  readonly limits: readonly LimitCheck[];
  /** What is left out of the plan because of limits. */
  readonly waiting: readonly Measure[];
  /** What a person should know beside the changes, one line each. */
  readonly notes: readonly string[];
  /** Which of them are about single principals. */
  readonly subjects?: readonly NoteSubject[];
  /** Who leaves later or never. Absent where it was decided when the plan was made. */
  readonly departures?: Departures;
}

export interface RunResult {
  /**
   * `planned`: a dry run found changes. `pending`: a person must approve them. `applied`: they were made, and the target
   * was listed again to prove it.
   */
  readonly outcome: "no change" | "planned" | "pending" | "applied";
  readonly digest: string;
  readonly counts: Counts;
  readonly limits: readonly LimitCheck[];
  /** What was left out because of limits. */
  readonly waiting: readonly Measure[];
}

/**
 * Runs a sync: read, assemble, protect, diff, limit, preview, compare, apply, verify.
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
    });
    const planned = await planner(sync, workbench, {
      ...options,
      now,
      history: ledger.history,
      signal: watching.signal(),
    });
    const { plan, checks: limits, waiting } = planned;
    const changed = changes(plan.counts) > 0;
    progress?.("preview");
    const send = await prepare(sync, workbench, plan);
    const disagreements = await compareOpinions(connection, await send(false, watching.signal()), "would");
    await options.report?.({ sync: sync.name, target: sync.target.name, limits, ...planned });
    const isBeyond = beyondLimits(sync, planned).length > 0;
    if ((changed || isBeyond) && options.apply) await options.keep?.(workbench, planned);
    holdUnlessAgreed(sync.target, plan, disagreements, options.digest);
    const policy = options.apply && options.digest === undefined ? (options.approval ?? "automatic") : "automatic";
    // Sources that have lost too much are held also where the plan has nothing, yet, that could await approval.
    if (policy !== "automatic-within-limits" || !changed) holdBeyondLimits(sync, planned, options.id);
    const result = { digest: plan.digest, counts: plan.counts, limits, waiting };
    if (changed && !options.apply) return { outcome: "planned", ...result };
    if (changed && (policy === "required" || (policy !== "automatic" && isBeyond)))
      return { outcome: "pending", ...result };
    if (options.apply) {
      watching.enterApply();
      await ledger.claim();
      if (changed) {
        await options.applying?.();
        progress?.("apply");
        const differences = await compareOpinions(connection, await send(true, watching.signal()), "did");
        progress?.("verify");
        await verify(sync.target, workbench, differences, watching.signal());
      }
      await ledger.settle({ now, ...planned, ...(options.id === undefined ? {} : { run: options.id }) });
    }
    return { outcome: changed ? "applied" : "no change", ...result };
  } catch (error) {
    throw naming(`the folder ${options.folder}`, watching.explain(error));
  } finally {
    watching.end();
    await ledger?.close().catch(() => undefined);
    await workbench.close();
  }
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
  if (digest !== undefined && plan.digest !== digest) {
    throw new HeldError(
      "the changes are no longer those that were shown; nothing was applied. Plan again",
      [],
      "digest",
    );
  }
}

/**
 * Writes the list once; the preview and the apply send the same one. A plan that deletes nobody is applied without the
 * leave to delete: what somebody else has created in the target since it was listed stays.
 */
async function prepare(
  sync: Sync,
  workbench: Workbench,
  { counts }: Plan,
): Promise<(applyChanges: boolean, signal: AbortSignal) => Promise<string>> {
  const principals = workbench.file("desired.json");
  await writePrincipals(workbench.connection, "desired", principals);
  const defaultPassword = passwordOf(sync);
  return async (applyChanges, signal) => {
    const answer = workbench.file(applyChanges ? "applied.json" : "preview.json");
    const deleteOthers = !applyChanges || counts.users.delete + counts.groups.delete > 0;
    await sync.target.sync({ principals, applyChanges, deleteOthers, defaultPassword }, answer, signal);
    return answer;
  };
}

/** Success means that the target, listed again, is what was desired. */
async function verify(
  target: Target,
  workbench: Workbench,
  differences: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const { connection } = workbench;
  await listTarget(target, workbench, "arrived", signal);
  await createChanges(connection, { actual: "arrived", desired: "desired", into: "missing" });
  const missing = await connection.rows<{ action: string; kind: string; name: string }>(
    "SELECT action, kind, name FROM missing ORDER BY kind, name LIMIT 20",
  );
  const problems = [...differences, ...missing.map(({ action, kind, name }) => `still to ${action}: ${kind} ${name}`)];
  if (problems.length === 0) return;
  throw new HeldError(
    `target ${target.name}: the list was applied, but the target is not what was planned. Somebody else may be changing it; plan again to see what is left`,
    problems,
    "verification",
  );
}
