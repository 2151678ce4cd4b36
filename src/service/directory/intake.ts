import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { WriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { finished } from "node:stream/promises";
import { InputError } from "#errors.ts";
import { createBlocks } from "./blocks.ts";
import { createDiffering } from "./difference.ts";
import type { Differing } from "./difference.ts";
import type { FieldSink } from "./form.ts";
import { createArrayScanner } from "./json-array.ts";
import type { ArrayObserver } from "./json-array.ts";
import type { KeptList, ListContent } from "./kept-list.ts";
import { createListObserver } from "./list-traits.ts";
import type { ListObserver, ListTraits } from "./list-traits.ts";
import { blockSize } from "./matching.ts";

/**
 * A list on its way in: checked, and written down an element a line and loaded piece by piece while the rest arrives, or only
 * what of it differs from the list that was applied last.
 */
export interface Intake extends FieldSink {
  /** Forgets what has come: another list follows (0.3). */
  restart(): void;
  /** Resolves when there is room for more. Whoever writes has to wait for it from time to time. */
  room(): Promise<void>;
  /**
   * The list is complete: resolves when all of it is loaded, or what differs from the list that was applied last.
   * @returns whether all of it is loaded
   * @throws {InputError} when it is not a JSON array (B.5)
   */
  finish(): Promise<boolean>;
  /** Loads all of it after all, where it is not loaded yet. */
  loadAll(): Promise<void>;
  /** What is in the folder, when it may stay there once the list is applied; undefined when it may not. */
  content(): Promise<ListContent | undefined>;
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
  /** Instead of all pieces: what differs from the list before. */
  loadDifference(changed: Piece, departed: Piece): Promise<void>;
}

/**
 * When a piece is closed, by how many bytes came before it: the first ones are as small as is worth while, the later
 * ones grow with the list, so that there are never many.
 */
const pieceSize = (before: number): number => Math.max(4 * 1024 * 1024, before / 4);
const buffer = 512 * 1024;

/** How many elements may differ from the list before, besides a quarter of them, until a list is loaded as a whole. */
const few = 1000;

/**
 * @param folder for the pieces: empty, and readable by its owner alone, since a list may hold passwords
 * @param kept the list that was applied last, where there is one: closed when it is of no use any more
 */
export function createIntake(folder: string, loader: Loader, kept?: KeptList): Intake {
  let opened = 0;
  let file = openPiece();
  let observer = createListObserver();
  let scanner = createArrayScanner(observer);
  /** While the list is compared with the one that was applied last. */
  let differing: Differing | undefined;
  /** How many bytes of the list have come, and where the piece starts among them. */
  let received = 0;
  let start = 0;
  /** The index of the piece's first element. */
  let first = 0;
  let pieces: Piece[] = [];
  let loading: Promise<void> = Promise.resolve();
  // What is looked for in the list before must not lie across two blocks.
  const blocks = createBlocks(blockSize, take);

  if (kept !== undefined) {
    differing = createDiffering(kept, folder);
    scanner = createArrayScanner(beside(observer, () => differing));
  }

  function openPiece(): WriteStream {
    const stream = createWriteStream(join(folder, String(opened++)), {
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

  function traits(): ListTraits {
    const { ordered, ...others } = observer.traits();
    return { ...others, ordered: ordered && (kept?.ordered ?? true) };
  }

  function endPiece(): Piece {
    const { elements: behind, longestLine } = scanner;
    const piece: Piece = { file: String(file.path), first, behind, ...traits(), longestLine };
    pieces.push(piece);
    // DuckDB, reading in several threads, may stumble over a last line without an end.
    const written = finished(file.end("\n"));
    written.catch(() => undefined);
    then(() => written);
    return piece;
  }

  function take(bytes: Buffer): void {
    scanner.scan(bytes);
    if (scanner.problem !== undefined) return;
    const end = scanner.line - received;
    received += bytes.length;
    if (differing !== undefined) {
      differing.endBlock(bytes);
      return;
    }
    if (scanner.line - start < pieceSize(start) || end <= 0) {
      file.write(bytes);
      return;
    }
    file.write(bytes.subarray(0, end));
    loadPiece(endPiece());
    start = scanner.line;
    first = scanner.elements;
    file = openPiece();
    file.write(bytes.subarray(end));
  }

  function isHopeless(): boolean {
    if (differing === undefined || kept === undefined) return false;
    const differ = scanner.elements - differing.found + differing.departed;
    return differ > few + kept.elements / 4 || !observer.traits().plain;
  }

  function loadPiece(piece: Piece): void {
    then(() => loader.load(piece));
  }

  /** From here on the list is read like one that nothing is known of, and what has come is written down as if it had been. */
  async function giveUp(): Promise<void> {
    if (differing === undefined) return;
    const given = differing;
    differing = undefined;
    try {
      for await (const bytes of given.whole()) {
        file.write(bytes);
        await drained();
      }
    } finally {
      given.close();
    }
  }

  /** @returns undefined when the list before is of no use */
  async function compare<Result>(work: (it: Differing) => Promise<Result>): Promise<Result | undefined> {
    if (differing === undefined) return undefined;
    try {
      const result = await work(differing);
      if (!isHopeless()) return result;
    } catch (error) {
      await kept?.forget(error);
    }
    await giveUp();
    return undefined;
  }

  async function drained(): Promise<void> {
    if (file.errored !== null) throw file.errored;
    if (file.writableNeedDrain) await once(file, "drain");
  }

  then(() => loader.clear());
  return {
    write: (bytes) => {
      if (differing !== undefined) {
        blocks.write(bytes);
        return;
      }
      blocks.flush();
      take(bytes);
    },
    restart: () => {
      blocks.flush();
      if (received === 0 && scanner.problem === undefined) return;
      differing?.close();
      differing = undefined;
      file.destroy();
      file = openPiece();
      observer = createListObserver();
      scanner = createArrayScanner(observer);
      received = 0;
      start = 0;
      first = 0;
      pieces = [];
      loading = loading.catch(() => undefined);
      then(() => loader.clear());
    },
    room: async () => {
      await compare((it) => it.room());
      await drained();
    },
    finish: async () => {
      blocks.flush();
      scanner.end();
      if (scanner.problem !== undefined) throw new InputError(`principals: ${scanner.problem}`);
      if (observer.duplicate !== undefined) throw new InputError(`${observer.duplicate}: is given twice`);
      const files = await compare((it) => it.end());
      if (files === undefined || differing === undefined) {
        loadPiece(endPiece());
        then(() => loader.complete());
        await loading;
        return true;
      }
      const { found, departed } = differing;
      const { longestLine } = scanner;
      const changed = {
        ...observer.traits(),
        file: files.changed,
        first: 0,
        behind: scanner.elements - found,
        longestLine,
      };
      const gone = {
        plain: true,
        ordered: false,
        open: true,
        file: files.departed,
        first: 0,
        behind: departed,
        longestLine: blockSize,
      };
      then(() => loader.loadDifference(changed, gone));
      await loading;
      return false;
    },
    loadAll: async () => {
      if (differing === undefined) return;
      await giveUp();
      loadPiece(endPiece());
      then(() => loader.complete());
      await loading;
    },
    content: async () => {
      const { plain, ordered, open } = traits();
      if (!plain || !open || scanner.longestLine >= blockSize) return undefined;
      if (differing !== undefined) {
        await giveUp();
        endPiece();
        await loading;
      }
      return { files: pieces.map((piece) => basename(piece.file)), elements: scanner.elements, ordered };
    },
    close: async () => {
      file.destroy();
      differing?.close();
      await loading.catch(() => undefined);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** An observer that is not shown what the list before has too. */
function beside(observer: ListObserver, differing: () => Differing | undefined): ArrayObserver {
  return {
    element: (bytes, from) => {
      const end = differing()?.find(bytes, from) ?? -1;
      if (end < 0) return observer.element(bytes, from);
      observer.skip();
      return end;
    },
    value: observer.value,
    string: observer.string,
  };
}
