import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { WriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import type { KeptList } from "./kept-list.ts";
import { createMatching } from "./matching.ts";

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
  /** Where in the block the bytes begin that are written down; -1 while there are none. */
  let start = -1;
  return {
    find: (bytes, from) => {
      const end = matching.find(bytes, from);
      if (end < 0) {
        if (start < 0) start = from;
      } else if (start >= 0) {
        changed.write(Buffer.from(bytes.subarray(start, from)));
        start = -1;
      }
      return end;
    },
    endBlock: (bytes) => {
      if (start < 0) return;
      changed.write(Buffer.from(bytes.subarray(start)));
      start = 0;
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

function openFile(path: string): WriteStream {
  const stream = createWriteStream(path, { flags: "wx", mode: 0o600 });
  // `room` and `end` find out.
  stream.on("error", () => undefined);
  return stream;
}
