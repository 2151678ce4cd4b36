import { BerReader } from "ldapts";

type Attributes = Readonly<Record<string, readonly (string | Buffer)[]>>;
type Matches = (attributes: Attributes) => boolean;

/** A search request (RFC 4511, 4.5.1). */
export interface Search {
  readonly base: string;
  readonly scope: "base" | "one" | "sub";
  readonly attributes: readonly string[];
  readonly matches: Matches;
}

/** @throws {Error} for filters that the tests do not use */
export function parseSearch(body: Buffer): Search {
  const reader = new BerReader(body);
  const base = reader.readString() ?? "";
  const scope = (["base", "one", "sub"] as const)[reader.readEnumeration() ?? 2] ?? "sub";
  reader.readEnumeration();
  reader.readInt();
  reader.readInt();
  reader.readBoolean();
  const matches = parseFilter(reader);
  reader.readSequence();
  const attributes: string[] = [];
  while (reader.offset < body.length) attributes.push(reader.readString() ?? "");
  return { base, scope, attributes, matches };
}

const bitwiseAnd = "1.2.840.113556.1.4.803";

function parseFilter(reader: BerReader): Matches {
  const tag = reader.peek() ?? 0;
  const content = reader.readString(tag, true) ?? Buffer.alloc(0);
  const inner = new BerReader(content);
  const parts = (): Matches[] => {
    const found: Matches[] = [];
    while (inner.offset < content.length) found.push(parseFilter(inner));
    return found;
  };
  if (tag === 0xa0) {
    const all = parts();
    return (of) => all.every((each) => each(of));
  }
  if (tag === 0xa1) {
    const any = parts();
    return (of) => any.some((each) => each(of));
  }
  if (tag === 0xa2) {
    const not = parseFilter(inner);
    return (of) => !not(of);
  }
  if (tag === 0x87) return (of) => valuesOf(of, content.toString()).length > 0;
  if (tag === 0xa3) {
    const [name, wanted] = [inner.readString() ?? "", inner.readString(0x04, true) ?? Buffer.alloc(0)];
    return (of) => valuesOf(of, name).some((value) => equal(name, value, wanted));
  }
  if (tag === 0xa9 && inner.readString(0x81) === bitwiseAnd) {
    const [name, bits] = [inner.readString(0x82) ?? "", BigInt(inner.readString(0x83) ?? "0")];
    return (of) => valuesOf(of, name).some((value) => (BigInt(String(value)) & bits) === bits);
  }
  throw new Error(`no such filter here: ${tag}`);
}

function valuesOf(attributes: Attributes, name: string): readonly (string | Buffer)[] {
  const lower = name.toLowerCase();
  return Object.entries(attributes).find(([each]) => each.toLowerCase() === lower)?.[1] ?? [];
}

function equal(attribute: string, value: string | Buffer, wanted: Buffer): boolean {
  if (Buffer.isBuffer(value)) return value.equals(wanted);
  const [one, other] = [value.toLowerCase(), wanted.toString().toLowerCase()];
  // The server also accepts the names of classes.
  return one === other || (attribute.toLowerCase() === "objectcategory" && one.startsWith(`cn=${other},`));
}
