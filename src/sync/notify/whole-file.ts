import { readFile, rename, writeFile } from "node:fs/promises";

/** Writes a small file so that there is always the old one or the new one. Only its owner may read it. */
export async function writeWhole(file: string, value: unknown): Promise<void> {
  const beside = `${file}.tmp`;
  await writeFile(beside, `${JSON.stringify(value)}\n`, { mode: 0o600 });
  await rename(beside, file);
}

/** A file of `writeWhole`; undefined where there is none, or none that can be read. */
export async function readWhole(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as unknown;
  } catch {
    return undefined;
  }
}
