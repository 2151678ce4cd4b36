import { mkdir, open, readFile, readdir, rename, rm, writeFile } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { Logger } from "pino";
import { z } from "zod";
import { firstLineOf } from "#errors.ts";

/** What is known of a list that may be kept: the list itself is in `files`, an element a line. */
export interface ListContent {
  readonly files: readonly string[];
  readonly elements: number;
  /** Every `groupNames` is sorted by code point and names no group twice. */
  readonly ordered: boolean;
}

/** The list that was applied last, open for reading: it stays readable when another takes its place. */
export interface KeptList extends Omit<ListContent, "files"> {
  /** The revision of the directory that came of it. */
  readonly revision: string;
  /**
   * Reads on, into `buffer` from `offset` on.
   * @returns how many bytes were read: 0 at the end, and only when all of it was as it had been written
   * @throws {Error} when it is damaged
   */
  read(buffer: Buffer, offset: number): Promise<number>;
  /**
   * Reads some of what was read before once more, into `buffer`, which it fills unless a file ends before.
   * @param position counted from the first byte of the list
   * @returns how many bytes were read
   * @throws {Error} when they are not there any more
   */
  readAgain(buffer: Buffer, position: number): Promise<number>;
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
   * Keeps the list in `folder`, which is moved, as what `revision` came of, and no other any more. Never throws.
   * @param content undefined: it is not to be kept
   */
  keep(folder: string, content: () => Promise<ListContent | undefined>, revision: string): Promise<void>;
}

const indexFile = "index.json";
const indexSchema = z.strictObject({
  elements: z.int().nonnegative(),
  ordered: z.boolean(),
  files: z.array(z.strictObject({ name: z.string(), bytes: z.int().positive(), checksum: z.int() })),
});
type Index = z.infer<typeof indexSchema>;

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
    keep: async (from, contentOf, next) => {
      const before = kept;
      kept = undefined;
      try {
        const content = await contentOf();
        if (content !== undefined) {
          const { files, ...others } = content;
          const index: Index = { ...others, files: [] };
          for (const name of files) index.files.push({ name, ...(await measure(join(from, name))) });
          await writeFile(join(from, indexFile), JSON.stringify(index), { mode: 0o600 });
          await mkdir(folder, { recursive: true, mode: 0o700 });
          await rename(from, join(folder, next));
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

const block = 1024 * 1024;

/** The length of a file, and a sum that is another when a byte is another. */
async function measure(path: string): Promise<{ bytes: number; checksum: number }> {
  await using file = await open(path, "r");
  const buffer = Buffer.allocUnsafe(block);
  let bytes = 0;
  let checksum = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, block, bytes);
    if (bytesRead === 0) return { bytes, checksum };
    bytes += bytesRead;
    checksum = crc32(buffer.subarray(0, bytesRead), checksum);
  }
}

async function openList(folder: string): Promise<Omit<KeptList, "revision" | "forget">> {
  const { files, ...content } = indexSchema.parse(JSON.parse(await readFile(join(folder, indexFile), "utf8")));
  const handles: FileHandle[] = [];
  const close = (): void => {
    for (const handle of handles.splice(0)) handle.close().catch(() => undefined);
  };
  try {
    for (const { name } of files) handles.push(await open(join(folder, name), "r"));
  } catch (error) {
    close();
    throw error;
  }
  let current = 0;
  let position = 0;
  let checksum = 0;
  return {
    ...content,
    close,
    readAgain: async (buffer, position) => {
      let before = 0;
      for (const [index, { name, bytes }] of files.entries()) {
        if (position < before + bytes) {
          const length = Math.min(buffer.length, before + bytes - position);
          const { bytesRead = 0 } = (await handles[index]?.read(buffer, 0, length, position - before)) ?? {};
          if (bytesRead === 0) throw new Error(`${name} is shorter than it was`);
          return bytesRead;
        }
        before += bytes;
      }
      throw new Error(`it has no byte ${position}`);
    },
    read: async (buffer, offset) => {
      for (;;) {
        const [file, handle] = [files[current], handles[current]];
        if (file === undefined || handle === undefined) return 0;
        const length = Math.min(buffer.length - offset, file.bytes - position);
        const { bytesRead } = await handle.read(buffer, offset, length, position);
        position += bytesRead;
        checksum = crc32(buffer.subarray(offset, offset + bytesRead), checksum);
        if (bytesRead === 0 && length > 0) throw new Error(`${file.name} is shorter than it was`);
        if (position === file.bytes) {
          if (checksum !== file.checksum) throw new Error(`${file.name} is damaged`);
          current++;
          position = 0;
          checksum = 0;
        }
        if (bytesRead > 0) return bytesRead;
      }
    },
  };
}
