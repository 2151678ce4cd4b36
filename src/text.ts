import { distance } from "fastest-levenshtein";

/** Below U+0300 nothing combines: such text is in form C already. */
const mayCombine = /[\u0300-\uFFFF]/;

/** The text in Unicode Normalization Form C: what looks the same compares as the same. */
export function normal(text: string): string {
  return mayCombine.test(text) ? text.normalize("NFC") : text;
}

/** The most code points that a name or display name may have (B.5). */
const longest = 255;

/** Why the text cannot be a name or display name of a principal (B.5); undefined when it can. */
export function objectionToName(text: string): string | undefined {
  if (text === "") return "is empty";
  // A code point takes one or two units: only between the two must they be counted.
  if (text.length > longest && (text.length > 2 * longest || Array.from(text).length > longest)) {
    return `is longer than ${longest} characters`;
  }
  if (/\p{Cc}/u.test(text)) return "has control characters";
  return undefined;
}

/** The value in quotation marks, cut where it is too long for a message. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 79).toWellFormed()}…` : text);
}

/** A value of a rule as a message shows it. */
export function shown(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return "several values";
  if (typeof value === "object" && value !== null) return "an object";
  return String(value);
}

/**
 * What must not reach a reader as it is: names come from foreign directories, and these move the cursor, reorder the
 * text around them, or cannot be seen. The space and the ideographic space are ordinary text.
 */
const hidden = /[[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]--[\u{20}\u{3000}]]/gv;

/** Foreign text that can be shown: what is hidden in it is written as `\u{202e}`. */
export function visible(text: string): string {
  return text.replaceAll(hidden, (character) => `\\u{${character.codePointAt(0)?.toString(16).padStart(4, "0")}}`);
}

/** Visible, and in quotes where its edges could be mistaken: `"Finance Team"`. */
export function quoteIfNeeded(text: string): string {
  const shown = visible(text);
  return shown === "" || /[\s"'(),;<>→]/u.test(shown) ? `"${shown}"` : shown;
}

const longestExcerpt = 80;

/** Two values that differ, long ones cut to 80 characters around the first place where they do. */
export function excerpts(from = "", to = ""): [from: string, to: string] {
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

/** How much of both there is: `1,234 users, 1 group`. */
export function sizes(users: number, groups: number): string {
  return `${number(users)} ${users === 1 ? "user" : "users"}, ${number(groups)} ${groups === 1 ? "group" : "groups"}`;
}

const format = new Intl.NumberFormat("en");

/** A count for a person: `1,234`. */
export function number(count: number): string {
  return format.format(count);
}

/** A number of things, for a person: `1 row`, `5,000 rows`. */
export function counted(count: number, what: string): string {
  return `${number(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** The candidate that was probably meant, or undefined when none is near. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(word.length / 2.5));
  let best: { candidate: string; edits: number } | undefined;
  for (const candidate of candidates) {
    const edits = editsBetween(word.toLowerCase(), candidate.toLowerCase());
    if (edits <= limit && (best === undefined || edits < best.edits)) best = { candidate, edits };
  }
  return best?.candidate;
}

/** Two letters that changed places are one slip, not two. */
function editsBetween(one: string, other: string): number {
  const edits = distance(one, other);
  return edits === 2 && sorted(one) === sorted(other) ? 1 : edits;
}

function sorted(word: string): string {
  return Array.from(word).sort().join("");
}

/** `did you mean "name"?`, or what there is to choose from. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const meant = nearest(word, candidates);
  if (meant !== undefined) return `did you mean ${JSON.stringify(meant)}?`;
  return candidates.length === 0 ? "there are none" : `expected one of: ${candidates.join(", ")}`;
}

/** How long something is waited for, for a person: `500 ms`, `2.5 s`, `3 min`. @param duration in milliseconds */
export function inWords(duration: number): string {
  if (duration < 1000) return `${Math.round(duration)} ms`;
  if (duration < 120_000) return `${Math.round(duration / 100) / 10} s`;
  return `${Math.round(duration / 6000) / 10} min`;
}
