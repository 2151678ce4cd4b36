/* Bounds on the JSON and packed data of others: far more than any directory needs, and less than ends a process. */

/** How deep arrays and objects may be in each other. */
export const deepest = 100;
/** The values of one JSON document or resource: a group of a million members has about five million. */
export const mostValues = 8_000_000;
/** In bytes, outside of texts: nobody writes so much white space. */
const longestSpace = 64 * 1024 * 1024;

/** Packed data may grow so many times: exports do not pack so well, and a small answer must not become work without end. */
export const highestRatio = 200;
/** In bytes; of less, any ratio is allowed. */
const smallestBomb = 16 * 1024 * 1024;

/** In bytes, unpacked: a list of ten million users has some 5 GB. */
export const longestAnswer = 16 * 1024 ** 3;

/** Whether data grows more than that when it is unpacked. Both in bytes, so far. */
export function isBomb(packed: number, unpacked: number): boolean {
  return unpacked > smallestBomb && unpacked > packed * highestRatio;
}

export const tooDeep = `has more than ${deepest} arrays and objects inside each other`;
export const tooManyValues = "has more than 8 million values";
const tooMuchSpace = "has more than 64 MiB of white space in one place";

/** JSON is beyond a bound. The message says which, after what it is about: `has more than …`. */
export class BoundError extends Error {
  override readonly name = "BoundError";
}

const [space, quote, comma, openBracket, backslash, closeBracket, openBrace, closeBrace] = [
  0x20, 0x22, 0x2c, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d,
];

/** Watches the bounds of JSON that arrives in pieces of UTF-8. Does not check that it is JSON. */
export class JsonBounds {
  private depth = 0;
  private values = 0;
  private gap = 0;
  private isText = false;
  private isEscape = false;
  private readonly mostValues: number;

  constructor(most = mostValues) {
    this.mostValues = most;
  }

  /** @throws {BoundError} */
  add(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at++) {
      if (this.isEscape) {
        this.isEscape = false;
        continue;
      }
      if (this.isText) at = textEnd(bytes, at);
      const byte = bytes[at];
      if (byte === undefined) return;
      if (this.isText) {
        this.isEscape = byte === backslash;
        this.isText = byte !== quote;
      } else if (byte <= space) {
        if (++this.gap > longestSpace) throw new BoundError(tooMuchSpace);
      } else {
        this.gap = 0;
        if (byte === quote) this.isText = true;
        else if (byte === comma) this.count();
        else if (byte === openBracket || byte === openBrace) {
          this.count();
          if (++this.depth > deepest) throw new BoundError(tooDeep);
        } else if (byte === closeBracket || byte === closeBrace) this.depth--;
      }
    }
  }

  private count(): void {
    if (++this.values > this.mostValues) throw new BoundError(tooManyValues);
  }
}

/** Where the text that goes on at `from` has its next quote or backslash; the length when there is none. */
function textEnd(bytes: Uint8Array, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== quote && bytes[at] !== backslash) at++;
  return at;
}

/**
 * `JSON.parse` for what others wrote: what is too deep, or has too many values, would end the process.
 * @throws {BoundError} it is beyond a bound; {SyntaxError} it is not JSON
 */
export function parseJson(text: string, most = mostValues): unknown {
  new JsonBounds(most).add(Buffer.from(text));
  return JSON.parse(text);
}
