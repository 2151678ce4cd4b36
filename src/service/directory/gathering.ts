import { finished } from "node:stream/promises";
import { abandon } from "#files/durable.ts";
import { createWrittenFile, roomIn } from "./written-file.ts";

/** Writes many small pieces to a file, a lot at a time. */
export interface GatheringFile {
  /** The next bytes: they must not be changed any more. */
  write(bytes: Buffer): void;
  /** Resolves when there is room for more. @throws when it cannot be written */
  room(): Promise<void>;
  /** Resolves when all of it is written. May be asked several times. */
  end(): Promise<void>;
  /** Stops wherever it stands: resolves when the file is closed. */
  close(): Promise<void>;
}

/** How much is written at a time, in bytes. */
const enough = 256 * 1024;

/** @param path of a file that does not exist: it is readable by its owner alone */
export function createGatheringFile(path: string): GatheringFile {
  const stream = createWrittenFile(path);
  let pieces: Buffer[] = [];
  let length = 0;

  function flush(): void {
    if (length > 0) stream.write(Buffer.concat(pieces, length));
    pieces = [];
    length = 0;
  }

  return {
    write: (bytes) => {
      pieces.push(bytes);
      length += bytes.length;
      if (length >= enough) flush();
    },
    room: () => roomIn(stream),
    end: async () => {
      if (!stream.writableEnded) {
        flush();
        stream.end();
      }
      await finished(stream);
    },
    close: () => abandon(stream),
  };
}
