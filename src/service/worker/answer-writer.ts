import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { UnavailableError } from "#errors.ts";
import { removeFile } from "#files/disk.ts";
import type { RowSink } from "#service/engine/engine.ts";
import { rowEncoder } from "#service/pinboards/rows.ts";
import type { Format } from "#service/pinboards/rows.ts";
import type { WrittenRows } from "./messages.ts";

/** The size of a piece, in characters: what stays in memory, or is written at a time. */
const pieceLength = 128 * 1024;

/** How much room is asked for at a time, in bytes. */
const stride = 4 * 2 ** 20;

/** Writes the rows of an answer as JSON: few stay in memory, more go to a file. */
export class AnswerWriter implements RowSink {
  readonly #path: string;
  readonly #format: Format;
  readonly #room: (bytes: number) => Promise<void>;
  #columnNames: readonly string[] = [];
  #encode = rowEncoder([], "COMPACT");
  #rowCount = 0;
  #text = "";
  #size = 0;
  #granted = 0;
  #file: FileHandle | undefined;

  /** @param room resolves when the answer may grow by so many bytes */
  constructor(path: string, format: Format, room: (bytes: number) => Promise<void>) {
    this.#path = path;
    this.#format = format;
    this.#room = room;
  }

  async begin(names: readonly string[]): Promise<void> {
    this.#columnNames = names;
    this.#encode = rowEncoder(names, this.#format);
    this.#rowCount = 0;
    this.#text = "";
    this.#size = 0;
    await this.discard();
  }

  async rows(rows: Parameters<RowSink["rows"]>[0]): Promise<void> {
    try {
      for (const row of rows) {
        this.#text += this.#rowCount === 0 ? this.#encode(row) : `,${this.#encode(row)}`;
        this.#rowCount += 1;
        if (this.#text.length >= pieceLength) await this.#flush();
      }
    } catch (error) {
      // A string of JavaScript holds half a gigabyte.
      if (!(error instanceof RangeError)) throw error;
      throw new UnavailableError("the result has values that are too long to be sent", { cause: error });
    }
  }

  async finish(totalRowCount: number): Promise<WrittenRows> {
    const counts = { columnNames: this.#columnNames, rowCount: this.#rowCount, totalRowCount };
    if (this.#file === undefined) return { ...counts, size: Buffer.byteLength(this.#text), text: this.#text };
    await this.#flush();
    await this.#file.close();
    this.#file = undefined;
    return { ...counts, size: this.#size };
  }

  /** Closes and removes the file, where one was begun. */
  async discard(): Promise<void> {
    if (this.#file === undefined) return;
    await this.#file.close();
    this.#file = undefined;
    await removeFile(this.#path);
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.from(this.#text);
    this.#text = "";
    if (this.#size + bytes.length > this.#granted) {
      const more = Math.max(stride, this.#size + bytes.length - this.#granted);
      await this.#room(more);
      this.#granted += more;
    }
    this.#file ??= await open(this.#path, "wx", 0o600);
    await this.#file.appendFile(bytes);
    this.#size += bytes.length;
  }
}
