/** One `type=value` of an RDN. `value` is unescaped; one written as `#` and hexadecimal digits stays as written. */
export interface DnPart {
  /** As written; types are the same whatever their case. */
  readonly type: string;
  readonly value: string;
}

const type = /^(?:oid\.)?(?:[a-z][a-z0-9-]*|\d+(?:\.\d+)*)$/i;
const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Takes a distinguished name (RFC 4514) apart: its RDNs from the left, each of one part or, where it is multi-valued,
 * several. Spaces around parts are not theirs; what RFC 2253 allowed besides, `;` and quotes, is understood.
 * @returns undefined when the text is none; an empty list for the empty one
 */
export function parseDn(text: string): readonly (readonly DnPart[])[] | undefined {
  const rdns: DnPart[][] = [];
  let rdn: DnPart[] = [];
  let at = 0;
  if (text.trim() === "") return rdns;
  for (;;) {
    const equals = text.indexOf("=", at);
    if (equals === -1) return undefined;
    const name = text.slice(at, equals).trim();
    const value = type.test(name) ? readValue(text, equals + 1) : undefined;
    if (value === undefined) return undefined;
    rdn.push({ type: name, value: value.text });
    const separator = text[value.end];
    at = value.end + 1;
    if (separator === "+") continue;
    rdns.push(rdn);
    if (separator === undefined) return rdns;
    rdn = [];
  }
}

/** The text from its first RDN's separator on; null when it has no parent. */
export function parentOf(text: string): string | null {
  let at = text.indexOf("=");
  while (at !== -1) {
    const value = readValue(text, at + 1);
    if (value === undefined || text[value.end] === undefined) return null;
    if (text[value.end] !== "+") return text.slice(value.end + 1).trim();
    at = text.indexOf("=", value.end);
  }
  return null;
}

/** The value that starts at an offset, and the offset of the separator that ends it. */
function readValue(text: string, from: number): { text: string; end: number } | undefined {
  let at = from;
  while (text[at] === " ") at++;
  if (text[at] === '"') return readQuoted(text, at + 1);
  const parts: string[] = [];
  let bytes: number[] = [];
  /** How much of the value is not white space at its end: what is escaped never is. */
  let kept = 0;
  const flush = (): boolean => {
    const decoded = decode(bytes);
    if (decoded === undefined) return false;
    parts.push(decoded);
    bytes = [];
    return true;
  };
  for (; at < text.length && !",;+".includes(text.charAt(at)); at++) {
    if (text[at] === "\\") {
      const pair = /^[0-9a-f]{2}/i.exec(text.slice(at + 1, at + 3))?.[0];
      if (pair !== undefined) {
        bytes.push(Number.parseInt(pair, 16));
        at += 2;
        kept = parts.length + 1;
        continue;
      }
      if (text[at + 1] === undefined || !flush()) return undefined;
      at++;
      parts.push(text.charAt(at));
      kept = parts.length;
      continue;
    }
    if (bytes.length > 0 && !flush()) return undefined;
    parts.push(text.charAt(at));
    if (text[at] !== " ") kept = parts.length;
  }
  if (!flush()) return undefined;
  return { text: parts.slice(0, kept).join(""), end: at };
}

/** RFC 2253, section 4: a value in quotes. */
function readQuoted(text: string, from: number): { text: string; end: number } | undefined {
  const match = /^((?:[^"\\]|\\.)*)" *(?=[,;+]|$)/s.exec(text.slice(from));
  const [whole, inner] = match ?? [];
  if (whole === undefined || inner === undefined) return undefined;
  return { text: inner.replaceAll(/\\(.)/gs, "$1"), end: from + whole.length };
}

function decode(bytes: readonly number[]): string | undefined {
  try {
    return bytes.length === 0 ? "" : decoder.decode(Uint8Array.from(bytes));
  } catch {
    return undefined;
  }
}
