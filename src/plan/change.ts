import deepDiff from "deep-diff";
import type { Kind, Principal } from "#principals/principal.ts";

/** What happens to a principal. */
export type Action = "create" | "update" | "delete";

/** One attribute that differs. `from` is absent where it was unset (or the principal is created), `to` where it is cleared. */
export interface AttributeChange {
  readonly attribute: "displayName" | "description" | "mail";
  readonly from?: string | undefined;
  readonly to?: string | undefined;
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

/** The changes of one action on one kind. */
export interface Part {
  readonly action: Action;
  readonly kind: Kind;
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
  /** How many of the changes `changes` gives, where that is not all of them. */
  readonly shown?: Counts | undefined;
  /** Groups before users; create, update, delete; by name. With `only`, those of one part alone. */
  changes(only?: Part): AsyncIterable<Change>;
}

/** How many principals a plan touches. */
export function changes(counts: Counts): number {
  return [counts.users, counts.groups].reduce((sum, kind) => sum + kind.create + kind.update + kind.delete, 0);
}

const attributes = ["displayName", "description", "mail"] as const satisfies readonly AttributeChange["attribute"][];

/**
 * What turns `before` into `after`, two sides of one principal. An absent side is one that does not exist: of a
 * creation `before`, of a deletion `after`.
 */
export function changeOf(action: Action, before: Principal | undefined, after: Principal | undefined): Change {
  const principal = after ?? before;
  if (principal === undefined) throw new TypeError("a change needs a side that exists");
  const differences = deepDiff(comparable(before), comparable(after)) ?? [];
  const groups = differences.filter(({ path }) => path?.[0] === "groups");
  return {
    action,
    kind: principal.kind,
    name: principal.name,
    attributes: attributes.flatMap((attribute) => {
      const difference = differences.find(({ path }) => path?.[0] === attribute);
      if (difference === undefined) return [];
      return [{ attribute, from: before?.[attribute], to: after?.[attribute] }];
    }),
    groupsAdded: groups.filter(({ kind }) => kind === "N").map(groupOf),
    groupsRemoved: groups.filter(({ kind }) => kind === "D").map(groupOf),
  };
}

/**
 * A principal as deep-diff compares it: what is unset has no key (deep-diff takes a key that holds `undefined` for a
 * value), and the groups are the keys of an object. The mark before a name keeps every name an ordinary key in its
 * place: deep-diff passes over an empty key, and JavaScript puts keys that look like numbers first. An object without
 * a prototype is a dictionary from the start, not a new shape for each set of names.
 */
function comparable(principal: Principal | undefined): object {
  const groups = Object.create(null) as Record<string, true>;
  for (const name of principal?.groupNames ?? []) groups[`=${name}`] = true;
  const result: Record<string, unknown> = { groups };
  for (const attribute of attributes) {
    const value = principal?.[attribute];
    if (value !== undefined) result[attribute] = value;
  }
  return result;
}

function groupOf({ path }: { path?: unknown[] | undefined }): string {
  return String(path?.[1]).slice(1);
}
