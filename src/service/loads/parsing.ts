import type { Column, Stage } from "#service/engine/engine.ts";
import type { LoadFormat } from "./format.ts";
import type { Scanned } from "./scan.ts";

export interface LoadChunk {
  readonly path: string;
  /** What was seen of it when it arrived, if it was looked at. */
  readonly scanned?: Scanned | undefined;
}

/** One load's input, complete on disk. */
export interface LoadInput {
  /** In the order of their rows. */
  readonly chunks: readonly LoadChunk[];
  readonly format: LoadFormat;
  readonly columns: readonly Column[];
  /** The most parsing errors that are described (A.12). */
  readonly maxErrors: number;
  /** The file that gets the rejected rows exactly as they were sent (A.13); not created when there are none. */
  readonly badRecords: string;
}

/** What became of the rows. */
export interface Parsed {
  readonly accepted: number;
  /** The true count, also beyond any limit: the whole input is examined (A.10). */
  readonly rejected: number;
  /** `row 17, column joined: "2024-13-01" does not match %Y-%m-%d` (A.12). */
  readonly errors: readonly string[];
}

/** Parses, converts and checks the input in the stage: makes its table `accepted` (see `Engine.write`). */
export type Parse = (stage: Stage, input: LoadInput, signal: AbortSignal) => Promise<Parsed>;
