/**
 * How bytes stand in a body: as themselves (`plain`, in `multipart/form-data`) or percent-encoded (`urlencoded`, in
 * `application/x-www-form-urlencoded`). What stands for one byte never depends on what comes before it.
 */
export type Encoding = "plain" | "urlencoded";

const percent = 0x25;
const plus = 0x2b;
const space = 0x20;

/** The byte that two hexadecimal digits stand for, by the two of them; -1 for every other pair of bytes. */
const escapes = new Int16Array(65_536).fill(-1);
for (let byte = 0; byte < 256; byte++) {
  const [high, low] = byte.toString(16).padStart(2, "0") as unknown as [string, string];
  for (const first of [high, high.toUpperCase()]) {
    for (const second of [low, low.toUpperCase()]) {
      escapes[(first.charCodeAt(0) << 8) | second.charCodeAt(0)] = byte;
    }
  }
}

/**
 * Decodes bytes in place, as `URLSearchParams` does: a `+` is a space, what is no escape stands for itself.
 * @returns the part of them that holds what they stand for
 */
export function decode(bytes: Buffer, encoding: Encoding): Buffer {
  return encoding === "plain" ? bytes : bytes.subarray(0, unescape(bytes));
}

/**
 * Finds places in encoded bytes.
 * @param from where decoding begins
 * @param base is added to all places
 * @returns tells where the byte is that has this place in what the bytes stand for: one after the other, never back
 */
export function placesIn(bytes: Buffer, from: number, encoding: Encoding, base: number): (place: number) => number {
  if (encoding === "plain") return (place) => base + from + place;
  let known = 0;
  let at = from;
  return (place) => {
    at = behind(bytes, at, place - known);
    known = place;
    return base + at;
  };
}

/** How many bytes at the end may become an escape once more bytes are there: to be decoded with those. */
export function unfinished(bytes: Buffer, encoding: Encoding): number {
  if (encoding === "plain") return 0;
  const { length } = bytes;
  if (bytes[length - 1] === percent) return 1;
  return bytes[length - 2] === percent ? 2 : 0;
}

function unescape(bytes: Buffer): number {
  const last = bytes.length - 2;
  let to = 0;
  for (let from = 0; from < bytes.length; from++) {
    let byte = bytes[from] as number;
    if (byte === percent) {
      const escape =
        from < last ? (escapes[((bytes[from + 1] as number) << 8) | (bytes[from + 2] as number)] as number) : -1;
      if (escape >= 0) {
        byte = escape;
        from += 2;
      }
    } else if (byte === plus) {
      byte = space;
    }
    bytes[to++] = byte;
  }
  return to;
}

/** Where the bytes end that stand for `count` bytes. */
function behind(bytes: Buffer, from: number, count: number): number {
  const last = bytes.length - 2;
  let at = from;
  for (let left = count; left > 0; left--) {
    const isEscape =
      bytes[at] === percent &&
      at < last &&
      (escapes[((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number)] as number) >= 0;
    at += isEscape ? 3 : 1;
  }
  return at;
}
