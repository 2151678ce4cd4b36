import { open } from "node:fs/promises";
import { InputError } from "#errors.ts";
import type { FieldSink } from "./form.ts";
import { createArrayScanner } from "./json-array.ts";
import { createListObserver } from "./list-traits.ts";
import type { ListTraits } from "./list-traits.ts";

/** How many bytes are collected before they are written. */
const batch = 512 * 1024;

/** The file that an uploaded list goes into as it arrives. */
export interface ListFile extends FieldSink {
  /** Forgets what was written: another list follows (0.3). */
  restart(): void;
  /** Resolves when there is room for more. Whoever writes has to wait for it from time to time. */
  room(): Promise<void>;
  /**
   * The list is complete and in the file, an element a line.
   * @throws {InputError} when it is not a JSON array (B.5)
   */
  finish(): Promise<ListTraits>;
  /** Closes the file, wherever it stands. */
  close(): Promise<void>;
}

/** Creates the file, readable by its owner alone: a list may hold passwords. */
export async function createListFile(path: string): Promise<ListFile> {
  const file = await open(path, "wx", 0o600);
  let observer = createListObserver();
  let scanner = createArrayScanner(observer);
  let waiting: Buffer[] = [];
  let size = 0;
  let position = 0;
  let writing: Promise<unknown> = Promise.resolve();

  async function write(buffers: Buffer[], length: number, at: number): Promise<void> {
    const { bytesWritten } = await file.writev(buffers, at);
    if (bytesWritten !== length) throw new Error(`the disk has no room for the list in ${path}`);
  }

  async function flush(): Promise<void> {
    await writing;
    if (waiting.length === 0) return;
    writing = write(waiting, size, position);
    // Whoever comes next finds out.
    writing.catch(() => undefined);
    position += size;
    waiting = [];
    size = 0;
  }

  return {
    write: (bytes) => {
      scanner.scan(bytes);
      if (scanner.problem !== undefined) return;
      waiting.push(bytes);
      size += bytes.length;
    },
    restart: () => {
      observer = createListObserver();
      scanner = createArrayScanner(observer);
      waiting = [];
      size = 0;
      position = 0;
    },
    room: async () => {
      if (size >= batch) await flush();
    },
    finish: async () => {
      scanner.end();
      if (scanner.problem !== undefined) throw new InputError(`principals: ${scanner.problem}`);
      if (observer.duplicate !== undefined) throw new InputError(`${observer.duplicate}: is given twice`);
      // DuckDB, reading in several threads, may stumble over a last line without an end.
      waiting.push(Buffer.from("\n"));
      size++;
      await flush();
      await writing;
      await file.truncate(position);
      return { ...observer.traits(), longestLine: scanner.longestLine };
    },
    close: () => file.close(),
  };
}
