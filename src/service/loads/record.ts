import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { writeDurably } from "#files/durable.ts";
import type { InternalStage, LoadParameters, StatusCode } from "#wire/loads.ts";

/** What is known of a cycle beside its chunks, as its file holds it. Times are in epoch milliseconds. */
export interface CycleRecord {
  readonly id: string;
  /** The id of the account that started it. */
  readonly owner: string;
  readonly parameters: LoadParameters;
  readonly started: number;
  readonly stage: InternalStage;
  /** The files of the chunks that are loaded, in the order of their rows: once it is committed. */
  readonly chunks?: readonly string[];
  /** What the client uploaded. Of a cycle that takes chunks, its chunks say it. */
  readonly received?: Received;
  /** Once it is done. */
  readonly outcome?: Outcome;
}

export interface Received {
  readonly bytes: number;
  /** When the last chunk had arrived. */
  readonly until: number;
}

/** How a cycle ended. */
export interface Outcome {
  readonly code: StatusCode;
  readonly message?: string;
  readonly ended: number;
  readonly rowsWritten: number;
  readonly ignoredRows: number;
  readonly errors: readonly string[];
}

const fileName = "cycle.json";

/** Reads the record in a cycle's folder. Undefined: none was written. */
export async function readRecord(folder: string): Promise<CycleRecord | undefined> {
  try {
    return JSON.parse(await readFile(join(folder, fileName), "utf8")) as CycleRecord;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Writes the record: after a crash there is this one or the one before it. */
export function writeRecord(folder: string, record: CycleRecord): Promise<void> {
  return writeDurably(join(folder, fileName), JSON.stringify(record));
}
