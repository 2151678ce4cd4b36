import { deepest, mostValues, tooDeep, tooManyValues } from "#input-bounds.ts";
import { TokenizerError, Tokenizer, TokenParser, TokenParserError, TokenType } from "@streamparser/json";
import type { ParsedElementInfo, ParsedTokenInfo } from "@streamparser/json";
import { withoutMark } from "#text.ts";

/** A piece of the JSON, in its order. Lines count from 1. */
export type Item =
  | {
      readonly kind: "resource";
      readonly value: unknown;
      readonly line: number;
      /** In a list that is named, and not the whole, or an element, of the JSON. */
      readonly isListed: boolean;
    }
  /** The end of a list: all of the object around it but its resources, which came before. */
  | { readonly kind: "list"; readonly envelope: Readonly<Record<string, unknown>>; readonly line: number };

/** The bytes are not JSON, or not all of it. */
export class JsonError extends Error {
  /** `truncated`: it ends early. */
  readonly reason: "malformed" | "truncated";
  readonly line: number;

  constructor(reason: JsonError["reason"], line: number, message: string) {
    super(message);
    this.reason = reason;
    this.line = line;
  }
}

/** In bytes: a resource is held in memory as a whole. */
const longestResource = 256 * 1024 * 1024;
/** In bytes, without a resource: nobody writes so much white space. */
const longestGap = 1024 * 1024;
/** Attributes of one object, each of which would become one of the entry. */
const mostKeys = 10_000;
/** Values of a list beside its resources. */
const mostBeside = 100_000;
/** In bytes: one text or number. */
const longestValue = 16 * 1024 * 1024;
/** Where the list is in a ListResponse of SCIM: by names, from the root. */
const scimLists: Lists = [["Resources"], ["resources"], ["RESOURCES"]];
type Lists = readonly (readonly string[])[];

/**
 * The resources of one or several objects around a list, of an array, or one per line (NDJSON), in groups as the bytes
 * arrive.
 * @param lists where the list may be in an object: names from the root, as many in each; none: an object is a resource
 * @throws {JsonError} it is none of these, or ends early
 */
export async function* itemsOf(
  bytes: AsyncIterable<Uint8Array>,
  lists: Lists = scimLists,
): AsyncGenerator<readonly Item[]> {
  let reader: Reader | undefined;
  let head: Uint8Array = new Uint8Array();
  for await (const chunk of bytes) {
    let piece = chunk;
    if (reader === undefined) {
      head = Buffer.concat([head, chunk]);
      const first = firstCharacter(head);
      if (first === undefined) {
        if (head.length > longestGap) throw new JsonError("malformed", 1, "begins with more than 1 MiB of white space");
        continue;
      }
      reader = new Reader(first === "[", lists);
      piece = withoutMark(head);
    }
    const items = reader.take(piece);
    if (items.length > 0) yield items;
  }
  if (reader === undefined) throw new JsonError("truncated", 1, "is empty");
  const items = reader.end();
  if (items.length > 0) yield items;
}

/** Turns bytes into items: a tokenizer for their places and bounds, a parser for their values. */
class Reader {
  readonly #lists: Lists;
  /** How deep the list is, in objects around it; 0: there are none. */
  readonly #deep: number;
  readonly #isArray: boolean;
  /** The names that lead to where the reader is, as far as they matter. */
  readonly #path: unknown[] = [];
  readonly #lines = new LineCounter();
  readonly #tokenizer = new ExactTokenizer({ separator: "" });
  readonly #parser: TokenParser;
  #items: Item[] = [];
  /** The starts of open objects that may be resources or lists. */
  readonly #starts: { line: number; offset: number }[] = [];
  #depth = 0;
  /** How many names each open object or array has, where too many are possible. */
  readonly #keys: number[] = [];
  #values = 0;
  #beside = 0;
  #isInList = false;
  #isList = false;
  #lastOffset = 0;

  constructor(isArray: boolean, lists: Lists) {
    this.#lists = lists;
    this.#deep = isArray ? 0 : (lists[0]?.length ?? 0);
    this.#isArray = isArray;
    const paths = this.#isArray ? ["$.*"] : [...lists.map((names) => `$.${names.join(".")}.*`), "$"];
    this.#parser = new TokenParser({ paths, keepStack: false, separator: "" });
    this.#parser.onValue = (found) => this.#onValue(found);
    this.#tokenizer.onToken = (token) => this.#onToken(token);
  }

  take(chunk: Uint8Array): readonly Item[] {
    this.#lines.next(chunk);
    const taken = this.#attempt(() => this.#tokenizer.write(chunk));
    const end = this.#lines.end();
    const outside = this.#deep + 1;
    const open = this.#starts[Math.min(this.#depth, outside + 1) - 1];
    if (this.#depth > outside && open !== undefined && end - open.offset > longestResource) {
      throw new JsonError("malformed", open.line, "holds a resource of more than 256 MiB");
    }
    if (end - this.#lastOffset > longestValue) this.#refuse(this.#lastOffset, "holds a value of more than 16 MiB");
    if (this.#depth <= outside && end - this.#lastOffset > longestGap)
      this.#refuse(this.#lastOffset, "holds more than 1 MiB between two resources");
    return taken;
  }

  end(): readonly Item[] {
    if (this.#depth > 0)
      throw new JsonError("truncated", this.#lines.at(this.#lines.end()), "ends here, before its end");
    return this.#attempt(() => this.#tokenizer.end());
  }

  #onValue({ value, stack, parent }: ParsedElementInfo): void {
    this.#values = 0;
    const line = this.#starts[stack.length]?.line ?? this.#lines.at(this.#lastOffset);
    if (!this.#isArray && stack.length === 0 && (this.#isList || this.#isEmptyList(value))) {
      this.#items.push({ kind: "list", envelope: value as Record<string, unknown>, line });
      this.#isList = false;
      return;
    }
    if (Array.isArray(parent) && !this.#isArray) {
      // The parser collects the array because `$` is also requested; emptied, it does not grow.
      parent.length = 0;
    }
    this.#items.push({ kind: "resource", value, line, isListed: !this.#isArray && stack.length > 0 });
  }

  #onToken(token: ParsedTokenInfo): void {
    const { token: type, offset } = token;
    this.#bound(type, offset);
    if (type === TokenType.LEFT_BRACE || type === TokenType.LEFT_BRACKET) {
      if (this.#depth >= deepest) this.#refuse(offset, tooDeep);
      this.#keys[this.#depth + 1] = 0;
      if (this.#depth === this.#deep && this.#deep > 0)
        this.#isInList = type === TokenType.LEFT_BRACKET && this.#isAtList();
      if (this.#depth === 0) this.#beside = 0;
      if (this.#depth <= this.#deep + 1) this.#starts[this.#depth] = { line: this.#lines.at(offset), offset };
      this.#depth++;
    } else if (type === TokenType.RIGHT_BRACE || type === TokenType.RIGHT_BRACKET) {
      this.#depth--;
      if (this.#depth <= this.#deep) this.#isInList = false;
    } else if (type === TokenType.STRING && this.#depth <= this.#deep) this.#path[this.#depth] = token.value;
    // An empty list has no resource to recognise it by.
    else if (type === TokenType.COLON && this.#depth === this.#deep && this.#isAtList()) this.#isList = true;
    this.#lastOffset = offset;
    this.#parser.write(token);
  }

  /** What the parser holds until a resource ends must not grow with the bytes. */
  #bound(type: TokenType, offset: number): void {
    if (type === TokenType.COLON) {
      const names = (this.#keys[this.#depth] ?? 0) + 1;
      this.#keys[this.#depth] = names;
      if (names > mostKeys) this.#refuse(offset, "holds an object with more than 10,000 names");
    } else if (type !== TokenType.COMMA && type !== TokenType.RIGHT_BRACE && type !== TokenType.RIGHT_BRACKET) {
      if (++this.#values > mostValues) this.#refuse(offset, tooManyValues);
      const isBeside = !this.#isArray && this.#depth > 0 && !this.#isInList && this.#isList;
      if (isBeside && ++this.#beside > mostBeside)
        this.#refuse(offset, "holds more than 100,000 values beside the resources");
    }
  }

  /** Whether the last names lead to the list. */
  #isAtList(): boolean {
    return this.#lists.some((names) => names.every((name, index) => this.#path[index + 1] === name));
  }

  /** A ListResponse without resources may leave out `Resources`. */
  #isEmptyList(value: unknown): boolean {
    const isObject = typeof value === "object" && value !== null;
    return this.#lists === scimLists && isObject && "totalResults" in value && !("id" in value);
  }

  #refuse(offset: number, message: string): never {
    throw new JsonError("malformed", this.#lines.at(offset), message);
  }

  #attempt(action: () => void): readonly Item[] {
    try {
      action();
    } catch (error) {
      if (!(error instanceof TokenizerError || error instanceof TokenParserError || error instanceof TypeError))
        throw error;
      if ("code" in error && error.code === "ERR_ENCODING_INVALID_ENCODED_DATA")
        this.#refuse(this.#lastOffset, "is not in UTF-8, as JSON must be");
      const position = /absolute position "(\d+)"/.exec(error.message)?.[1];
      this.#refuse(position === undefined ? this.#lastOffset : Number(position), "is not JSON");
    }
    const taken = this.#items;
    this.#items = [];
    return taken;
  }
}

/** Keeps the digits of a number that JavaScript would round: ids are such numbers in some servers. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(digits: string): number {
    const number = Number(digits);
    const isExact = /^-?\d+$/.test(digits) ? String(number) === digits : Number.isFinite(number);
    // The parser passes on what it is given.
    return (isExact ? number : digits) as number;
  }
}

/** Counts lines in bytes that arrive in pieces. */
class LineCounter {
  #chunk: Uint8Array = new Uint8Array();
  #start = 0;
  #nextBreak = -1;
  #line = 1;

  /** The line of an offset; offsets must not decrease. */
  at(offset: number): number {
    while (this.#nextBreak !== -1 && this.#nextBreak < offset - this.#start) {
      this.#line++;
      this.#nextBreak = this.#chunk.indexOf(10, this.#nextBreak + 1);
    }
    return this.#line;
  }

  /** The offset after the last byte so far. */
  end(): number {
    return this.#start + this.#chunk.length;
  }

  next(following: Uint8Array): void {
    this.at(this.end());
    this.#start += this.#chunk.length;
    this.#chunk = following;
    this.#nextBreak = following.indexOf(10);
  }
}

/** The first character that is neither white space nor the byte order mark. */
function firstCharacter(bytes: Uint8Array): string | undefined {
  // The byte order mark has not arrived completely.
  if (bytes[0] === 0xef && bytes.length < 3) return undefined;
  const first = withoutMark(bytes).find((byte) => byte !== 32 && byte !== 9 && byte !== 10 && byte !== 13);
  return first === undefined ? undefined : String.fromCharCode(first);
}
