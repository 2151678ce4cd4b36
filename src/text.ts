import { distance } from "fastest-levenshtein";

/* Unicode */

/** Below U+0300 nothing combines, so such text is in form C already. */
const mayCombine = /[\u0300-\uFFFF]/;

/** The text in Unicode Normalization Form C, so that what looks the same compares as the same. */
export function nfc(text: string): string {
  return mayCombine.test(text) ? text.normalize("NFC") : text;
}

/** The text for comparisons that ignore case. */
export function withoutCase(text: string): string {
  return nfc(text).toLowerCase();
}

/** Made when it is first needed: classes of Unicode take milliseconds. */
function lazily(make: () => RegExp): () => RegExp {
  let made: RegExp | undefined;
  return () => (made ??= make());
}

/** Most texts are of such characters, in Western languages: ASCII and Latin letters, without the soft hyphen. */
const visibleOnly = /^[ -~\u00A1-\u00AC\u00AE-\u024F]*$/;

/**
 * Names come from foreign directories, and these characters move the cursor, reorder the text around them or cannot be
 * seen. The space and the ideographic space are ordinary text.
 */
const hidden = lazily(() => /[[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]--[\u{20}\u{3000}]]/gv);

/** Foreign text that is safe to show: hidden characters are written as `\u{202e}`. */
export function visible(text: string): string {
  if (visibleOnly.test(text)) return text;
  return text.replaceAll(hidden(), (character) => `\\u{${character.codePointAt(0)?.toString(16).padStart(4, "0")}}`);
}

/** The same of several lines, which stay lines. */
export function visibleLines(text: string): string {
  return text.split("\n").map(visible).join("\n");
}

/**
 * Invisible characters that belong to a text: in emoji, after signs that have two forms, and joiners in the scripts that
 * need them.
 */
const belonging = lazily(
  () =>
    /\p{RGI_Emoji}|(?<=\p{Extended_Pictographic})[\u{FE0E}\u{FE0F}]|(?<=\p{Script=Han})[\u{E0100}-\u{E01EF}]|(?<=[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Mongolian}])[\u{200C}\u{200D}]/gv,
);

/** Invisible characters, and those that only look like a space. The Arabic signs of numbers are visible. */
const unseen = lazily(
  () =>
    /[[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Z}\u{2800}\u{FFF9}-\u{FFFC}]--[\u{20}\u{3000}\u{600}-\u{605}\u{6DD}\u{70F}\u{890}\u{891}\u{8E2}]]/v,
);
const allUnseen = lazily(() => new RegExp(unseen().source, "gv"));
const ends = lazily(() => new RegExp(`^[\\s${unseen().source}]+|[\\s${unseen().source}]+$`, "gv"));

/** Most keys and names have none. */
function hasUnseen(text: string): boolean {
  return !visibleOnly.test(text) && unseen().test(text);
}

/** The text with an ordinary letter in the place of each character that only looks like one to object to. */
function masked(text: string): string {
  return text.replaceAll(belonging(), (found) => "x".repeat(found.length));
}

/**
 * What is wrong with a text that has to equal another one, such as an id, a key or a name: nobody can see why it does not.
 * Undefined when nothing is.
 */
export function objectionToKey(text: string): string | undefined {
  const found = hasUnseen(text) ? unseen().exec(masked(text))?.[0] : undefined;
  if (found !== undefined)
    return `has an invisible character (U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")})`;
  if (text.trim().length === text.length) return undefined;
  return /^\s/u.test(text) ? "begins with white space" : "ends with white space";
}

/** The text without white space and invisible characters at either end. */
export function trimmed(text: string): string {
  if (!hasUnseen(text)) return text.trim();
  const spans = [...masked(text).matchAll(ends())];
  const [start = 0] = spans.filter(({ index }) => index === 0).map(([found]) => found.length);
  const end = spans.findLast(({ index }) => index > 0)?.index ?? text.length;
  return start >= text.length ? "" : text.slice(start, end);
}

/** The text without invisible characters, and without white space at either end. */
export function withoutUnseen(text: string): string {
  if (!hasUnseen(text)) return text.trim();
  const kept = masked(text);
  const places = [...kept.matchAll(allUnseen())];
  let result = text;
  for (const { 0: found, index } of places.toReversed())
    result = `${result.slice(0, index)}${/\p{Zs}/u.test(found) ? " " : ""}${result.slice(index + found.length)}`;
  return result.trim();
}

/** Line breaks, tabs and the colours of our own output. */
// eslint-disable-next-line no-control-regex -- that is what a colour begins with
const ofTheOutput = /\r\n|[\n\t]|\u001B\[(?:[012]|22|3\d|9\d)m/v;
const printed = lazily(() => new RegExp(`${ofTheOutput.source}|${hidden().source}`, "gv"));

/**
 * Whole lines that are safe to print, whatever a server or a file put into them: line breaks, tabs and colours stay; all
 * other hidden characters are written as `\u{202e}`.
 */
export function printable(text: string): string {
  return text.replaceAll(printed(), (found) =>
    found === "\r\n" ? "\n" : ofTheOutput.test(found) ? found : visible(found),
  );
}

/** The same for a JSON text, which keeps its meaning: hidden characters are written as JSON escapes. */
export function printableJson(json: string): string {
  return json.replaceAll(hidden(), (found) =>
    found === "\n"
      ? found
      : found
          .split("")
          .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
          .join(""),
  );
}

/* Values in messages */

const longestExcerpt = 80;

/** A value in quotation marks, cut to 80 characters. */
export function quote(text: string): string {
  const cut = text.length > longestExcerpt ? `${text.slice(0, longestExcerpt - 1).toWellFormed()}…` : text;
  return JSON.stringify(cut);
}

/** The value that a rule gave: quoted text, a number as it is, or what kind of thing it is. */
export function describeValue(value: unknown): string {
  if (typeof value === "string") return quote(value);
  if (Array.isArray(value)) return "several values";
  if (typeof value === "object" && value !== null) return "an object";
  return String(value);
}

/** A name in a line of text: visible, and in quotes where its edges would be unclear: `"Finance Team"`. */
export function formatName(name: string): string {
  const text = visible(name);
  return text === "" || /[\s"'(),;<>→]/u.test(text) ? `"${text}"` : text;
}

/** A name as `formatName` writes it; of a long one the beginning and, since many begin alike, more of the end. */
export function shortName(name: string, longest = longestExcerpt): string {
  return formatName(withoutMiddle(name, longest));
}

/** The text, without its middle where it is longer than so many characters. */
export function withoutMiddle(text: string, longest = longestExcerpt): string {
  if (text.length <= longest) return text;
  const characters = Array.from(text);
  if (characters.length <= longest) return text;
  const end = Math.floor((longest * 2) / 3);
  return `${characters.slice(0, longest - end - 1).join("")}…${characters.slice(-end).join("")}`;
}

/** Two values that differ; long ones are cut to 80 characters around the first difference. */
export function excerptDifference(from = "", to = ""): [from: string, to: string] {
  const [before, after] = [Array.from(from), Array.from(to)];
  if (Math.max(before.length, after.length) <= longestExcerpt) return [from, to];
  let differs = 0;
  while (differs < before.length && before[differs] === after[differs]) differs++;
  const start = Math.max(0, differs - longestExcerpt / 4);
  const cut = (value: string[]): string =>
    (start > 0 ? "…" : "") +
    value.slice(start, start + longestExcerpt).join("") +
    (value.length > start + longestExcerpt ? "…" : "");
  return [cut(before), cut(after)];
}

/** A value as a field of CSV (RFC 4180), always in quotation marks. */
export function csvField(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}

/* Numbers */

/** Made when it is first needed: what Node knows of languages takes as long to load as a library. */
let english: Intl.NumberFormat | undefined;

/** `1,234` */
export function formatNumber(value: number): string {
  if (Number.isSafeInteger(value) && value >= 0) return String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ",");
  english ??= new Intl.NumberFormat("en");
  return english.format(value);
}

/** How often something has failed without a success between: `once`, `3 times in a row`. */
export function timesInARow(count: number): string {
  return count === 1 ? "once" : `${pluralize(count, "time")} in a row`;
}

/** `1 row`, `5,000 rows`. @param many the plural, where it is not formed with an s */
export function pluralize(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}

/** `1,234 users, 1 group` */
export function formatSizes(users: number, groups: number): string {
  return `${pluralize(users, "user")}, ${pluralize(groups, "group")}`;
}

/** `1,234 users and 1 group`, without the kind that there is none of. */
export function formatPrincipals(users: number, groups: number): string {
  const parts = [...(users > 0 ? [pluralize(users, "user")] : []), ...(groups > 0 ? [pluralize(groups, "group")] : [])];
  return parts.join(" and ") || "0";
}

/** `500 ms`, `2.5 s`, `3 min`. @param duration in milliseconds */
export function formatDuration(duration: number): string {
  if (duration < 1000) return `${Math.round(duration)} ms`;
  if (duration < 120_000) return `${Math.round(duration / 100) / 10} s`;
  return `${Math.round(duration / 6000) / 10} min`;
}

/* Misspelled words */

/** `did you mean "name"?`, or the list of valid words. */
export function didYouMean(word: string, candidates: readonly string[]): string {
  const meant = nearest(word, candidates);
  if (meant !== undefined) return `did you mean ${JSON.stringify(meant)}?`;
  return candidates.length === 0 ? "there are none" : `expected one of: ${candidates.join(", ")}`;
}

/** The candidate that was probably meant; undefined when none is close. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const limit = Math.min(Math.max(1, Math.floor(word.length / 3)), 3);
  let best: { candidate: string; edits: number } | undefined;
  for (const candidate of candidates) {
    const edits = editsBetween(word.toLowerCase(), candidate.toLowerCase());
    if (edits <= limit && (best === undefined || edits < best.edits)) best = { candidate, edits };
  }
  return best?.candidate;
}

/** Two letters that changed places count as one edit. */
function editsBetween(one: string, other: string): number {
  const edits = distance(one, other);
  return edits === 2 && sortLetters(one) === sortLetters(other) ? 1 : edits;
}

function sortLetters(word: string): string {
  return Array.from(word).sort().join("");
}

/** The regular expression of a name with wildcards, to match in whole: `*` stands for any characters. */
export function patternExpression(name: string): string {
  return name.replaceAll(/[\\^$.|?+()[\]{}]/g, String.raw`\$&`).replaceAll("*", ".*");
}

/** A number of bytes: `1.5 MB`. */
export function inBytes(bytes: number): string {
  for (const [unit, size] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ] as const) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${unit}`;
  }
  return `${bytes} bytes`;
}

/** An attribute as a person calls it: `display name`, `given name` of `name.givenName`. */
export function wordsOf(attribute: string): string {
  const own = attribute.slice(attribute.lastIndexOf(".") + 1);
  return own.replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** The letters and digits of a name in lower case, for comparing: `email` of `E-Mail`. */
export function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");
}

/** The bytes without a byte order mark of UTF-8 before them. */
export function withoutMark<Bytes extends Uint8Array>(bytes: Bytes): Bytes {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? (bytes.subarray(3) as Bytes) : bytes;
}

/** A part of a URL without its percent signs; undefined: one of them encodes nothing. */
export function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

/** Numbers as Excel writes them shorter, and its errors in its languages: `#N/A`, `#NV`, `#REF!`, `#NAME?`, `#¡VALOR!`. */
const spoilings = {
  number: String.raw`-?\d(?:[.,]\d+)?E\+\d\d`,
  error: String.raw`#(?:N/[AD]|NV|[¡¿]?[\p{Lu}/0]+[!?])`,
};
const spoiltNumber = new RegExp(`^${spoilings.number}$`, "u");
const spoiltError = new RegExp(`^${spoilings.error}$`, "u");
const spoiltSomewhere = new RegExp(`${spoilings.number}|${spoilings.error}`, "u");

/**
 * What a spreadsheet has put in the place of an id, and what to do; undefined: nothing. It writes numbers of more than eleven
 * digits shorter unless their column is text, and what a formula could not find as an error.
 */
export function spoilt(id: string): string | undefined {
  if (!mayBeSpoilt(id)) return undefined;
  if (spoiltNumber.test(id))
    return "a number that Excel has shortened (1.23457E+11), so its last digits are lost; format the column as text, and export it again";
  if (spoiltError.test(id))
    return "an error of Excel, such as #N/A; correct the formula, or have it give an empty text, and export it again";
  return undefined;
}

/** Whether a part of a text may be spoilt. */
export function holdsSpoilt(text: string): boolean {
  return mayBeSpoilt(text) && spoiltSomewhere.test(text);
}

/** In almost no text: to look for this takes a fraction of the time. */
function mayBeSpoilt(text: string): boolean {
  return text.includes("E+") || text.includes("#");
}
