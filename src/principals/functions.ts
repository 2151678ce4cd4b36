import { createRequire } from "node:module";
import { EvaluationError } from "@marcbachmann/cel-js";
import type { Environment } from "@marcbachmann/cel-js";
import type AnyAscii from "any-ascii";
import type { RE2JS } from "re2js";
import { firstLineOf } from "#errors.ts";
import { describeValue, trimmed } from "#text.ts";
import type { Macro } from "./ast.ts";
import { spend, spendValue, stepsLeft, stepsOf } from "./budget.ts";
import { isNull } from "./comparison.ts";
import { exampleOf, formatsOfDate, lastFiletime, momentIn, momentOf } from "./dates.ts";
import { parentOf, parseDn } from "./dn.ts";
import type { Rdn } from "./dn.ts";

/**
 * The functions that rules have beside CEL's own. All take null for what an entry may lack, and give null for it, so
 * that `lower(entry.mail)` is null where there is no mail. Integers count as their decimal text.
 */
const functions: Readonly<Record<string, (...values: never[]) => unknown>> = {
  /** In lower case. */
  "lower(dyn): dyn": (value: unknown) => withText("lower", value, (text) => text.toLowerCase()),
  /** In upper case. */
  "upper(dyn): dyn": (value: unknown) => withText("upper", value, (text) => text.toUpperCase()),
  /** Without white space and invisible characters at either end. */
  "trim(dyn): dyn": (value: unknown) => withText("trim", value, trimmed),
  /** Every occurrence of a text replaced by another one. */
  "replace(dyn, string, string): dyn": (value: unknown, search: string, replacement: string) =>
    withText("replace", value, (text) => replace(text, search, replacement)),
  /** At most so many characters from the start. */
  "truncate(dyn, int): dyn": (value: unknown, length: bigint) =>
    withText("truncate", value, (text) =>
      // A character is one unit of UTF-16 or two.
      Array.from(text.slice(0, 2 * Math.max(0, Number(length))))
        .slice(0, Math.max(0, Number(length)))
        .join(""),
    ),
  /** In ASCII, whatever the script: `Zoë Łódź` is `Zoe Lodz`. What becomes of a letter is the same everywhere. */
  "ascii(dyn): dyn": (value: unknown) => withText("ascii", value, ascii),
  /** What a regular expression's first group matches, or the whole of it without a group; null where it does not match. */
  "extract(dyn, string): dyn": (value: unknown, pattern: string) =>
    withText("extract", value, (text) => extract(text, pattern)),
  /** Whether a regular expression matches anywhere; false for null. */
  "matches(dyn, string): bool": (value: unknown, pattern: string) =>
    withText("matches", value, (text) => matches(text, pattern)) ?? false,
  /** What `TEXT.matches(PATTERN)` becomes, see `withOwnFunctions`. */
  "string.Matches(string): bool": matches,
  "string.Split(string): list<string>": split,
  "string.Split(string, int): list<string>": splitAtMost,
  "list<string>.Join(): string": (values: readonly unknown[]) => joinTexts(values, ""),
  "list<string>.Join(string): string": joinTexts,
  "bytes.Hex(): string": (bytes: Uint8Array) => encode(bytes, "hex"),
  "bytes.Base64(): string": (bytes: Uint8Array) => encode(bytes, "base64"),
  /** The parts between separators, as a list. */
  "split(dyn, string): dyn": (value: unknown, separator: string) =>
    withText("split", value, (text) => split(text, separator)),
  /** The values of a list with a separator between them. Nulls are left out; null when nothing is left. */
  "join(dyn, string): dyn": (value: unknown, separator: string) => {
    const texts = valuesOf(value).flatMap((each) => asText("join", each) ?? []);
    return texts.length === 0 ? null : join(texts, separator);
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
  /** The moment that a text tells in a format of strptime, `%d.%m.%Y`. */
  "date(dyn, string): dyn": (value: unknown, format: string) => dateIn(format, value),
  /** Whether one moment is before another; false where either is null. See `asEnd` of never. */
  "isBefore(dyn, dyn): bool": (one: unknown, other: unknown) =>
    ordered(asDate("isBefore", one), asEnd("isBefore", other)),
  /** Whether one moment is after another; false where either is null. See `asEnd` of never. */
  "isAfter(dyn, dyn): bool": (one: unknown, other: unknown) => ordered(asDate("isAfter", other), asEnd("isAfter", one)),
};

/**
 * What CEL's functions become, see `own`.
 */
const ownFunctions: Readonly<Record<string, (...values: never[]) => unknown>> = {
  "Int(int): int": (value: bigint) => value,
  "Int(uint): int": (value: unknown) => wholeNumber(String(value)),
  "Int(double): int": (value: number) => wholeNumber(Number.isFinite(value) ? Math.trunc(value) : ""),
  "Int(string): int": (value: string) => wholeNumber(value),
  "Digits(dyn): dyn": (value: unknown) => numberText("uint", value, /^\d{1,20}$/),
  "Decimal(dyn): dyn": (value: unknown) => numberText("double", value, /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i),
  "Timestamp(int): google.protobuf.Timestamp": (value: bigint) => new Date(Number(value) * 1000),
  "Timestamp(string): google.protobuf.Timestamp": (value: string) => {
    const moment = /^\d{4}-.+T.+(?:Z|[+-]\d\d:?\d\d)$/i.test(value) ? momentOf(value) : undefined;
    if (moment instanceof Date) return moment;
    throw new EvaluationError(`timestamp() needs a date like 2024-01-31T12:00:00Z, not ${describeValue(value)}`);
  },
  "Size(dyn): int": (value: unknown) => {
    if (typeof value === "string") return BigInt(Array.from(value).length);
    if (Array.isArray(value)) throw new EvaluationError({ code: sizeOfValues, message: "there are several values" });
    throw new EvaluationError(`size() needs a text or a list, not ${describeValue(value)}`);
  },
};

/** The code of the error that `size(entry.x)` fails with for several values. */
export const sizeOfValues = "size_of_values";

function wholeNumber(value: string | number): bigint {
  const number = /^[+-]?\d{1,20}$/.test(String(value)) ? BigInt(value) : undefined;
  if (number !== undefined && number === BigInt.asIntN(64, number)) return number;
  throw new EvaluationError(`int() needs a whole number, not ${describeValue(value)}`);
}

/** A text that is a number of that form; other values as they are. */
function numberText(name: string, value: unknown, form: RegExp): unknown {
  if (typeof value !== "string" || form.test(value)) return value;
  throw new EvaluationError(`${name}() needs a number, not ${describeValue(value)}`);
}

/** The most values that `coalesce` takes. */
const mostAlternatives = 8;

/** Makes the functions known to the environment. */
export function registerFunctions(environment: Environment): void {
  for (const [signature, handler] of Object.entries({ ...functions, ...ownFunctions })) {
    environment.registerFunction(signature, handler, { async: false });
  }
  for (let count = 2; count <= mostAlternatives; count += 1)
    environment.registerFunction(`coalesce(${Array(count).fill("ast").join(", ")}): dyn`, coalesce);
  // What is not set is not true.
  environment.registerOperator("!null: bool", () => true);
}

/** The first that is not null. A macro: what comes after it is not evaluated, and cannot fail. */
function coalesce({ args }: Pick<Macro, "args">): Macro {
  return {
    args,
    async: false,
    typeCheck: (checker, macro, context) => {
      for (const each of macro.args) checker.check(each, context);
      return checker.getType("dyn");
    },
    evaluate: (evaluator, macro, context) => {
      for (const each of macro.args) {
        const value = evaluator.run(each, context);
        if (!isNull(value)) return value;
      }
      return null;
    },
  };
}

function withText(name: string, value: unknown, change: (text: string) => unknown): unknown {
  const text = asText(name, value);
  if (text === null) return null;
  spend(stepsOf(text.length));
  const changed = change(text);
  spendValue(changed);
  return changed;
}

function replace(text: string, search: string, replacement: string): string {
  const steps = stepsOf(replacement.length);
  // Counted before the text is made, which may be longer than any memory.
  return text.replaceAll(search, () => {
    spend(steps);
    return replacement;
  });
}

function split(text: string, separator: string): string[] {
  const parts = text.split(separator, stepsLeft() + 1);
  spend(parts.length);
  return parts;
}

/** As the library has it: the last part is what is left. */
function splitAtMost(text: string, separator: string, most: bigint): string[] {
  const parts = split(text, separator);
  if (most < 0 || parts.length <= most) return parts;
  return most === 0n ? [] : [...parts.slice(0, Number(most) - 1), parts.slice(Number(most) - 1).join(separator)];
}

function join(texts: readonly string[], separator: string): string {
  const length = texts.reduce((sum, text) => sum + text.length + separator.length, 0);
  spend(texts.length + stepsOf(length));
  return texts.join(separator);
}

function joinTexts(values: readonly unknown[], separator: string): string {
  if (values.every((value) => typeof value === "string")) return join(values, separator);
  throw new EvaluationError("join() needs a list of texts; write join(LIST, SEPARATOR)");
}

function encode(bytes: Uint8Array, encoding: "hex" | "base64"): string {
  spend(stepsOf(2 * bytes.length));
  return Buffer.from(bytes).toString(encoding);
}

/** A text or an integer as text; null for null. @throws {EvaluationError} it is neither */
export function asText(name: string, value: unknown): string | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "bigint") return value.toString();
  const hint = Array.isArray(value) ? '; use first(…) or join(…, ", ")' : "";
  throw new EvaluationError(`${name}() needs a text, not ${describeValue(value)}${hint}`);
}

function withDn(name: string, value: unknown, read: (rdns: readonly Rdn[]) => unknown): unknown {
  return withText(name, value, (text) => {
    let rdns: readonly Rdn[];
    try {
      rdns = parseDn(text, "rfc2253");
    } catch {
      throw new EvaluationError(`${name}() needs a DN like cn=ada,ou=people, not ${describeValue(text)}`);
    }
    return read(rdns);
  });
}

function dnValues(rdns: readonly Rdn[], type: string): string[] {
  const wanted = type.toLowerCase();
  return rdns.flat().flatMap((part) => (part.type.toLowerCase() === wanted ? [part.value] : []));
}

/** What numbers may count, and how to read them then. */
const counts: readonly (readonly [form: RegExp, instead: string])[] = [
  [/^\d{5}$/, "`timestamp((int(x) - 25569) * 86400)` if it is Excel's count of days"],
  [/^\d{9,10}$/, "`timestamp(int(x))` if it counts seconds since 1970"],
  [/^\d{12,13}$/, "`timestamp(int(x) / 1000)` if it counts milliseconds since 1970"],
];

function asDate(name: string, value: unknown): Date | null {
  if (value instanceof Date) return value;
  const text = asText(name, value);
  if (text === null || text === "") return null;
  const moment = momentOf(text);
  if (moment !== undefined) return moment;
  const count = text.trim();
  const counted = counts.find(([form]) => form.test(count))?.[1];
  const formats = counted === undefined ? formatsOfDate(text).map((format) => `\`date(x, "${format}")\``) : [counted];
  const hint = formats.length === 0 ? 'write its format as in `date(x, "%d.%m.%Y")`' : `write ${formats.join(" or ")}`;
  throw new EvaluationError(
    `${name}() needs a date like 2024-01-31, 2024-01-31T12:00:00Z or 20240131120000Z, or a FILETIME, not ${describeValue(text)}; ${hint}`,
  );
}

const endOfTime = new Date(8.64e15);

/**
 * The later of two moments, as a text or a date. Active Directory's 9223372036854775807 is after all others. Its 0 is the
 * same of `accountExpires`, and the opposite of `lastLogon`.
 * @throws {EvaluationError} it is that 0, or no date
 */
function asEnd(name: string, value: unknown): Date | null {
  const text = value instanceof Date ? null : asText(name, value);
  if (text === lastFiletime) return endOfTime;
  if (text === "0")
    throw new EvaluationError(
      `${name}() cannot tell whether "0" is the latest (accountExpires) or the earliest (lastLogon) date: ` +
        "write `date(x) == null || …` where never is later, `date(x) != null && …` where it is not",
    );
  return asDate(name, value);
}

function dateIn(format: string, value: unknown): Date | null {
  if (value instanceof Date) return value;
  const text = asText("date", value)?.trim();
  if (text === undefined || text === "") return null;
  const moment = momentIn(format, text);
  if (moment !== undefined) return moment;
  throw new EvaluationError(`date() needs a date like ${exampleOf(format)} (${format}), not ${describeValue(text)}`);
}

function ordered(one: Date | null, other: Date | null): boolean {
  return one !== null && other !== null && one.getTime() < other.getTime();
}

function valuesOf(value: unknown): unknown[] {
  if (value === null) return [];
  return Array.isArray(value) ? value : [value];
}

/** A function cannot wait for `import()`. Both libraries take 2 MiB, and the rules of most processes call neither. */
const require = createRequire(import.meta.url);
let anyAscii: typeof AnyAscii | undefined;
let re2: typeof RE2JS | undefined;

function ascii(text: string): string {
  anyAscii ??= (require("any-ascii") as { readonly default: typeof AnyAscii }).default;
  return anyAscii(text);
}

/**
 * Regular expressions of rules, by their text. They are RE2's: a match takes time linear in the length of the text,
 * whatever pattern and text are. Only what stands in a rule is compiled, so that there are few.
 */
const compiled = new Map<string, RE2JS>();

/** What keeps a text from being a regular expression; undefined when it is one. */
export function objectionToPattern(pattern: string): string | undefined {
  try {
    patternOf(pattern);
    return undefined;
  } catch (error) {
    return `${firstLineOf(error).replace(/^error parsing regexp: /, "the regular expression is not valid: ")} (see https://github.com/google/re2/wiki/Syntax)`;
  }
}

/** Does the pattern match anywhere in the text? */
function matches(text: string, pattern: string): boolean {
  return matcherOf(text, pattern).find();
}

/** What the first group of the first match holds; the whole match when the pattern has no group; null for no match. */
function extract(text: string, pattern: string): string | null {
  const matcher = matcherOf(text, pattern);
  if (!matcher.find()) return null;
  return matcher.group(Math.min(1, matcher.groupCount()));
}

/** A match may try every instruction of the pattern at each character. */
function matcherOf(text: string, pattern: string): ReturnType<RE2JS["matcher"]> {
  const expression = patternOf(pattern);
  spend(stepsOf(text.length * expression.programSize()));
  return expression.matcher(text);
}

function patternOf(pattern: string): RE2JS {
  let found = compiled.get(pattern);
  if (found === undefined) {
    if (sizeOfPattern(pattern) > largestPattern)
      throw new Error("the regular expression is too large; repeat less in it");
    re2 ??= (require("re2js") as { readonly RE2JS: typeof RE2JS }).RE2JS;
    compiled.set(pattern, (found = re2.compile(pattern)));
  }
  return found;
}

/** The most instructions of a regular expression: so many are compiled in a hundredth of a second. */
const largestPattern = 20_000;

const patternTokens =
  /\\Q.*?(?:\\E|$)|\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\{\d+(?:,\d*)?\}|./gsu;

/** How many instructions a regular expression has, roughly: what is repeated counts as often. */
function sizeOfPattern(pattern: string): number {
  const open = [0];
  let last = 0;
  const add = (size: number): void => {
    last = size;
    open.push((open.pop() ?? 0) + size);
  };
  for (const [token] of pattern.matchAll(patternTokens)) {
    const times = /^\{(\d+)(?:,(\d*))?\}$/.exec(token);
    if (token === "(") open.push(0);
    else if (token === ")") {
      const size = open.length > 1 ? (open.pop() ?? 0) : 0;
      add(size + 1);
    } else if (times !== null) {
      const factor = Math.max(Number(times[1]), Number(times[2] ?? 0));
      const size = last;
      add(size * (factor - 1));
      last = size * factor;
    } else add(token.startsWith("\\Q") ? token.length : 1);
  }
  return open.reduce((sum, size) => sum + size, 0);
}
