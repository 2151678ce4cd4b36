import { copyFile, link } from "node:fs/promises";
import { Workbench } from "#duckdb/workbench.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { forbidden } from "#files/disk.ts";
import { Plans } from "#state/plans.ts";
import type { RunRecord } from "#state/record.ts";
import type { Reader } from "#state/store.ts";
import type { ReadingContext } from "./context.ts";
import { readState, workFolder } from "./data-folder.ts";

/** Reads the stored changes of runs. */
export class StoredChanges {
  readonly #workbench: Workbench;
  readonly #plans: Plans;
  readonly #originals = new Map<string, string>();

  /**
   * Reads the stored changes of a data folder. Needs no lock: each file gets a second name, in a workbench.
   * @throws what `read` throws; an error about a file names the original
   */
  static async read<Result>(
    { configuration }: Pick<ReadingContext, "configuration">,
    read: (stored: StoredChanges) => Promise<Result>,
  ): Promise<Result> {
    await using workbench = await Workbench.open({
      folder: await workFolder(configuration),
      memory: configuration.memory,
    });
    await using state = await readState(configuration);
    const stored = new StoredChanges(workbench, state);
    return await read(stored).catch((error: unknown) => {
      throw stored.#problem(error);
    });
  }

  private constructor(workbench: Workbench, state: Reader) {
    this.#workbench = workbench;
    this.#plans = new Plans(state.files);
  }

  get connection(): Workbench["connection"] {
    return this.#workbench.connection;
  }

  /**
   * The file with the changes of a run, or its quarantined records; undefined if they are not stored. It stays unchanged until then, even
   * when a daemon removes or replaces the original meanwhile.
   * @throws {InputError} when it cannot be opened
   */
  async file({ id }: RunRecord, table: "changes" | "quarantined" = "changes"): Promise<string | undefined> {
    // A history finds the run by the name of its changes.
    const name = table === "changes" ? id : `${id}.${table}`;
    const [file, own] = [this.#plans.file(id, table), this.#workbench.file(`${name}.parquet`)];
    this.#originals.set(own, file);
    await this.#plans.fetch([id]);
    try {
      // A link costs nothing, whatever the size; a file system without links gets a copy.
      await link(file, own).catch((error: unknown) => (isMissing(error) ? Promise.reject(error) : copyFile(file, own)));
      return own;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw unreadable(file, error);
    }
  }

  /** The files with the changes of runs, of those that have any. */
  async files(runs: readonly RunRecord[]): Promise<string[]> {
    const files: string[] = [];
    for (const run of runs) {
      const file = run.kept ? await this.file(run) : undefined;
      if (file !== undefined) files.push(file);
    }
    return files;
  }

  /** Makes an error of reading such a file name the original. */
  #problem(error: unknown): unknown {
    const text = firstLineOf(error);
    const found = [...this.#originals].find(([own]) => text.includes(own));
    return found === undefined ? error : unreadable(found[1], new Error(text.replaceAll(found[0], found[1])));
  }
}

function unreadable(file: string, error: unknown): InputError {
  const what = `the stored changes in ${file}`;
  const damaged = new InputError(
    `${what} cannot be read (${firstLineOf(error)}): restore the file from a backup, or remove it`,
    { cause: error },
  );
  return forbidden(what, error) ?? damaged;
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}
