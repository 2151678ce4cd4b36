import deepDiff from "deep-diff";
import { formatValue } from "#principals/attributes.ts";
import type { Kind, Principal, PrincipalValue } from "#principals/principal.ts";
import { actions } from "./actions.ts";
import type { Action } from "./actions.ts";

// Every command loads the names of actions, and few compare principals.
export { actions, byDanger, isUpdate, isUpdateInSql, usualWords, wordsOfComparison } from "./actions.ts";
export type { Action, Words } from "./actions.ts";

/** One attribute that differs. No `from`: it was unset, or the principal is created. No `to`: it is cleared or deleted. */
export interface AttributeChange {
  readonly attribute: string;
  readonly from?: PrincipalValue | undefined;
  readonly to?: PrincipalValue | undefined;
}

/**
 * What happens to one principal. A creation lists its attributes with `to` only and all its groups as added;
 * a deletion the reverse. Attributes come in the order of the principals', groups sorted by code point.
 */
export interface Change {
  readonly action: Action;
  readonly kind: Kind;
  readonly name: string;
  readonly attributes: readonly AttributeChange[];
  readonly groupsAdded: readonly string[];
  readonly groupsRemoved: readonly string[];
  /** The ids of its causes, as the plan names them. Absent: none were looked for. */
  readonly causes?: readonly string[] | undefined;
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
  /** Absent: principals of this kind have no such state in the target. */
  readonly suspend?: number | undefined;
  readonly reactivate?: number | undefined;
}

/** How many principals an action is about, of both kinds. */
export function countOf({ users, groups }: Pick<Counts, "users" | "groups">, action: Action): number {
  return (users[action] ?? 0) + (groups[action] ?? 0);
}

/** The actions that a plan can have: all that its target knows. */
export function actionsOf({ users }: Pick<Counts, "users">): readonly Action[] {
  return actions.filter((action) => users[action] !== undefined);
}

/** The totals of a plan. Memberships are counted per principal and group. */
export interface Counts {
  readonly users: KindCounts;
  readonly groups: KindCounts;
  readonly membershipsAdded: number;
  readonly membershipsRemoved: number;
}

/** The changes of a run. They are read when they are needed. */
export interface Plan {
  /** SHA-256 of the changes in hexadecimal, whatever their order: plans with the same digest do the same. */
  readonly digest: string;
  readonly counts: Counts;
  /** The counts of what `changes` gives, where that is not everything. */
  readonly shown?: Counts | undefined;
  /** Groups before users; in the order of `actions`; by name. `only`: just that part; `most`: no more than so many. */
  changes(only?: Part, most?: number): AsyncIterable<Change>;
}

/** As many digits of a digest as a plan shows, and a person has to give. */
const shownDigits = 12;

/** The beginning of a digest, which is enough to name a plan. */
export function shortDigest(digest: string): string {
  return digest.slice(0, shownDigits);
}

/** A digest of a plan, or the beginning of one. */
export const someDigest = new RegExp(`^[0-9a-f]{${shownDigits},64}$`);

/** How many principals a plan touches. */
export function changes(counts: Counts): number {
  return actions.reduce((sum, action) => sum + countOf(counts, action), 0);
}

/** The values of a change as texts; undefined where there is none. */
export function textsOf({ from, to }: AttributeChange): {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
} {
  return {
    from: from === undefined ? undefined : formatValue(from),
    to: to === undefined ? undefined : formatValue(to),
  };
}

/** What is no attribute of a principal. */
const identity: ReadonlySet<string> = new Set(["kind", "name", "groupNames"]);

/** The action between two sides of one principal, of which one may not be there. */
export function actionBetween(before: Principal | undefined, after: Principal | undefined): Action {
  if (before === undefined) return "create";
  if (after === undefined) return "delete";
  const [was, is] = [before["active"] !== false, after["active"] !== false];
  return was === is ? "update" : is ? "reactivate" : "suspend";
}

/**
 * The change from `before` to `after`, the two sides of one principal. A creation has no `before`, a deletion no `after`.
 */
export function changeOf(action: Action, before: Principal | undefined, after: Principal | undefined): Change {
  const principal = after ?? before;
  if (principal === undefined) throw new TypeError("a change needs a side that exists");
  const differences = deepDiff(comparable(before), comparable(after)) ?? [];
  const groups = differences.filter(({ path }) => path?.[0] === "groups");
  const changed = new Set(differences.map(({ path }) => path?.[0]));
  const attributes = Object.keys({ ...before, ...after }).filter((key) => !identity.has(key) && changed.has(`=${key}`));
  return {
    action,
    kind: principal.kind,
    name: principal.name,
    attributes: attributes.map((attribute) => ({ attribute, from: before?.[attribute], to: after?.[attribute] })),
    groupsAdded: groups.filter(({ kind }) => kind === "N").map(groupOf),
    groupsRemoved: groups.filter(({ kind }) => kind === "D").map(groupOf),
  };
}

/**
 * A principal as deep-diff compares it. Unset attributes have no key, since deep-diff takes `undefined` for a value. Groups and
 * attributes are keys of an object, with a mark in front: deep-diff skips an empty key, and JavaScript moves keys that look
 * like numbers to the front. An object without a prototype is a dictionary, not a new shape for each set of names.
 */
function comparable(principal: Principal | undefined): object {
  const groups = Object.create(null) as Record<string, true>;
  for (const name of principal?.groupNames ?? []) groups[`=${name}`] = true;
  const result: Record<string, unknown> = { groups };
  for (const [key, value] of Object.entries(principal ?? {}))
    if (value !== undefined && !identity.has(key)) result[`=${key}`] = value;
  return result;
}

function groupOf({ path }: { path?: unknown[] | undefined }): string {
  return String(path?.[1]).slice(1);
}
