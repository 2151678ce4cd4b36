import type { z } from "zod";
import type { SourceRecord } from "#principals/entry.ts";

export type { Entry, MemberReference, Membership, SourceRecord } from "#principals/entry.ts";

/** What a read is given. */
export interface ReadContext {
  /** Aborts the read: it ends within a second by throwing the signal's reason. */
  readonly signal: AbortSignal;
  /** Says something a person should know that does not fail the read. Never holds a secret. */
  warn(message: string): void;
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
