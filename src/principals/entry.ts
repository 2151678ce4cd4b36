import type { Kind } from "./principal.ts";

/** One attribute of an entry. Several values stay in the source's order. */
export type AttributeValue = string | number | boolean | readonly string[] | Unreadable;

/**
 * A value that is not what the source's schema says, and that nobody should guess: a rule that reads it fails, which
 * quarantines the record.
 */
export interface Unreadable {
  /** What is wrong with it: `is "maybe", neither true nor false`. */
  readonly unreadable: string;
  toString(): string;
}

export function isUnreadable(value: AttributeValue | undefined): value is Unreadable {
  return typeof value === "object" && value !== null && "unreadable" in value;
}

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
   * The keys by which other records of the source refer to this one, in the source's form (a DN, an employee number),
   * normalised by the connector so that equal references are equal strings. Users and groups have separate keys.
   */
  readonly keys: readonly string[];
  /** Groups that this entry says it is directly in: keys of groups. */
  readonly memberOf: readonly string[];
  /** For a group: who it says is directly in it. */
  readonly members: readonly MemberReference[];
}

/** A reference to a member of a group. Without a kind it names a user, or else a group. */
export interface MemberReference {
  readonly kind?: Kind | undefined;
  readonly key: string;
}

/**
 * A direct membership, for sources that list memberships separately (a file of pairs). It adds to what the entries
 * themselves say, and may come before or after them.
 */
export interface Membership {
  readonly kind: "membership";
  /** A key of the group. */
  readonly group: string;
  readonly member: MemberReference;
  /** Where a person finds the record: `memberships.csv:17`. */
  readonly origin: string;
}

/**
 * Many memberships as the lines of a file that they stand in: an object for each would take most of the time of a read.
 * They mean the same as a `Membership` for each line.
 */
export interface MembershipLines {
  /**
   * Whole lines, the last one without its `\n`. Nothing in them is quoted; the fields of group and member are keys as they
   * are, neither empty nor with space around them, and all of it is in Unicode form NFC.
   */
  readonly text: string;
  /** How many lines there are. */
  readonly count: number;
  readonly delimiter: string;
  /** The places of the fields that name the group and the member, from 0. */
  readonly group: number;
  readonly member: number;
  /** What the members are; absent: users, or else groups. */
  readonly kind?: Kind | undefined;
  /** The name of the file, as in an origin. */
  readonly file: string;
  /** The line in the file of the first one. */
  readonly line: number;
}

/** Names of the source's groups that an entry is in, sorted, for the rules that ask. Undefined: nobody can say. */
export interface SourceGroups {
  readonly direct: readonly string[] | undefined;
  /** Those of `direct`, and the groups that these are in. */
  readonly nested: readonly string[] | undefined;
}

/** A record of a source. */
export type SourceRecord = Entry | Membership;
