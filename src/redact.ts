/**
 * Secrets in texts. Each output (terminal, log, records of runs and notices, audit log) redacts what it writes by what the
 * configuration says is secret; what a server said is redacted where it comes in, and more strictly.
 */

/** The secrets of the configurations that this process has loaded: what one had before is secret still. */
const known = new Set<string>();
let redactKnown: ((text: string) => string) | undefined;

/** From here on, none of these values appears in what this process writes. */
export function conceal(secrets: readonly string[]): void {
  for (const secret of secrets) known.add(secret);
  redactKnown = undefined;
}

/** A text of Rollcall's own without secrets. */
export function redact(text: string): string {
  redactKnown ??= redactor([...known]);
  return redactKnown(text);
}

/** The same for a value of objects, lists and texts, which stays as it is otherwise. */
export function redactAll<Value>(value: Value): Value {
  return JSON.parse(redact(JSON.stringify(value))) as Value;
}

/** A shorter one is masked only where a secret is due: replacing every `1` or `8442` would hide everything else. */
export const shortestSecret = 8;

/** Replacing every `password` would, too. */
function isDistinct(secret: string): boolean {
  return secret.length >= shortestSecret && !(secret.length < 16 && /^\p{Lu}?\p{Ll}+$|^\p{Lu}+$/u.test(secret));
}

/**
 * A function that masks secrets in a text, in all forms in which programs write them: those of at least eight characters
 * everywhere; shorter ones, and ordinary words, as the password of a URL and after a key or a scheme for secrets
 * (`password=`, `"token": "`, `Bearer `).
 * @param words true: these are replaced everywhere, too, for texts that nobody reads
 */
export function redactor(secrets: readonly string[], { words = false } = {}): (text: string) => string {
  const isEverywhere = (secret: string): boolean => (words ? secret.length >= 4 : isDistinct(secret));
  const [common, distinct] = [secrets.filter((each) => !isEverywhere(each)), secrets.filter(isEverywhere)];
  const forms = [...distinct.flatMap((secret) => formsOf(secret)), ...common.flatMap((secret) => binaryForms(secret))];
  // The longest first: a secret may be a part of another one.
  const unique = [...new Set(forms)].sort((a, b) => b.length - a.length);
  const placed = inPlace(common);
  return (text) => {
    // One after the other: long secrets make a regular expression too large.
    const found = unique.reduce((rest, form) => rest.replaceAll(form, "***"), text);
    return placed === undefined ? found : found.replaceAll(placed, "***");
  };
}

/** These secrets where one is due; undefined: there are none. */
function inPlace(secrets: readonly string[]): RegExp | undefined {
  const forms = secrets.flatMap((secret) => (secret === "" ? [] : formsOf(secret)));
  if (forms.length === 0) return undefined;
  const any = [...new Set(forms)]
    .sort((a, b) => b.length - a.length)
    .map((form) => RegExp.escape(form))
    .join("|");
  const key = String.raw`(?:pass(?:word|wd|phrase)?|pwd|secret|token|bearer|api[-_]?key)`;
  const quote = String.raw`\\*["']?`;
  const afterKey = String.raw`${key}${quote}\s*[:=]\s*${quote}|\b(?:bearer|basic)\s+`;
  return new RegExp(String.raw`(?<=${afterKey})(?:${any})(?![\p{L}\p{N}])|(?<=//[^\s/@]*:)(?:${any})(?=@)`, "giu");
}

/** As it is, in JSON (within JSON, too), in URLs and forms, in HTML, in base64 and in hexadecimal. */
function formsOf(secret: string): string[] {
  const written = inJson(secret);
  const inForm = new URLSearchParams({ "": secret }).toString().slice(1);
  const encoded = [encodeURIComponent(secret.toWellFormed()), encodeURI(secret.toWellFormed()), inForm];
  const lower = encoded.map((text) => text.replaceAll(/%[0-9A-F]{2}/g, (each) => each.toLowerCase()));
  return [
    secret,
    written,
    inJson(written),
    inAscii(written),
    inHtml(secret),
    ...encoded,
    ...lower,
    ...binaryForms(secret),
  ];
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function inAscii(text: string): string {
  return text.replaceAll(/[\u0080-\uFFFF]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function inHtml(text: string): string {
  const names: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replaceAll(/[&<>"']/g, (each) => names[each] ?? each);
}

/** Fewer bytes would be found by chance. */
const fewestBytes = 6;

/** In hexadecimal, and in base64 wherever it stands in what is encoded, such as `user:password`. */
function binaryForms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  if (bytes.length < fewestBytes) return [];
  const base64 = [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString("base64")
      .replace(/=+$/, "");
    // The characters at both ends hold bits of what is around it.
    const last = (before + bytes.length) % 3 === 0 ? text.length : text.length - 1;
    const inner = text.slice(before === 0 ? 0 : before + 1, last);
    return [inner, inner.replaceAll("+", "-").replaceAll("/", "_")];
  });
  const hex = bytes.toString("hex");
  return [...base64, hex, hex.toUpperCase()];
}

/** No more of what a server says is shown, in characters. */
const longestLine = 500;

/**
 * What a server says as one line of bounded length, without characters that control a terminal, and without secrets: it may say
 * back what it was sent, so that words are replaced, too.
 * @param secrets those of the connection, besides those of the configuration
 */
export function presentable(text: string, secrets: readonly string[] = []): string {
  const all = [...new Set([...known, ...secrets])];
  const words = all
    .filter((secret) => secret !== "" && !isDistinct(secret))
    .flatMap((secret) => {
      const bytes = Buffer.from(secret);
      const encoded = [bytes.toString("base64").replace(/=+$/, ""), bytes.toString("hex")];
      return [secret, ...(secret.length < 4 ? [] : encoded)].map((text) => RegExp.escape(text));
    });
  const plain = redactor(all)(text);
  const line = (words.length === 0 ? plain : plain.replaceAll(wholeWords(words), "***"))
    .replaceAll(/[\p{Cc}\s]+/gu, " ")
    .trim();
  return line.length > longestLine ? `${line.slice(0, longestLine)}…` : line;
}

function wholeWords(words: readonly string[]): RegExp {
  return new RegExp(String.raw`(?<![\p{L}\p{N}])(?:${words.join("|")})(?![\p{L}\p{N}])`, "gu");
}
