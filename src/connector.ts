import type { z } from "zod";
import type { Kind } from "#principals/principal.ts";

/** One attribute of an entry. Several values stay in the source's order. */
export type AttributeValue = string | number | boolean | readonly string[];

/** One record of a source: a user or a group, before any rule has seen it. */
export interface Entry {
  readonly kind: Kind;
  /** Identifies the record within its source for as long as it exists; never reused, whatever is renamed. */
  readonly id: string;
  /** Where a person finds the record: `people.csv:17`, a DN, a URL. */
  readonly origin: string;
  /** What rules read as `entry.NAME`. A missing attribute is left out, never `undefined` or `null`. */
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  /**
   * The keys other entries refer to this one by, in whatever form the source uses (a DN, an employee number),
   * normalised by the connector so that equal references are equal strings. Keys of users and of groups are apart.
   */
  readonly keys: readonly string[];
  /** Groups that this entry says it is directly in: keys of groups. */
  readonly memberOf: readonly string[];
  /** For a group: who it says is directly in it. A reference whose kind the source does not tell has none. */
  readonly members: readonly MemberReference[];
}

/** A reference from a group to a member. */
export interface MemberReference {
  readonly kind?: Kind;
  readonly key: string;
}

/**
 * That a member is directly in a group, for sources that keep memberships apart from both (a file of pairs). It adds to
 * what the entries themselves say, and may come before or after them.
 */
export interface Membership {
  readonly kind: "membership";
  /** A key of the group. */
  readonly group: string;
  readonly member: MemberReference;
  /** Where a person finds the record: `memberships.csv:17`. */
  readonly origin: string;
}

/** What a read delivers. */
export type SourceRecord = Entry | Membership;

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
