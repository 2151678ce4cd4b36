import type { Logger } from "pino";
import type { Context } from "#daemon/context.ts";
import type { ExportDocument } from "#daemon/export.ts";
import { describeFailure } from "#daemon/output.ts";
import { causeOf, decisionWords, shortCounts } from "#state/run-text.ts";
import { command } from "#commands.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";

/**
 * Logs what happens to runs: at `info` what was decided and what changed, at `warn` what waits for a person. A run that
 * found nothing to do, like the one before it, is at `debug`.
 */
export function logRuns(current: () => Context): (event: SyncEvent) => void {
  const last = new Map<string, RunRecord["state"]>();
  return (event) => {
    const { log } = current();
    if (event.type === "stage") {
      const { sync, id: run, stage, records } = event;
      if (records === undefined) log.debug({ sync, run, stage }, `sync ${sync}: ${stage}`);
      return;
    }
    // The process that runs it logs it.
    if (event.type !== "run" || event.elsewhere === true) return;
    const { run } = event;
    if (run.state === "running") {
      logBegun(current(), run);
      return;
    }
    logEnd(current(), run, run.state === "no change" && last.get(run.sync) === "no change");
    if (run.for === undefined) last.set(run.sync, run.state);
  };
}

/** What a person began or decided is for everybody to see; a schedule is not. */
function logBegun({ log }: Context, { id, sync, state, cause, by, undoes, decisions }: RunRecord): void {
  const facts = { sync, run: id, outcome: state, cause, by };
  const decision = decisions.at(-1);
  if (decision !== undefined) log.info({ ...facts, decision }, `sync ${sync}: run ${id} ${decisionWords(decision)}`);
  else {
    const what = undoes === undefined ? "" : `, undoes ${undoes}`;
    log[cause === "demand" || cause === "undo" ? "info" : "debug"](
      facts,
      `sync ${sync}: run ${id} begins (${causeOf({ cause, by })}${what})`,
    );
  }
}

function logEnd({ log, interruption }: Context, run: RunRecord, isRoutine: boolean): void {
  const { id, sync, state, error, digest, counts, sameAs, notes, waiting, caution } = run;
  const facts = { sync, run: id, outcome: state };
  const took = `${((Date.parse(run.endedAt ?? run.startedAt) - Date.parse(run.startedAt)) / 1000).toFixed(1)} s`;
  if (sameAs !== undefined) {
    log.debug(facts, `sync ${sync}: same plan as run ${sameAs}, which still waits`);
  } else if (error !== undefined) {
    const said = `sync ${sync}: ${describeFailure(error)}`;
    if (interruption.stop.aborted) log.info(facts, said);
    else log.error({ ...facts, ...error }, said);
  } else if (state === "pending") {
    const because = caution === undefined ? "" : `: ${caution}`;
    log.warn(
      { ...facts, digest, counts },
      `sync ${sync}: run ${id} waits for approval until ${run.expiresAt}${because}; see it with \`${command("show", id)}\`, then \`${command("approve", id)}\``,
    );
  } else {
    const decision = state === "rejected" ? run.decisions.at(-1) : undefined;
    const words = state === "applied" ? "applied and verified" : state;
    const changes = counts === undefined ? "" : shortCounts(counts);
    const more = changes === "" ? "" : `: ${changes}; \`${command("show", id)}\` shows them`;
    const said = decision === undefined ? `${words} (${took})${more}` : `run ${id} ${decisionWords(decision)}`;
    log[isRoutine ? "debug" : "info"]({ ...facts, digest, counts, took, decision }, `sync ${sync}: ${said}`);
  }
  if (run.recovery !== undefined) log.warn(facts, `sync ${sync}: run ${id}: ${run.recovery}`);
  if (waiting.length > 0 && notes[0] !== undefined)
    log.warn({ ...facts, tripped: run.limits.filter(({ tripped }) => tripped) }, `sync ${sync}: ${notes[0].text}`);
  if (run.export !== undefined) logExport({ log, interruption }, sync, run.export as ExportDocument);
}

function logExport(
  { log, interruption }: Pick<Context, "log" | "interruption">,
  sync: string,
  exported: ExportDocument,
): void {
  const { error, target, to, tables, seconds } = exported;
  const counts = tables.flatMap(({ table, rows, error }) => (error === undefined ? [`${rows} ${table}`] : []));
  if (error === undefined)
    log.info(exported, `sync ${sync}: exported ${target} to ${to}: ${counts.join(", ")} (${seconds.toFixed(1)} s)`);
  else if (interruption.stop.aborted)
    log.info(exported, `sync ${sync}: the export was cancelled; the next run repeats it`);
  else log.error(exported, `sync ${sync}: the run succeeded, but its export failed: ${describeFailure(error)}`);
}

/** Logs what happens to schedules: skipped slots, retries, and overdue syncs. */
export function logSchedule(log: Logger): (event: SyncEvent) => void {
  return (event) => {
    if (event.type === "skipped") {
      const { sync, at, reason } = event;
      log.warn({ sync, slot: at }, `sync ${sync}: the slot of ${at} was skipped: ${reason}`);
    } else if (event.type === "retry") {
      const { sync, id: run, at } = event;
      log.info({ sync, run }, `sync ${sync}: next attempt at ${at}`);
    } else if (event.type === "gave up") {
      const { sync, id: run, failures } = event;
      log.error({ sync, run }, `sync ${sync}: failed ${failures} times in a row; the next attempt is at the next slot`);
    } else if (event.type === "overdue") {
      const { sync, since } = event;
      log.error({ sync, since }, `sync ${sync}: no run has succeeded since ${since}, longer than overdueAfter allows`);
    }
  };
}
