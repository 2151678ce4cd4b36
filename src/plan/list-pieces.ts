import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { WriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { giveBack } from "#files/buffers.ts";
import { removeFile } from "#files/disk.ts";
import { ListScan } from "./list-scan.ts";

/** Some elements of a list that follow each other, as a JSON array in a file. */
export interface ListPiece {
  readonly file: string;
  /** The place of the first of them in the list, from 0. */
  readonly first: number;
  readonly bytes: number;
  /** No element up to here is anything but an object of the interface's types, with each field once. */
  readonly isTyped: boolean;
}

/** In bytes. */
const usualSize = 4 * 1024 * 1024;

const begin = Buffer.from("[");
const end = Buffer.from("]");

/**
 * Cuts a list, a JSON array of any length, into pieces as it arrives. They are files that their owner alone can read, since
 * lists may hold passwords, and DuckDB can read each while the next one comes.
 */
export class ListPieces {
  readonly #folder: string;
  readonly #take: (piece: Promise<ListPiece>) => void;
  readonly #size: number;
  readonly #scan = new ListScan();
  readonly #files: PieceFile[] = [];
  /** Nothing is in them; its files take them from here. */
  readonly #buffers: Buffer[] = [];
  #first = 0;
  #file: PieceFile;
  /** Why it is no list. */
  #problem: unknown;

  /**
   * @param take is called with each piece in order; it resolves once the file is whole
   * @param size from how many bytes on a piece ends with the next element
   */
  constructor(folder: string, take: (piece: Promise<ListPiece>) => void, size = usualSize) {
    this.#folder = folder;
    this.#take = take;
    this.#size = size;
    this.#file = this.#open();
  }

  /** Takes a copy of the next bytes. What they lack, `end` throws. */
  write(bytes: Buffer): void {
    if (this.#problem !== undefined) return;
    try {
      const cut = this.#scan.scan(bytes);
      if (cut < 0 || this.#file.bytes + cut < this.#size) {
        this.#file.write(bytes);
        return;
      }
      this.#file.write(bytes.subarray(0, cut));
      this.#file.write(end);
      void this.#publish();
      this.#first = this.#scan.elements;
      this.#file = this.#open();
      this.#file.write(begin);
      this.#file.write(bytes.subarray(cut + 1));
    } catch (error) {
      this.#problem = error;
    }
  }

  /** Resolves when more can be written. @throws when writing has failed */
  room(): Promise<void> {
    return this.#file.room();
  }

  /**
   * The list is complete.
   * @returns what its elements are
   * @throws {InputError} when it is no JSON array; what was wrong with a file
   */
  async end(): Promise<Pick<ListScan, "wrong" | "repeated">> {
    if (this.#problem === undefined) this.#scan.end();
    else throw this.#problem as Error;
    await this.#publish();
    return this.#scan;
  }

  /** Another list counts instead. */
  close(): void {
    this.#file.end().catch(() => undefined);
  }

  /** Removes all files. Nothing can be written any more. */
  async discard(): Promise<void> {
    for (const file of this.#files) await file.discard();
    for (const buffer of this.#buffers) giveBack(buffer);
  }

  #open(): PieceFile {
    const file = new PieceFile(join(this.#folder, randomUUID()), this.#buffers);
    this.#files.push(file);
    return file;
  }

  #publish(): Promise<unknown> {
    const { path: file, bytes } = this.#file;
    const first = this.#first;
    const { wrong, repeated } = this.#scan;
    const isTyped = wrong.length === 0 && repeated === undefined;
    const piece = this.#file.end().then(() => ({ file, first, bytes, isTyped }));
    piece.catch(() => undefined);
    this.#take(piece);
    return piece;
  }
}

/** How many bytes are written at once: with each write, a thread wakes and takes the processor from the event loop. */
const writtenAtOnce = 1024 * 1024;

class PieceFile {
  readonly path: string;
  bytes = 0;
  readonly #stream: WriteStream;
  readonly #closed: Promise<void>;
  readonly #buffers: Buffer[];
  #buffer: Buffer | undefined;
  /** How many bytes are in the buffer. */
  #length = 0;

  constructor(path: string, buffers: Buffer[]) {
    this.path = path;
    this.#buffers = buffers;
    this.#stream = createWriteStream(path, { flags: "wx", mode: 0o600, highWaterMark: 2 * writtenAtOnce });
    this.#closed = finished(this.#stream);
    this.#closed.catch(() => undefined);
  }

  write(bytes: Buffer): void {
    this.bytes += bytes.length;
    for (let left = bytes; left.length > 0;) {
      this.#buffer ??= this.#buffers.pop() ?? Buffer.allocUnsafeSlow(writtenAtOnce);
      const copied = left.copy(this.#buffer, this.#length);
      this.#length += copied;
      left = left.subarray(copied);
      if (this.#length === writtenAtOnce) this.#flush();
    }
  }

  async room(): Promise<void> {
    if (this.#stream.writableNeedDrain) await Promise.race([once(this.#stream, "drain"), this.#closed]);
  }

  end(): Promise<void> {
    this.#flush();
    this.#stream.end();
    return this.#closed;
  }

  async discard(): Promise<void> {
    this.#stream.destroy();
    await this.#closed.catch(() => undefined);
    if (this.#buffer !== undefined) this.#buffers.push(this.#buffer);
    await removeFile(this.path);
  }

  #flush(): void {
    const buffer = this.#buffer;
    if (buffer === undefined) return;
    this.#stream.write(buffer.subarray(0, this.#length), () => this.#buffers.push(buffer));
    this.#buffer = undefined;
    this.#length = 0;
  }
}
