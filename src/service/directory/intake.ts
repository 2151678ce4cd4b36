import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { WriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { InputError } from "#errors.ts";
import type { FieldSink } from "./form.ts";
import { createArrayScanner } from "./json-array.ts";
import { createListObserver } from "./list-traits.ts";
import type { ListTraits } from "./list-traits.ts";

/** A list on its way in: checked, written down an element a line, and loaded piece by piece while the rest arrives. */
export interface Intake extends FieldSink {
  /** Forgets what has come: another list follows (0.3). */
  restart(): void;
  /** Resolves when there is room for more. Whoever writes has to wait for it from time to time. */
  room(): Promise<void>;
  /**
   * The list is complete: resolves when all of it is loaded.
   * @throws {InputError} when it is not a JSON array (B.5)
   */
  finish(): Promise<void>;
  /** Stops wherever it stands and removes what is on disk. */
  close(): Promise<void>;
}

/** Several whole elements of a list in a file. */
export interface Piece extends ListTraits {
  /** An element a line. */
  readonly file: string;
  /** The index of the first element, and of the one that follows the last. */
  readonly first: number;
  readonly behind: number;
  /** The length of the longest line so far, in bytes. */
  readonly longestLine: number;
}

/** Where pieces go. Called one at a time, in order. */
export interface Loader {
  load(piece: Piece): Promise<void>;
  /** Forgets all pieces; called before the first too. */
  clear(): Promise<void>;
  /** All pieces are there. */
  complete(): Promise<void>;
}

/**
 * When a piece is closed, by how many bytes came before it: the first ones are as small as is worth while, the later
 * ones grow with the list, so that there are never many.
 */
const pieceSize = (before: number): number => Math.max(4 * 1024 * 1024, before / 4);
const buffer = 512 * 1024;

/** @param folder for the pieces: empty, and readable by its owner alone, since a list may hold passwords */
export function createIntake(folder: string, loader: Loader): Intake {
  let pieces = 0;
  let file = openPiece();
  let observer = createListObserver();
  let scanner = createArrayScanner(observer);
  /** How many bytes of the list have come, and where the piece starts among them. */
  let received = 0;
  let start = 0;
  /** The index of the piece's first element. */
  let first = 0;
  let loading: Promise<void> = Promise.resolve();

  function openPiece(): WriteStream {
    const stream = createWriteStream(join(folder, String(pieces++)), {
      flags: "wx",
      mode: 0o600,
      highWaterMark: buffer,
    });
    // `room` and `finish` find out.
    stream.on("error", () => undefined);
    return stream;
  }

  function then(step: () => Promise<void>): void {
    loading = loading.then(step);
    loading.catch(() => undefined);
  }

  function endPiece(): void {
    const { elements: behind, longestLine } = scanner;
    const piece: Piece = { file: String(file.path), first, behind, ...observer.traits(), longestLine };
    // DuckDB, reading in several threads, may stumble over a last line without an end.
    const written = finished(file.end("\n"));
    written.catch(() => undefined);
    then(async () => {
      await written;
      await loader.load(piece);
      await rm(piece.file);
    });
  }

  then(() => loader.clear());
  return {
    write: (bytes) => {
      scanner.scan(bytes);
      if (scanner.problem !== undefined) return;
      const end = scanner.line - received;
      received += bytes.length;
      if (scanner.line - start < pieceSize(start) || end <= 0) {
        file.write(bytes);
        return;
      }
      file.write(bytes.subarray(0, end));
      endPiece();
      start = scanner.line;
      first = scanner.elements;
      file = openPiece();
      file.write(bytes.subarray(end));
    },
    restart: () => {
      if (received === 0 && scanner.problem === undefined) return;
      file.destroy();
      file = openPiece();
      observer = createListObserver();
      scanner = createArrayScanner(observer);
      received = 0;
      start = 0;
      first = 0;
      loading = loading.catch(() => undefined);
      then(() => loader.clear());
    },
    room: async () => {
      if (file.errored !== null) throw file.errored;
      if (file.writableNeedDrain) await once(file, "drain");
    },
    finish: async () => {
      scanner.end();
      if (scanner.problem !== undefined) throw new InputError(`principals: ${scanner.problem}`);
      if (observer.duplicate !== undefined) throw new InputError(`${observer.duplicate}: is given twice`);
      endPiece();
      then(() => loader.complete());
      await loading;
    },
    close: async () => {
      file.destroy();
      await loading.catch(() => undefined);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
