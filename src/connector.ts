import type { z } from "zod";
import type { SourceRecord } from "#principals/entry.ts";

export type { Entry, MemberReference, Membership, SourceRecord } from "#principals/entry.ts";

/** What a read is given. */
export interface ReadContext {
  /** Aborts the read: it ends within a second by throwing the signal's reason. */
  readonly signal: AbortSignal;
  /** Says something a person should know that does not fail the read. Never holds a secret. */
  warn(message: string): void;
  /** The attributes that somebody asks for, by kind; a connector may leave the others out. Absent: all. */
  readonly attributes?: WantedAttributes;
}

/** Names of attributes as rules write them: `entry.NAME`. */
export interface WantedAttributes {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/** An opened source. */
export interface Source {
  /**
   * Everything in scope, in batches (of about a thousand), or an error: a read that ends without throwing is a promise
   * that nothing is missing. Keeps nothing in memory that grows with the directory.
   * @throws {IncompleteReadError} when completeness cannot be proven
   * @throws {InputError} when what was read is malformed; the message names file and line
   * @throws {UnavailableError} when the source cannot be reached
   */
  read(context: ReadContext): AsyncIterable<readonly SourceRecord[]>;
  /**
   * Reaches the source without reading it: lines on what was reached, how it is protected and as whom, for a person.
   * Never a secret. Absent: there is nothing to say that a read does not show.
   * @throws {UnavailableError} when the source cannot be reached
   */
  describe?(context: ReadContext): Promise<readonly string[]>;
  /**
   * Where in what is reached there is something to read: what `base` can be, for whoever sets the source up. Asks
   * nothing of the places in its own options.
   * @throws {UnavailableError} when the source cannot be reached
   */
  places?(context: ReadContext): Promise<readonly string[]>;
  /**
   * A value that is another one whenever what a read delivers may have changed since; undefined: the source cannot
   * tell. Cheap. Absent: the source can never tell.
   */
  version?(context: ReadContext): Promise<string | undefined>;
}

/** Where a source is opened. */
export interface OpenContext {
  /** The source's name in the configuration, for messages. */
  readonly name: string;
  /** The folder that relative paths are relative to: the configuration file's. */
  readonly folder: string;
}

/** A kind of source: its options and how to open it. The default export of a connector's module. */
export interface Connector<Options = unknown> {
  /** The word after `connector:` in the configuration. */
  readonly name: string;
  /** The options beside `connector:`, validated with the rest of the configuration. Unknown keys are errors. */
  readonly options: z.ZodType<Options>;
  /** Opens the source. Does no I/O: a wrong path or password shows when it is read. */
  open(options: Options, context: OpenContext): Source;
}

/** A connector that comes with Rollcall. What it needs is loaded when somebody asks for it. */
export interface BuiltInConnector {
  readonly name: string;
  load(): Promise<Connector>;
}

/** Groups may have thousands of members each, so a batch also ends at so many references to groups and members. */
const longestBatch = { records: 1_000, references: 10_000 };

/** Regroups records, however few or many come at a time, into batches of about a thousand. */
export async function* inBatches(
  records: AsyncIterable<readonly SourceRecord[]>,
): AsyncGenerator<readonly SourceRecord[]> {
  let batch: SourceRecord[] = [];
  let references = 0;
  for await (const some of records) {
    for (const record of some) {
      batch.push(record);
      references += record.kind === "membership" ? 1 : record.memberOf.length + record.members.length;
      if (batch.length < longestBatch.records && references < longestBatch.references) continue;
      yield batch;
      batch = [];
      references = 0;
    }
  }
  if (batch.length > 0) yield batch;
}
