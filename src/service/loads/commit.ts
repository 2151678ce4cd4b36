import { rm } from "node:fs/promises";
import { RollcallError, messageOf } from "#errors.ts";
import type { Engine } from "#service/engine/engine.ts";
import { dataTexts } from "#wire/texts.ts";
import type { Cycle } from "./cycle.ts";
import type { Parse, Parsed } from "./parsing.ts";
import type { Outcome } from "./record.ts";
import { formatOf, maxErrorsOf, targetOf } from "./start-request.ts";

/**
 * Loads a committed cycle: everything, or nothing and the outcome says why.
 * @throws the signal's reason when it is given up, in which case nothing was written
 */
export async function load(cycle: Cycle, engine: Engine, parse: Parse, signal: AbortSignal): Promise<Outcome> {
  const { parameters } = cycle;
  const { max_ignored_rows: tolerated, empty_target: empty } = parameters.load_options;
  // A crash may have left the file of a commit that did not end.
  await rm(cycle.badRecords, { force: true });
  const table = await engine.find(targetOf(parameters));
  if (table === undefined) return failed(dataTexts.noTable);
  const stage = await engine.openStage();
  try {
    const parsed = await parse(
      stage,
      {
        chunks: cycle.chunkPaths(),
        format: formatOf(parameters),
        columns: table.columns,
        maxErrors: maxErrorsOf(parameters),
        badRecords: cycle.badRecords,
      },
      signal,
    );
    signal.throwIfAborted();
    if (parsed.rejected > tolerated) return failed(tooMany(parsed, tolerated), parsed);
    await engine.write(stage, table, { empty, load: cycle.id }, signal);
    return { ...examined(parsed), code: "OK", rowsWritten: parsed.accepted };
  } finally {
    await stage.close();
  }
}

/** A load that was not done. */
export function failed(message: string, parsed?: Parsed): Outcome {
  return { ...examined(parsed), code: "LOAD_FAILED", message, rowsWritten: 0 };
}

/** What an error that ended a load means; undefined when that is for the log, not for the caller. */
export function failureOf(error: unknown): Outcome | undefined {
  return error instanceof RollcallError ? failed(messageOf(error)) : undefined;
}

export function cancelled(): Outcome {
  return { ...examined(undefined), code: "CANCELLED", message: "The load was cancelled.", rowsWritten: 0 };
}

function examined(parsed: Parsed | undefined): Pick<Outcome, "ended" | "ignoredRows" | "errors"> {
  return { ended: Date.now(), ignoredRows: parsed?.rejected ?? 0, errors: parsed?.errors ?? [] };
}

function tooMany({ rejected, errors: [first] }: Parsed, tolerated: number): string {
  const rows = rejected === 1 ? "1 row was" : `${rejected} rows were`;
  return `${rows} rejected, and max_ignored_rows allows ${tolerated}.${first === undefined ? "" : ` First: ${first}`}`;
}
