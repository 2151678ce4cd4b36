/** How a number format shows a number. */
export type NumberFormat =
  | "number"
  /** A day, with or without the time of day. */
  | "date"
  /** A time without a day. */
  | "time"
  /** A digit for each zero of the format, and the texts before, between and after them: one more than digits. */
  | { readonly texts: readonly string[] };

/** The formats that have a number of their own (ECMA-376, 18.8.30), where they are dates. The rest are numbers. */
const builtInDates: readonly (readonly [from: number, to: number, format: NumberFormat])[] = [
  [14, 17, "date"],
  [18, 21, "time"],
  [22, 22, "date"],
  [27, 36, "date"],
  [45, 47, "time"],
  [50, 58, "date"],
];

/** @param code of a format that the workbook defines itself */
export function formatOf(id: number, code: string | undefined): NumberFormat {
  if (code === undefined) return builtInDates.find(([from, to]) => id >= from && id <= to)?.[2] ?? "number";
  const [first = ""] = code.split(";");
  const texts = textsAroundZeros(first);
  if (texts !== undefined) return { texts };
  const plain = first.replaceAll(/"[^"]*"|\\.|[_*]./g, "");
  // `[h]:mm` counts hours; `[Red]`, `[$-409]` and `[>5]` are not of the value.
  if (/\[[hms]+\]/i.test(plain)) return "number";
  const letters = plain.replaceAll(/\[[^\]]*\]|general|[e][+-]/gi, "");
  if (/[yd]|mmm/i.test(letters)) return "date";
  return /[hs]/i.test(letters) ? "time" : "number";
}

/** Of `"EMP"0000` and `000-00-0000`, the texts around the zeros; undefined: the format has something else, or a single zero. */
function textsAroundZeros(code: string): string[] | undefined {
  const texts = [""];
  // Colours and languages are not of the value; `_` and `*` put space of some width.
  for (const [token, quoted, escaped, plain] of code.matchAll(
    /"([^"]*)"|\\(.)|([-+ ():])|\[(?![hms]+\])[^\]<>=]*\]|[_*].|./gis,
  )) {
    const text = quoted ?? escaped ?? plain;
    if (token === "0") texts.push("");
    else if (text !== undefined) texts.push(`${texts.pop() ?? ""}${text}`);
    else if (token.length === 1) return undefined;
  }
  return texts.length > 2 ? texts : undefined;
}

const day = 86_400_000;
/** Day 0 of dates after February 1900. Excel takes 1900 for a leap year, as Lotus 1-2-3 did: before, it is a day later. */
const [epoch, earlyEpoch, epoch1904] = [Date.UTC(1899, 11, 30), Date.UTC(1899, 11, 31), Date.UTC(1904, 0, 1)];
const [leapDay, lastDay] = [60, 2_958_466];

/** The text of a date in ISO 8601; undefined: no date has this number. */
export function dateText(serial: number, format: "date" | "time", is1904: boolean): string | undefined {
  if (!(serial >= 0 && serial < lastDay)) return undefined;
  const seconds = Math.round(serial * 86_400);
  const time = new Date(seconds * 1_000).toISOString().slice(11, 19);
  if (format === "time" && serial < 1) return time;
  const number = Math.floor(seconds / 86_400);
  if (!is1904 && (number === 0 || number === leapDay)) return undefined;
  const start = is1904 ? epoch1904 : number < leapDay ? earlyEpoch : epoch;
  const date = new Date(start + number * day).toISOString().slice(0, 10);
  return seconds % 86_400 === 0 ? date : `${date}T${time}`;
}

/** The same of a date that is written in ISO 8601, as strict workbooks have them: whole seconds, without a zone. */
export function isoText(value: string): string {
  return value
    .replace(/^T(?=\d)/, "")
    .replace(/(\d\d:\d\d:\d\d)(?:\.\d+)?Z?$/, "$1")
    .replace(/T00:00:00$/, "");
}

/** Excel keeps 15 digits; with more, the last ones are not what somebody typed. */
export const mostDigits = 15;

/** The text of a number as a person would write it; undefined: it is none. */
export function numberText(value: string, format: NumberFormat): string | undefined {
  const number = Number(value);
  if (value.trim() === "" || !Number.isFinite(number)) return undefined;
  if (typeof format === "object" && Number.isInteger(number) && number >= 0) {
    const [before = "", ...after] = format.texts;
    const digits = String(number).padStart(after.length, "0");
    // What is more than the format has zeros for comes before the second one, as Excel shows it.
    const over = digits.length - after.length;
    return after.reduce((text, each, index) => text + digits[over + index] + each, before + digits.slice(0, over));
  }
  // Without what computing in binary adds: 0.30000000000000004.
  return String(Number(number.toPrecision(mostDigits)));
}

/** Excel writes characters that XML may not have, and what looks like that, as `_x000D_`. */
export function unescaped(text: string): string {
  return text.includes("_x")
    ? text.replaceAll(/_x([0-9a-f]{4})_/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    : text;
}

/** `C` of 2. */
export function columnName(index: number): string {
  const rest = Math.floor(index / 26);
  return (rest === 0 ? "" : columnName(rest - 1)) + String.fromCharCode(65 + (index % 26));
}

/** The row, from 1, and the column, from 0, of `C5`; undefined: it is no cell. */
export function cellAt(reference: string): { readonly row: number; readonly column: number } | undefined {
  const [, letters = "", row = ""] = /^\$?([A-Z]{1,3})\$?(\d{1,7})$/.exec(reference) ?? [];
  if (letters === "") return undefined;
  let column = 0;
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64;
  return { row: Number(row), column: column - 1 };
}
