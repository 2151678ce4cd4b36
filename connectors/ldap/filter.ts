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

/** One comparison of a filter. */
export interface Item {
  readonly kind: Exclude<keyof typeof SearchFilter, "and" | "or" | "not">;
  /** The name of the attribute, with its options; empty for an extensible match of any. */
  readonly type: string;
  /** None for a presence, the parts around the asterisks of substrings, else one. */
  readonly values: readonly Buffer[];
  /** For an extensible match: its matching rule, and whether the DN counts as well. */
  readonly rule?: string | undefined;
  readonly dn?: boolean | undefined;
}

function itemOf(text: string, start: number, end: number): Filter {
  const [, type = "", sign = "", value = ""] = item.exec(text.slice(start, end)) ?? [];
  const wrong = (): SyntaxError => expected("attribute=value", text, start);
  if (type === "" && !/^:.*:.+:$|^:[^:]+:$/.test(sign)) throw wrong();
  if (value.includes("(")) throw expected(String.raw`\28 instead of (`, text, text.indexOf("(", start));
  const bytes = (part: string): Buffer => bytesOf(part, text, end);
  if (sign.startsWith(":")) return new Comparison(extensible(type, sign, bytes(value)));
  if (sign === "" && value === "*") return new Comparison({ kind: "present", type, values: [] });
  if (sign === "" && value.includes("*"))
    return new Comparison({ kind: "substrings", type, values: value.split("*").map(bytes) });
  const kinds = { "": "equalityMatch", "~": "approxMatch", ">": "greaterOrEqual", "<": "lessOrEqual" } as const;
  const kind = sign === "~" || sign === ">" || sign === "<" ? kinds[sign] : kinds[""];
  return new Comparison({ kind, type, values: [bytes(value)] });
}

/** @param sign `:=`, `:dn:=`, `:RULE:=` or `:dn:RULE:=`, without the equals sign */
function extensible(type: string, sign: string, value: Buffer): Item {
  const words = sign.split(":").filter((word) => word !== "");
  const dn = words[0]?.toLowerCase() === "dn";
  return { kind: "extensibleMatch", type, values: [value], rule: words[dn ? 1 : 0], dn };
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

/** `ldapts` only encodes a `Filter`. */
export class Comparison extends Filter {
  override readonly type: Filter["type"];
  readonly item: Item;

  constructor(item: Item) {
    super();
    this.type = SearchFilter[item.kind];
    this.item = item;
  }

  protected override writeFilter(writer: BerWriter): void {
    const { kind, type, values, rule, dn } = this.item;
    const [value = Buffer.alloc(0)] = values;
    if (kind === "present") raw(writer, Buffer.from(type));
    else if (kind === "extensibleMatch") {
      if (rule !== undefined) writer.writeString(rule, tags.rule);
      if (type !== "") writer.writeString(type, tags.type);
      writer.writeBuffer(value, tags.value);
      if (dn) writer.writeBoolean(true, tags.dn);
    } else {
      writer.writeString(type);
      if (kind === "substrings") writeParts(writer, values);
      else writer.writeBuffer(value, tags.octets);
    }
  }

  override toString(): string {
    return `(${this.type})`;
  }
}

function writeParts(writer: BerWriter, parts: readonly Buffer[]): void {
  writer.startSequence();
  for (const [index, part] of parts.entries()) {
    const place = index === 0 ? tags.initial : index === parts.length - 1 ? tags.final : tags.any;
    if (part.length > 0) writer.writeBuffer(part, place);
  }
  writer.endSequence();
}

function raw(writer: BerWriter, bytes: Buffer): void {
  for (const byte of bytes) writer.writeByte(byte);
}

function expected(what: string, text: string, at: number): SyntaxError {
  const place = at >= text.length ? "at its end" : `at ${JSON.stringify(text.slice(at, at + 20))}`;
  return new SyntaxError(`expected ${what} ${place}`);
}
