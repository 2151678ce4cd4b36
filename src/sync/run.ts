import { command, forOptions } from "#commands.ts";
import { isOutOfMemory } from "#duckdb/database.ts";
import { HeldError, InputError } from "#errors.ts";
import { naming } from "#files/disk.ts";
import { changes } from "#plan/change.ts";
import { apply, preview, settle } from "./apply.ts";
import { openRun } from "./context.ts";
import type { Report, Run, RunOptions, RunResult, Verdict } from "./context.ts";
import { inWorkbench } from "./interruption.ts";
import { loadBaseline } from "#sync/planning/baseline.ts";
import { beyondLimits, holdBeyondLimits } from "#sync/planning/limits.ts";
import type { Planned } from "#sync/planning/limits.ts";
import { planFromSources } from "#sync/planning/planning.ts";
import type { PlanningOptions } from "#sync/planning/planning.ts";
import type { Sync } from "./sync.ts";

/**
 * Runs a sync.
 * @throws {HeldError} when a limit is tripped, the service's preview differs from the plan, or the plan from the one
 *   that was shown
 * @throws {IncompleteReadError | InputError | UnavailableError | RefusedError} from the sources and the target;
 *   before `apply` nothing has changed
 */
export async function run(sync: Sync, options: RunOptions): Promise<RunResult> {
  try {
    return await inWorkbench(options, async (workbench, watching) => {
      const opened = await openRun(sync, options, workbench, watching);
      try {
        return await takeSteps(opened);
      } finally {
        await opened.ledger.close().catch(() => undefined);
      }
    });
  } catch (error) {
    throw isOutOfMemory(error)
      ? outOfMemory(options.memory, error)
      : naming(`the folder ${options.files.folder}`, error);
  }
}

async function takeSteps(run: Run): Promise<RunResult> {
  const { sync, options, workbench, unchanged } = run;
  const { planner = planFromSources } = options;
  const last = await unchanged.beforeReading();
  if (last !== undefined) return repeat(run, last);
  const planning = await prepare(run);
  const read = await planner.read(sync, workbench, planning);
  const same = await unchanged.afterReading();
  if (same !== undefined) return repeatAfterReading(run, same);
  const planned = await planner.plan(sync, workbench, planning, read);
  const verdict = judge(run, planned);
  const disagreements = await preview(run, planned, verdict, () => store(run, planned, verdict));
  await show(run, planned, verdict);
  const decision = await decide(run, planned, verdict, disagreements).catch(async (error: unknown) => {
    await miss(run, planned);
    throw error;
  });
  if (decision !== "apply") {
    await miss(run, planned);
    return resultOf(planned, decision);
  }
  // From now on the run is not stopped but waits for what it has begun.
  run.watching.enterApply();
  const applied = verdict.changed ? await apply(run, planned) : undefined;
  await settle(run, planned, { ...verdict, applied, baseline: planning.baseline });
  if (applied?.partly !== undefined) throw applied.partly;
  return resultOf(planned, verdict.changed ? "applied" : "no change");
}

/** A run ends that need not read anything: it says what the last one said, and what the sources warned of. */
async function repeat(
  { sync, options, warn }: Run,
  { planned, warnings }: { readonly planned: Planned; readonly warnings: readonly string[] },
): Promise<RunResult> {
  options.progress?.("read");
  for (const each of warnings) warn(each);
  await options.report?.(reportOf(sync, planned));
  return resultOf(planned, "no change");
}

/** A run ends that has read what the last one has read. */
async function repeatAfterReading(
  { sync, options, ledger, unchanged, warnings }: Run,
  planned: Planned,
): Promise<RunResult> {
  await ledger.keep(unchanged.renewedFingerprint(warnings));
  await options.report?.(reportOf(sync, planned));
  return resultOf(planned, "no change");
}

/** What planning needs. */
async function prepare({ sync, options, ...run }: Run): Promise<PlanningOptions> {
  const { warn, now, unchanged, ledger } = run;
  const baseline = sync.causes
    ? await loadBaseline(run.connection, options.files, sync, sync.rules.declared)
    : undefined;
  const { waiting = options.warn } = options;
  return {
    ...options,
    waiting,
    warn,
    now,
    unchanged,
    baseline,
    history: ledger.history,
    signal: run.watching.signal(),
  };
}

function judge({ sync, options }: Run, planned: Planned): Verdict {
  const { approvers, digest } = options;
  const isOverridden = planned.checks.some(({ overridden }) => overridden);
  const changed = changes(planned.plan.counts) > 0;
  const needed = isOverridden ? approvers?.beyondLimits : digest !== undefined && changed ? approvers?.people : 0;
  return {
    changed,
    beyond: beyondLimits(sync, planned),
    mustBeShared: (needed ?? 0) > (approvers?.given ?? 0),
  };
}

/** Stores the plan where somebody may have to decide about it. */
async function store({ options, workbench }: Run, planned: Planned, verdict: Verdict): Promise<void> {
  if (mustBeStored(options, verdict)) await options.store?.(workbench, planned);
}

function mustBeStored({ apply }: RunOptions, { changed, beyond, mustBeShared }: Verdict): boolean {
  return apply && (changed || beyond.length > 0 || mustBeShared);
}

/** Shows the plan to the person who asked for the run. */
async function show({ sync, options, workbench }: Run, planned: Planned, verdict: Verdict): Promise<void> {
  await options.report?.(reportOf(sync, planned));
  if (options.apply && !mustBeStored(options, verdict) && (planned.quarantined ?? 0) > 0)
    await options.storeQuarantined?.(workbench);
}

/** Who is gone is so from the first run on that does not find them, also where its plan waits: their grace periods begin. */
async function miss({ sync, options, ledger, now }: Run, planned: Planned): Promise<void> {
  if (options.apply && options.planner === undefined && options.for === undefined)
    await ledger.miss({ ...planned, now, later: options.later, declared: sync.rules.declared });
}

function reportOf({ name, target }: Sync, planned: Planned): Report {
  return { sync: name, target: target.name, limits: planned.checks, ...planned };
}

/** @throws {HeldError} when the plan may neither be applied nor wait for approval */
async function decide(
  { sync, options, connection }: Run,
  planned: Planned,
  { changed, beyond, mustBeShared }: Verdict,
  disagreements: readonly string[],
): Promise<"apply" | Exclude<RunResult["outcome"], "applied">> {
  holdUnlessAgreed(sync, planned, disagreements, options);
  const isShown = options.digest !== undefined;
  const policy = options.apply && !isShown ? (options.approval ?? "automatic") : "automatic";
  // Sources that have lost too much are held even if the plan has no changes, yet, to approve.
  const asks = !options.apply || isShown || options.approval !== undefined;
  if (policy !== "automatic-within-limits" || !changed)
    await holdBeyondLimits(connection, sync, planned, { ...options, run: options.id, asks, changed });
  if (!options.apply) return changed ? "planned" : "no change";
  const mustAsk =
    policy === "required" ||
    (policy === "automatic-within-limits" && beyond.length > 0) ||
    (!isShown && beyond.some(({ otherwise }) => otherwise === "approve"));
  return (changed && mustAsk) || mustBeShared ? "pending" : "apply";
}

function holdUnlessAgreed(
  { name, target }: Sync,
  { plan }: Planned,
  disagreements: readonly string[],
  { digest, overrides = [], for: people }: RunOptions,
): void {
  if (disagreements.length > 0)
    throw new HeldError(
      `target ${target.name}: the service's preview differs from the plan; nothing was applied`,
      disagreements,
      "opinions",
    );
  if (digest !== undefined && !plan.digest.startsWith(digest)) {
    const override = overrides.length === 0 ? [] : ["--override", overrides.join(",")];
    throw new HeldError(
      `the changes differ from the plan that was shown; nothing was applied. Plan again: \`${command("plan", name, ...forOptions(people), ...override)}\``,
      [],
      "digest",
    );
  }
}

function resultOf({ plan, checks, waiting, adopted = 0 }: Planned, outcome: RunResult["outcome"]): RunResult {
  return { outcome, digest: plan.digest, counts: plan.counts, limits: checks, waiting, adopted };
}

function outOfMemory(limit: number, cause: unknown): InputError {
  return new InputError(
    `the run needs more memory than it may take: raise memory in the configuration, of the service or of the daemon; it is ${Math.round(limit / 2 ** 20)}MiB now`,
    { cause },
  );
}
