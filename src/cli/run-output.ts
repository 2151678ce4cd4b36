import { createInterface } from "node:readline/promises";
import type { ErrorDocument } from "#errors.ts";
import { changes } from "#plan/change.ts";
import type { Plan } from "#plan/change.ts";
import { renderJson } from "#plan/render/json.ts";
import { renderText } from "#plan/render/text.ts";
import { openStored } from "#plan/stored.ts";
import type { Begun, Coordinator } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Report, RunResult } from "#sync/run.ts";
import type { Context } from "./context.ts";
import { describeExported } from "./export.ts";
import type { ExportDocument } from "./export.ts";
import { describeFailure, exitCodes } from "./output.ts";
import type { ExitCode, Output } from "./output.ts";
import { openKeptChanges } from "./stored-runs.ts";

/** How a run ended, as a command shows it. */
export interface Ending {
  readonly outcome: RunResult["outcome"] | "declined";
  /** The run, where it is in the journal. */
  readonly run?: string;
  /** Until when it can be approved, where it must be. */
  readonly expiresAt?: string;
  /** What was exported after it. */
  readonly exported?: ExportDocument;
}

/** A run that failed, where it is in the journal. */
export interface FailedRun {
  readonly run: string;
  /** What was found out afterwards of what became of it. */
  readonly recovery?: string;
}

/** How one run is shown while it goes on. */
export interface RunDocument {
  warn(message: string): void;
  report(report: Report): Promise<void>;
  end(ending: Ending): Promise<void>;
  fail(error: ErrorDocument, failed?: FailedRun): Promise<void>;
}

/** The result of a command over several syncs. */
export interface Documents {
  next(sync: string): RunDocument;
  end(): Promise<void>;
}

/**
 * Shows runs on the terminal, or with `--json` as one document:
 * `{"runs": [{"sync", "target"?, "notes"?, "plan"?, "departures"?, "waiting"?, "warnings", "run"?, "outcome"? | "error"?, "recovery"?, "expiresAt"?, "export"?}]}`,
 * where `plan` is what `renderJson` gives, and `waiting` what limits have left out of it. It is written as it comes: no list of changes is held whole.
 */
export function openDocuments(output: Output, options: { limit?: number }): Documents {
  return output.json ? jsonDocuments(output) : textDocuments(output, options);
}

function textDocuments(output: Output, { limit }: { limit?: number }): Documents {
  return {
    next: (sync) => ({
      warn: (message) => {
        output.say(`${sync}: ${message}`);
      },
      report: async (report) => {
        const { colour, width } = output;
        const { limits, notes } = report;
        const title = `${report.sync} → ${report.target}`;
        const shown = limit === undefined ? {} : { limit };
        for await (const part of renderText(report.plan, { title, colour, width, limits, notes, ...shown }))
          await output.write(part);
      },
      end: async ({ outcome, run = "", expiresAt, exported }) => {
        if (outcome === "applied") await output.write(`${sync}: applied and verified\n`);
        if (outcome === "declined") await output.write(`${sync}: nothing was applied\n`);
        if (outcome === "pending")
          await output.write(
            `${sync}: nothing was applied: the run ${run} awaits approval${expiresAt === undefined ? "" : ` until ${expiresAt}`}\n` +
              `  rollcall approve ${run}\n  rollcall reject ${run}\n`,
          );
        if (exported === undefined) return;
        await output.write(describeExported(sync, exported));
        if (exported.error !== undefined)
          output.say(`${sync}: the run itself succeeded, its export did not: ${describeFailure(exported.error)}`);
      },
      fail: async (error, failed) => {
        output.say(`${sync}: ${describeFailure(error)}`);
        if (failed?.recovery !== undefined) output.say(`  ${failed.recovery}`);
      },
    }),
    end: async () => {},
  };
}

function jsonDocuments(output: Output): Documents {
  let runs = 0;
  return {
    next: (sync) => {
      const warnings: string[] = [];
      const opening = `${runs++ === 0 ? '{"runs":[' : ","}\n{"sync":${JSON.stringify(sync)}`;
      let opened = false;
      const open = async (): Promise<void> => {
        if (!opened) await output.write(opening);
        opened = true;
      };
      const close = async (rest: object): Promise<void> => {
        await open();
        await output.write(`,${JSON.stringify({ warnings, ...rest }).slice(1)}`);
      };
      return {
        warn: (message) => {
          warnings.push(message);
        },
        report: async (report) => {
          await open();
          await output.write(
            `,"target":${JSON.stringify(report.target)},"notes":${JSON.stringify(report.notes)},"plan":`,
          );
          for await (const part of renderJson(report.plan, report.limits)) await output.write(part);
          if (report.departures !== undefined) await output.write(`,"departures":${JSON.stringify(report.departures)}`);
          if (report.waiting.length > 0) await output.write(`,"waiting":${JSON.stringify(report.waiting)}`);
        },
        end: ({ exported, ...ending }) => close({ ...ending, ...(exported === undefined ? {} : { export: exported }) }),
        fail: (error, failed) => close({ ...failed, error }),
      };
    },
    end: async () => {
      await output.write(runs === 0 ? '{"runs":[]}\n' : "\n]}\n");
    },
  };
}

/** Shows what a run has planned, from what is kept of it; nothing where there is no plan. */
export async function showKept(context: Context, run: RunRecord, document: Pick<RunDocument, "report">): Promise<void> {
  const { sync, target, digest, counts, limits, waiting, notes, kept } = run;
  if (digest === undefined || counts === undefined) return;
  const report = (plan: Plan): Promise<void> => document.report({ sync, target, plan, limits, waiting, notes });
  if (changes(counts) === 0) return report({ digest, counts, changes: async function* () {} });
  if (!kept) return;
  const lists = await openKeptChanges(context);
  try {
    const file = await lists.file(run);
    if (file !== undefined) await report(await openStored(lists.connection, file, { digest, counts }));
  } catch (error) {
    throw lists.problem(error);
  } finally {
    await lists.close();
  }
}

/** Waits for a run to end, and shows what it has planned, unless that is shown already, and how it has ended. */
export async function showRun(
  context: Context,
  coordinator: Coordinator,
  document: RunDocument,
  { begun, isShown }: { readonly begun: Begun; readonly isShown: () => boolean },
): Promise<ExitCode> {
  const run = await begun.ended;
  context.output.progress();
  const others = coordinator.runs();
  if (!isShown()) await showKept(context, others.find(({ id }) => id === run.sameAs) ?? run, document);
  return showEnd(document, run, others);
}

/**
 * Shows how a run has ended.
 * @param others the runs of the journal: one that found the same as another is shown as that
 */
export async function showEnd(
  document: RunDocument,
  run: RunRecord,
  others: readonly RunRecord[] = [],
): Promise<ExitCode> {
  const { id, state, sameAs, error, waiting, expiresAt, recovery } = run;
  const same = sameAs === undefined ? undefined : others.find((other) => other.id === sameAs);
  if (same !== undefined) return showEnd(document, same);
  if (error !== undefined) {
    await document.fail(error, { run: id, ...(recovery === undefined ? {} : { recovery }) });
    // What waits still, after it could not be applied as it was shown, is held by that.
    const isHeld = state === "held" || (state === "pending" && error.advice === "stop");
    return isHeld ? exitCodes.held : exitCodes.failed;
  }
  if (state === "pending") {
    await document.end({ outcome: state, run: id, ...(expiresAt === undefined ? {} : { expiresAt }) });
    return exitCodes.held;
  }
  if (state !== "applied" && state !== "no change") {
    await document.fail({ message: `the run ${id} is ${state}`, problems: [], advice: "stop" }, { run: id });
    return exitCodes.failed;
  }
  const exported = run.export as ExportDocument | undefined;
  await document.end({ outcome: state, run: id, ...(exported === undefined ? {} : { exported }) });
  if (exported?.error !== undefined) return exitCodes.failed;
  return waiting.length > 0 ? exitCodes.held : exitCodes.done;
}

/** Asks at the terminal whether to do it; no answer is no yes. @throws the reason when the command is interrupted */
export async function confirmed({ interruption, output }: Context, question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // While it asks, the keys come here: Ctrl-C is no signal then.
  terminal.on("SIGINT", () => process.emit("SIGINT"));
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal: interruption.stop });
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    output.say("");
    interruption.stop.throwIfAborted();
    // Ctrl-D.
    return false;
  } finally {
    terminal.close();
  }
}
