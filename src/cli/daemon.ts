import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import { RollcallError } from "#errors.ts";
import { renderText } from "#plan/render/text.ts";
import { keep } from "#sync/keep.ts";
import type { Keeper } from "#sync/keep.ts";
import type { Report } from "#sync/run.ts";
import type { Context } from "./context.ts";
import { execute, notesOf, waitingNote } from "./execute.ts";
import { exportDocument } from "./export-shown.ts";
import { exportAfter } from "./export-target.ts";
import type { Exported } from "./export-target.ts";
import { placeOf } from "./open-sync.ts";
import { describeError, errorDocument } from "./output.ts";

/** The schedules that are being kept. */
export interface Daemon {
  /** Starts no more runs; one that applies already is finished first. */
  stop(): Promise<void>;
  /** Ends what is being applied too. */
  abandon(): void;
  /** Runs every sync now, but those under way. */
  trigger(): void;
  /** Goes by another configuration from the next runs on. */
  take(configuration: Configuration): void;
}

/** Runs every sync that has a schedule: once now, then at its slots. */
export function startDaemon(base: Omit<Context, "interruption">): Daemon {
  const stop = new AbortController();
  const abandon = new AbortController();
  let context: Context = { ...base, interruption: { stop: stop.signal, abandon: abandon.signal } };
  let keepers: Keeper[] = [];
  const turns = new Map<string, Promise<void>>();
  /** Syncs to one target take turns: a list that was made while another one changes the target would undo that. */
  const inTurn = (place: string, work: () => Promise<void>): Promise<void> => {
    const turn = (turns.get(place) ?? Promise.resolve()).then(work);
    turns.set(place, turn);
    return turn;
  };
  const keepAll = (): Keeper[] =>
    Object.entries(context.configuration.syncs).flatMap(([name, sync]) => {
      const log = context.log.child({ sync: name });
      if (sync.schedule === undefined) {
        log.info(`sync ${name} has no schedule: it runs on demand`);
        return [];
      }
      const schedule = {
        name,
        expression: sync.schedule,
        ...(sync.timezone === undefined ? {} : { timezone: sync.timezone }),
      };
      return keep(
        schedule,
        () => inTurn(placeOf(context.configuration, sync.to), () => runOnce(context, name, log)),
        () => {
          log.warn(`sync ${name}: a slot was skipped because the run before is still under way`);
        },
      );
    });
  const trigger = (): void => {
    for (const keeper of keepers) keeper.trigger();
  };
  keepers = keepAll();
  trigger();
  return {
    stop: async () => {
      stop.abort(new Error("the daemon is stopping; nothing was applied"));
      await Promise.all(keepers.map((keeper) => keeper.stop()));
    },
    abandon: () => {
      abandon.abort(new Error("abandoned"));
    },
    trigger,
    take: (configuration) => {
      const before = keepers;
      context = { ...context, configuration };
      keepers = keepAll();
      for (const keeper of before) void keeper.stop();
    },
  };
}

async function runOnce(context: Context, name: string, log: Logger): Promise<void> {
  if (context.interruption.stop.aborted) return;
  const started = performance.now();
  const warn = (message: string): void => {
    log.warn(`sync ${name}: ${message}`);
  };
  try {
    const { limits, ...result } = await execute(context, name, {
      apply: true,
      warn,
      report: (report) => show(context, report, log),
    });
    const took = `${((performance.now() - started) / 1000).toFixed(1)} s`;
    log.info(
      { ...result, took },
      `sync ${name}: ${result.outcome === "applied" ? "applied and verified" : result.outcome} (${took})`,
    );
    if (result.waiting.length > 0) {
      const tripped = limits.filter((each) => each.tripped);
      log.warn({ tripped }, `sync ${name}: ${waitingNote({ sync: name, limits, waiting: result.waiting })}`);
    }
    const exported = await exportAfter(context, name, result.outcome);
    if (exported !== undefined) tell(context, name, exported, log);
  } catch (error) {
    const said = `sync ${name}: ${describeError(error)}`;
    if (context.interruption.stop.aborted) log.info(said);
    // What is raised on purpose says all there is to know; where in the program it was is for what nobody foresaw.
    else log.error(error instanceof RollcallError ? errorDocument(error) : { err: error }, said);
  }
}

function tell({ interruption }: Context, name: string, exported: Exported, log: Logger): void {
  const { target, to, tables, seconds, problem } = exported;
  const counts = tables.flatMap(({ table, rows, error }) => (error === undefined ? [`${rows} ${table}`] : []));
  const document = exportDocument(exported);
  if (problem === undefined)
    log.info(document, `sync ${name}: exported ${target} to ${to}: ${counts.join(", ")} (${seconds.toFixed(1)} s)`);
  else if (interruption.stop.aborted)
    log.info(document, `sync ${name}: the export was stopped; the next run makes up for it`);
  else log.error(document, `sync ${name}: the run itself succeeded, its export did not: ${describeError(problem)}`);
}

/** The change report: on the terminal as it is, in a log as one line. */
async function show({ output }: Context, report: Report, log: Logger): Promise<void> {
  const title = `${report.sync} → ${report.target}`;
  const { colour, width } = output;
  const { limits } = report;
  const notes = notesOf(report);
  const parts: string[] = [];
  for await (const part of renderText(report.plan, { title, colour, width, limits, notes })) parts.push(part);
  const text = parts.join("");
  if (output.interactive) await output.write(text);
  else log.info({ digest: report.plan.digest, counts: report.plan.counts, report: text }, `sync ${report.sync}: plan`);
}
