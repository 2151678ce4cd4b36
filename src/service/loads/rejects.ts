import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import type { LoadFormat } from "./format.ts";
import { blocks } from "./sections.ts";
import type { Section } from "./sections.ts";
import { createSplitter } from "./split.ts";

const newline = Buffer.from("\n");
const bufferSize = 256 * 1024;

/**
 * Writes rejected rows as they were sent, in their order; one that ended without a newline gets one (A.13).
 * @param rejected the numbers of the rejected rows, counted from 1 over all sections, ascending
 * @throws the signal's reason
 */
export async function writeRejects(
  path: string,
  sections: readonly Section[],
  format: LoadFormat,
  columnNames: readonly string[],
  rejected: AsyncIterable<number>,
  signal: AbortSignal,
): Promise<void> {
  const numbers = rejected[Symbol.asyncIterator]();
  const target = await open(path, "w");
  try {
    let next = await numbers.next();
    let number = 0;
    for (const section of sections) {
      if (next.done === true) break;
      for await (const { rows, read } of rowsOf(section, format, columnNames, signal)) {
        for (const [from, to] of rows) {
          number++;
          if (next.done === true || number !== next.value) continue;
          await copy(from, to, read, target);
          next = await numbers.next();
        }
        if (next.done === true) break;
      }
    }
  } finally {
    await target.close();
    await numbers.return?.();
  }
}

type Read = (from: number, to: number) => Promise<Buffer>;

interface Rows {
  readonly rows: readonly (readonly [from: number, to: number])[];
  /** Bytes of the section. */
  readonly read: Read;
}

/** The places of the rows that end in each block. */
async function* rowsOf(
  section: Section,
  format: LoadFormat,
  columnNames: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<Rows> {
  let rows: [number, number][] = [];
  const splitter = createSplitter({
    format,
    columnNames,
    onRow: (from, to) => {
      rows.push([from, to]);
    },
  });
  const file = await open(section.path);
  try {
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
      splitter.scan(bytes);
      splitter.take();
      yield { rows, read };
      rows = [];
    }
    splitter.end();
    yield { rows, read };
  } finally {
    await file.close();
  }
}

async function copy(from: number, to: number, read: Read, target: FileHandle): Promise<void> {
  let last: number | undefined;
  for (let at = from; at < to; at += bufferSize) {
    const bytes = await read(at, Math.min(to, at + bufferSize));
    if (bytes.length === 0) break;
    await target.writeFile(bytes);
    last = bytes.at(-1);
  }
  if (last !== 0x0a) await target.writeFile(newline);
}
