import { createRequire } from "node:module";
import { EvaluationError } from "@marcbachmann/cel-js";
import type { Environment } from "@marcbachmann/cel-js";
import type * as anyAscii from "any-ascii";
import { momentOf } from "./dates.ts";
import { parentOf, parseDn } from "./dn.ts";
import type { Rdn } from "./dn.ts";
import { extract, matches } from "./patterns.ts";
import { shown } from "#text.ts";

/** Loaded when a rule uses it: its tables are half a megabyte. */
const load = createRequire(import.meta.url);
const toAscii = (text: string): string => (load("any-ascii") as typeof anyAscii).default(text);

/**
 * The functions that rules have beside CEL's own. All take null for what an entry may lack, and give null for it, so
 * that `lower(entry.mail)` is null where there is no mail. Integers count as their decimal text.
 */
const functions: Readonly<Record<string, (...values: never[]) => unknown>> = {
  /** In lower case. */
  "lower(dyn): dyn": (value: unknown) => withText("lower", value, (text) => text.toLowerCase()),
  /** In upper case. */
  "upper(dyn): dyn": (value: unknown) => withText("upper", value, (text) => text.toUpperCase()),
  /** Without white space at either end. */
  "trim(dyn): dyn": (value: unknown) => withText("trim", value, (text) => text.trim()),
  /** Every occurrence of a text replaced by another one. */
  "replace(dyn, string, string): dyn": (value: unknown, search: string, replacement: string) =>
    withText("replace", value, (text) => text.replaceAll(search, () => replacement)),
  /** At most so many characters from the start. */
  "truncate(dyn, int): dyn": (value: unknown, length: bigint) =>
    withText("truncate", value, (text) =>
      Array.from(text)
        .slice(0, Math.max(0, Number(length)))
        .join(""),
    ),
  /** In ASCII, whatever the script: `Zoë Łódź` is `Zoe Lodz`. What becomes of a letter is the same everywhere. */
  "ascii(dyn): dyn": (value: unknown) => withText("ascii", value, toAscii),
  /** What a regular expression's first group matches, or the whole of it without a group; null where it does not match. */
  "extract(dyn, string): dyn": (value: unknown, pattern: string) =>
    withText("extract", value, (text) => extract(text, pattern)),
  /** Whether a regular expression matches anywhere; false for null. */
  "matches(dyn, string): bool": (value: unknown, pattern: string) =>
    withText("matches", value, (text) => matches(text, pattern)) ?? false,
  /** What `TEXT.matches(PATTERN)` becomes, see `withOwnFunctions`. */
  "string.Matches(string): bool": matches,
  /** The parts between separators, as a list. */
  "split(dyn, string): dyn": (value: unknown, separator: string) =>
    withText("split", value, (text) => text.split(separator)),
  /** The values of a list with a separator between them. Nulls are left out; null when nothing is left. */
  "join(dyn, string): dyn": (value: unknown, separator: string) => {
    const texts = valuesOf(value).flatMap((each) => asText("join", each) ?? []);
    return texts.length === 0 ? null : texts.join(separator);
  },
  /** The first value of a list; a value that is no list as it is; null when there is none. */
  "first(dyn): dyn": (value: unknown) => valuesOf(value)[0] ?? null,
  /** A list, whether there are no values, one or several. */
  "values(dyn): list<dyn>": valuesOf,
  /** The value of a DN's first part: `Ada` of `cn=Ada,ou=people`. */
  "rdn(dyn): dyn": (value: unknown) => withDn("rdn", value, ([rdn]) => rdn?.[0]?.value ?? null),
  /** A DN's first value of a type, from the left; null when it has none. */
  "dnValue(dyn, string): dyn": (value: unknown, type: string) =>
    withDn("dnValue", value, (rdns) => dnValues(rdns, type)[0] ?? null),
  /** A DN's values of a type, from the left, as a list. */
  "dnValues(dyn, string): dyn": (value: unknown, type: string) =>
    withDn("dnValues", value, (rdns) => dnValues(rdns, type)),
  /** A DN without its first part; null when that is all there is. */
  "dnParent(dyn): dyn": (value: unknown) =>
    withText("dnParent", value, (text) => withDn("dnParent", text, () => parentOf(text, "rfc2253") ?? null)),
  /** A moment, to compare and to calculate with: see `momentOf`. Null where it says never. */
  "date(dyn): dyn": (value: unknown) => asDate("date", value),
  /** Whether one moment is before another; false where either is null. */
  "isBefore(dyn, dyn): bool": (one: unknown, other: unknown) =>
    ordered(asDate("isBefore", one), asDate("isBefore", other)),
  /** Whether one moment is after another; false where either is null. */
  "isAfter(dyn, dyn): bool": (one: unknown, other: unknown) =>
    ordered(asDate("isAfter", other), asDate("isAfter", one)),
  /** The first that is not null. */
  "coalesce(dyn, dyn): dyn": coalesce,
  "coalesce(dyn, dyn, dyn): dyn": coalesce,
  "coalesce(dyn, dyn, dyn, dyn): dyn": coalesce,
};

/** Makes the functions known to the environment. */
export function registerFunctions(environment: Environment): void {
  for (const [signature, handler] of Object.entries(functions)) {
    environment.registerFunction(signature, handler, { async: false });
  }
}

function withText(name: string, value: unknown, change: (text: string) => unknown): unknown {
  const text = asText(name, value);
  return text === null ? null : change(text);
}

function asText(name: string, value: unknown): string | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "bigint") return value.toString();
  const hint = Array.isArray(value) ? '; use first(…) or join(…, ", ")' : "";
  throw new EvaluationError(`${name}() needs a text, not ${shown(value)}${hint}`);
}

function withDn(name: string, value: unknown, read: (rdns: readonly Rdn[]) => unknown): unknown {
  return withText(name, value, (text) => {
    let rdns: readonly Rdn[];
    try {
      rdns = parseDn(text, "rfc2253");
    } catch {
      throw new EvaluationError(`${name}() needs a DN like cn=ada,ou=people, not ${shown(text)}`);
    }
    return read(rdns);
  });
}

function dnValues(rdns: readonly Rdn[], type: string): string[] {
  const wanted = type.toLowerCase();
  return rdns.flat().flatMap((part) => (part.type.toLowerCase() === wanted ? [part.value] : []));
}

function asDate(name: string, value: unknown): Date | null {
  if (value instanceof Date) return value;
  const text = asText(name, value);
  if (text === null || text === "") return null;
  const moment = momentOf(text);
  if (moment !== undefined) return moment;
  throw new EvaluationError(
    `${name}() needs a date like 2024-01-31, 2024-01-31T12:00:00Z or 20240131120000Z, or a FILETIME, not ${shown(text)}`,
  );
}

function ordered(one: Date | null, other: Date | null): boolean {
  return one !== null && other !== null && one.getTime() < other.getTime();
}

function valuesOf(value: unknown): unknown[] {
  if (value === null) return [];
  return Array.isArray(value) ? value : [value];
}

function coalesce(...values: readonly unknown[]): unknown {
  return values.find((value) => value !== null) ?? null;
}
