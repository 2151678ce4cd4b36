import { deepest, mostValues, tooDeep, tooManyValues } from "#bounds.ts";
import { TokenizerError, Tokenizer, TokenParser, TokenParserError, TokenType } from "@streamparser/json";

/** A piece of the JSON, in its order. Lines count from 1. */
export type Item =
  | { readonly kind: "resource"; readonly value: unknown; readonly line: number }
  /** The end of a ListResponse: all of it but its resources, which came before. */
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
const listNames = ["Resources", "resources"];

/**
 * The resources of one or several ListResponses, of an array, or one per line (NDJSON), in groups as the bytes arrive.
 * @throws {JsonError} it is none of these, or ends early
 */
export async function* itemsOf(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<readonly Item[]> {
  let read: Reader | undefined;
  let head: Uint8Array = new Uint8Array();
  for await (const chunk of bytes) {
    let piece = chunk;
    if (read === undefined) {
      head = Buffer.concat([head, chunk]);
      const first = firstCharacter(head);
      if (first === undefined) {
        if (head.length > longestGap) throw new JsonError("malformed", 1, "begins with more than 1 MiB of white space");
        continue;
      }
      read = readerOf(first === "[");
      piece = withoutMark(head);
    }
    const items = read.take(piece);
    if (items.length > 0) yield items;
  }
  if (read === undefined) throw new JsonError("truncated", 1, "is empty");
  const items = read.end();
  if (items.length > 0) yield items;
}

interface Reader {
  take(chunk: Uint8Array): readonly Item[];
  end(): readonly Item[];
}

function readerOf(isArray: boolean): Reader {
  let items: Item[] = [];
  // The starts of open objects that may be resources or lists.
  const starts: { line: number; offset: number }[] = [];
  let depth = 0;
  /** Of each open object or array that may have too many, how many names it has. */
  const keys: number[] = [];
  let values = 0;
  let beside = 0;
  let isInList = false;
  let isList = false;
  let lastString: unknown;
  let lastOffset = 0;
  const lines = lineCounter();

  const parser = new TokenParser({
    paths: isArray ? ["$.*"] : [...listNames.map((name) => `$.${name}.*`), "$"],
    keepStack: false,
    separator: "",
  });
  parser.onValue = ({ value, stack, parent }) => {
    values = 0;
    const line = starts[stack.length]?.line ?? lines.at(lastOffset);
    if (!isArray && stack.length === 0 && (isList || isEmptyList(value))) {
      items.push({ kind: "list", envelope: value as Record<string, unknown>, line });
      isList = false;
      return;
    }
    if (Array.isArray(parent) && !isArray) {
      // The parser collects the array because `$` is also requested; emptied, it does not grow.
      parent.length = 0;
    }
    items.push({ kind: "resource", value, line });
  };

  const refuse = (offset: number, message: string): never => {
    throw new JsonError("malformed", lines.at(offset), message);
  };
  /** What the parser holds until a resource ends must not grow with the bytes. */
  const bound = (type: TokenType, offset: number): void => {
    if (type === TokenType.COLON) {
      keys[depth] = (keys[depth] ?? 0) + 1;
      if ((keys[depth] ?? 0) > mostKeys) refuse(offset, "holds an object with more than 10,000 names");
    } else if (type !== TokenType.COMMA && type !== TokenType.RIGHT_BRACE && type !== TokenType.RIGHT_BRACKET) {
      if (++values > mostValues) refuse(offset, tooManyValues);
      if (!isArray && depth > 0 && !isInList && isList && ++beside > mostBeside)
        refuse(offset, "holds more than 100,000 values beside the resources");
    }
  };

  const tokenizer = new ExactTokenizer({ separator: "" });
  tokenizer.onToken = (token) => {
    const type = token.token;
    bound(type, token.offset);
    if (type === TokenType.LEFT_BRACE || type === TokenType.LEFT_BRACKET) {
      if (depth >= deepest) refuse(token.offset, tooDeep);
      keys[depth + 1] = 0;
      if (depth === 1) isInList = type === TokenType.LEFT_BRACKET && isListName(lastString);
      if (depth === 0) beside = 0;
      if (depth <= 2) starts[depth] = { line: lines.at(token.offset), offset: token.offset };
      depth++;
    } else if (type === TokenType.RIGHT_BRACE || type === TokenType.RIGHT_BRACKET) {
      depth--;
      if (depth <= 1) isInList = false;
    } else if (type === TokenType.STRING && depth === 1) lastString = token.value;
    // An empty list has no resource to recognise it by.
    else if (type === TokenType.COLON && depth === 1 && isListName(lastString)) isList = true;
    lastOffset = token.offset;
    parser.write(token);
  };

  const attempt = (action: () => void): readonly Item[] => {
    try {
      action();
    } catch (error) {
      if (!(error instanceof TokenizerError || error instanceof TokenParserError || error instanceof TypeError))
        throw error;
      const position = /absolute position "(\d+)"/.exec(error.message)?.[1];
      throw new JsonError("malformed", lines.at(position === undefined ? lastOffset : Number(position)), "is not JSON");
    }
    const taken = items;
    items = [];
    return taken;
  };

  return {
    take: (chunk) => {
      lines.next(chunk);
      const taken = attempt(() => tokenizer.write(chunk));
      const open = starts[Math.min(depth, isArray ? 2 : 3) - 1];
      if (depth > (isArray ? 1 : 2) && open !== undefined && lines.end() - open.offset > longestResource) {
        throw new JsonError("malformed", open.line, "holds a resource of more than 256 MiB");
      }
      if (lines.end() - lastOffset > longestValue) {
        throw new JsonError("malformed", lines.at(lastOffset), "holds a value of more than 16 MiB");
      }
      if (depth <= (isArray ? 1 : 2) && lines.end() - lastOffset > longestGap) {
        throw new JsonError("malformed", lines.at(lastOffset), "holds more than 1 MiB between two resources");
      }
      return taken;
    },
    end: () => {
      if (depth > 0) throw new JsonError("truncated", lines.at(lines.end()), "ends here, before its end");
      return attempt(() => tokenizer.end());
    },
  };
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

function isListName(value: unknown): boolean {
  return typeof value === "string" && listNames.includes(value);
}

/** A list without resources may leave out `Resources`. */
function isEmptyList(value: unknown): boolean {
  return typeof value === "object" && value !== null && "totalResults" in value && !("id" in value);
}

/** Counts lines in bytes that arrive in pieces. */
function lineCounter() {
  let chunk: Uint8Array = new Uint8Array();
  let start = 0;
  let nextBreak = -1;
  let line = 1;
  /** The line of an offset; offsets must not decrease. */
  const at = (offset: number): number => {
    while (nextBreak !== -1 && nextBreak < offset - start) {
      line++;
      nextBreak = chunk.indexOf(10, nextBreak + 1);
    }
    return line;
  };
  return {
    at,
    /** The offset after the last byte so far. */
    end: () => start + chunk.length,
    next(following: Uint8Array): void {
      at(start + chunk.length);
      start += chunk.length;
      chunk = following;
      nextBreak = chunk.indexOf(10);
    },
  };
}

function withoutMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes;
}

/** The first character that is neither white space nor the byte order mark. */
function firstCharacter(bytes: Uint8Array): string | undefined {
  // The byte order mark has not arrived completely.
  if (bytes[0] === 0xef && bytes.length < 3) return undefined;
  const first = withoutMark(bytes).find((byte) => byte !== 32 && byte !== 9 && byte !== 10 && byte !== 13);
  return first === undefined ? undefined : String.fromCharCode(first);
}
