/** Shorter values are not worth hiding: replacing every `1` would hide everything else. */
const shortest = 4;

/**
 * A function that replaces every secret in a text, also as JSON writes it (a key in PEM form has newlines), in JSON within
 * JSON too, and as it is in URLs and forms: a server may say back what it was sent.
 * Values of fewer than 4 characters are left alone.
 */
export function redactor(secrets: readonly string[]): (text: string) => string {
  const forms = secrets.flatMap((secret) => (secret.length < shortest ? [] : formsOf(secret)));
  // The longest first: a secret may be a part of another one.
  const unique = [...new Set(forms)].sort((a, b) => b.length - a.length);
  // One after the other: long secrets make a regular expression too large.
  return (text) => unique.reduce((found, form) => found.replaceAll(form, "***"), text);
}

function formsOf(secret: string): string[] {
  const written = inJson(secret);
  const inForm = new URLSearchParams({ "": secret }).toString().slice(1);
  return [secret, written, inJson(written), encodeURIComponent(secret), encodeURI(secret), inForm];
}

function inJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** No more of what a server says is shown, in characters. */
const longestLine = 500;

/** What a server says as one line of bounded length, without secrets and without characters that control a terminal. */
export function presentable(text: string, secrets: readonly string[] = []): string {
  const line = redactor(secrets)(text).replaceAll(/\p{Cc}+/gu, " ");
  return line.length > longestLine ? `${line.slice(0, longestLine)}…` : line;
}
