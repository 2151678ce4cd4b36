import { existsSync } from "node:fs";
import { glob } from "node:fs/promises";
import { resolve } from "node:path";
import { IncompleteReadError } from "#errors.ts";
import type { Checks } from "./checks.ts";
import { type OpenFile, openFile } from "./file.ts";

/** The files of one or several patterns, open for one read. */
export interface OpenFiles {
  readonly files: readonly OpenFile[];
  /** @throws {IncompleteReadError} when a file is no longer what it was, or the patterns match others */
  assertUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens files for one read: each name, or all that match it when it has `*`, `?`, `[…]` or `{…}` in it, in the order
 * of their names.
 * @throws {IncompleteReadError} when a name matches nothing, or what `openFile` says
 */
export async function openFiles(
  names: readonly string[],
  folder: string,
  checks: Checks,
  signal: AbortSignal,
): Promise<OpenFiles> {
  const matching = () => matches(names, folder, checks);
  const found = await matching();
  const files: OpenFile[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(files.map((file) => file.close()));
  };
  try {
    for (const name of found) files.push(await openFile(name, folder, checks, signal));
  } catch (error) {
    await close();
    throw error;
  }
  return {
    files,
    async assertUnchanged() {
      for (const file of files) await file.assertUnchanged();
      const now = await matching();
      if (now.length === found.length && now.every((name, index) => name === found[index])) return;
      const news = now.find((name) => !found.includes(name)) ?? "a file";
      throw new IncompleteReadError(
        `${news} came while the others were being read; read them again when nothing writes`,
      );
    },
    close,
  };
}

async function matches(names: readonly string[], folder: string, { checksum }: Checks): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of names) {
    // A file may have such a name itself.
    if (!/[*?[{]/.test(name) || existsSync(resolve(folder, name))) {
      found.push(name);
      continue;
    }
    const all = await Array.fromAsync(glob(name, { cwd: folder }));
    const matching = all.filter((file) => checksum === undefined || !file.endsWith(`.${checksum}`)).sort();
    if (matching.length === 0) {
      throw new IncompleteReadError(
        `no file matches ${name}; check the pattern, which is relative to the configuration's folder, and the export`,
      );
    }
    found.push(...matching);
  }
  return [...new Set(found)];
}
