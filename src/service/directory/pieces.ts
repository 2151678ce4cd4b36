import type { WriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { abandon } from "#files/durable.ts";
import type { ArrayScanner } from "./array-scanner.ts";
import type { ListTraits } from "./list-traits.ts";
import { createWrittenFile, roomIn } from "./written-file.ts";

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

/** Writes a list down in pieces as it arrives. */
export interface Pieces {
  /** The bytes that were scanned last. */
  write(bytes: Buffer): void;
  /** Lines of elements that are counted already. */
  insert(lines: Buffer): void;
  /** Resolves when there is room for more. */
  room(): Promise<void>;
  /** Nothing follows: ends the last piece. */
  end(): void;
  /** Stops wherever it stands: resolves when no piece is open. */
  close(): Promise<void>;
}

/** What the pieces are written from and for. */
export interface PiecesOptions {
  /** Empty, and readable by its owner alone. */
  readonly folder: string;
  /** Has scanned what is written. */
  readonly scanner: ArrayScanner;
  /** What holds of the list so far. */
  traits(): ListTraits;
  /** Takes a piece that has ended, and when it is on disk. */
  take(piece: Piece, written: Promise<void>): void;
}

/**
 * When a piece is closed, by how many bytes came before it: the first ones are as small as is worth while, the later
 * ones grow with the list, so that there are never many.
 */
const pieceSize = (before: number): number => Math.max(4 * 1024 * 1024, before / 4);
const buffer = 512 * 1024;

export function createPieces({ folder, scanner, traits, take }: PiecesOptions): Pieces {
  const files: WriteStream[] = [];
  let file = openPiece();
  /** Where the piece starts in the list, and the index of its first element. */
  let start = 0;
  let first = 0;

  function openPiece(): WriteStream {
    const stream = createWrittenFile(join(folder, String(files.length)), buffer);
    files.push(stream);
    return stream;
  }

  function end(): void {
    const { elements: behind, longestLine } = scanner;
    // DuckDB, reading in several threads, may stumble over a last line without an end.
    const written = finished(file.end("\n"));
    written.catch(() => undefined);
    take({ file: String(file.path), first, behind, ...traits(), longestLine }, written);
  }

  return {
    write: (bytes) => {
      const lastLine = scanner.line - (scanner.scanned - bytes.length);
      if (scanner.line - start < pieceSize(start) || lastLine <= 0) {
        file.write(bytes);
        return;
      }
      file.write(bytes.subarray(0, lastLine));
      end();
      start = scanner.line;
      first = scanner.elements;
      file = openPiece();
      file.write(bytes.subarray(lastLine));
    },
    insert: (lines) => {
      file.write(lines);
    },
    room: () => roomIn(file),
    end,
    close: async () => {
      await Promise.all(files.map(abandon));
    },
  };
}
