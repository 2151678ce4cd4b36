import { copyFile, link } from "node:fs/promises";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { Plans } from "#state/plans.ts";
import type { RunRecord } from "#state/record.ts";
import type { ReadingContext } from "./context.ts";
import { readState, workFolder } from "./data-folder.ts";

/** Reads the stored changes of runs. */
export interface StoredChanges {
  readonly connection: Workbench["connection"];
  /**
   * The file with the changes of a run, or its quarantined records; undefined if they are not stored. It stays unchanged until `close`, even
   * when a daemon removes or replaces the original meanwhile.
   * @throws {InputError} when it cannot be opened
   */
  file(run: RunRecord, table?: "changes" | "quarantined"): Promise<string | undefined>;
  /** Makes an error of reading such a file name the original. */
  problem(error: unknown): unknown;
  close(): Promise<void>;
}

/** Opens the stored changes of a data folder. Needs no lock: each file gets a second name, in a workbench. */
export async function openStoredChanges({
  configuration,
}: Pick<ReadingContext, "configuration">): Promise<StoredChanges> {
  const workbench = await openWorkbench({ folder: await workFolder(configuration), memory: configuration.memory });
  const state = await readState(configuration).catch(async (error: unknown) => {
    await workbench.close();
    throw error;
  });
  const plans = new Plans(state.files);
  const originals = new Map<string, string>();
  return {
    connection: workbench.connection,
    file: async ({ id }, table = "changes") => {
      // A history finds the run by the name of its changes.
      const name = table === "changes" ? id : `${id}.${table}`;
      const [file, own] = [plans.file(id, table), workbench.file(`${name}.parquet`)];
      originals.set(own, file);
      await plans.fetch([id]);
      try {
        // A link costs nothing, whatever the size; a file system without links gets a copy.
        await link(file, own).catch((error: unknown) =>
          isMissing(error) ? Promise.reject(error) : copyFile(file, own),
        );
        return own;
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw unreadable(file, error);
      }
    },
    problem: (error) => {
      const text = firstLineOf(error);
      const found = [...originals].find(([own]) => text.includes(own));
      return found === undefined ? error : unreadable(found[1], new Error(text.replaceAll(found[0], found[1])));
    },
    close: async () => {
      await state[Symbol.asyncDispose]();
      await workbench.close();
    },
  };
}

function unreadable(file: string, error: unknown): InputError {
  return new InputError(
    `the stored changes in ${file} cannot be read (${firstLineOf(error)}): restore the file from a backup, or remove it`,
    { cause: error },
  );
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}

/** The stored changes of runs, of those that have any. */
export async function filesOf(runs: readonly RunRecord[], stored: StoredChanges): Promise<string[]> {
  const files: string[] = [];
  for (const run of runs) {
    const file = run.kept ? await stored.file(run) : undefined;
    if (file !== undefined) files.push(file);
  }
  return files;
}
