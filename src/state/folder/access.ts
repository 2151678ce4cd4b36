import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { InputError, reasonOf } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import { noAccess, parseAccess } from "#state/access.ts";
import type { Access, AccessChange } from "#state/access.ts";
import type { AccessStore } from "#state/store.ts";

/** Accounts, sessions and tokens: `access.json` in the daemon's folder, for its owner alone. One process at a time writes it. */
export class FolderAccess implements AccessStore {
  readonly #folder: string;
  readonly #queue = createQueue();
  /** What this process has read or written last. Nobody else writes. */
  #known: Access | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async read(): Promise<Access> {
    this.#known ??= await readAccess(this.#folder);
    return this.#known;
  }

  change<Result>(work: AccessChange<Result>): Promise<Result> {
    return this.#queue(async () => {
      const before = await this.read();
      const [after, result] = work(before);
      if (after !== before) {
        await writeAccess(this.#folder, after);
        this.#known = after;
      }
      return result;
    });
  }
}

/** @throws {InputError} as `parseAccess` does, and when it cannot be read */
export async function readAccess(folder: string): Promise<Access> {
  const file = fileOf(folder);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return noAccess;
    throw new InputError(`${file} cannot be read: ${reasonOf(error)}`, { cause: error });
  }
  return parseAccess(jsonOf(text), file);
}

export async function writeAccess(folder: string, access: Access): Promise<void> {
  await makeFolder(folder, "the daemon's folder");
  await writeDurably(fileOf(folder), `${JSON.stringify(access, null, 2)}\n`);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function fileOf(folder: string): string {
  return join(folder, "access.json");
}
