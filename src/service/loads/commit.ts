import { InputError, messageOf, RollcallError } from "#errors.ts";
import { removeFile } from "#files/disk.ts";
import { TableChangedError } from "#service/engine/engine.ts";
import type { Engine, Stage, Table, Writing } from "#service/engine/engine.ts";
import { readDirectly } from "#service/loads/direct/direct.ts";
import { dataTexts } from "#wire/texts.ts";
import { writeError } from "./capacity.ts";
import type { Outcome, WrittenLoad } from "./cycle.ts";
import { parse } from "./parse.ts";
import type { LoadInput, Parsed } from "./parse.ts";
import { formatOf, maxErrorsOf, targetOf } from "./load-format.ts";
import type { LoadParameters } from "#wire/loads.ts";

/** What has to be loaded. */
export interface LoadJob {
  readonly id: string;
  readonly parameters: LoadParameters;
  /** The files of the chunks, in the order of their rows. */
  readonly chunks: readonly string[];
  /** The file that gets the rejected rows (A.13). */
  readonly badRecords: string;
  /** The node that the cycle must still belong to when its rows are written, where several share a database. */
  readonly node?: string | undefined;
}

/** How often the rows are read when the table changes meanwhile. */
const mostReadings = 3;

/**
 * Loads a committed cycle: either everything, or nothing and the outcome says why.
 * @throws the signal's reason when it is aborted; then nothing was written
 */
export async function load(job: LoadJob, engine: Engine, signal: AbortSignal): Promise<Outcome> {
  for (let reading = 1; ; reading++) {
    try {
      return await loadOnce(job, engine, signal);
    } catch (error) {
      if (!(error instanceof TableChangedError) || reading === mostReadings) throw error;
    }
  }
}

async function loadOnce(job: LoadJob, engine: Engine, signal: AbortSignal): Promise<Outcome> {
  const { parameters, badRecords } = job;
  const { max_ignored_rows: tolerated, empty_target: empty } = parameters.load_options;
  // A crash may have left the file of an unfinished commit.
  await removeFile(badRecords);
  const table = await engine.find(targetOf(parameters));
  if (table === undefined) return failed(dataTexts.noTable);
  const input: LoadInput = {
    chunks: job.chunks,
    format: formatOf(parameters),
    columns: table.columns,
    maxErrors: maxErrorsOf(parameters),
    badRecords,
  };
  const writing = (parsed: Parsed): Writing => ({ empty, load: job.id, claim: claimOf(job, parsed) });
  const stage = await engine.openStage();
  try {
    const direct = await loadDirectly(stage, engine, table, input, writing, signal);
    if (direct !== undefined) return loaded(direct);
    const parsed = await parse(stage, input, signal);
    signal.throwIfAborted();
    if (parsed.rejected > tolerated) return failed(tooMany(parsed, tolerated), parsed);
    try {
      await engine.write(stage, table, writing(parsed), signal);
    } catch (error) {
      // The rows contradict the table or each other: the whole input was examined all the same (A.10).
      if (error instanceof InputError) return failed(error.message, parsed);
      throw error;
    }
    return loaded(parsed);
  } finally {
    await stage.close();
  }
}

/**
 * Loads regular input in one pass. Undefined: nothing was written and the input has to be parsed, which also shows what
 * went wrong.
 */
async function loadDirectly(
  stage: Stage,
  engine: Engine,
  table: Table,
  input: LoadInput,
  writing: (parsed: Parsed) => Writing,
  signal: AbortSignal,
): Promise<Parsed | undefined> {
  if (table.primaryKey.length > 0) return undefined;
  try {
    return await readDirectly(stage, input, signal, (parsed) =>
      engine.write(stage, table, { ...writing(parsed), rows: parsed.accepted }, signal),
    );
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

function claimOf({ node }: LoadJob, { accepted, rejected, errors }: Parsed): Writing["claim"] {
  if (node === undefined) return undefined;
  return {
    node,
    written: JSON.stringify({ rowsWritten: accepted, ignoredRows: rejected, errors } satisfies WrittenLoad),
  };
}

function loaded(parsed: Parsed): Outcome {
  return { ...examined(parsed), code: "OK", rowsWritten: parsed.accepted };
}

/** The outcome of a load that failed. */
export function failed(message: string, parsed?: Parsed): Outcome {
  return { ...examined(parsed), code: "LOAD_FAILED", message, rowsWritten: 0 };
}

/** The outcome for an error; undefined when the error is for the log, not for the caller. */
export function failureOf(error: unknown): Outcome | undefined {
  const meaning = writeError(error);
  return meaning instanceof RollcallError ? failed(messageOf(meaning)) : undefined;
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
