import { isDeepStrictEqual } from "node:util";
import type { Limits } from "./limits.ts";

/** A refusal as SCIM writes it. */
export class Refused extends Error {
  readonly status: number;
  readonly type: string | undefined;

  constructor(status: number, detail: string, type?: string) {
    super(detail);
    this.status = status;
    this.type = type;
  }
}

export type Json = Record<string, unknown>;

interface Operation {
  readonly op: string;
  readonly path?: string;
  readonly value?: unknown;
}

const invalid = (detail: string, type = "invalidSyntax"): Refused => new Refused(400, detail, type);
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Applies a PATCH to a copy of a resource and to the ids of its members. @throws {Refused} */
export function patched(resource: Json, members: ReadonlySet<string>, body: unknown, limits: Limits) {
  const listed = isObject(body) ? body[limits.operations] : undefined;
  if (!Array.isArray(listed) || listed.length === 0) throw invalid(`a PATCH has ${limits.operations}`);
  const operations = listed as readonly Operation[];
  assertWithin(operations, limits);
  const next = structuredClone(resource);
  const ids = new Set(members);
  for (const operation of operations) {
    const path = operation.path ?? "";
    if (/^members\b/.test(path)) changeMembers(ids, operation, limits);
    else if (path === "") setAll(next, operation, limits);
    else change(next, operation, path);
  }
  if (ids.size > limits.largestGroup) throw invalid(`a group has at most ${limits.largestGroup} members`, "tooMany");
  return { resource: next, members: ids };
}

function assertWithin(operations: readonly Operation[], limits: Limits): void {
  const ofMembers = operations.filter(({ path }) => /^members\b/.test(path ?? ""));
  const count = (op: string): number =>
    ofMembers
      .filter((each) => each.op.toLowerCase() === op)
      .reduce((sum, { value }) => sum + (Array.isArray(value) ? value.length : 1), 0);
  const [added, removed] = [count("add"), count("remove")];
  if (added > limits.membersPerPatch) throw invalid(`${added} members; at most ${limits.membersPerPatch} are added`);
  if (removed > limits.removalsPerPatch) throw invalid(`${removed} members; at most ${limits.removalsPerPatch} go`);
  if (added + removed > limits.membersPerPatch) throw invalid("too many members");
  const isMixed = (added > 0 && removed > 0) || (ofMembers.length > 0 && operations.length > ofMembers.length);
  if (limits.membersAlone && isMixed) throw invalid("members are added or removed alone");
}

function changeMembers(ids: Set<string>, { op, path = "", value }: Operation, limits: Limits): void {
  const given = (Array.isArray(value) ? value : []).map((each) => {
    if (!isObject(each) || typeof each["value"] !== "string") throw invalid("a member has a value");
    return each["value"];
  });
  const filtered = /^members\[value eq "([^"]*)"\]$/.exec(path)?.[1];
  if (filtered === undefined && path !== "members") throw invalid(`no such path: ${path}`, "invalidPath");
  if (op.toLowerCase() === "add" && filtered === undefined) {
    for (const id of given) ids.add(id);
    return;
  }
  if (op.toLowerCase() !== "remove") throw invalid(`${op} of members`);
  if (filtered === undefined ? limits.removal === "filter" : limits.removal === "list")
    throw invalid("members are not removed like this");
  // To remove all is to remove by mistake.
  const gone = filtered === undefined ? given : [filtered];
  if (gone.length === 0) throw invalid("removes all members");
  for (const id of gone)
    if (!ids.delete(id) && limits.strictRemoval) throw new Refused(400, `${id} is no member`, "noTarget");
}

function setAll(resource: Json, { op, value }: Operation, limits: Limits): void {
  if (!["add", "replace"].includes(op.toLowerCase()) || !isObject(value)) throw invalid("no path and no object");
  if (limits.pathlessOne && Object.keys(value).length > 1) throw invalid("one attribute without a path");
  for (const [key, inner] of Object.entries(value)) {
    const before = resource[key];
    resource[key] = isObject(before) && isObject(inner) ? { ...before, ...inner } : inner;
  }
}

function change(resource: Json, { op, value }: Operation, path: string): void {
  const urn = /^(urn:.*):[^:]*$/i.exec(path)?.[1];
  const rest = urn === undefined ? path : path.slice(urn.length + 1);
  if (rest.includes("[")) throw invalid(`no filter in ${path}`, "invalidPath");
  const [name = "", sub] = rest.split(".");
  if (!/^\w+$/.test(name)) throw invalid(`no such path: ${path}`, "invalidPath");
  if (["id", "meta", "groups"].includes(name)) throw invalid(`${name} is read-only`, "mutability");
  const container = urn === undefined ? resource : ((resource[urn] ??= {}) as Json);
  const target = sub === undefined ? container : ((container[name] ??= {}) as Json);
  const key = sub ?? name;
  const word = op.toLowerCase();
  if (word === "remove") delete target[key];
  else if (word === "replace" || word === "add") {
    if (value === undefined || value === null) throw invalid(`${op} without a value`);
    target[key] = word === "add" && Array.isArray(target[key]) ? [...(target[key] as unknown[]), value].flat() : value;
  } else throw invalid(`no such op: ${op}`);
  for (const each of [sub === undefined ? "" : name, urn ?? ""])
    if (each !== "" && isDeepStrictEqual(resource[each], {})) delete resource[each];
}
