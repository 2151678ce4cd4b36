import { renderJson } from "#plan/render/json.ts";
import { renderText } from "#plan/render/text.ts";
import type { Report, RunResult } from "#sync/run.ts";
import { notesOf } from "./execute.ts";
import { describeExported, exportDocument } from "./export-shown.ts";
import type { Exported } from "./export-target.ts";
import { describeError, errorDocument } from "./output.ts";
import type { Output } from "./output.ts";

/** How one run is shown while it goes on. */
export interface RunDocument {
  warn(message: string): void;
  report(report: Report): Promise<void>;
  /** The run itself has ended well. */
  ended(outcome: RunResult["outcome"] | "declined"): Promise<void>;
  /** What came after it. */
  end(exported?: Exported): Promise<void>;
  fail(error: unknown): Promise<void>;
}

/** The result of a command over several syncs. */
export interface Documents {
  next(sync: string): RunDocument;
  end(): Promise<void>;
}

/**
 * Shows runs on the terminal, or with `--json` as one document:
 * `{"runs": [{"sync", "target"?, "notes"?, "plan"?, "departures"?, "waiting"?, "warnings", "outcome"? | "error"?, "export"?}]}`,
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
        const title = `${report.sync} → ${report.target}`;
        const notes = notesOf(report);
        for await (const part of renderText(report.plan, {
          title,
          colour,
          width,
          limits: report.limits,
          notes,
          ...(limit === undefined ? {} : { limit }),
        })) {
          await output.write(part);
        }
      },
      ended: async (outcome) => {
        if (outcome === "applied") await output.write(`${sync}: applied and verified\n`);
        if (outcome === "declined") await output.write(`${sync}: nothing was applied\n`);
      },
      end: async (exported) => {
        if (exported === undefined) return;
        await output.write(describeExported(sync, exported));
        if (exported.problem !== undefined)
          output.say(`${sync}: the run itself succeeded, its export did not: ${describeError(exported.problem)}`);
      },
      fail: async (error) => {
        output.say(`${sync}: ${describeError(error)}`);
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
      let result = {};
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
            `,"target":${JSON.stringify(report.target)},"notes":${JSON.stringify(notesOf(report))},"plan":`,
          );
          for await (const part of renderJson(report.plan, report.limits)) await output.write(part);
          await output.write(`,"departures":${JSON.stringify(report.departures)}`);
          if (report.waiting.length > 0) await output.write(`,"waiting":${JSON.stringify(report.waiting)}`);
        },
        ended: async (outcome) => {
          result = { outcome };
        },
        end: (exported) =>
          close({ ...result, ...(exported === undefined ? {} : { export: exportDocument(exported) }) }),
        fail: (error) => close({ error: errorDocument(error) }),
      };
    },
    end: async () => {
      await output.write(runs === 0 ? '{"runs":[]}\n' : "\n]}\n");
    },
  };
}
