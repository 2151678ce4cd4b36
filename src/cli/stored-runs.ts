import { copyFile, link } from "node:fs/promises";
import { join } from "node:path";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { openStore } from "#sync/plans/stored.ts";
import type { RunRecord } from "#sync/record.ts";
import { formatName } from "#text.ts";
import { daemonFolder } from "./data-folder.ts";
import type { Context } from "./context.ts";

/**
 * The run that a person means: by the beginning of its id, or of what follows the time in it, if that names one alone;
 * `latest`, `latest:SYNC` or `pending`.
 * @param runs the newest first
 * @throws {InputError} when it is none, or it could be several
 */
export function chosenRun(runs: readonly RunRecord[], wanted: string): RunRecord {
  const found = candidates(runs, wanted);
  const [run, another] = found;
  if (run === undefined) throw new InputError(`${missing(runs, wanted)}: \`rollcall runs\` lists those that are known`);
  if (another === undefined) return run;
  const names = found.slice(0, 5).map(({ id, sync }) => `${id} (${sync})`);
  const rest = found.length > names.length ? ` and ${found.length - names.length} more` : "";
  throw new InputError(`${formatName(wanted)} could be several runs: ${names.join(", ")}${rest}`);
}

function candidates(runs: readonly RunRecord[], wanted: string): readonly RunRecord[] {
  if (wanted === "pending") return runs.filter(({ state }) => state === "pending");
  if (wanted === "latest") return runs.slice(0, 1);
  if (wanted.startsWith("latest:")) return runs.filter(({ sync }) => `latest:${sync}` === wanted).slice(0, 1);
  if (wanted === "") return [];
  const exact = runs.filter(({ id }) => id === wanted);
  if (exact.length > 0) return exact;
  const byStart = runs.filter(({ id }) => id.startsWith(wanted));
  return byStart.length > 0 ? byStart : runs.filter(({ id }) => (id.split("-", 3)[2] ?? "").startsWith(wanted));
}

function missing(runs: readonly RunRecord[], wanted: string): string {
  if (runs.length === 0) return "there has been no run yet";
  if (wanted === "pending") return "no run awaits approval";
  if (wanted.startsWith("latest:")) return `there is no run of a sync called ${formatName(wanted.slice(7))}`;
  return `there is no run ${formatName(wanted)}`;
}

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
