import type { Filter } from "scim2-parse-filter";
import { isObject } from "#values.ts";
import { spelling } from "./attributes.ts";
import { coreSchemas, enterprise } from "../schema.ts";
import type { Resource } from "../schema.ts";
import { invalid } from "./errors.ts";
import { readFilter } from "./filter.ts";

/** Where a PATCH operation works (RFC 7644, 3.5.2): `emails[type eq "work"].value`. */
export interface Path {
  /** The URN of an extension whose attribute it is. Absent: an attribute of the resource itself. */
  readonly extension?: string | undefined;
  /** Absent: the whole extension. */
  readonly attribute?: string | undefined;
  /** Which values of it. */
  readonly filter?: Filter | undefined;
  /** The part of it: `value`, `familyName`. */
  readonly part?: string | undefined;
}

const name = String.raw`[A-Za-z$][\w$-]*`;
const form = new RegExp(String.raw`^(${name})(?:\[(.*)\])?(?:\.(${name}))?$`, "s");

/**
 * Reads a path, or the key of a value without one: `name.givenName`, `urn:…:User:employeeNumber`.
 * @param resource whose extensions are known
 * @throws {ScimError} it is none (invalidPath), or its filter is none (invalidFilter)
 */
export function readPath(text: string, resource: Resource): Path {
  const { extension, rest } = splitSchema(text.trim(), resource);
  if (rest === "") return { extension };
  const [, attribute, filter, part] = form.exec(rest) ?? [];
  if (attribute === undefined) throw invalid("invalidPath", `${JSON.stringify(text)} is not a path`);
  return {
    extension,
    attribute: spelling(attribute),
    filter: filter === undefined ? undefined : readFilter(filter),
    part: part === undefined ? undefined : spelling(part),
  };
}

interface Split {
  readonly extension: string | undefined;
  readonly rest: string;
}

/** URNs have dots and colons themselves: known ones first, then the longest that leaves a name. */
function splitSchema(text: string, resource: Resource): Split {
  if (!/^urn:/i.test(text)) return { extension: undefined, rest: text };
  const listed = Array.isArray(resource["schemas"]) ? resource["schemas"].map(String) : [];
  const own = Object.keys(resource).filter((key) => isObject(resource[key]));
  const known = [...Object.values(coreSchemas), enterprise, ...listed, ...own].filter((urn) => /^urn:/i.test(urn));
  for (const urn of known.toSorted((a, b) => b.length - a.length)) {
    const isPrefix = text.slice(0, urn.length).toLowerCase() === urn.toLowerCase();
    const next = text[urn.length];
    if (!isPrefix || (next !== undefined && next !== ":" && next !== ".")) continue;
    return { extension: isCore(urn) ? undefined : spelling(urn), rest: text.slice(urn.length + 1) };
  }
  const beforeFilter = text.split("[", 1)[0] ?? "";
  const at = beforeFilter.lastIndexOf(":");
  // `urn:example:2.0:User` names an extension; `urn:example:2.0:User:badge` an attribute of it.
  if (/:(?:User|Group)$/i.test(beforeFilter)) return { extension: text, rest: "" };
  return { extension: text.slice(0, at), rest: text.slice(at + 1) };
}

function isCore(urn: string): boolean {
  return Object.values(coreSchemas).some((core) => core.toLowerCase() === urn.toLowerCase());
}
