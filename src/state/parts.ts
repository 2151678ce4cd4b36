import { hash } from "node:crypto";
import { open, readdir, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "#files/disk.ts";

/*
 * Files travel in parts, of which only those that have changed are sent.
 */

/** The size of DuckDB's blocks, of which a run changes few; in bytes. */
export const partSize = 256 * 1024;

/** The hashes of the parts of each file. An empty file has one part, an empty one. */
export type Hashes = ReadonlyMap<string, readonly string[]>;

/** What is still being written has another name than it will have. */
const unfinished = /\.(?:new|partial|spill)$/;

/** The files of a folder whose paths begin so. */
export async function hashesOf(folder: string, beginnings: readonly string[]): Promise<Hashes> {
  const found = new Map<string, readonly string[]>();
  const isMeant = (path: string): boolean => beginnings.some((beginning) => path.startsWith(beginning));
  const visit = async (path: string): Promise<void> => {
    const names = await readdir(join(folder, path), { withFileTypes: true }).catch((error: unknown) => {
      // What cannot be read is not gone.
      if (codeOf(error) === "ENOENT") return [];
      throw error;
    });
    for (const entry of names) {
      const name = path === "" ? entry.name : `${path}/${entry.name}`;
      if (unfinished.test(name)) continue;
      const mayHold = beginnings.some((beginning) => beginning.startsWith(`${name}/`)) || isMeant(`${name}/`);
      if (!mayHold && !isMeant(name)) continue;
      // A folder may be on another disk, behind a link.
      const kind = entry.isSymbolicLink() ? await stat(join(folder, name)) : entry;
      if (kind.isDirectory() && mayHold) await visit(name);
      else if (kind.isFile() && isMeant(name)) {
        const hashes = await hashesOfFile(join(folder, name));
        if (hashes !== undefined) found.set(name, hashes);
      }
    }
  };
  await visit("");
  return found;
}

/** @returns undefined when it has gone meanwhile */
async function hashesOfFile(path: string): Promise<string[] | undefined> {
  await using handle = await openIfThere(path);
  if (handle === undefined) return undefined;
  const parts = Math.max(1, Math.ceil((await handle.stat()).size / partSize));
  const hashes: string[] = [];
  for (let part = 0; part < parts; part++) hashes.push(hashOf(await readPart(handle, part)));
  return hashes;
}

export function hashOf(content: Buffer): string {
  return hash("sha256", content);
}

/** The part of a file; shorter where the file ends. */
export async function readPart(handle: FileHandle, part: number): Promise<Buffer> {
  const buffer = Buffer.alloc(partSize);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(buffer, length, partSize - length, part * partSize + length);
    length += bytesRead;
    if (bytesRead === 0 || length === partSize) return buffer.subarray(0, length);
  }
}

export async function writePart(handle: FileHandle, content: Buffer, position: number): Promise<void> {
  for (let done = 0; done < content.length;) {
    const { bytesWritten } = await handle.write(content, done, content.length - done, position + done);
    done += bytesWritten;
  }
}

export async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}
