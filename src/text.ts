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
