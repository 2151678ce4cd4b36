import { copyFile } from "node:fs/promises";
import { literal } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { createChanges } from "#plan/diff.ts";
import { readPrincipals, syncArrays, writePrincipals } from "#plan/lists.ts";
import type { SyncRequest, Target } from "#sync/ports.ts";

/** A target that exists only here: a list in a file. It has no connection to anything. */
export interface RehearsalTarget extends Target {
  /** What it has from now on. */
  setState(file: string): void;
  readonly state: () => string;
}

export interface RehearsalTargetOptions {
  readonly name: string;
  /** The file with what it has. */
  readonly state: string;
  /** The file that it answers lists with, whatever it has. */
  readonly lists?: string | undefined;
  /** True: it confirms changes, and makes none. */
  readonly forgets?: boolean | undefined;
}

/** Previews and applies lists as a service does, over the files of a workbench. */
export function openRehearsalTarget(
  workbench: Workbench,
  { name, state: initial, lists, forgets = false }: RehearsalTargetOptions,
): RehearsalTarget {
  const { connection } = workbench;
  let state = initial;
  let generation = 0;

  const sync = async ({ principals, applyChanges, deleteOthers }: SyncRequest, destination: string): Promise<void> => {
    await readPrincipals(connection, state, "actual");
    await readPrincipals(connection, principals, "desired");
    if (!deleteOthers)
      await connection.run("INSERT INTO desired SELECT a.* FROM actual a ANTI JOIN desired USING (kind, name)");
    await createChanges(connection, { actual: "actual", desired: "desired", into: "changes" });
    const arrays = syncArrays.map(
      ([array, action, kind]) =>
        `coalesce(list(name ORDER BY name) FILTER (action = '${action}' AND kind = '${kind}'), []) AS "${array}"`,
    );
    await connection.run(`COPY (SELECT ${arrays.join(", ")} FROM changes) TO ${literal(destination)} (FORMAT json)`);
    if (!applyChanges || forgets) return;
    const next = workbench.file(`${name}-${++generation}.json`);
    await writePrincipals(connection, next);
    state = next;
  };

  return {
    name,
    list: async (destination) => {
      await copyFile(lists ?? state, destination);
      return undefined;
    },
    sync,
    check: async () => [],
    close: async () => {},
    setState: (file) => {
      state = file;
    },
    state: () => state,
  };
}
