/** A line of a file. */
interface Line {
  /** Without its newline. */
  readonly bytes: Buffer;
  /** From 1. */
  readonly number: number;
  /** The offset of its end, the newline included. */
  readonly end: number;
  /** It has its newline. */
  readonly whole: boolean;
}

/**
 * The lines of a file. Nothing but `\n` ends one: Node's readline also splits at `\r`, U+2028 and U+2029, which JSON may hold
 * within a text.
 * @param longest in bytes: of a longer line only the beginning is kept
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>, longest = Infinity): AsyncGenerator<Line> {
  let pending: Buffer[] = [];
  let kept = 0;
  let number = 1;
  let offset = 0;
  const keep = (part: Buffer): void => {
    if (kept <= longest) pending.push(part);
    kept += part.length;
  };
  for await (const chunk of chunks) {
    let from = 0;
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      keep(chunk.subarray(from, at));
      yield { bytes: Buffer.concat(pending), number, end: offset + at + 1, whole: true };
      [pending, kept, from] = [[], 0, at + 1];
      number += 1;
    }
    keep(chunk.subarray(from));
    offset += chunk.length;
  }
  if (kept > 0) yield { bytes: Buffer.concat(pending), number, end: offset, whole: false };
}
