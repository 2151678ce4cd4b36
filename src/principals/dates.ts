/** Since 1917 a FILETIME has 18 digits. Fewer are another count, such as microseconds since 1970. */
const filetime = /^\d{18,19}$/;
/** Between 1601, where FILETIME begins, and 1970, in milliseconds. */
const filetimeEpoch = 11_644_473_600_000;
/** What Active Directory writes for "never": this, or 0. */
export const lastFiletime = "9223372036854775807";
const never = new Set(["0", lastFiletime]);

const forms = {
  iso: /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/i,
  generalized: /^(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)?(\d\d)?(?:[.,](\d{1,9}))?(Z|[+-]\d\d(?:\d\d)?))?$/,
};

const zones = /^(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)$/i;

/** The parts of a date as they are written; months from 1. */
interface Parts {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hours?: number | undefined;
  readonly minutes?: number | undefined;
  readonly seconds?: number | undefined;
  /** Milliseconds besides. */
  readonly fraction?: number | undefined;
  readonly zone?: string | undefined;
}

/**
 * The moment that a text tells: LDAP's GeneralizedTime (`20240131120000Z`), ISO 8601 (`2024-01-31`,
 * `2024-01-31T12:00:00+01:00`), or Active Directory's FILETIME (100 ns since 1601). Without a zone it is in UTC, a date
 * alone is its beginning.
 * @returns null for FILETIME's two ways to say never; undefined when the text is none of these
 */
export function momentOf(text: string): Date | null | undefined {
  if (never.has(text)) return null;
  if (filetime.test(text)) return new Date(Number(BigInt(text) / 10_000n) - filetimeEpoch);
  const match = forms.iso.exec(text) ?? forms.generalized.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hours = 0, minutes, seconds, fraction, zone = "Z"] = match;
  const part = fraction === undefined ? 0 : Number(`0.${fraction}`);
  // A fraction is one of the smallest unit that is given.
  const unit = seconds !== undefined ? 1000 : minutes !== undefined ? 60_000 : 3_600_000;
  return momentFrom({
    year: Number(year),
    month: Number(month),
    day: Number(day),
    hours: Number(hours),
    minutes: Number(minutes ?? 0),
    seconds: Number(seconds ?? 0),
    fraction: Math.floor(part * unit),
    zone,
  });
}

/** Undefined: there is no such day or time. */
function momentFrom(parts: Parts): Date | undefined {
  const { year, month, day, hours = 0, minutes = 0, seconds = 0, fraction = 0, zone = "Z" } = parts;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  // A leap second is the second after it.
  if (hours > 23 || minutes > 59 || seconds > 60 || !zones.test(zone)) return undefined;
  date.setUTCHours(hours, minutes, seconds, fraction);
  return new Date(date.getTime() - offsetOf(zone));
}

/** How far a zone is ahead of UTC, in milliseconds. */
function offsetOf(zone: string): number {
  if (zone.toUpperCase() === "Z") return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3).replace(":", "") || 0)];
  return (zone.startsWith("-") ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}

const months = [
  "january",
  "february",
  "march",
  "april",
  "may",
  "june",
  "july",
  "august",
  "september",
  "october",
  "november",
  "december",
];

type Field =
  | "year"
  | "shortYear"
  | "month"
  | "monthName"
  | "day"
  | "hours"
  | "half"
  | "minutes"
  | "seconds"
  | "fraction";

/** What a directive of strptime matches, what it gives, and how 31 January 2024 at 15:00 is written with it. */
const directives: Readonly<
  Record<string, readonly [pattern: string, field: Field | "zone" | "hours12" | undefined, example: string]>
> = {
  Y: [String.raw`(\d{4})`, "year", "2024"],
  y: [String.raw`(\d{2})`, "shortYear", "24"],
  m: [String.raw`(\d{1,2})`, "month", "01"],
  b: ["([A-Za-z]+)", "monthName", "Jan"],
  B: ["([A-Za-z]+)", "monthName", "January"],
  h: ["([A-Za-z]+)", "monthName", "Jan"],
  d: [String.raw`(\d{1,2})`, "day", "31"],
  e: [String.raw`(\d{1,2})`, "day", "31"],
  a: ["[A-Za-z]+", undefined, "Wed"],
  A: ["[A-Za-z]+", undefined, "Wednesday"],
  H: [String.raw`(\d{1,2})`, "hours", "15"],
  k: [String.raw`(\d{1,2})`, "hours", "15"],
  I: [String.raw`(\d{1,2})`, "hours12", "03"],
  l: [String.raw`(\d{1,2})`, "hours12", "3"],
  p: ["([AaPp][Mm])", "half", "PM"],
  P: ["([AaPp][Mm])", "half", "pm"],
  M: [String.raw`(\d{1,2})`, "minutes", "00"],
  S: [String.raw`(\d{1,2})`, "seconds", "00"],
  f: [String.raw`(\d{1,9})`, "fraction", "000"],
  z: [String.raw`(Z|[+-]\d{2}(?::?\d{2})?)`, "zone", "+0100"],
  "%": ["%", undefined, "%"],
};

/** Directives that stand for others. */
const combined: Readonly<Record<string, string>> = { D: "%m/%d/%y", F: "%Y-%m-%d", R: "%H:%M", T: "%H:%M:%S" };

interface Format {
  readonly pattern: RegExp;
  readonly fields: readonly string[];
  /** A date in this format. */
  readonly example: string;
}

/** Formats that stand in rules, by their text. */
const compiled = new Map<string, Format>();

/** What keeps a text from being a format of dates; undefined when it is one. */
export function objectionToFormat(format: string): string | undefined {
  const tokens = tokensOf(format);
  const wrong = tokens.find((token) => token.startsWith("%") && directives[token.slice(1)] === undefined);
  if (wrong !== undefined)
    return `the format of a date has ${wrong === "%" ? "a % without a letter" : wrong}; use %Y, %m, %d, %y, %b, %B, %H, %I, %p, %M, %S, %f, %z or %%, as in "%d.%m.%Y"`;
  const { fields } = formatOf(format);
  const twice = fields.find((field, index) => fields.indexOf(field) !== index);
  if (twice !== undefined) return "the format of a date has the same part twice";
  const has = (...names: string[]): boolean => fields.some((field) => names.includes(field));
  const missing = [
    has("year", "shortYear") ? [] : ["year (%Y)"],
    has("month", "monthName") ? [] : ["month (%m)"],
    has("day") ? [] : ["day (%d)"],
    has("hours12") === has("half") ? [] : [has("half") ? "hour to its %p (%I)" : "%p to its hour (%I)"],
  ].flat();
  return missing.length === 0 ? undefined : `the format of a date has no ${missing.join(" and no ")}`;
}

function tokensOf(format: string): string[] {
  const tokens = format.match(/%[A-Za-z%]|%|[^%]+/g) ?? [];
  return tokens.flatMap((token) => {
    const stands = token.startsWith("%") ? combined[token.slice(1)] : undefined;
    return stands === undefined ? [token] : tokensOf(stands);
  });
}

/** Whether a token matches digits. */
function isNumber(token = ""): boolean {
  return directives[token.slice(1)]?.[0].startsWith(String.raw`(\d`) ?? false;
}

function formatOf(format: string): Format {
  const known = compiled.get(format);
  if (known !== undefined) return known;
  const written = tokensOf(format);
  const tokens = written.map((token, index) => {
    if (!token.startsWith("%"))
      return [RegExp.escape(token).replaceAll(/(?:\\x20|\\u00a0|\s)+/g, String.raw`\s+`), undefined, token] as const;
    const [pattern, field, example] = directives[token.slice(1)] ?? ["", undefined, ""];
    // Of `1112024`, nobody knows where the day ends: numbers that touch have all of their digits.
    const touches = isNumber(written[index - 1]) || isNumber(written[index + 1]);
    return [touches ? pattern.replace("{1,2}", "{2}") : pattern, field, example] as const;
  });
  const made = {
    pattern: new RegExp(`^${tokens.map(([pattern]) => pattern).join("")}$`),
    fields: tokens.flatMap(([, field]) => field ?? []),
    example: tokens.map(([, , example]) => example).join(""),
  };
  compiled.set(format, made);
  return made;
}

/**
 * The moment that a text tells in a format of strptime; in UTC without `%z`, and at its beginning without a time.
 * @returns undefined when it is not written so, or there is no such day
 */
export function momentIn(format: string, text: string): Date | undefined {
  const { pattern, fields } = formatOf(format);
  const match = pattern.exec(text.trim());
  if (match === null) return undefined;
  const given = Object.fromEntries(fields.map((field, index) => [field, match[index + 1] ?? ""]));
  const number = (field: string): number | undefined => (given[field] === undefined ? undefined : Number(given[field]));
  const short = number("shortYear");
  const name = given["monthName"]?.toLowerCase();
  const month = name === undefined ? number("month") : monthCalled(name);
  const half = number("hours12");
  if (half !== undefined && (half < 1 || half > 12)) return undefined;
  const afternoon = given["half"]?.toLowerCase() === "pm" ? 12 : 0;
  return momentFrom({
    // As in POSIX: 69 to 99 are in the last century.
    year: number("year") ?? (short === undefined ? 0 : short + (short < 69 ? 2000 : 1900)),
    month: month ?? 0,
    day: number("day") ?? 0,
    hours: half === undefined ? number("hours") : (half % 12) + afternoon,
    minutes: number("minutes"),
    seconds: number("seconds"),
    fraction: Math.floor(Number(`0.${given["fraction"] ?? 0}`) * 1000),
    zone: given["zone"],
  });
}

/** From 1; undefined for no month's name, whole or in three letters. */
function monthCalled(name: string): number | undefined {
  const found = months.findIndex((month) => month === name || month.slice(0, 3) === name);
  return found === -1 ? undefined : found + 1;
}

export function exampleOf(format: string): string {
  return formatOf(format).example;
}

/** The formats that a text may have that is a date with digits alone: day or month first, where both can be. */
export function formatsOfDate(text: string): string[] {
  const match = /^(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})$/.exec(text.trim());
  if (match === null) return [];
  const mark = match[2] ?? "";
  const orders = ["d m Y", "m d Y", "Y m d", "d m y", "m d y"].map((order) =>
    order.replaceAll(/\w/g, "%$&").replaceAll(" ", mark),
  );
  // Where a dot is between, the day is first.
  return orders.filter((format) => !(mark === "." && format.startsWith("%m")) && momentIn(format, text) !== undefined);
}
