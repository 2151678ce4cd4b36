import { mkdir, open, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Logger } from "pino";
import { z } from "zod";
import { firstLineOf } from "#errors.ts";
import type { Encoding } from "./encoding.ts";

/** The files of a list that is kept, in a folder of its own: the list as it was sent, and the lengths of its elements. */
export const listFiles = { list: "list", lengths: "lengths", index: "index.json" };

const fileSchema = z.strictObject({ bytes: z.int().positive(), checksum: z.int() });
const indexSchema = z.strictObject({
  encoding: z.literal(["plain", "urlencoded"]),
  ordered: z.boolean(),
  start: z.int().nonnegative(),
  list: fileSchema,
  lengths: fileSchema,
});

/** What is known of the files of a list that is kept. */
export type ListIndex = z.infer<typeof indexSchema>;

/** A list that can be kept. */
export interface KeepableList {
  /** Where its files are, but for the index: it is moved. */
  readonly folder: string;
  readonly index: ListIndex;
}

/** The list that was applied last, open for reading: it stays readable when another takes its place. */
export interface KeptList {
  /** The revision of the directory that came of it. */
  readonly revision: string;
  /** How it was sent. */
  readonly encoding: Encoding;
  /** Every `groupNames` is sorted by code point and names no group twice. */
  readonly ordered: boolean;
  /** Where the first element begins, in bytes as it was sent. All of them are objects. */
  readonly start: number;
  /** How many bytes each element takes, with those behind it up to the next one, or up to the end of the list. */
  readonly lengths: Uint32Array;
  /**
   * Reads on, into `buffer`.
   * @returns how many bytes were read: 0 at the end, and only when all of it was as it had been written
   * @throws {Error} when it is damaged
   */
  read(buffer: Buffer): Promise<number>;
  /** Reads some of what was read before once more. @throws {Error} when it is not there any more */
  readAgain(from: number, to: number): Promise<Buffer>;
  /** It cannot be read: says so in the log, and keeps it no longer. Never throws. */
  forget(reason: unknown): Promise<void>;
  close(): void;
}

/**
 * The list that was applied last, on disk: the next one is almost the same. It may be relied on as long as the directory
 * has the revision that came of it; it is never more than a way to be faster.
 */
export interface KeptLists {
  /** The list that was applied last; undefined when none is kept, or it cannot be read. Never throws. */
  open(): Promise<KeptList | undefined>;
  /**
   * Keeps a list as what `revision` came of, and no other any more. Never throws.
   * @param copy undefined: it must not be kept
   */
  keep(copy: () => Promise<KeepableList | undefined>, revision: string): Promise<void>;
}

/**
 * Keeps lists in `folder`, readable by its owner alone, each in a folder of its own with the name of its revision.
 * @param revision of the directory as it is: lists of others are removed
 */
export async function openKeptLists(folder: string, revision: string, log: Logger): Promise<KeptLists> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  let kept: string | undefined;
  for (const name of await readdir(folder)) {
    if (name === revision) kept = name;
    else await rm(join(folder, name), { recursive: true, force: true });
  }

  async function forget(damaged: string, reason: unknown): Promise<void> {
    if (kept !== damaged) return;
    kept = undefined;
    const place = join(folder, damaged);
    log.warn(
      `the list of principals that was applied last, kept in ${place}, cannot be used (${firstLineOf(reason)}): ` +
        "the next list is read without it, which only takes longer",
    );
    await rm(place, { recursive: true, force: true }).catch(() => undefined);
  }

  return {
    open: async () => {
      if (kept === undefined) return undefined;
      const opening = kept;
      try {
        const list = await openList(join(folder, opening));
        return { ...list, revision: opening, forget: (reason) => forget(opening, reason) };
      } catch (error) {
        await forget(opening, error);
        return undefined;
      }
    },
    keep: async (copy, next) => {
      const before = kept;
      kept = undefined;
      try {
        const list = await copy();
        if (list !== undefined) {
          await writeFile(join(list.folder, listFiles.index), JSON.stringify(list.index), { mode: 0o600 });
          await mkdir(folder, { recursive: true, mode: 0o700 });
          await rename(list.folder, join(folder, next));
          kept = next;
        }
      } catch (error) {
        log.warn(
          `the list of principals that was applied cannot be kept in ${folder} (${firstLineOf(error)}): ` +
            "the next list is read without it, which only takes longer",
        );
      }
      if (before !== undefined) await rm(join(folder, before), { recursive: true, force: true }).catch(() => undefined);
    },
  };
}

async function openList(folder: string): Promise<Omit<KeptList, "revision" | "forget">> {
  const index = indexSchema.parse(JSON.parse(await readFile(join(folder, listFiles.index), "utf8")));
  const lengths = await readLengths(join(folder, listFiles.lengths), index);
  const list = await open(join(folder, listFiles.list), "r");
  let position = 0;
  let checksum = 0;
  return {
    encoding: index.encoding,
    ordered: index.ordered,
    start: index.start,
    lengths,
    close: () => {
      list.close().catch(() => undefined);
    },
    read: async (buffer) => {
      if (position === index.list.bytes) return 0;
      const { bytesRead } = await list.read(buffer, 0, Math.min(buffer.length, index.list.bytes - position), position);
      if (bytesRead === 0) throw new Error("it is shorter than it was");
      position += bytesRead;
      checksum = crc32(buffer.subarray(0, bytesRead), checksum);
      if (position === index.list.bytes && checksum !== index.list.checksum) throw new Error("it is damaged");
      return bytesRead;
    },
    readAgain: (from, to) => readPart(list, from, to),
  };
}

async function readLengths(path: string, { lengths: { bytes, checksum } }: ListIndex): Promise<Uint32Array> {
  await using file = await open(path, "r");
  const read = await readPart(file, 0, bytes);
  if (crc32(read) !== checksum) throw new Error("the lengths of its elements are damaged");
  return new Uint32Array(read.buffer, read.byteOffset, bytes / Uint32Array.BYTES_PER_ELEMENT);
}

async function readPart(file: FileHandle, from: number, to: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(to - from);
  for (let at = 0; at < bytes.length;) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, from + at);
    if (bytesRead === 0) throw new Error("it is shorter than it was");
    at += bytesRead;
  }
  return bytes;
}
