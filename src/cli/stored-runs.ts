import { copyFile, link } from "node:fs/promises";
import { join } from "node:path";
import { command } from "#commands.ts";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { readJournal } from "#sync/journal.ts";
import { openStore } from "#sync/plans/stored.ts";
import type { Store } from "#sync/plans/stored.ts";
import { lostRecord } from "#sync/coordinator/recover.ts";
import type { RunRecord } from "#sync/record.ts";
import { formatName } from "#text.ts";
import type { Configuration } from "#config/configuration.ts";
import type { Context } from "./context.ts";
import { daemonFolder, isLocked, readableState } from "./data-folder.ts";

/**
 * The runs of the journal, newest first; one whose process was killed is shown as such. Only reads: needs no lock, and
 * leaves it to the next run to find out more, and to write it down.
 */
export async function knownRuns({ configuration }: Pick<Context, "configuration">): Promise<RunRecord[]> {
  const folder = await readableState(configuration, { journal: true });
  let { runs } = await readJournal(folder);
  if (configuration.shared === undefined && runs.some(isRunning) && !isLocked(configuration)) {
    // Whatever was running has ended; it may have said how meanwhile.
    runs = (await readJournal(folder)).runs.map((run) => (isRunning(run) ? lostRecord(run) : run));
  }
  return runs.toSorted((a, b) => (a.id < b.id ? 1 : -1));
}

function isRunning({ state }: RunRecord): boolean {
  return state === "running";
}

/**
 * Finds a run by the beginning of its id, or of the part after the time, if that is unique; or by `latest`,
 * `latest:SYNC` or `pending`.
 * @param runs newest first
 * @throws {InputError} when none or several match
 */
export function chosenRun(runs: readonly RunRecord[], wanted: string): RunRecord {
  const found = candidates(runs, wanted);
  const [run, another] = found;
  if (run === undefined) throw new InputError(`${missing(runs, wanted)}: \`${command("runs")}\` lists the known runs`);
  if (another === undefined) return run;
  const names = found.slice(0, 5).map(({ id, sync }) => `${id} (${sync})`);
  const rest = found.length > names.length ? ` and ${found.length - names.length} more` : "";
  throw new InputError(`${formatName(wanted)} matches several runs: ${names.join(", ")}${rest}`);
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
  if (wanted === "pending") return "no run waits for approval";
  if (wanted.startsWith("latest:")) return `there is no run of a sync called ${formatName(wanted.slice(7))}`;
  return `there is no run ${formatName(wanted)}`;
}

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

/** The stored plans, to be read: `fetch` brings here what several daemons share. */
export function readableStore(configuration: Configuration): Pick<Store, "fetch" | "file"> {
  const folder = daemonFolder(configuration);
  if (configuration.shared === undefined) return openStore(folder);
  return {
    file: openStore(join(folder, "copies")).file,
    fetch: async (ids) => {
      await readableState(configuration, { files: ids.map((id) => `runs/${id}/`) });
    },
  };
}

/** Opens the stored changes of a data folder. Needs no lock: each file gets a second name, in a workbench. */
export async function openStoredChanges({ configuration }: Pick<Context, "configuration">): Promise<StoredChanges> {
  const folder = daemonFolder(configuration);
  const store = readableStore(configuration);
  const workbench = await openWorkbench({ folder: join(folder, "work"), memory: configuration.memory });
  const originals = new Map<string, string>();
  return {
    connection: workbench.connection,
    file: async ({ id }, table = "changes") => {
      // A history finds the run by the name of its changes.
      const name = table === "changes" ? id : `${id}.${table}`;
      const [file, own] = [store.file(id, table), workbench.file(`${name}.parquet`)];
      originals.set(own, file);
      await store.fetch([id]);
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
    close: () => workbench.close(),
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
