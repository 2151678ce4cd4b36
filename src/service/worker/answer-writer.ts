import { open, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { UnavailableError } from "#errors.ts";
import type { RowSink } from "#service/engine/engine.ts";
import { rowEncoder } from "#service/pinboards/rows.ts";
import type { Format } from "#service/pinboards/rows.ts";
import type { WrittenRows } from "./messages.ts";

/** Writes the rows of an answer as JSON: few stay in memory, more go to a file. */
export interface AnswerWriter extends RowSink {
  finish(totalRowCount: number): Promise<WrittenRows>;
  /** Closes and removes the file. */
  discard(): Promise<void>;
}

/** The size of a piece, in characters: what stays in memory, or is written at a time. */
const pieceLength = 128 * 1024;

/** How much room is asked for at a time, in bytes. */
const stride = 4 * 2 ** 20;

/** @param room resolves when the answer may grow by so many bytes */
export function createAnswerWriter(path: string, format: Format, room: (bytes: number) => Promise<void>): AnswerWriter {
  let columnNames: readonly string[] = [];
  let encode = rowEncoder(columnNames, format);
  let rowCount = 0;
  let text = "";
  let size = 0;
  let granted = 0;
  let file: FileHandle | undefined;

  const flush = async (): Promise<void> => {
    const bytes = Buffer.from(text);
    text = "";
    if (size + bytes.length > granted) {
      const more = Math.max(stride, size + bytes.length - granted);
      await room(more);
      granted += more;
    }
    file ??= await open(path, "wx", 0o600);
    await file.appendFile(bytes);
    size += bytes.length;
  };

  return {
    begin: async (names) => {
      columnNames = names;
      encode = rowEncoder(names, format);
      [rowCount, text, size] = [0, "", 0];
      await file?.close();
      file = undefined;
      await rm(path, { force: true });
    },
    rows: async (rows) => {
      try {
        for (const row of rows) {
          text += rowCount === 0 ? encode(row) : `,${encode(row)}`;
          rowCount += 1;
          if (text.length >= pieceLength) await flush();
        }
      } catch (error) {
        // A string of JavaScript holds half a gigabyte.
        if (!(error instanceof RangeError)) throw error;
        throw new UnavailableError("the result has values that are too long to be sent", { cause: error });
      }
    },
    finish: async (totalRowCount) => {
      const counts = { columnNames, rowCount, totalRowCount };
      if (file === undefined) return { ...counts, size: Buffer.byteLength(text), text };
      await flush();
      await file.close();
      file = undefined;
      return { ...counts, size };
    },
    discard: async () => {
      await file?.close();
      await rm(path, { force: true });
    },
  };
}
