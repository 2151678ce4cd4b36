import { AndFilter, type BerWriter, Filter, NotFilter, OrFilter, SearchFilter } from "ldapts";

/**
 * Parses a search filter (RFC 4515), also with spaces between its parts. `ldapts`' own parser takes the bytes `\c3\b6`
 * for two characters, knows neither OIDs nor attribute options, and stops at the first `)`.
 * @throws {SyntaxError} what was expected, and where
 */
export function parseFilter(text: string): Filter {
  const { filter, end } = filterAt(text, skipSpace(text, 0));
  const after = skipSpace(text, end);
  if (after < text.length) throw expected("nothing after the filter", text, after);
  return filter;
}

interface Parsed {
  readonly filter: Filter;
  /** The offset after the filter. */
  readonly end: number;
}

function filterAt(text: string, at: number): Parsed {
  if (text[at] !== "(") throw expected("(", text, at);
  const start = skipSpace(text, at + 1);
  const sign = text[start];
  if (sign === "&" || sign === "|") {
    const { filters, end } = filtersAt(text, start + 1);
    return { filter: sign === "&" ? new AndFilter({ filters }) : new OrFilter({ filters }), end: closed(text, end) };
  }
  if (sign === "!") {
    const { filter, end } = filterAt(text, skipSpace(text, start + 1));
    return { filter: new NotFilter({ filter }), end: closed(text, end) };
  }
  const end = text.indexOf(")", start);
  if (end === -1) throw expected(")", text, text.length);
  return { filter: itemOf(text, start, end), end: end + 1 };
}

function filtersAt(text: string, from: number): { filters: Filter[]; end: number } {
  const filters: Filter[] = [];
  let at = skipSpace(text, from);
  while (text[at] === "(") {
    const { filter, end } = filterAt(text, at);
    filters.push(filter);
    at = skipSpace(text, end);
  }
  return { filters, end: at };
}

function closed(text: string, from: number): number {
  const at = skipSpace(text, from);
  if (text[at] !== ")") throw expected(")", text, at);
  return at + 1;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (/\s/.test(text[at] ?? "")) at++;
  return at;
}

/** A name or an OID, with options. */
const attribute = String.raw`(?:[A-Za-z][\w-]*|\d+(?:\.\d+)*)(?:;[\w-]+)*`;
const item = new RegExp(`^(${attribute})?((?::[A-Za-z0-9.-]+){0,2}:|[~<>])?=(.*)$`, "s");

/** Tags in filters (RFC 4511, 4.5.1). */
const tags = {
  octets: 0x04,
  initial: 0x80,
  any: 0x81,
  final: 0x82,
  rule: 0x81,
  type: 0x82,
  value: 0x83,
  dn: 0x84,
} as const;

function itemOf(text: string, start: number, end: number): Filter {
  const [, name, sign = "", value = ""] = item.exec(text.slice(start, end)) ?? [];
  const wrong = (): SyntaxError => expected("attribute=value", text, start);
  if (name === undefined && !/^:.*:.+:$|^:[^:]+:$/.test(sign)) throw wrong();
  if (value.includes("(")) throw expected(String.raw`\28 instead of (`, text, text.indexOf("(", start));
  const type = name ?? "";
  if (sign.startsWith(":")) return extensible(type, sign, bytesOf(value, text, end));
  if (sign === "" && value === "*") return comparison("present", (writer) => raw(writer, Buffer.from(type)));
  if (sign === "" && value.includes("*"))
    return substrings(
      type,
      value.split("*").map((part) => bytesOf(part, text, end)),
    );
  const kinds = { "": "equalityMatch", "~": "approxMatch", ">": "greaterOrEqual", "<": "lessOrEqual" } as const;
  const kind = sign === "~" || sign === ">" || sign === "<" ? kinds[sign] : kinds[""];
  const bytes = bytesOf(value, text, end);
  return comparison(kind, (writer) => {
    writer.writeString(type);
    writer.writeBuffer(bytes, tags.octets);
  });
}

function substrings(type: string, parts: readonly Buffer[]): Filter {
  return comparison("substrings", (writer) => {
    writer.writeString(type);
    writer.startSequence();
    for (const [index, part] of parts.entries()) {
      const place = index === 0 ? tags.initial : index === parts.length - 1 ? tags.final : tags.any;
      if (part.length > 0) writer.writeBuffer(part, place);
    }
    writer.endSequence();
  });
}

/** @param sign `:=`, `:dn:=`, `:RULE:=` or `:dn:RULE:=`, without the equals sign */
function extensible(type: string, sign: string, value: Buffer): Filter {
  const words = sign.split(":").filter((word) => word !== "");
  const dn = words[0]?.toLowerCase() === "dn";
  const rule = words[dn ? 1 : 0];
  return comparison("extensibleMatch", (writer) => {
    if (rule !== undefined) writer.writeString(rule, tags.rule);
    if (type !== "") writer.writeString(type, tags.type);
    writer.writeBuffer(value, tags.value);
    if (dn) writer.writeBoolean(true, tags.dn);
  });
}

/** The bytes of a value, unescaped. */
function bytesOf(value: string, text: string, place: number): Buffer {
  const parts = value.split(/\\([0-9a-fA-F]{2})/);
  const bytes = parts.map((part, index) => {
    if (index % 2 === 1) return Buffer.from(part, "hex");
    if (part.includes("\\")) throw expected(String.raw`two hexadecimal digits after \ (\5c for itself)`, text, place);
    return Buffer.from(part);
  });
  return Buffer.concat(bytes);
}

function comparison(kind: keyof typeof SearchFilter, write: (writer: BerWriter) => void): Filter {
  return new Comparison(kind, write);
}

/** `ldapts` only encodes a `Filter`. */
class Comparison extends Filter {
  override readonly type: Filter["type"];
  readonly #write: (writer: BerWriter) => void;

  constructor(kind: keyof typeof SearchFilter, write: (writer: BerWriter) => void) {
    super();
    this.type = SearchFilter[kind];
    this.#write = write;
  }

  protected override writeFilter(writer: BerWriter): void {
    this.#write(writer);
  }

  override toString(): string {
    return `(${this.type})`;
  }
}

function raw(writer: BerWriter, bytes: Buffer): void {
  for (const byte of bytes) writer.writeByte(byte);
}

function expected(what: string, text: string, at: number): SyntaxError {
  const place = at >= text.length ? "at its end" : `at ${JSON.stringify(text.slice(at, at + 20))}`;
  return new SyntaxError(`expected ${what} ${place}`);
}
