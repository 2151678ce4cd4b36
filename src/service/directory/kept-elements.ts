import { decode } from "./encoding.ts";
import type { KeptList } from "./kept-list.ts";
import type { Stretch } from "./matching.ts";

const newline = 0x0a;
const carriageReturn = 0x0d;
const space = 0x20;
const closeObject = 0x7d;

/** How much is read at a time, in bytes; but one element at least. */
const most = 1024 * 1024;

/** Elements of the list before, decoded. */
export interface KeptElements {
  /** An element a line. */
  readonly lines: Buffer;
  /** How many bytes they are, with what stands between them. */
  readonly length: number;
}

/**
 * Decodes elements of the list before.
 * @param bytes those of the stretch, as they were sent: changed in place
 */
export function decodeElements(bytes: Buffer, { first, behind }: Stretch, kept: KeptList): KeptElements {
  let length = 0;
  let from = 0;
  let to = 0;
  for (let index = first; index < behind; index++) {
    const next = from + (kept.lengths[index] as number);
    const text = decode(bytes.subarray(from, next), kept.encoding);
    length += text.length;
    // Behind an object there are a comma or a bracket, and spaces: one byte at least, which becomes the line's end.
    const end = text.lastIndexOf(closeObject) + 1;
    const line = text.subarray(0, end);
    for (const byte of [newline, carriageReturn]) {
      for (let at = line.indexOf(byte); at >= 0; at = line.indexOf(byte, at)) line[at] = space;
    }
    line.copy(bytes, to);
    to += end;
    bytes[to++] = newline;
    from = next;
  }
  return { lines: bytes.subarray(0, to), length };
}

/** Reads and decodes elements of the list before once more, some at a time. @throws {Error} when they are not there any more */
export async function* readElements(kept: KeptList, stretch: Stretch): AsyncGenerator<KeptElements> {
  let { first, from } = stretch;
  while (first < stretch.behind) {
    let behind = first;
    let to = from;
    do to += kept.lengths[behind++] as number;
    while (behind < stretch.behind && to + (kept.lengths[behind] as number) - from <= most);
    yield decodeElements(await kept.readAgain(from, to), { first, behind, from, to }, kept);
    first = behind;
    from = to;
  }
}
