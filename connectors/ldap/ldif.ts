import { isUtf8 } from "node:buffer";
import { IncompleteReadError, InputError } from "#errors.ts";
import { canonicalType } from "#principals/dn.ts";
import { formOf, guidBytes, guidPattern, normalName, sidBytes, type Form } from "./attributes.ts";
import { enter, longestMessage, tags } from "./message.ts";
import { withoutMark } from "#text.ts";

/** An attribute description (RFC 4512, 2.5). */
export interface Description {
  /** As written. */
  readonly type: string;
  /** The same for all spellings. */
  readonly key: string;
  readonly bare: string;
  readonly options: readonly string[];
  readonly form: Form;
}

export function descriptionOf(type: string): Description {
  const key = normalName(type);
  const [bare = "", ...options] = key.split(";");
  return { type, key, bare: canonicalType(bare), options, form: formOf(bare) };
}

/** An entry of a file. */
export class LdifEntry {
  readonly dn: string;
  readonly #fields = new Map<string, { readonly description: Description; readonly values: Values }>();
  #size = 0;

  constructor(dn: string) {
    this.dn = dn;
  }

  get isEmpty(): boolean {
    return this.#fields.size === 0;
  }

  /** @returns how many bytes its values have now */
  add(description: Description, value: Buffer): number {
    let field = this.#fields.get(description.key);
    if (field === undefined) this.#fields.set(description.key, (field = { description, values: new Values() }));
    field.values.add(value);
    return (this.#size += value.length);
  }

  /** Whether an attribute, or a subtype of it (RFC 4511, 4.5.1: `cn;lang-de` is a `cn` too), has a value like that. */
  has({ bare, options }: Description, isWanted: (value: Buffer) => boolean): boolean {
    for (const { description, values } of this.#fields.values()) {
      if (description.bare !== bare || !options.every((option) => description.options.includes(option))) continue;
      for (const value of values) if (isWanted(value)) return true;
    }
    return false;
  }

  /** The SearchResultEntry that a server would send. */
  message(): Buffer {
    const fields = [...this.#fields.values()].map(({ description: { type }, values }) =>
      element(tags.sequence, [element(tags.octets, [Buffer.from(type)]), element(tags.set, [values.bytes])]),
    );
    const entry = [element(tags.octets, [Buffer.from(this.dn)]), element(tags.sequence, fields)];
    return element(tags.sequence, [Buffer.from([tags.integer, 1, 0]), element(tags.searchEntry, entry)]);
  }
}

/** Values as a message has them. A group may have millions: they are not objects of their own. */
class Values {
  #bytes = Buffer.allocUnsafe(64);
  #end = 0;

  add(value: Buffer): void {
    const most = this.#end + longestHead + value.length;
    if (most > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(most, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#end);
      this.#bytes = larger;
    }
    this.#end = writeHead(this.#bytes, this.#end, tags.octets, value.length);
    this.#end += value.copy(this.#bytes, this.#end);
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#end);
  }

  *[Symbol.iterator](): Generator<Buffer> {
    const cursor = { bytes: this.bytes, at: 0 };
    while (cursor.at < this.#end) {
      const end = enter(cursor, tags.octets);
      yield cursor.bytes.subarray(cursor.at, end);
      cursor.at = end;
    }
  }
}

function element(tag: number, content: readonly Buffer[]): Buffer {
  const length = content.reduce((sum, part) => sum + part.length, 0);
  const head = Buffer.allocUnsafe(longestHead);
  return Buffer.concat([head.subarray(0, writeHead(head, 0, tag, length)), ...content]);
}

/** The longest head of an element, in bytes. */
const longestHead = 6;

/** Writes the tag and the length of an element. @returns the offset of its content */
function writeHead(bytes: Buffer, at: number, tag: number, length: number): number {
  bytes[at] = tag;
  if (length < 0x80) {
    bytes[at + 1] = length;
    return at + 2;
  }
  bytes[at + 1] = 0x84;
  return bytes.writeUInt32BE(length, at + 2);
}

const [newline, carriageReturn, space, hash, colon, less] = [0x0a, 0x0d, 0x20, 0x23, 0x3a, 0x3c];

/** A schema has some hundreds. */
const mostDescriptions = 5_000;

/** What `ldapsearch` puts beside entries: the result of a search, and references to other servers. */
const asides = new Set(["search", "result", "matcheddn", "text", "ref", "control", "pagedresults", "extended", "data"]);

/** Reads LDIF (RFC 2849), with what `ldapsearch` and `ldbsearch` write around it. */
export class LdifReader {
  /** The line that comes next, from 1. */
  line = 1;
  readonly proof: Proof;
  readonly #file: string;
  #entries: LdifEntry[] = [];
  /** The start of a line whose end is yet to come. */
  #rest: Buffer[] = [];
  /** The parts of a line that may go on in the next one, and where it starts. */
  #parts: Buffer[] = [];
  #start = 1;
  /** Attribute descriptions seen so far: entries share a few. */
  readonly #descriptions = new Map<string, Description>();
  /** What the lines since the last empty one belong to. */
  #open: LdifEntry | "aside" | undefined;

  /** @param ignored whether a reference to another server (a URL) is out of scope */
  constructor(file: string, ignored: (url: string) => boolean) {
    this.#file = file;
    this.proof = new Proof(() => this.#place, ignored);
  }

  /** Takes the next bytes. @returns the entries that ended @throws {InputError | IncompleteReadError} the text is no complete LDIF */
  read(bytes: Buffer): readonly LdifEntry[] {
    const chunk = this.line === 1 && this.#rest.length === 0 ? withoutMark(bytes) : bytes;
    let from = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      this.#physical(this.#joined(chunk.subarray(from, at)));
      from = at + 1;
    }
    if (from < chunk.length) this.#rest.push(Buffer.from(chunk.subarray(from)));
    const entries = this.#entries;
    this.#entries = [];
    return entries;
  }

  /** @throws {IncompleteReadError} the file ends within an entry, or does not have what it says that it has */
  end(): void {
    if (this.#rest.length > 0) this.#physical(this.#joined(Buffer.alloc(0)));
    if (!(this.#open instanceof LdifEntry)) this.#flush();
    if (this.#open instanceof LdifEntry)
      throw new IncompleteReadError(
        `${this.#file}:${this.line}: ends within an entry, without the empty line after its last attribute: it may be cut off there; export it again`,
      );
    this.proof.end();
  }

  get #place(): string {
    return `${this.#file}:${this.#start}`;
  }

  #joined(last: Buffer): Buffer {
    if (this.#rest.length === 0) return last;
    const line = Buffer.concat([...this.#rest, last]);
    this.#rest = [];
    return line;
  }

  /** A line of the file: a new one, or the rest of the one before (folding). */
  #physical(raw: Buffer): void {
    const line = raw.at(-1) === carriageReturn ? raw.subarray(0, -1) : raw;
    if (line[0] === space) {
      if (this.#parts.length === 0) {
        this.#start = this.line;
        throw this.#wrong("begins with a space, as the rest of a folded line does, and no line comes before it");
      }
      this.#parts.push(Buffer.from(line.subarray(1)));
    } else {
      this.#flush();
      this.#start = this.line;
      if (this.line === 1 && line.includes(carriageReturn))
        throw this.#wrong("lines end with a carriage return alone (CR); write them with LF, or CR and LF");
      // The chunk is kept until the next line: only then is it known whether this one goes on.
      if (line.length > 0) this.#parts.push(line);
      else this.#close();
    }
    this.line += 1;
  }

  /** The line before is whole. */
  #flush(): void {
    const [first, ...more] = this.#parts;
    if (first === undefined) return;
    this.#parts = [];
    const line = more.length === 0 ? first : Buffer.concat([first, ...more]);
    if (line[0] === hash) this.proof.comment(line.toString("latin1", 1, 200));
    else this.#attribute(line);
  }

  #close(): void {
    if (this.#open instanceof LdifEntry) {
      if (this.#open.isEmpty) throw this.#wrong(`the entry ${this.#open.dn} has no attributes`);
      this.#entries.push(this.#open);
      this.proof.entry();
    }
    this.#open = undefined;
  }

  #attribute(line: Buffer): void {
    const end = line.indexOf(colon);
    const type = line.toString("latin1", 0, end);
    const description = this.#descriptions.get(type) ?? this.#describe(type, line);
    const name = description.key;
    if (this.#open !== undefined && name === "dn")
      throw this.#wrong("another entry begins, and no empty line ends what comes before");
    if (this.#open instanceof LdifEntry) this.#add(this.#open, description, line, end);
    else if (this.#open === undefined && name === "dn") this.#begin(this.#value(type, line, end));
    else if (this.#open === undefined && name === "version") {
      const version = this.#value(type, line, end).toString("latin1");
      if (version !== "1") throw this.#wrong("expected version: 1, the only one there is");
    } else if (asides.has(name)) {
      this.#open = "aside";
      this.proof.aside(name, this.#value(type, line, end).toString("latin1"));
    } else throw this.#wrong(`expected dn: … where an entry begins, found ${type}`);
  }

  #describe(type: string, line: Buffer): Description {
    if (!/^[a-z\d][\w.-]*(?:;[\w=*-]+)*$/i.test(type)) {
      this.proof.stray(line.toString("latin1", 0, 200));
      throw this.#wrong("expected NAME: VALUE, a comment or an empty line; is this LDIF, and whole?");
    }
    if (this.#descriptions.size >= mostDescriptions) this.#descriptions.clear();
    const description = descriptionOf(type);
    this.#descriptions.set(type, description);
    return description;
  }

  #begin(dn: Buffer): void {
    if (!isUtf8(dn)) throw this.#wrong("the name of the entry is not UTF-8; write the file as UTF-8");
    this.#open = new LdifEntry(dn.toString());
  }

  #add(entry: LdifEntry, description: Description, line: Buffer, end: number): void {
    const { type, key: name } = description;
    if (entry.isEmpty && (name === "changetype" || name === "control"))
      throw this.#wrong(
        `${name}: the file holds changes, not entries; export with ldapsearch, ldbsearch or slapcat (from a file of ldifde, remove the lines "changetype: add")`,
      );
    if (name.includes(";range="))
      throw this.#wrong(
        `${type}: holds only a part of the values; export with a tool that reads the other ranges too, such as ldbsearch, or read the server itself (url)`,
      );
    const value = this.#value(type, line, end);
    // slapcat writes a reference to another server as the entry that it is.
    if (name === "ref") this.proof.aside(name, value.toString());
    const size = entry.add(description, readable(description, value));
    if (size > longestMessage) throw this.#wrong("the entry has more than 256 MiB of values; is this LDIF?");
  }

  /** The bytes of the value after the colon. */
  #value(type: string, line: Buffer, end: number): Buffer {
    const sign = line[end + 1];
    let from = sign === colon || sign === less ? end + 2 : end + 1;
    while (line[from] === space) from++;
    if (sign === less)
      throw this.#wrong(`${type}:< refers to a file, which is not read; export the value itself, in base64`);
    if (sign !== colon) return line.subarray(from);
    const text = line.toString("latin1", from).trimEnd();
    const bytes = Buffer.from(text, "base64");
    const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
    if (text.length % 4 !== 0 || bytes.length !== (text.length / 4) * 3 - padding)
      throw this.#wrong(`${type}:: is followed by something that is not base64`);
    return bytes;
  }

  #wrong(problem: string): InputError {
    return new InputError(`${this.#place}: ${problem}`);
  }
}

/** `ldbsearch` on the files of a domain controller writes GUIDs and SIDs as people do; a server sends bytes. */
function readable({ form }: Description, value: Buffer): Buffer {
  if (form !== "guid" && form !== "sid") return value;
  const text = value.toString("latin1");
  if (form === "guid") return guidPattern.test(text) ? guidBytes(text) : value;
  return /^S(?:-\d+){3,}$/.test(text) ? sidBytes(text) : value;
}

/** What a file says about itself: how many entries it has, and how the search ended. */
export class Proof {
  /** All entries were counted, by a search that ended with success. */
  isGiven = false;
  readonly #place: () => string;
  readonly #ignored: (url: string) => boolean;
  /** Since the last count. */
  #entries = 0;
  #references = 0;
  #results = 0;
  #successes = 0;
  /** The entries that the last count was about. */
  #counted = 0;
  /** A program began that writes a count at its end. */
  #isAwaited = false;
  #hasMorePages = false;
  #unsure = false;

  constructor(place: () => string, ignored: (url: string) => boolean) {
    this.#place = place;
    this.#ignored = ignored;
  }

  entry(): void {
    this.#entries += 1;
    this.isGiven = false;
  }

  comment(text: string): void {
    this.stray(text);
    const [, name = "", value = ""] = /^ *([A-Za-z ]+?) ?[:=] ?(.*)$/.exec(text) ?? [];
    if (/^ (?:extended LDIF|LDAPv3|record \d+)$/.test(text)) this.#isAwaited = true;
    else if (text === " search result") this.#results += 1;
    else if (name === "numResponses")
      this.#count(Number(value), this.#entries + this.#references + this.#results, this.#successes === this.#results);
    else if (name === "numEntries") this.#compare(Number(value), this.#counted);
    else if (name === "pagedresults") this.#page(value);
    else if (text === " search reference" || text === " Referral") this.#references += 1;
    else if (name === "ref") this.#refer(value);
    const returned = /^ returned (\d+) records$/.exec(text)?.[1];
    if (returned !== undefined) this.#count(Number(returned), this.#entries + this.#references, true);
  }

  /** A line that `ldapsearch` puts beside the entries. */
  aside(name: string, value: string): void {
    if (name === "ref") this.#refer(value);
    else if (name === "pagedresults") this.#page(value);
    else if (name === "result") {
      if (!/^0(?: |$)/.test(value)) throw this.#incomplete(`the search ended with ${value.slice(0, 60)}`);
      this.#successes += 1;
    }
  }

  /** Messages of programs that were written into the file. */
  stray(text: string): void {
    if (/(?:size|time|administrative) ?limit exceeded/i.test(text))
      throw this.#incomplete(`the search reached a limit of the server (${text.trim().slice(0, 60)})`);
  }

  /** @throws {IncompleteReadError} a count is missing */
  end(): void {
    if (this.#hasMorePages) throw this.#incomplete("more pages follow the last one in the file");
    if (this.#isAwaited)
      throw this.#incomplete(
        "the file ends without the count that ldapsearch (# numEntries) or ldbsearch (# returned … records) writes last",
      );
    if (this.#unsure) this.isGiven = false;
  }

  #count(said: number, found: number, isComplete: boolean): void {
    this.#compare(said, found);
    // With -L, ldapsearch does not write how the search ended.
    this.#unsure ||= !isComplete;
    this.#counted = this.#entries;
    this.isGiven = true;
    this.#isAwaited = false;
    this.#entries = this.#references = this.#results = this.#successes = 0;
  }

  #compare(said: number, found: number): void {
    if (said !== found)
      throw this.#incomplete(
        `the file says that it has ${said} records here, and ${found} were read: a part is missing`,
      );
  }

  #page(value: string): void {
    this.#hasMorePages = !value.trim().endsWith("cookie=");
  }

  #refer(url: string): void {
    if (!this.#ignored(url))
      throw this.#incomplete(
        `a part is at ${url}: export it there too (or add its host to referrals.ignore, if nothing there is in scope)`,
      );
  }

  #incomplete(problem: string): IncompleteReadError {
    return new IncompleteReadError(`${this.#place()}: ${problem}; export again, completely`);
  }
}
