import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { WriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import type { KeptList } from "./kept-list.ts";
import { createMatching } from "./matching.ts";

const space = 0x20;

/** How a list differs from the one that was applied last. Both files hold an element a line. */
export interface Difference {
  /** The elements that the list before does not have. */
  readonly changed: string;
  /** The elements of the list before that this one does not have. */
  readonly departed: string;
}

/** Finds out how a list differs from the one that was applied last, as it arrives, block by block. */
export interface Differing {
  /**
   * An element begins at `from`, an object.
   * @returns where it has ended, when the list before has it too; -1 otherwise
   */
  find(bytes: Buffer, from: number): number;
  /** All elements that begin in the block were asked for; commas between them have become line ends. */
  endBlock(bytes: Buffer): void;
  /** Resolves when there is room for the next block. @throws {Error} when the list before is damaged */
  room(): Promise<void>;
  /** No element follows. @throws {Error} when the list before is damaged */
  end(): Promise<Difference>;
  /** All of the list as far as it has come, an element a line: read out of the list before and what differs from it. */
  whole(): AsyncIterable<Buffer>;
  /** Stops wherever it stands. */
  close(): void;
  /** How many elements were found in the list before. */
  readonly found: number;
  /** How many elements of the list before this one is known not to have. */
  readonly departed: number;
}

/**
 * @param kept the list before: closed at the end
 * @param folder for the two files
 */
export function createDiffering(kept: KeptList, folder: string): Differing {
  const files = { changed: join(folder, "changed"), departed: join(folder, "departed") };
  const changed = openFile(files.changed);
  const departed = openFile(files.departed);
  const matching = createMatching(kept, (lines) => departed.write(lines));
  /** What the list is made of: some of the list before, from a byte to another, and then `changed` up to a byte. */
  const parts: Part[] = [];
  let written = 0;

  function write(bytes: Buffer): void {
    written += bytes.length;
    changed.write(Buffer.from(bytes));
    const last = parts.at(-1);
    if (last === undefined) parts.push({ from: 0, to: 0, changed: written });
    else last.changed = written;
  }

  /** The element that was found last comes next in the list. */
  function addFound(): void {
    const { from, to } = matching.line;
    const last = parts.at(-1);
    if (last !== undefined && last.to === from && last.changed === (parts.at(-2)?.changed ?? 0)) last.to = to;
    else parts.push({ from, to, changed: written });
  }

  /** Where in the block the bytes begin that are written down; -1 while there are none. */
  let start = -1;
  /** Where in the block the element ended that was found last. */
  let behind = 0;

  /** What is no object is not asked for: between elements that were found there may be more than spaces and line ends. */
  function notice(bytes: Buffer, to: number): void {
    for (let at = behind; start < 0 && at < to; at++) if ((bytes[at] as number) > space) start = behind;
  }

  return {
    find: (bytes, from) => {
      notice(bytes, from);
      const end = matching.find(bytes, from);
      if (end < 0) {
        if (start < 0) start = from;
        return end;
      }
      if (start >= 0) write(bytes.subarray(start, from));
      start = -1;
      behind = end;
      addFound();
      return end;
    },
    endBlock: (bytes) => {
      notice(bytes, bytes.length);
      if (start >= 0) {
        write(bytes.subarray(start));
        start = 0;
      }
      behind = 0;
    },
    room: async () => {
      await matching.fill();
      for (const file of [changed, departed]) {
        if (file.errored !== null) throw file.errored;
        if (file.writableNeedDrain) await once(file, "drain");
      }
    },
    end: async () => {
      await matching.end();
      await Promise.all([changed, departed].map((file) => finished(file.end("\n"))));
      return files;
    },
    whole: async function* () {
      await finished(changed.writableEnded ? changed : changed.end("\n"));
      await using file = await open(files.changed, "r");
      const same = readerOf((buffer, position) => kept.readAgain(buffer, position));
      const different = readerOf(async (buffer, position) => {
        const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
        return bytesRead;
      });
      let before = 0;
      for (const part of parts) {
        yield* same(part.from, part.to);
        yield* different(before, part.changed);
        before = part.changed;
      }
    },
    close: () => {
      changed.destroy();
      departed.destroy();
      kept.close();
    },
    get found() {
      return matching.found;
    },
    get departed() {
      return matching.departed;
    },
  };
}

interface Part {
  readonly from: number;
  to: number;
  changed: number;
}

const most = 1024 * 1024;

/** Reads from one byte to another, again and again, each time further on; a lot at a time. */
function readerOf(read: (buffer: Buffer, position: number) => Promise<number>) {
  let bytes = Buffer.alloc(0);
  let first = 0;
  return async function* (from: number, to: number): AsyncGenerator<Buffer> {
    for (let at = from; at < to;) {
      if (at >= first + bytes.length) {
        const buffer = Buffer.allocUnsafeSlow(most);
        const count = await read(buffer, at);
        if (count === 0) throw new Error(`a list has no byte ${at} any more`);
        bytes = buffer.subarray(0, count);
        first = at;
      }
      const end = Math.min(to, first + bytes.length);
      yield bytes.subarray(at - first, end - first);
      at = end;
    }
  };
}

function openFile(path: string): WriteStream {
  const stream = createWriteStream(path, { flags: "wx", mode: 0o600 });
  // `room` and `end` find out.
  stream.on("error", () => undefined);
  return stream;
}
