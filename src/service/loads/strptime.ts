import { InputError } from "#errors.ts";
import { literal } from "#duckdb/database.ts";

/** A format and its options (A.19). */
export interface TimeOptions {
  readonly format: string;
  readonly skipSecondFraction: boolean;
  readonly secondFractionStart: string;
}

/** Directives that stand for others, as in the C locale. */
const combined: Readonly<Record<string, string>> = {
  c: "%a %b %e %H:%M:%S %Y",
  D: "%m/%d/%y",
  F: "%Y-%m-%d",
  r: "%I:%M:%S %p",
  R: "%H:%M",
  T: "%H:%M:%S",
  x: "%m/%d/%y",
  X: "%H:%M:%S",
};

/** Directives, the names DuckDB has for them, and what they match: a pattern, or at most so many digits. */
const directives: Readonly<Record<string, readonly [names: readonly string[], matches: string | number]>> = {
  a: [["%a", "%A"], "[A-Za-z]+"],
  A: [["%A", "%a"], "[A-Za-z]+"],
  b: [["%b", "%B"], "[A-Za-z]+"],
  B: [["%B", "%b"], "[A-Za-z]+"],
  h: [["%b", "%B"], "[A-Za-z]+"],
  d: [["%d"], 2],
  e: [["%d"], 2],
  f: [["%f"], "\\d+"],
  G: [["%G"], 4],
  H: [["%H"], 2],
  I: [["%I"], 2],
  j: [["%j"], 3],
  k: [["%H"], 2],
  l: [["%I"], 2],
  m: [["%m"], 2],
  M: [["%M"], 2],
  n: [[" "], "\\s*"],
  p: [["%p"], "[AaPp][Mm]"],
  P: [["%p"], "[AaPp][Mm]"],
  S: [["%S"], 2],
  t: [[" "], "\\s*"],
  u: [["%u"], 1],
  U: [["%U"], 2],
  V: [["%V"], 2],
  w: [["%w"], 1],
  W: [["%W"], 2],
  y: [["%y"], 2],
  Y: [["%Y"], 4],
  z: [["%z"], "\\s*(?:Z|[+-](?:[01]\\d|2[0-3])(?::?[0-5]\\d(?::?[0-5]\\d)?)?)"],
  "%": [["%%"], "%"],
};

/** A directive's letter, or text that stands for itself. */
interface Part {
  readonly letter?: string;
  readonly text: string;
}

/**
 * An SQL expression for the moment that a text stands for: a TIMESTAMP in UTC, or NULL when the text does not match.
 * @param value an SQL expression, cheap and without effects
 * @throws {InputError} when the format has a directive that is not understood
 */
export function parseTime(value: string, options: TimeOptions): string {
  const parts = partsOf(options.format);
  if (parts.filter(isName).length > mostNames) throw unknown(options.format, `more than ${mostNames} names`);
  const letters = new Set(parts.map((part) => part.letter));
  for (const [week, day, others] of dayOfWeek) {
    if (letters.has(week) && !letters.has(day) && others.some((letter) => letters.has(letter)))
      throw unknown(options.format, `%${week} and a day of the week other than %${day}`);
  }
  const second = parts.findLastIndex((part) => part.letter === "S");
  if (second === -1) {
    if (parts.some((part) => part.letter === "f")) throw unknown(options.format, "%f without %S before it");
    return withoutSpecials(value, moment(value, parts));
  }
  // `%S.%f` names the fraction: then it must be there.
  const fraction = parts.findIndex((part) => part.letter === "f");
  const between = parts.slice(second + 1, fraction);
  const isNamed = fraction !== -1;
  if (isNamed && (fraction < second || between.some((part) => part.letter !== undefined))) {
    throw unknown(options.format, "%f that does not follow %S");
  }
  const mark = isNamed ? between.map((part) => part.text).join("") : options.secondFractionStart;
  const head = parts.slice(0, second + 1);
  const tail = parts.slice(isNamed ? fraction + 1 : second + 1);
  const plain = [...head, ...tail];
  const named: Part[] = [...head, { text: mark }, { letter: "f", text: "%f" }, ...tail];
  const pattern = literal(`(?s)^(${patternOf(head)})${quoteMeta(mark)}(\\d+)(${patternOf(tail)})\\s*$`);
  const matches = `regexp_matches(${value}, ${pattern})`;
  const bare = `concat(regexp_extract(${value}, ${pattern}, 1), regexp_extract(${value}, ${pattern}, 3))`;
  const micros = `CAST(rpad(left(regexp_extract(${value}, ${pattern}, 2), 6), 6, '0') AS BIGINT)`;
  let result: string;
  if (options.skipSecondFraction) {
    result = `coalesce(${moment(value, plain)}, CASE WHEN ${matches} THEN ${moment(bare, plain)} END)`;
  } else {
    const direct = isNamed ? moment(value, named) : moment(value, plain);
    result = `coalesce(${direct}, CASE WHEN ${matches} THEN ${moment(bare, plain)} + to_microseconds(${micros}) END)`;
  }
  return withoutSpecials(value, result);
}

/** The format in DuckDB's own directives: `%Y-%m-%d` for `%F`. */
export function plainFormat(format: string): string {
  return partsOf(format)
    .map(({ letter = "", text }) => directives[letter]?.[0][0] ?? text)
    .join("");
}

/** Whether there is an expression for a format. */
export function isUnderstood(format: string): boolean {
  try {
    parseTime("''", { format, skipSecondFraction: false, secondFractionStart: "." });
    return true;
  } catch (error) {
    if (error instanceof InputError) return false;
    throw error;
  }
}

/**
 * DuckDB's strptime takes `infinity` and `epoch` for 1900-01-01, and drops white space around. A text that begins with
 * a digit and does not end in white space needs no closer look.
 */
function withoutSpecials(value: string, result: string): string {
  const ends = ["chr(9)", "chr(10)", "chr(11)", "chr(12)", "chr(13)"].map((end) => `NOT ends_with(${value}, ${end})`);
  return `CASE WHEN ${value} >= '0' AND ${value} < ':' AND ${ends.join(" AND ")} THEN ${result}
    WHEN regexp_matches(${value}, '(?i)^\\s*[+-]?(inf|epoch)|^\\s|\\s$') THEN NULL ELSE ${result} END`;
}

/** Names of days and months are short or long; DuckDB is given every combination. */
const mostNames = 4;

function isName({ letter = "" }: Part): boolean {
  return (directives[letter]?.[0].length ?? 0) > 1;
}

/** Weeks, the day that DuckDB counts in each, and the others, without which it would take the week's first day. */
const dayOfWeek: readonly (readonly [week: string, day: string, others: readonly string[]])[] = [
  ["U", "w", ["u", "a", "A"]],
  ["W", "w", ["u", "a", "A"]],
  ["V", "u", ["w", "a", "A"]],
];

/** The moment by DuckDB's strptime, which takes `24` for the year 24, and `2024115` for the fifth of November. */
function moment(value: string, parts: readonly Part[]): string {
  let formats = [""];
  for (const part of parts) {
    const names = part.letter === undefined ? [part.text.replaceAll("%", "%%")] : (directives[part.letter]?.[0] ?? []);
    formats = names.flatMap((name) => formats.map((format) => format + name));
  }
  const list = `[${formats.map(literal).join(", ")}]`;
  const isWhole = `regexp_matches(${value}, ${literal(`(?s)^${patternOf(parts)}\\s*$`)})`;
  if (!parts.some((part) => part.letter === "z"))
    return `CASE WHEN ${isWhole} THEN try_strptime(${value}, ${list}) END`;
  // `Z` is an offset as well. The result has a time zone here.
  const withOffset =
    parts.at(-1)?.letter === "z"
      ? `CASE WHEN ${value} LIKE '%Z' THEN concat(left(${value}, -1), '+00') ELSE ${value} END`
      : value;
  return `CASE WHEN ${isWhole} THEN make_timestamp(epoch_us(try_strptime(${withOffset}, ${list}))) END`;
}

function partsOf(format: string): Part[] {
  const parts: Part[] = [];
  for (const [token, flagged] of format.matchAll(/%[-_0^#EO]?(.)|%|[^%]+/gsu)) {
    if (flagged === undefined) {
      if (token === "%") throw unknown(format, "a % at the end");
      parts.push({ text: token });
    } else if (combined[flagged] !== undefined) {
      parts.push(...partsOf(combined[flagged]));
    } else if (directives[flagged] === undefined) {
      throw unknown(format, token);
    } else if (flagged === "%") {
      parts.push({ text: "%" });
    } else {
      parts.push({ letter: flagged, text: token });
    }
  }
  return parts;
}

function unknown(format: string, what: string): InputError {
  const known = [...Object.keys(directives), ...Object.keys(combined)].sort().join("");
  return new InputError(
    `The format ${JSON.stringify(format)} has ${what}, which is not understood: use strptime directives with one of the letters ${known}`,
  );
}

/** Years have all of their digits, and so has every number that touches another: else nobody knows where it ends. */
function patternOf(parts: readonly Part[]): string {
  const shown = parts.filter(({ letter, text }) => letter !== undefined || text !== "");
  const isNumber = (part: Part | undefined): boolean =>
    part?.letter === "f" || typeof directives[part?.letter ?? ""]?.[1] === "number";
  return shown
    .map(({ letter, text }, i) => {
      if (letter === undefined) return quoteMeta(text).replaceAll(/\s+/g, "\\s*");
      const matches = directives[letter]?.[1] ?? "";
      if (typeof matches === "string") return matches;
      const isExact = "YyG".includes(letter) || isNumber(shown[i - 1]) || isNumber(shown[i + 1]);
      return isExact ? `\\s*\\d{${matches}}` : `\\s*\\d{1,${matches}}`;
    })
    .join("");
}

function quoteMeta(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}
