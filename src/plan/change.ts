import type { Kind } from "#principals/principal.ts";

/** What happens to a principal. */
export type Action = "create" | "update" | "delete";

/** One attribute that differs. `from` is absent where it was unset (or the principal is created), `to` where it is cleared. */
export interface AttributeChange {
  readonly attribute: "displayName" | "description" | "mail";
  readonly from?: string;
  readonly to?: string;
}

/**
 * What happens to one principal. A creation lists its attributes with `to` only and all its groups as added;
 * a deletion the reverse. Attributes come in the order of `AttributeChange`, groups sorted by code point.
 */
export interface Change {
  readonly action: Action;
  readonly kind: Kind;
  readonly name: string;
  readonly attributes: readonly AttributeChange[];
  readonly groupsAdded: readonly string[];
  readonly groupsRemoved: readonly string[];
}

/** How many principals of one kind a plan creates, updates and deletes, and how many there are before and after. */
export interface KindCounts {
  readonly before: number;
  readonly after: number;
  readonly create: number;
  readonly update: number;
  readonly delete: number;
}

/** What a plan amounts to. Memberships are counted per principal and group. */
export interface Counts {
  readonly users: KindCounts;
  readonly groups: KindCounts;
  readonly membershipsAdded: number;
  readonly membershipsRemoved: number;
}

/** What a run would change. The changes themselves are read where they are needed, in the order of `changes`. */
export interface Plan {
  /** SHA-256 in hexadecimal over the changes: two plans with one digest do the same. Independent of order. */
  readonly digest: string;
  readonly counts: Counts;
  /** Groups before users; create, update, delete; by name. */
  changes(): AsyncIterable<Change>;
}
