import { canonicalType } from "./types.ts";

/** One `type=value` of a relative distinguished name. */
interface Ava {
  /** In lower case, one name for each of the common types: `commonName` and `2.5.4.3` are `cn`. */
  readonly type: string;
  /** Without escapes; spaces at its end are not told apart from escaped ones, which matching ignores as well. */
  readonly value: string;
  /** That the value is `#` and the bytes of an encoding that is no short text: not the text that is written like it. */
  readonly isEncoded: boolean;
}

/** A relative distinguished name: usually one `type=value`, several when they were joined with `+`. */
type Rdn = readonly Ava[];

/**
 * A distinguished name, its own part first, as RFC 4514 writes it. Spaces around types and values are allowed.
 * @throws {SyntaxError} when it is none
 */
export function parseDn(text: string): readonly Rdn[] {
  const rdns: Rdn[] = [];
  if (text.trim() === "") return rdns;
  for (let rest = text; ;) {
    const end = endOfRdn(rest);
    rdns.push(parseRdn(rest.slice(0, end)));
    if (end === rest.length) return rdns;
    rest = rest.slice(end + 1);
  }
}

/** How many normalised ends of names are remembered: entries of one place share theirs. */
const remembered = 1_000;

/**
 * Makes keys of distinguished names: names that are equal as RFC 4514 and the usual matching rules have it (spaces, escapes,
 * the case and other names of types, the case of values, the order in a relative name of several) have one key. What is
 * no distinguished name is its own key, in lower case. A key is a distinguished name that a person can read.
 */
export function dnKeys(): (text: string) => string {
  const ends = new Map<string, string>();
  const endKey = (text: string): string => {
    let key = ends.get(text);
    if (key === undefined) {
      key = keyOfParsed(text);
      if (ends.size >= remembered) ends.clear();
      ends.set(text, key);
    }
    return key;
  };
  return (text) => {
    // Nearly all names have their own part in a place that others are in as well.
    const comma = text.includes("\\") ? endOfRdn(text) : text.indexOf(",");
    if (comma === -1 || comma === text.length) return dnKey(text);
    const end = endKey(text.slice(comma + 1));
    const own = end === "" ? "" : ownKey(text.slice(0, comma));
    return own === "" ? dnKey(text) : `${own},${end}`;
  };
}

/** The key of a distinguished name; see `dnKeys`. */
export function dnKey(text: string): string {
  const key = keyOfParsed(text);
  return key === "" ? text.trim().toLowerCase() : key;
}

/** Whether what has the key `inner` is below what has the key `outer`, or is it. */
export function isWithin(inner: string, outer: string): boolean {
  return inner === outer || outer === "" || inner.endsWith(`,${outer}`);
}

/** ASCII letters, digits and some harmless characters, single spaces inside: its key is itself in lower case. */
const plain = /^[A-Za-z][A-Za-z0-9-]*=[!$-*\-./0-9:?-[\]-~]+(?: [!$-*\-./0-9:?-[\]-~]+)*$/;

/** The key of a relative name; empty when it is none. */
function ownKey(text: string): string {
  if (!plain.test(text)) return keyOfParsed(text);
  const equals = text.indexOf("=");
  return `${canonicalType(text.slice(0, equals))}=${text.slice(equals + 1).toLowerCase()}`;
}

/** Empty when the text is no distinguished name. */
function keyOfParsed(text: string): string {
  try {
    return parseDn(text).map(rdnKey).join(",");
  } catch {
    return "";
  }
}

function rdnKey(rdn: Rdn): string {
  const parts = rdn.map(({ type, value, isEncoded }) => `${type}=${isEncoded ? value : escaped(comparable(value))}`);
  return parts.length === 1 ? (parts[0] ?? "") : parts.sort().join("+");
}

/** Without what matching ignores: case, compatibility forms, spaces around and repeated ones inside. */
function comparable(value: string): string {
  const folded = isAscii(value) ? value.toLowerCase() : value.normalize("NFKC").toLowerCase().normalize("NFKC");
  return /\s\s|[^\S ]/.test(folded) ? folded.replaceAll(/\s+/g, " ").trim() : folded.trim();
}

function isAscii(text: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return /^[\0-\x7F]*$/.test(text);
}

/**
 * What cannot stand for itself, as `\` and two digits: the end of a key tells where it is, and a key is read as the name that
 * it is the key of. A number sign is escaped at the beginning alone, where it would begin an encoding.
 */
function escaped(value: string): string {
  return /^#|[\\,+"<>;]/.test(value)
    ? value.replaceAll(/^#|[\\,+"<>;]/g, (character) => `\\${character.charCodeAt(0).toString(16)}`)
    : value;
}

/** Where the first comma stands that is not escaped; the length when there is none. */
function endOfRdn(text: string): number {
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "\\") at++;
    else if (character === ",") return at;
  }
  return text.length;
}

function parseRdn(text: string): Rdn {
  if (!text.includes("+")) return [parseAva(text)];
  const avas: Ava[] = [];
  let start = 0;
  for (let at = 0; at <= text.length; at++) {
    if (text[at] === "\\") at++;
    else if (at === text.length || text[at] === "+") {
      avas.push(parseAva(text.slice(start, at)));
      start = at + 1;
    }
  }
  return avas;
}

const typePattern = /^(?:[A-Za-z][A-Za-z0-9-]*|(?:oid\.)?\d+(?:\.\d+)*)$/i;

function parseAva(text: string): Ava {
  const equals = text.indexOf("=");
  const type = text.slice(0, Math.max(0, equals)).trim();
  if (!typePattern.test(type)) throw new SyntaxError(`expected TYPE=VALUE at ${JSON.stringify(text.trim())}`);
  const value = text.slice(equals + 1).replace(/^ +/, "");
  if (value.startsWith("#")) return { type: canonicalType(type), ...decodedHex(value.slice(1).trim()) };
  return { type: canonicalType(type), value: unescaped(value), isEncoded: false };
}

function unescaped(text: string): string {
  if (!text.includes("\\")) {
    if (/["<>;]/.test(text)) throw new SyntaxError(`${JSON.stringify(text)} has characters that must be escaped`);
    return text;
  }
  const bytes: Buffer[] = [];
  for (const [whole, pair, single] of text.matchAll(/\\([0-9a-fA-F]{2})|\\([ "#+,;<=>\\])|[^\\]+|\\/gs)) {
    if (pair !== undefined) bytes.push(Buffer.from(pair, "hex"));
    else if (whole === "\\") throw new SyntaxError(`${JSON.stringify(text)} has a \\ that escapes nothing`);
    else bytes.push(Buffer.from(single ?? whole));
  }
  return Buffer.concat(bytes).toString();
}

/** Universal types of ASN.1 that are text in ASCII or UTF-8, or bytes. */
const textTags = new Set([0x04, 0x0c, 0x12, 0x13, 0x16, 0x1a]);

/** A value as `#` and the bytes of its BER encoding; what is not a short text stays as it is written. */
function decodedHex(hex: string): Pick<Ava, "value" | "isEncoded"> {
  if (!/^(?:[0-9a-f]{2})+$/i.test(hex)) throw new SyntaxError(`#${hex} is not an even number of hexadecimal digits`);
  const bytes = Buffer.from(hex, "hex");
  const isText = textTags.has(bytes[0] ?? 0) && bytes[1] === bytes.length - 2 && bytes.length < 130;
  return isText
    ? { value: bytes.toString("utf8", 2), isEncoded: false }
    : { value: `#${hex.toLowerCase()}`, isEncoded: true };
}
