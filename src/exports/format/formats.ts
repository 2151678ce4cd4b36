/** How a column of dates, of datetimes or of times is written, as strptime has it. */
export type DateKind = "DATE" | "TIMESTAMP" | "TIME";

const dates = [
  "%Y-%m-%d",
  "%Y%m%d",
  "%d.%m.%Y",
  "%d/%m/%Y",
  "%m/%d/%Y",
  "%Y/%m/%d",
  "%d-%m-%Y",
  "%m-%d-%Y",
  "%Y.%m.%d",
  "%d.%m.%y",
  "%d/%m/%y",
  "%m/%d/%y",
  "%d-%b-%Y",
  "%d-%b-%y",
  "%d %b %Y",
  "%b %d, %Y",
] as const;
const times = ["%H:%M:%S", "%H:%M", "%H%M%S", "%I:%M:%S %p", "%I:%M %p", "%I.%M.%S %p"] as const;
const datetimes = dates.flatMap((date) =>
  [" ", "T"].flatMap((between) =>
    times.flatMap((time) => ["", "Z", "%z", " %z", " UTC"].map((end) => `${date}${between}${time}${end}`)),
  ),
);

const formats: Readonly<Record<DateKind, readonly string[]>> = {
  DATE: dates,
  // A datetime of eight digits may count seconds.
  TIMESTAMP: [...datetimes, ...dates.filter((date) => date !== "%Y%m%d")],
  TIME: times,
};

/** The formats that all of the values have, the likeliest first. A fraction of a second is no part of the format. */
export function formatsOf(kind: DateKind, values: readonly string[]): readonly string[] {
  if (values.length === 0) return [];
  return formats[kind].filter((format) => values.every((value) => matches(value, format)));
}

/** The formats that the most values have, the likeliest first, if that is more than half of them. */
export function usualFormatsOf(kind: DateKind, values: readonly string[]): readonly string[] {
  return most(formats[kind], values, (format, value) => matches(value, format));
}

/** The candidates that fit the most values, if those are more than half. */
function most<Candidate>(
  candidates: readonly Candidate[],
  values: readonly string[],
  fits: (candidate: Candidate, value: string) => boolean,
): readonly Candidate[] {
  const counts = candidates.map((candidate) => values.filter((value) => fits(candidate, value)).length);
  const largest = Math.max(0, ...counts);
  return largest * 2 <= values.length ? [] : candidates.filter((_, index) => counts[index] === largest);
}

const fields: Readonly<Record<string, string>> = {
  // The first and the last year stand for no date.
  Y: String.raw`(?:(?:1[5-9]|2[01])\d\d|0001|9999)`,
  y: String.raw`\d\d`,
  m: String.raw`(?:0[1-9]|1[0-2])`,
  b: `(?:${"jan feb mar apr may jun jul aug sep oct nov dec".replaceAll(/[a-z]/g, (letter) => `[${letter.toUpperCase()}${letter}]`).replaceAll(" ", "|")})[A-Za-z]*`,
  d: String.raw`(?:0[1-9]|[12]\d|3[01])`,
  H: String.raw`(?:[01]\d|2[0-3])`,
  I: String.raw`(?:0[1-9]|1[0-2])`,
  p: "[AaPp][Mm]",
  M: String.raw`[0-5]\d`,
  S: String.raw`[0-5]\d(?:\.\d{1,9})?`,
  z: String.raw`[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?`,
};

/** The same with less digits. */
const short: Readonly<Record<string, string>> = {
  m: "(?:0?[1-9]|1[0-2])",
  d: String.raw`(?:0?[1-9]|[12]\d|3[01])`,
  H: String.raw`(?:[01]?\d|2[0-3])`,
  I: "(?:0?[1-9]|1[0-2])",
};

const compiled = new Map<string, RegExp>();

/** Whether a value is written in one of the known formats. A fraction of a second is no part of the format. */
export function matches(value: string, format: string): boolean {
  let pattern = compiled.get(format);
  if (pattern === undefined) {
    const texts = format.split(/%(\w)/);
    const last = texts.length - 2;
    const parts = texts.map((part, index) => {
      if (index % 2 === 0) return RegExp.escape(part);
      // One that touches another has all of its digits.
      const touches = (index > 1 && texts[index - 1] === "") || (index < last && texts[index + 1] === "");
      return touches ? fields[part] : (short[part] ?? fields[part]);
    });
    pattern = new RegExp(`^${parts.join("")}$`);
    compiled.set(format, pattern);
  }
  return pattern.test(value);
}

/** The texts for true and false that are in use, the likeliest first. */
const pairs = [
  ["true", "false"],
  ["TRUE", "FALSE"],
  ["True", "False"],
  ["T", "F"],
  ["t", "f"],
  ["yes", "no"],
  ["Yes", "No"],
  ["YES", "NO"],
  ["Y", "N"],
  ["y", "n"],
  ["1", "0"],
  ["0x1", "0x0"],
  ["ja", "nein"],
  ["Ja", "Nein"],
  ["JA", "NEIN"],
  ["J", "N"],
  ["oui", "non"],
  ["Oui", "Non"],
  ["si", "no"],
  ["tak", "nie"],
  ["on", "off"],
  ["active", "inactive"],
] as const;

/** The texts for true and false that the values are; undefined where they are something else. */
export function booleansOf(values: readonly string[]): readonly [string, string] | undefined {
  return values.length === 0
    ? undefined
    : pairs.find((pair) => values.every((value) => pair.some((one) => one === value)));
}

/** The texts for true and false that more than half of the values are; undefined where they are something else. */
export function usualBooleansOf(values: readonly string[]): readonly [string, string] | undefined {
  return most(pairs, values, (pair, value) => pair.some((one) => one === value))[0];
}

/** What stands for null in files, the likeliest first; `(null)` is the default of the interface. */
export const nulls = ["(null)", "NULL", "null", "\\N", "N/A", "NA", "None", "nil", "-"] as const;
