import type { ErrorDocument } from "#errors.ts";
import { renderJson } from "#plan/render/json.ts";
import { renderText } from "#plan/render/text.ts";
import type { Report, RunResult } from "#sync/run.ts";
import { describeExported } from "#cli/export/shown.ts";
import type { ExportDocument } from "#cli/export/shown.ts";
import { describeFailure } from "#cli/output.ts";
import type { Output } from "#cli/output.ts";

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
