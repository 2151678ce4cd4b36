import { chown, mkdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { exists } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import { paths } from "./store.ts";
import type { StateFiles } from "./store.ts";

/** Where an export goes. */
export interface Exported {
  readonly database: string;
  readonly schema?: string | undefined;
}

/**
 * Which tables are up to date with a target: a small file per target. It is removed before a run changes the target, so
 * that an export that failed, or was killed, is repeated after the next run.
 */
export class ExportRecord {
  readonly #files: StateFiles;
  readonly #own: readonly string[];

  /** @param place identifies the target */
  constructor(files: StateFiles, place: string) {
    this.#files = files;
    this.#own = paths.exports(place);
  }

  /** Whether these tables are up to date. */
  async has(into: Exported): Promise<boolean> {
    return (await this.#read()).includes(key(into));
  }

  /** Records that they are. */
  async settle(into: Exported): Promise<void> {
    const file = this.#file;
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    const beside = `${file}.${process.pid}`;
    await writeFile(beside, JSON.stringify([...new Set([...(await this.#read()), key(into)])]));
    // Root may export while the service runs as another account, which must be able to read it.
    const { uid, gid } = await stat(this.#files.folder);
    if (process.getuid?.() === 0) for (const path of [dirname(file), beside]) await chown(path, uid, gid);
    await rename(beside, file);
    // Without this record, the next run exports again.
    await this.#files.save(this.#own).catch(() => undefined);
  }

  /** Records that none are: the target is about to change. */
  async invalidate(): Promise<void> {
    const file = this.#file;
    if (await exists(file)) {
      await rm(file);
      // Durably: after a power failure the tables must not count as up to date.
      await syncFolder(dirname(file));
    }
    await this.#files.save(this.#own);
  }

  get #file(): string {
    return join(this.#files.folder, ...this.#own);
  }

  async #read(): Promise<string[]> {
    await this.#files.fetch(this.#own);
    try {
      return JSON.parse(await readFile(this.#file, "utf8")) as string[];
    } catch {
      return [];
    }
  }
}

function key({ database, schema }: Exported): string {
  return JSON.stringify([database, schema ?? null]);
}
