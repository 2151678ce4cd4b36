import type { Kind } from "./principal.ts";

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

/** Names of the source's groups that an entry is in, sorted, for the rules that ask. Undefined: nobody can say. */
export interface SourceGroups {
  readonly direct: readonly string[] | undefined;
  /** Those of `direct`, and the groups that these are in. */
  readonly nested: readonly string[] | undefined;
}

/** A record of a source. */
export type SourceRecord = Entry | Membership;
