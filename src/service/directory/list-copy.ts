import type { WriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { crc32 } from "node:zlib";
import { abandon } from "#files/durable.ts";
import type { Encoding } from "./encoding.ts";
import { listFiles } from "./kept-list.ts";
import type { ListIndex } from "./kept-list.ts";
import { longestElement } from "./matching.ts";
import { createWrittenFile, roomIn } from "./written-file.ts";

/** Writes down a list as it arrives, so that it can be kept when it is applied. */
export interface ListCopy {
  /** The next bytes, as they are sent. They must not be changed any more. */
  write(bytes: Buffer): void;
  /** The next element begins at this byte, as it is sent. */
  begin(at: number): void;
  /** Other elements follow one another without anything new between them: how many bytes each of them takes. */
  follow(lengths: Uint32Array): void;
  /** Resolves when there is room for more. */
  room(): Promise<void>;
  /** All of it is written. @returns undefined when it cannot be kept */
  end(): Promise<Omit<ListIndex, "ordered"> | undefined>;
  /** Stops wherever it stands: resolves when nothing of it is open. */
  close(): Promise<void>;
}

/** @param folder for the copy: empty, and readable by its owner alone */
export function createListCopy(folder: string, encoding: Encoding): ListCopy {
  const files: WriteStream[] = [];
  const file = open(listFiles.list);
  let bytes = 0;
  let checksum = 0;
  let lengths = new Uint32Array(1024);
  let count = 0;
  let longest = 0;
  let start: number | undefined;
  /** Where the last element begins. */
  let last = 0;

  function open(name: string): WriteStream {
    const stream = createWrittenFile(join(folder, name), 1024 * 1024);
    files.push(stream);
    return stream;
  }

  function add(length: number): void {
    if (count === lengths.length) {
      const more = new Uint32Array(2 * count);
      more.set(lengths);
      lengths = more;
    }
    lengths[count++] = length;
    longest = Math.max(longest, length);
  }

  return {
    write: (next) => {
      bytes += next.length;
      checksum = crc32(next, checksum);
      file.write(next);
    },
    begin: (at) => {
      if (start === undefined) start = at;
      else add(at - last);
      last = at;
    },
    follow: (others) => {
      for (const length of others) {
        add(length);
        last += length;
      }
    },
    room: () => roomIn(file),
    end: async () => {
      await finished(file.end());
      if (start === undefined) return undefined;
      add(bytes - last);
      if (longest > longestElement) return undefined;
      const written = Buffer.from(lengths.buffer, 0, count * Uint32Array.BYTES_PER_ELEMENT);
      await finished(open(listFiles.lengths).end(written));
      return {
        encoding,
        start,
        list: { bytes, checksum },
        lengths: { bytes: written.length, checksum: crc32(written) },
      };
    },
    close: async () => {
      await Promise.all(files.map(abandon));
    },
  };
}
