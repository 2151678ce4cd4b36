import { isDeepStrictEqual } from "node:util";
import type { Filter } from "scim2-parse-filter";
import { isObject } from "#values.ts";
import { isMultiValued, nameIn, spelling } from "./attributes.ts";
import type { Resource } from "../schema.ts";
import { invalid } from "./errors.ts";
import { matches } from "./filter.ts";
import { cleaned } from "./values.ts";
import { readPath } from "./path.ts";
import type { Path } from "./path.ts";

/** An operation of a PATCH (RFC 7644, 3.5.2). */
interface Operation {
  readonly op: "add" | "replace" | "remove";
  readonly path: Path;
  readonly value: unknown;
}

/** A change to the members of a group: they are stored apart, however many there are. */
export type MemberChange =
  | { readonly op: "add"; readonly members: readonly Resource[] }
  | { readonly op: "remove"; readonly ids: readonly string[] }
  | { readonly op: "clear" };

export interface Patched {
  readonly resource: Resource;
  /** In order. */
  readonly members: readonly MemberChange[];
}

/**
 * Applies the operations of a PATCH, all or none. Accepts what providers are known to send: `op` in any case, `"True"` and
 * `"False"`, a list with one value, removals with the values in `value`, no path, dotted and URN keys in a value without
 * a path, `manager` as a text.
 * @param body of the request
 * @param resource as stored, without members
 * @throws {ScimError} 400: an operation cannot be understood or has no target; nothing has changed
 */
export function patch(body: unknown, resource: Resource): Patched {
  let patched = resource;
  const members: MemberChange[] = [];
  for (const operation of operationsIn(body, resource)) {
    if (operation.path.attribute === "members" && operation.path.extension === undefined)
      members.push(...memberChanges(operation));
    else patched = apply(patched, operation);
  }
  return { resource: patched, members };
}

function* operationsIn(body: unknown, resource: Resource): Generator<Operation> {
  if (!isObject(body)) throw invalid("invalidSyntax", "expected a PatchOp object with Operations");
  const list = body[nameIn(body, "Operations")];
  if (!Array.isArray(list) || list.length === 0)
    throw invalid("invalidSyntax", "expected Operations: a list of at least one operation");
  for (const each of list) {
    if (!isObject(each)) throw invalid("invalidSyntax", "an operation is not an object");
    const written = each[nameIn(each, "op")];
    const op = typeof written === "string" ? written.toLowerCase() : "";
    if (op !== "add" && op !== "replace" && op !== "remove")
      throw invalid("invalidSyntax", `op is ${JSON.stringify(written)}; expected add, replace or remove`);
    const path = each[nameIn(each, "path")];
    const value = each[nameIn(each, "value")];
    if (typeof path === "string" && path.trim() !== "") {
      const read = readPath(path, resource);
      // The core schema as a path is the resource itself.
      if (read.extension === undefined && read.attribute === undefined) yield* pathless(op, value, resource);
      else yield { op, path: read, value };
    } else if (path !== undefined && path !== null && path !== "")
      throw invalid("invalidPath", `${JSON.stringify(path)} is not a path`);
    else yield* pathless(op, value, resource);
  }
}

/** Each key of the value is a path. */
function* pathless(op: Operation["op"], value: unknown, resource: Resource): Generator<Operation> {
  if (op === "remove") throw invalid("noTarget", "a removal needs a path");
  const values = Array.isArray(value) && value.length === 1 ? value[0] : value;
  if (!isObject(values))
    throw invalid("invalidValue", `${op} without a path needs an object of attributes as its value`);
  for (const [key, each] of Object.entries(values)) {
    const path = readPath(key, resource);
    if (path.extension === undefined && path.attribute === undefined) {
      yield* pathless(op, each, resource);
      continue;
    }
    if (isUnchanged(path, each, resource)) continue;
    yield { op, path, value: each };
  }
}

/** Providers send the id, the schemas or an empty list of groups along. Another id is a change. */
function isUnchanged({ extension, attribute = "" }: Path, value: unknown, resource: Resource): boolean {
  if (extension !== undefined) return false;
  if (attribute === "id" || attribute === "meta") return attribute === "meta" || value === resource["id"];
  return attribute === "schemas" || (attribute === "groups" && Array.isArray(value) && value.length === 0);
}

const readOnly = new Set(["id", "meta", "groups"]);

function apply(resource: Resource, operation: Operation): Resource {
  const { extension, attribute } = operation.path;
  if (extension === undefined) {
    if (readOnly.has(attribute ?? "")) throw invalid("mutability", `${attribute} is read-only`);
    if (attribute === "password")
      throw invalid("mutability", "passwords are not taken (ServiceProviderConfig: changePassword is not supported)");
    return attribute === undefined ? resource : changed(resource, attribute, operation);
  }
  const key = nameIn(resource, extension);
  const held = isObject(resource[key]) ? resource[key] : {};
  if (attribute !== undefined) return withAttribute(resource, key, emptied(changed(held, attribute, operation)));
  if (operation.op === "remove" || operation.value === null) return withAttribute(resource, key, undefined);
  if (!isObject(operation.value)) throw invalid("invalidValue", `${extension} is an extension: expected an object`);
  let extended: Resource = held;
  for (const [name, value] of Object.entries(operation.value))
    extended = changed(extended, nameIn(extended, name), { ...operation, path: { attribute: name }, value });
  return withAttribute(resource, key, emptied(extended));
}

function emptied(holder: Resource): Resource | undefined {
  return Object.keys(holder).length === 0 ? undefined : holder;
}

function withAttribute(holder: Resource, name: string, value: unknown): Resource {
  const { [name]: _, ...others } = holder;
  return value === undefined || value === null ? others : { ...holder, [name]: value };
}

/** A resource or an extension with one of its attributes changed. */
function changed(holder: Resource, attribute: string, { op, path, value }: Operation): Resource {
  const name = nameIn(holder, attribute);
  const held = holder[name];
  const isList = Array.isArray(held) || path.filter !== undefined || isMultiValued(name);
  if (op === "remove") return withAttribute(holder, name, removed(held, path, value));
  const given = cleaned(path.part ?? name, value, isList && path.part === undefined && path.filter === undefined);
  // RFC 7644, 3.5.2.3: a null value is a removal.
  if (given === undefined || given === null) return withAttribute(holder, name, removed(held, path, undefined));
  if (isList) {
    const list = listWith(Array.isArray(held) ? held : [], op, path, given);
    return withAttribute(holder, name, list.length === 0 ? undefined : list);
  }
  if (path.part !== undefined)
    return withAttribute(holder, name, changed(isObject(held) ? held : {}, path.part, { op, path: {}, value: given }));
  // A complex attribute keeps the parts that are not named.
  return withAttribute(holder, name, isObject(held) && isObject(given) ? merged(held, given) : given);
}

function merged(held: Resource, given: Resource): Resource {
  let result = held;
  for (const [name, value] of Object.entries(given)) result = withAttribute(result, nameIn(result, name), value);
  return result;
}

/** What is left of an attribute; undefined: nothing. */
function removed(held: unknown, { filter, part }: Path, value: unknown): unknown {
  if (!Array.isArray(held)) {
    if (part === undefined) return undefined;
    return isObject(held) ? emptied(withAttribute(held, nameIn(held, part), undefined)) : held;
  }
  const given = value === undefined || value === null ? [] : [value].flat();
  const isMeant = (each: unknown): boolean =>
    filter === undefined ? given.length === 0 || given.some((one) => isSame(one, each)) : matches(filter, each);
  const left = held.flatMap((each: unknown) => {
    if (!isMeant(each)) return [each];
    return part === undefined || !isObject(each) ? [] : [withAttribute(each, nameIn(each, part), undefined)];
  });
  return left.length === 0 ? undefined : left;
}

function plain(value: unknown): unknown {
  return isObject(value) ? value["value"] : value;
}

/** Values are the same by their `value`, and `type` where both have one: case does not matter there (RFC 7643, 2.4). */
function isSame(one: unknown, other: unknown): boolean {
  if (!isObject(one) || !isObject(other)) {
    return plain(one) !== undefined && plain(one) === plain(other);
  }
  if (one["value"] === undefined && other["value"] === undefined) return isDeepStrictEqual(one, other);
  const types = [one, other].flatMap(({ type }) => (typeof type === "string" ? type.toLowerCase() : (type ?? [])));
  return one["value"] === other["value"] && new Set(types).size < 2;
}

function listWith(held: readonly unknown[], op: "add" | "replace", { filter, part }: Path, given: unknown): unknown[] {
  if (filter === undefined && part === undefined) {
    const values = [given].flat();
    if (op === "replace") return onePrimary(values, values);
    return onePrimary(values.reduce<readonly unknown[]>(withValue, held), values);
  }
  const change = (each: unknown): Resource =>
    part === undefined
      ? merged(isObject(each) ? each : { value: each }, isObject(given) ? given : { value: given })
      : withAttribute(isObject(each) ? each : {}, part, given);
  const isMeant = (each: unknown): boolean => filter === undefined || matches(filter, each);
  const touched = held.filter(isMeant).map(change);
  if (touched.length > 0) {
    let at = 0;
    return onePrimary(
      held.map((each) => (isMeant(each) ? touched[at++] : each)),
      touched,
    );
  }
  // `emails[type eq "work"].value` of somebody who has none: there is one from now on.
  const made = change(filter === undefined ? {} : described(filter));
  return onePrimary([...held, made], [made]);
}

/** A value that is there already keeps its place and the parts that are not named. */
function withValue(held: readonly unknown[], value: unknown): readonly unknown[] {
  const at = held.findIndex((each) => isSame(each, value));
  if (at === -1) return [...held, value];
  const same = held[at];
  return held.with(at, isObject(same) && isObject(value) ? merged(same, value) : same);
}

/** RFC 7644, 3.5.2: one that becomes the primary value takes that from the others. */
function onePrimary(values: readonly unknown[], written: readonly unknown[]): unknown[] {
  const primary = written.findLast((each) => isObject(each) && each["primary"] === true);
  if (primary === undefined) return [...values];
  const at = values.findLastIndex((each) => isSame(each, primary) && isObject(each) && each["primary"] === true);
  return values.map((each, index) =>
    isObject(each) && index !== at && each["primary"] === true ? { ...each, primary: false } : each,
  );
}

/** The value that a filter describes. @throws {ScimError} noTarget: it describes none in particular */
function described(filter: Filter): Resource {
  if (filter.op === "and") return Object.assign({}, ...filter.filters.map(described)) as Resource;
  if (filter.op === "eq" && filter.compValue !== null && /^\w+$/.test(filter.attrPath))
    return { [spelling(filter.attrPath)]: cleaned(spelling(filter.attrPath), filter.compValue, false) };
  throw invalid("noTarget", "no value is what the filter of the path asks for");
}

function memberChanges({ op, path, value }: Operation): MemberChange[] {
  if (path.part !== undefined) throw invalid("invalidPath", "the parts of a member cannot be changed");
  if (op === "remove") {
    if (path.filter !== undefined) return [{ op: "remove", ids: idsIn(path.filter) }];
    if (value === undefined || value === null) return [{ op: "clear" }];
    return [{ op: "remove", ids: membersIn(value).map((member) => String(member["value"])) }];
  }
  if (path.filter !== undefined) throw invalid("invalidPath", "members are added without a filter");
  const members = value === null && op === "replace" ? [] : membersIn(value);
  return [...(op === "replace" ? ([{ op: "clear" }] as const) : []), { op: "add", members }];
}

/** @throws {ScimError} invalidFilter: it is not `value eq "…"`, or several of these joined by `or` */
function idsIn(filter: Filter): readonly string[] {
  if (filter.op === "or") return filter.filters.flatMap(idsIn);
  if (filter.op === "eq" && /^value$/i.test(filter.attrPath)) return [String(filter.compValue)];
  throw invalid("invalidFilter", 'members are removed by members[value eq "…"]');
}

/** What every store can look for. */
const isId = /^[^\p{Cc}\p{Cs}]{1,255}$/u;

/** @throws {ScimError} invalidValue: a member has no id */
export function membersIn(value: unknown): readonly Resource[] {
  return [value].flat().map((member) => {
    const cleanedMember = cleaned("members", member, false);
    const made = isObject(cleanedMember) ? cleanedMember : { value: cleanedMember };
    const id = made["value"];
    if (typeof id !== "string" || !isId.test(id))
      throw invalid("invalidValue", "a member needs the id of a resource as its value");
    return made;
  });
}
