/** One `type=value` of an RDN (RFC 4514: attributeTypeAndValue). */
export interface TypeAndValue {
  /** As written; `canonicalType` makes types comparable. */
  readonly type: string;
  /** Unescaped. `#` and hexadecimal digits stay as written. */
  readonly value: string;
  /** The value was written as `#` and the hexadecimal digits of its BER encoding. */
  readonly isEncoded: boolean;
}

/** A relative distinguished name: usually one `type=value`, several when joined with `+`. */
export type Rdn = readonly TypeAndValue[];

/** `rfc2253` also accepts what RFC 2253, section 4 allowed: `;` between RDNs, values in quotes, any escaped character. */
type Grammar = "rfc4514" | "rfc2253";

/**
 * The RDNs of a distinguished name, from the left. Spaces around types and values are ignored. The empty text is the
 * empty DN.
 * @throws {SyntaxError} when the text is not a DN
 */
export function parseDn(text: string, grammar: Grammar = "rfc4514"): readonly Rdn[] {
  return Array.from(rdnsOf(text, grammar), ({ rdn }) => rdn);
}

/**
 * The DN without its first RDN, as written; undefined when that is all there is.
 * @throws {SyntaxError} when the text is not a DN
 */
export function parentOf(text: string, grammar: Grammar = "rfc4514"): string | undefined {
  const [first] = rdnsOf(text, grammar);
  return first === undefined || first.end === text.length ? undefined : text.slice(first.end + 1).trim();
}

function* rdnsOf(text: string, grammar: Grammar): Generator<{ rdn: Rdn; end: number }> {
  if (text.trim() === "") return;
  let rdn: TypeAndValue[] = [];
  for (let start = 0; start <= text.length;) {
    const { part, end } = typeAndValueAt(text, start, grammar);
    rdn.push(part);
    if (text[end] !== "+") {
      yield { rdn, end };
      rdn = [];
    }
    start = end + 1;
  }
}

const typePattern = /^(?:[a-z][a-z0-9-]*|(?:oid\.)?\d+(?:\.\d+)*)$/i;

/** Everything up to the next separator that is not escaped. */
const rawValue = { rfc4514: /(?:[^\\,+]|\\.)*/sy, rfc2253: /(?:[^\\,+;]|\\.)*/sy };

/** `end` is the offset of the separator that follows, or the length of the text. */
function typeAndValueAt(text: string, start: number, grammar: Grammar): { part: TypeAndValue; end: number } {
  const equals = text.indexOf("=", start);
  const type = text.slice(start, Math.max(start, equals)).trim();
  if (!typePattern.test(type)) {
    throw new SyntaxError(`expected TYPE=VALUE at ${JSON.stringify(text.slice(start).trim())}`);
  }
  let valueStart = equals + 1;
  while (text[valueStart] === " ") valueStart++;
  if (grammar === "rfc2253" && text[valueStart] === '"') {
    const { value, end } = quotedAt(text, valueStart);
    return { part: { type, value, isEncoded: false }, end };
  }
  const pattern = rawValue[grammar];
  pattern.lastIndex = valueStart;
  const raw = pattern.exec(text)?.[0] ?? "";
  const end = valueStart + raw.length;
  if (text[end] === "\\") throw new SyntaxError(`${JSON.stringify(text)} ends with a \\ that escapes nothing`);
  const isEncoded = raw.startsWith("#");
  if (isEncoded && grammar === "rfc4514") {
    const value = raw.trim();
    if (!/^#(?:[0-9a-f]{2})+$/i.test(value)) {
      throw new SyntaxError(`${value} is not # and an even number of hexadecimal digits`);
    }
    return { part: { type, value, isEncoded }, end };
  }
  return { part: { type, value: unescaped(raw, grammar), isEncoded }, end };
}

function quotedAt(text: string, start: number): { value: string; end: number } {
  const [whole, inner] = /^"((?:[^"\\]|\\.)*)" *(?=[,;+]|$)/s.exec(text.slice(start)) ?? [];
  if (whole === undefined || inner === undefined) {
    throw new SyntaxError(`expected a value in quotes at ${JSON.stringify(text.slice(start))}`);
  }
  return { value: inner.replaceAll(/\\(.)/gs, "$1"), end: start + whole.length };
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Without escapes, and without the spaces at the end that are not escaped. */
function unescaped(raw: string, grammar: Grammar): string {
  const trimmed = /^((?:[^\\]|\\.)*?) *$/s.exec(raw)?.[1] ?? raw;
  if (!trimmed.includes("\\")) {
    if (grammar === "rfc4514" && /["<>;]/.test(trimmed)) {
      throw new SyntaxError(`${JSON.stringify(trimmed)} has characters that must be escaped`);
    }
    return trimmed;
  }
  const bytes: Buffer[] = [];
  for (const [, pair, escaped, plain] of trimmed.matchAll(/\\([0-9a-f]{2})|\\(.)|([^\\]+)/gis)) {
    if (pair !== undefined) bytes.push(Buffer.from(pair, "hex"));
    else if (escaped === undefined) bytes.push(Buffer.from(plain ?? ""));
    else if (grammar === "rfc2253" || ' "#+,;<=>\\'.includes(escaped)) bytes.push(Buffer.from(escaped));
    else throw new SyntaxError(`${JSON.stringify(trimmed)} has a \\ that escapes nothing`);
  }
  try {
    return decoder.decode(Buffer.concat(bytes));
  } catch {
    throw new SyntaxError(`${JSON.stringify(trimmed)} has escaped bytes that are not UTF-8`);
  }
}

/** How many normalised parents are remembered: entries of one place share theirs. */
const remembered = 1_000;

/**
 * Makes keys of distinguished names: DNs that RFC 4514 and the usual matching rules take for equal (spaces, escapes, the
 * case and the other names of types, the case of values, the order within a multi-valued RDN) have one key. A text that
 * is not a DN is its own key, in lower case. A key is itself a DN that a person can read.
 */
export function dnKeys(): (text: string) => string {
  const parents = new Map<string, string>();
  let last = "";
  let lastKey = "";
  const parentKey = (text: string): string => {
    // Most entries follow one of the same place.
    if (text === last) return lastKey;
    let key = parents.get(text);
    if (key === undefined) {
      key = keyOfParsed(text);
      if (parents.size >= remembered) parents.clear();
      parents.set(text, key);
    }
    last = text;
    lastKey = key;
    return key;
  };
  return (text) => {
    const comma = text.includes("\\") ? endOfRdn(text) : text.indexOf(",");
    if (comma === -1 || comma === text.length) return dnKey(text);
    const above = text.slice(comma + 1);
    const parent = parentKey(above);
    const rdn = text.slice(0, comma);
    const own = parent === "" ? "" : rdnTextKey(rdn);
    if (own === "") return dnKey(text);
    return own === rdn && parent === above ? text : `${own},${parent}`;
  };
}

/** The key of one distinguished name; see `dnKeys`. */
export function dnKey(text: string): string {
  const key = keyOfParsed(text);
  return key === "" ? text.trim().toLowerCase() : key;
}

/** Whether the entry with the key `inner` is the one with the key `outer`, or below it. */
export function isWithin(inner: string, outer: string): boolean {
  return inner === outer || outer === "" || inner.endsWith(`,${outer}`);
}

/** ASCII without special characters, single spaces inside: the key is the text in lower case. */
const plain = /^[A-Za-z][A-Za-z0-9-]*=[!$-*\-./0-9:?-[\]-~]+(?: [!$-*\-./0-9:?-[\]-~]+)*$/;

/** Already its own key. */
const normal = /^(?:cn|ou|uid)=[!$-*\-./0-9:?@[\]-~]+(?: [!$-*\-./0-9:?@[\]-~]+)*$/;

/** The key of an RDN; empty when the text is none. */
function rdnTextKey(text: string): string {
  if (normal.test(text)) return text;
  if (!plain.test(text)) return keyOfParsed(text);
  const equals = text.indexOf("=");
  return `${canonicalType(text.slice(0, equals))}=${text.slice(equals + 1).toLowerCase()}`;
}

/** Empty when the text is not a DN. */
function keyOfParsed(text: string): string {
  try {
    return parseDn(text).map(rdnKey).join(",");
  } catch {
    return "";
  }
}

function rdnKey(rdn: Rdn): string {
  const parts = rdn.map((part) => `${canonicalType(part.type)}=${valueKey(part)}`);
  return parts.length === 1 ? (parts[0] ?? "") : parts.sort().join("+");
}

function valueKey({ value, isEncoded }: TypeAndValue): string {
  const text = isEncoded ? decodedText(value) : value;
  return text === undefined ? value.toLowerCase() : escaped(comparable(text));
}

/** Universal ASN.1 types that hold ASCII, UTF-8 or octets. */
const textTags = new Set([0x04, 0x0c, 0x12, 0x13, 0x16, 0x1a]);

/** The text in `#` and the hexadecimal digits of a BER encoding; undefined when that is not a short text. */
function decodedText(value: string): string | undefined {
  const bytes = Buffer.from(value.slice(1), "hex");
  const isText = textTags.has(bytes[0] ?? 0) && bytes[1] === bytes.length - 2 && bytes.length < 130;
  return isText ? bytes.toString("utf8", 2) : undefined;
}

/** Without what matching ignores: case, compatibility forms, spaces around and repeated spaces inside. */
export function comparable(value: string): string {
  const folded = isAscii(value) ? value.toLowerCase() : foldedUnicode(value);
  return /\s\s|[^\S ]/.test(folded) ? folded.replaceAll(/\s+/g, " ").trim() : folded.trim();
}

/** A Greek sigma has two small letters, one of them for the end of a word: they are the same (RFC 3454, B.2). */
function foldedUnicode(value: string): string {
  return value.normalize("NFKC").toLowerCase().normalize("NFKC").replaceAll("ς", "σ");
}

function isAscii(text: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return /^[\0-\x7F]*$/.test(text);
}

/** Special characters as `\` and two digits, so that a key can be parsed again and its end compared. `#` is special only at the start. */
function escaped(value: string): string {
  return /^#|[\\,+"<>;]/.test(value)
    ? value.replaceAll(/^#|[\\,+"<>;]/g, (character) => `\\${character.charCodeAt(0).toString(16)}`)
    : value;
}

/** The offset of the first comma that is not escaped; the length when there is none. */
function endOfRdn(text: string): number {
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "\\") at++;
    else if (character === ",") return at;
  }
  return text.length;
}

/** Attribute types that have several names, and their OIDs (RFC 4519, RFC 4524). */
const typeNames: readonly (readonly [string, ...string[]])[] = [
  ["cn", "commonname", "2.5.4.3"],
  ["sn", "surname", "2.5.4.4"],
  ["serialnumber", "2.5.4.5"],
  ["c", "countryname", "2.5.4.6"],
  ["l", "localityname", "2.5.4.7"],
  ["st", "stateorprovincename", "2.5.4.8"],
  ["street", "2.5.4.9"],
  ["o", "organizationname", "2.5.4.10"],
  ["ou", "organizationalunitname", "2.5.4.11"],
  ["title", "2.5.4.12"],
  ["description", "2.5.4.13"],
  ["name", "2.5.4.41"],
  ["givenname", "gn", "2.5.4.42"],
  ["initials", "2.5.4.43"],
  ["generationqualifier", "2.5.4.44"],
  ["dnqualifier", "2.5.4.46"],
  ["uid", "userid", "0.9.2342.19200300.100.1.1"],
  ["mail", "rfc822mailbox", "0.9.2342.19200300.100.1.3"],
  ["dc", "domaincomponent", "0.9.2342.19200300.100.1.25"],
  ["mobile", "mobiletelephonenumber", "0.9.2342.19200300.100.1.41"],
  ["pager", "pagertelephonenumber", "0.9.2342.19200300.100.1.42"],
  ["emailaddress", "email", "1.2.840.113549.1.9.1"],
];

const canonical = new Map(typeNames.flatMap(([name, ...others]) => [name, ...others].map((other) => [other, name])));

/** One name for an attribute type, in lower case, whichever of its names or OIDs is given. */
export function canonicalType(type: string): string {
  // Most are written like this already.
  const known = canonical.get(type);
  if (known !== undefined) return known;
  const lower = type.toLowerCase();
  return canonical.get(lower) ?? canonical.get(lower.replace(/^oid\./, "")) ?? lower;
}
