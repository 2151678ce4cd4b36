import { parse } from "scim2-parse-filter";
import type { Filter } from "scim2-parse-filter";
import { isObject } from "#values.ts";
import { isBoolean, nameIn } from "./attributes.ts";
import { invalid } from "./errors.ts";

/** The longest filter, in characters. */
const longest = 8_192;

/**
 * A filter (RFC 7644, 3.4.2.2). Texts are JSON's, with its escapes; a single backslash that is no escape, as some providers send
 * for `DOMAIN\user`, stands for itself. `True` is `true`, and a word without quotes is a text.
 * @throws {ScimError} invalidFilter
 */
export function readFilter(text: string): Filter {
  const unreadable = invalid("invalidFilter", `the filter ${JSON.stringify(text.slice(0, 200))} cannot be read`);
  if (text.length > longest) throw unreadable;
  const texts: string[] = [];
  // The parser takes every backslash and bracket for itself, so texts are numbers to it.
  const asText = (value: string): string => `"${texts.push(value) - 1}"`;
  const replaced = text.replaceAll(comparedValue, (found, operator?: string, word = "") => {
    if (operator === undefined) return asText(unescaped(found));
    const isLiteral = /^(?:true|false|null|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/i.test(word);
    return `${operator} ${isLiteral ? word.toLowerCase() : asText(word)}`;
  });
  try {
    return withTexts(parse(replaced.replaceAll(ofOneValue, "[($1) and $2]")), texts);
  } catch {
    throw unreadable;
  }
}

/** A text in quotes, or an operator with the word after it. */
const comparedValue = /"(?:[^"\\]|\\.)*"|(?<=\s)(eq|ne|co|sw|ew|gt|lt|ge|le)\s+([^\s"()[\]]+)/gis;

/** `[type eq "work"].value eq "x"` means one value for both, which the parser forgets. */
const ofOneValue = /\[([^[\]]*)\]\.(\w+\s+(?:pr\b|\w\w\s+(?:"[^"]*"|[^\s()[\]]+)))/g;

function unescaped(literal: string): string {
  try {
    return JSON.parse(literal) as string;
  } catch {
    return literal.slice(1, -1).replaceAll('\\"', '"');
  }
}

function withTexts(filter: Filter, texts: readonly string[]): Filter {
  if ("filters" in filter) return { ...filter, filters: filter.filters.map((each) => withTexts(each, texts)) };
  if (filter.op === "not") return { ...filter, filter: withTexts(filter.filter, texts) };
  if (filter.op === "[]") return { ...filter, valFilter: withTexts(filter.valFilter, texts) };
  if (filter.op === "pr" || typeof filter.compValue !== "string") return filter;
  return { ...filter, compValue: texts[Number(filter.compValue)] ?? "" };
}

/** Attributes whose case matters (RFC 7643, 7: caseExact). Of all others it does not. */
const caseExact = new Set(["id", "externalid", "$ref", "version", "location"]);

/** Whether a resource, or a value of one, is what a filter asks for. */
export function matches(filter: Filter, holder: unknown): boolean {
  if ("filters" in filter)
    return filter.filters[filter.op === "and" ? "every" : "some"]((each) => matches(each, holder));
  if (filter.op === "not") return !matches(filter.filter, holder);
  if (filter.op === "[]") return valuesAt(holder, filter.attrPath).some((value) => matches(filter.valFilter, value));
  if (filter.op === "pr") return valuesAt(holder, filter.attrPath).some(isPresent);
  if (filter.op === "ne") return !compares(filter.attrPath, holder, "eq", filter.compValue);
  return compares(filter.attrPath, holder, filter.op, filter.compValue);
}

/** The values at a path; those of each value of a list. */
function valuesAt(holder: unknown, path: string): readonly unknown[] {
  const at = /^urn:/i.test(path) ? path.lastIndexOf(":") : -1;
  const [schema, rest] = [path.slice(0, Math.max(at, 0)), path.slice(at + 1)];
  const isCore = schema === "" || /^urn:ietf:params:scim:schemas:core:/i.test(schema);
  let values: readonly unknown[] = isCore ? [holder] : partsOf(holder, schema);
  for (const part of rest.split(".")) values = values.flatMap((value) => partsOf(value, part));
  return values;
}

function partsOf(value: unknown, part: string): readonly unknown[] {
  // A plain value of a list is its own `value`: `members[value eq "…"]` of a list of ids.
  if (!isObject(value)) return part.toLowerCase() === "value" ? [value] : [];
  const found = value[nameIn(value, part)];
  return found === undefined ? [] : [found].flat();
}

function isPresent(value: unknown): boolean {
  return value !== null && value !== "" && !(isObject(value) && Object.keys(value).length === 0);
}

type Comparison = Exclude<Filter["op"], "and" | "or" | "not" | "[]" | "pr" | "ne">;

function compares(path: string, holder: unknown, comparison: Comparison, compared: unknown): boolean {
  const name = path.split(/[.:]/).at(-1)?.toLowerCase() ?? "";
  const found = valuesAt(holder, path).map((value) => (isObject(value) ? value["value"] : value));
  if (compared === null) return comparison === "eq" && !found.some(isPresent);
  const isExact = caseExact.has(name);
  // A later moment is greater, whatever time zone it is written in (RFC 7643, 2.3.5).
  const isMoment = moments.has(name) && /^(?:eq|[gl][te])$/.test(comparison);
  const read = (value: unknown): Present | undefined =>
    isMoment ? Date.parse(String(value)) : comparable(value, name, isExact);
  const asked = read(compared);
  return found.some((value) => {
    const present = read(value);
    return present !== undefined && asked !== undefined && comparisons[comparison](present, asked);
  });
}

const moments = new Set(["created", "lastmodified"]);

type Present = string | number | boolean;

function comparable(value: unknown, name: string, isExact: boolean): Present | undefined {
  if (typeof value === "string" && isBoolean(name)) return /^true$/i.test(value);
  if (typeof value === "string") return isExact ? value : value.toLowerCase();
  return typeof value === "number" || typeof value === "boolean" ? value : undefined;
}

/** RFC 7644, 3.4.2.2. */
const comparisons: Readonly<Record<Comparison, (found: Present, compared: Present) => boolean>> = {
  eq: (found, compared) => found === compared,
  co: (found, compared) => String(found).includes(String(compared)),
  sw: (found, compared) => String(found).startsWith(String(compared)),
  ew: (found, compared) => String(found).endsWith(String(compared)),
  gt: (found, compared) => found > compared,
  lt: (found, compared) => found < compared,
  ge: (found, compared) => found >= compared,
  le: (found, compared) => found <= compared,
};
