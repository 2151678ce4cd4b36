import { isObject } from "#values.ts";
import { nameIn, spelling } from "./attributes.ts";
import { coreSchemas } from "../schema.ts";
import type { Resource } from "../schema.ts";
import { invalid } from "./errors.ts";
import { membersIn } from "./patch.ts";
import { cleaned } from "./values.ts";

export type Kind = "user" | "group";

/** A resource that a provider has sent whole. */
export interface Sent {
  /** Without id, meta, password, groups and members. */
  readonly resource: Resource;
  /** Members of a group. Absent: the provider says nothing of them. */
  readonly members?: readonly Resource[] | undefined;
}

/** What the inbox says itself, and what is never stored. */
const notStored = new Set(["id", "meta", "groups", "members", "password", "schemas"]);

/** RFC 7643, 2.5: an empty list is no value. */
function isStored([name, value]: [string, unknown]): boolean {
  return !notStored.has(name) && !(Array.isArray(value) && value.length === 0);
}

/** The longest userName, displayName or externalId, in characters. */
const longestName = 1_000;

/**
 * The resource in the body of a POST or PUT.
 * @param before what a PUT replaces. A user whose `active` is not sent stays as they are; a new one is active
 * @throws {ScimError} 400: it cannot be one; the message names the attribute
 */
export function readResource(kind: Kind, body: unknown, before?: Resource): Sent {
  if (!isObject(body)) throw invalid("invalidSyntax", `expected a ${kind} as a JSON object`);
  const attributes = cleaned("", body, false);
  const all = isObject(attributes) ? attributes : {};
  const stored = Object.fromEntries(Object.entries(all).filter(isStored));
  const active = kind === "user" ? { active: before?.["active"] ?? true } : {};
  const listed = Array.isArray(all["schemas"]) ? all["schemas"] : [];
  const resource = checked(kind, { schemas: listed, ...active, ...stored });
  if (kind === "user") return { resource };
  const given = body[nameIn(body, "members")];
  return { resource, members: given === undefined || given === null ? undefined : membersIn(given) };
}

/**
 * A resource as it may be stored, after a PATCH too.
 * @returns it with the schemas that its attributes need
 * @throws {ScimError} 400 invalidValue: it lacks its name, or an attribute has a type that it cannot have
 */
export function checked(kind: Kind, resource: Resource): Resource {
  const name = kind === "user" ? "userName" : "displayName";
  const needed = resource[name];
  if (typeof needed !== "string" || needed.trim() === "")
    throw invalid("invalidValue", `a ${kind} needs a ${name}: a text that is not empty`);
  for (const each of ["userName", "displayName", "externalId"]) checkText(each, resource[each]);
  if (kind === "user" && typeof resource["active"] !== "boolean")
    throw invalid("invalidValue", "active cannot be removed; replace it by true or false");
  const named = resource["name"];
  if (named !== undefined && !isObject(named) && kind === "user")
    throw invalid("invalidValue", "name is an object: givenName, familyName");
  const extensions = Object.keys(resource).filter((key) => /^urn:/i.test(key));
  const others = (Array.isArray(resource["schemas"]) ? resource["schemas"] : []).filter(
    (schema): schema is string => typeof schema === "string",
  );
  const schemas = new Map(
    [coreSchemas[kind], ...others, ...extensions].map((urn) => [urn.toLowerCase(), spelling(urn)]),
  );
  return { ...resource, schemas: [...schemas.values()] };
}

function checkText(name: string, value: unknown): void {
  if (value === undefined) return;
  if (typeof value !== "string") throw invalid("invalidValue", `${name} is ${JSON.stringify(value)}; expected a text`);
  if (value.length > longestName)
    throw invalid("invalidValue", `${name} has ${value.length} characters; expected at most ${longestName}`);
}

/** Which attributes of a resource an answer has (RFC 7644, 3.9). Names are paths: `name.givenName`, `emails.value`. */
export interface Selection {
  readonly attributes?: readonly string[] | undefined;
  readonly excludedAttributes?: readonly string[] | undefined;
}

const always = new Set(["schemas", "id", "meta"]);

/** @throws {ScimError} 400: both lists are given */
export function selected(resource: Resource, { attributes, excludedAttributes }: Selection): Resource {
  if (attributes !== undefined && excludedAttributes !== undefined)
    throw invalid("invalidValue", "expected attributes or excludedAttributes, not both");
  if (attributes === undefined && excludedAttributes === undefined) return resource;
  const names = (attributes ?? excludedAttributes ?? []).map(withoutCore);
  const entries = Object.entries(resource).flatMap(([key, value]): [string, unknown][] => {
    if (always.has(key)) return [[key, value]];
    const parts = partsNamed(names, key);
    if (attributes === undefined) {
      if (parts.includes("")) return [];
      return parts.length === 0 ? [[key, value]] : [[key, withParts(value, (part) => !parts.includes(part))]];
    }
    if (parts.length === 0) return [];
    return [[key, parts.includes("") ? value : withParts(value, (part) => parts.includes(part))]];
  });
  return Object.fromEntries(entries);
}

/** Whether an answer has an attribute, so that it is worth reading. */
export function isSelected(attribute: string, { attributes, excludedAttributes }: Selection): boolean {
  if (attributes !== undefined) return partsNamed(attributes.map(withoutCore), attribute).length > 0;
  return !partsNamed((excludedAttributes ?? []).map(withoutCore), attribute).includes("");
}

function withoutCore(path: string): string {
  // Some clients choose among values, `emails[type eq "work"]`: they are answered with all.
  const attribute = path.trim().replace(/\[.*\]/, "");
  return attribute.replace(/^urn:ietf:params:scim:schemas:core:2\.0:(?:User|Group):/i, "");
}

/** The parts of an attribute that paths name, in lower case; an empty text for the whole of it. */
function partsNamed(paths: readonly string[], attribute: string): readonly string[] {
  const name = attribute.toLowerCase();
  return paths.flatMap((path) => {
    const lower = path.toLowerCase();
    if (lower === name) return [""];
    const isPart = lower.startsWith(name) && /[.:]/.test(lower.charAt(name.length));
    return isPart ? [lower.slice(name.length + 1)] : [];
  });
}

function withParts(value: unknown, isWanted: (part: string) => boolean): unknown {
  if (Array.isArray(value)) return value.map((each) => withParts(each, isWanted));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([part]) => isWanted(part.toLowerCase())));
}
