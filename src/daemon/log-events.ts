import type { Logger } from "pino";
import type { Context } from "#daemon/context.ts";
import type { ExportDocument } from "#daemon/export.ts";
import { describeFailure } from "#daemon/output.ts";
import { shortCounts } from "#state/run-text.ts";
import { asCalled, command } from "#commands.ts";
import { leavingCounts } from "#plan/departures.ts";
import { renderText } from "#plan/render/text.ts";
import type { RunRecord, SyncEvent } from "#state/record.ts";
import type { Report } from "#sync/context.ts";
import { mapNotes } from "#plan/note.ts";

/** Logs what happens to runs. */
export function logRuns(current: () => Context): (event: SyncEvent) => void {
  return (event) => {
    const { log } = current();
    if (event.type === "stage") {
      const { sync, id: run, stage, records } = event;
      if (records === undefined) log.debug({ sync, run, stage }, `sync ${sync}: ${stage}`);
      return;
    }
    // The process that runs it logs it.
    if (event.type === "run" && event.elsewhere !== true) logRun(current(), event.run);
  };
}

function logRun({ log, interruption }: Context, run: RunRecord): void {
  const { id, sync, state, error, digest, counts, sameAs, notes, waiting, caution } = run;
  const facts = { sync, run: id, outcome: state };
  const took = `${((Date.parse(run.endedAt ?? run.startedAt) - Date.parse(run.startedAt)) / 1000).toFixed(1)} s`;
  if (sameAs !== undefined) {
    log.info(facts, `sync ${sync}: same plan as run ${sameAs}, which still waits`);
  } else if (state === "running") {
    log.debug(facts, `sync ${sync}: run ${id} begins (${run.cause}, ${run.by.name})`);
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
    const words = state === "applied" ? "applied and verified" : state;
    const changes = counts === undefined ? "" : shortCounts(counts);
    const more = changes === "" ? "" : `: ${changes}; \`${command("show", id)}\` shows them`;
    log.info({ ...facts, digest, counts, took }, `sync ${sync}: ${words} (${took})${more}`);
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

/** Writes the plan of a run into the log, as one line. At a terminal, the end of the run says how to see it. */
export async function logPlan({ output, log }: Context, report: Report, run: string): Promise<void> {
  if (output.interactive) return;
  const title = `${report.sync} → ${report.target}`;
  const { colour, width } = output;
  const { limits, departures } = report;
  const leaving = departures && leavingCounts(departures);
  const notes = mapNotes(report.notes, asCalled);
  const rest = asCalled(command("show", run, "--all"));
  const parts: string[] = [];
  for await (const part of renderText(report.plan, { title, colour, width, limits, notes, leaving, rest }))
    parts.push(part);
  log.info(
    { sync: report.sync, run, digest: report.plan.digest, counts: report.plan.counts, report: parts.join("") },
    `sync ${report.sync}: plan`,
  );
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
