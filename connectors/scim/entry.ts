import type { Entry, MemberReference } from "#connector.ts";
import { InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { attributesOf, type Resource } from "./attributes.ts";

/** How entries are made of resources. */
export interface Making {
  /** Which attributes to keep, by kind; undefined: all. */
  readonly wanted: Readonly<Record<Kind, ReadonlySet<string> | undefined>>;
  /** Where memberships are taken from. */
  readonly memberships: "members" | "groups" | "both";
}

/**
 * The entry that a resource is.
 * @param origin where the resource was found
 * @throws {InputError} when it lacks an id, or a member does not say who it is
 */
export function entryOf(kind: Kind, resource: Resource, origin: string, making: Making): Entry {
  const id = idOf(resource);
  if (id === undefined)
    throw new InputError(`${origin}: a ${kind} without an id; every resource has one (RFC 7643, 3.1)`);
  const { memberships, wanted } = making;
  return {
    kind,
    id,
    origin,
    attributes: attributesOf(resource, wanted[kind]),
    keys: [id],
    memberOf: kind === "user" && memberships !== "members" ? groupsOf(resource, memberships === "groups") : [],
    members: kind === "group" && memberships !== "groups" ? membersOf(resource, origin) : [],
  };
}

/** The id of a resource; some servers send numbers. */
export function idOf(resource: Resource): string | undefined {
  const { id } = resource;
  if (typeof id === "number") return String(id);
  return typeof id === "string" && id !== "" ? id : undefined;
}

/** What a resource says it is; undefined when it does not say, the word when it is neither. */
export function typeOf(resource: Resource): Kind | { readonly other: string } | undefined {
  const meta = resource["meta"];
  const type = typeof meta === "object" && meta !== null && "resourceType" in meta ? meta.resourceType : undefined;
  if (typeof type === "string" && type !== "") return kindOf(type) ?? { other: type };
  const schemas = Array.isArray(resource["schemas"]) ? resource["schemas"].map(String) : [];
  const core = schemas.find((schema) => /^urn:ietf:params:scim:schemas:core:/i.test(schema));
  const word = core?.split(":").at(-1);
  return word === undefined ? undefined : (kindOf(word) ?? { other: word });
}

function kindOf(word: string): Kind | undefined {
  if (/^users?$/i.test(word)) return "user";
  return /^groups?$/i.test(word) ? "group" : undefined;
}

/**
 * The groups a user is directly in. A membership that does not say whether it is direct may be one through another
 * group: it counts only where nothing else tells.
 */
function groupsOf(resource: Resource, untold: boolean): string[] {
  return valuesOf(resource["groups"]).flatMap((group) => {
    const type = typeof group["type"] === "string" ? group["type"].toLowerCase() : undefined;
    const isDirect = type === "direct" || (type !== "indirect" && untold);
    const key = isDirect ? keyOf(group) : undefined;
    return key === undefined ? [] : [key];
  });
}

/** @throws {InputError} when a member does not say who it is */
export function membersOf(resource: Resource, origin: string): MemberReference[] {
  return valuesOf(resource["members"]).map((member) => {
    const key = keyOf(member);
    if (key === undefined)
      throw new InputError(`${origin}: a member has neither value nor $ref; it must say who it is`);
    const kind = memberKindOf(member);
    return kind === undefined ? { key } : { kind, key };
  });
}

function memberKindOf({ type, $ref }: Resource): Kind | undefined {
  const said = typeof type === "string" ? kindOf(type) : undefined;
  return said ?? (typeof $ref === "string" ? kindOf($ref.split("/").at(-2) ?? "") : undefined);
}

function keyOf({ value, $ref }: Resource): string | undefined {
  if (typeof value === "number") return String(value);
  if (typeof value === "string" && value !== "") return value;
  if (typeof $ref !== "string") return undefined;
  const last = $ref.split(/[?#]/, 1)[0]?.split("/").at(-1) ?? "";
  try {
    return last === "" ? undefined : decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** The items of a multi-valued attribute: objects, or values by themselves. */
function valuesOf(attribute: unknown): readonly Resource[] {
  if (attribute === undefined || attribute === null) return [];
  return [attribute]
    .flat()
    .map((item) => (typeof item === "object" && item !== null ? (item as Resource) : { value: item }));
}
