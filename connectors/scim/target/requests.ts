import type { Kind, MemberId } from "#connector.ts";
import { keyOf } from "../resource.ts";
import type { Resource } from "../schema.ts";
import { coreSchemas } from "../schema.ts";
import type { Mapping, Values } from "./attributes.ts";
import { itemsOf, placed, writePath } from "./paths.ts";
import type { Profile } from "./profiles.ts";

/** An operation of a PATCH (RFC 7644, 3.5.2). */
export interface Operation {
  readonly op: "add" | "remove" | "replace";
  readonly path?: string | undefined;
  readonly value?: unknown;
}

/** What a PATCH holds. */
export function patchBody(operations: readonly Operation[], profile: Profile): object {
  return { schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], [profile.operations]: operations };
}

/** The body of the POST that creates an object. A user is active unless the plan says otherwise. */
export function creation(kind: Kind, values: Values, name: string, mapping: Mapping): Resource {
  const named = kind === "user" ? { userName: name } : { displayName: name };
  // Some servers create users who cannot sign in where nothing is said.
  const active = kind === "user" ? { active: true } : {};
  return mapping.changed(kind, { ...named, ...values }, { ...active, schemas: [coreSchemas[kind]] });
}

/** The operations that change an object. */
export function operations(
  kind: Kind,
  values: Values,
  before: Resource,
  mapping: Mapping,
  profile: Profile,
): readonly Operation[] {
  const changes = mapping.changes(kind, values, before);
  const removed = changes.flatMap(({ path, value }): Operation[] =>
    value === null ? [{ op: "remove", path: writePath(path) }] : [],
  );
  const set = changes.filter(({ value }) => value !== null);
  if (set.length === 0) return removed;
  if (!profile.paths) {
    let value: Resource = {};
    for (const change of set) value = placed(value, change.path, change.value);
    return [{ op: "replace", value }, ...removed];
  }
  return [...set.map(({ path, value }): Operation => ({ op: "replace", path: writePath(path), value })), ...removed];
}

/** The requests that add and remove members, each as its operations. */
export function memberOperations(
  add: readonly MemberId[],
  remove: readonly MemberId[],
  { membersPerPatch, removalsPerPatch, removal, mixes }: Profile,
): readonly (readonly Operation[])[] {
  const added = chunks(add, membersPerPatch).map((some): Operation[] => [
    { op: "add", path: "members", value: some.map(({ id }) => ({ value: id })) },
  ]);
  const removed = chunks(remove, removalsPerPatch).map((some): Operation[] =>
    removal === "list"
      ? [{ op: "remove", path: "members", value: some.map(({ id }) => ({ value: id })) }]
      : some.map(({ id }) => ({ op: "remove", path: `members[value eq ${JSON.stringify(id)}]` })),
  );
  const [first, second] = [added.at(-1), removed[0]];
  const fits = add.length > 0 && remove.length > 0 && add.length + remove.length <= membersPerPatch;
  if (!mixes || !fits || first === undefined || second === undefined || removed.length > 1)
    return [...added, ...removed];
  return [[...first, ...second]];
}

/** The same changes of members in two requests; none: it is one change. */
export function halves(request: readonly Operation[]): readonly (readonly Operation[])[] {
  const [first, second] = request;
  if (second !== undefined) return chunks(request, Math.ceil(request.length / 2));
  if (first === undefined || !Array.isArray(first.value) || first.value.length < 2) return [];
  return chunks(first.value, Math.ceil(first.value.length / 2)).map((value) => [{ ...first, value }]);
}

function chunks<Item>(items: readonly Item[], size: number): readonly (readonly Item[])[] {
  const all: Item[][] = [];
  for (let at = 0; at < items.length; at += size) all.push(items.slice(at, at + size));
  return all;
}

/** The members of a group as a PUT has them, which takes groups whole. */
export function membersAfter(
  before: unknown,
  add: readonly MemberId[],
  remove: readonly MemberId[],
): readonly unknown[] {
  const gone = new Set(remove.map(({ id }) => id));
  const old = itemsOf(before);
  const there = new Set(old.map(keyOf));
  return [
    ...old.filter((one) => !gone.has(keyOf(one) ?? "")),
    ...add.filter(({ id }) => !there.has(id)).map(({ id }) => ({ value: id })),
  ];
}
