import { open } from "node:fs/promises";
import { FileWriter } from "#files/file-writer.ts";
import { RowRanges } from "#row-scan.ts";
import type { RowRange } from "#row-scan.ts";
import { syntaxOf } from "./load-format.ts";
import type { LoadFormat } from "./load-format.ts";
import { blocks } from "./sections.ts";
import type { Section } from "./sections.ts";

const newline = Buffer.from("\n");
const pieceSize = 256 * 1024;

/**
 * Writes rejected rows as they were sent, in their order; one that ended without a newline gets one (A.13).
 * @param width how many columns the table has
 * @param rejected the numbers of the rejected rows, counted from 1 over all sections, ascending, in batches
 * @throws the signal's reason
 */
export async function writeRejects(
  path: string,
  sections: readonly Section[],
  format: LoadFormat,
  width: number,
  rejected: AsyncIterable<readonly number[]>,
  signal: AbortSignal,
): Promise<void> {
  const batches = rejected[Symbol.asyncIterator]();
  await using target = await FileWriter.open(path, "w");
  let batch: readonly number[] = [];
  let at = 0;
  let isOver = false;
  let number = 0;

  /** The ranges of the rejected rows among these; neighbours are merged. */
  async function choose(rows: readonly RowRange[]): Promise<[number, number][]> {
    const chosen: [number, number][] = [];
    for (const { from, to } of rows) {
      number++;
      while (at === batch.length && !isOver) {
        const next = await batches.next();
        isOver = next.done === true;
        batch = next.done === true ? [] : next.value;
        at = 0;
      }
      if (isOver) break;
      if (batch[at] !== number) continue;
      at++;
      const last = chosen.at(-1);
      if (last?.[1] === from) last[1] = to;
      else chosen.push([from, to]);
    }
    return chosen;
  }

  try {
    for (const section of sections) {
      if (isOver) break;
      for await (const { rows, read } of rowsOf(section, format, width, signal)) {
        for (const [from, to] of await choose(rows)) await copy(from, to, read, target);
        if (isOver) break;
      }
    }
    await target.flush();
  } finally {
    await batches.return?.();
  }
}

type Read = (from: number, to: number) => Promise<Buffer>;

interface Rows {
  readonly rows: readonly RowRange[];
  /** Bytes of the section. */
  readonly read: Read;
}

/** The ranges of the rows that end in each block. */
async function* rowsOf(section: Section, format: LoadFormat, width: number, signal: AbortSignal): AsyncGenerator<Rows> {
  const ranges = new RowRanges(syntaxOf(format), width > 1);
  await using file = await open(section.path);
  let block: Buffer = Buffer.alloc(0);
  let start = 0;
  const read: Read = async (from, to) => {
    if (from >= start && to <= start + block.length) return block.subarray(from - start, to - start);
    const bytes = Buffer.allocUnsafe(to - from);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, section.from + from);
    return bytes.subarray(0, bytesRead);
  };
  for await (const bytes of blocks(section.path, section.from, signal)) {
    start += block.length;
    block = bytes;
    ranges.scan(bytes);
    yield { rows: ranges.rows, read };
    ranges.rows = [];
  }
  ranges.end();
  yield { rows: ranges.rows, read };
}

async function copy(from: number, to: number, read: Read, target: FileWriter): Promise<void> {
  let last: number | undefined;
  for (let at = from; at < to; at += pieceSize) {
    const bytes = await read(at, Math.min(to, at + pieceSize));
    if (bytes.length === 0) break;
    await target.write(bytes);
    last = bytes.at(-1);
  }
  if (last !== 0x0a) await target.write(newline);
}
