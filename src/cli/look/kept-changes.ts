import { copyFile, link } from "node:fs/promises";
import { join } from "node:path";
import { InputError, firstLineOf } from "#errors.ts";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import type { RunRecord } from "#sync/record.ts";
import { openStore } from "#sync/plans/store.ts";
import { daemonFolder } from "#cli/context.ts";
import type { Context } from "#cli/context.ts";

/** The changes that are kept of runs, to be read. */
export interface KeptChanges {
  readonly connection: Workbench["connection"];
  /**
   * The file with the changes of a run; undefined when they are no longer kept. It stays as it is until `close`,
   * although whoever keeps the runs may remove or replace it meanwhile.
   * @throws {InputError} when it cannot be had
   */
  file(run: RunRecord): Promise<string | undefined>;
  /** What an error of reading such files means: it names the file that is kept. */
  problem(error: unknown): unknown;
  close(): Promise<void>;
}

/** Opens what is kept in a data folder. Needs no lock: each file is given a second name, in a workbench. */
export async function openKeptChanges({ configuration }: Context): Promise<KeptChanges> {
  const folder = daemonFolder(configuration);
  const store = openStore(folder);
  const workbench = await openWorkbench({ folder: join(folder, "work"), memory: configuration.memory });
  const kept = new Map<string, string>();
  return {
    connection: workbench.connection,
    file: async ({ id }) => {
      const [file, own] = [store.file(id, "changes"), workbench.file(`${id}.parquet`)];
      kept.set(own, file);
      try {
        // It costs nothing, whatever the size; on a file system that has no second names there is a copy.
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
      const found = [...kept].find(([own]) => text.includes(own));
      return found === undefined ? error : unreadable(found[1], new Error(text.replaceAll(found[0], found[1])));
    },
    close: () => workbench.close(),
  };
}

function unreadable(file: string, error: unknown): InputError {
  return new InputError(
    `the changes that are kept in ${file} cannot be read (${firstLineOf(error)}): restore the file from a backup, or remove it`,
    { cause: error },
  );
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}
