import { randomUUID } from "node:crypto";
import { chmod, mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { requireLoaded } from "#client/loads.ts";
import type { Load, LoadSignals, Loads } from "#client/loads.ts";
import { InputError, RefusedError, UnavailableError, reasonOf } from "#errors.ts";
import type { Connection } from "#duckdb/database.ts";
import { codeOf, isFolder, naming, unwritable } from "#files/disk.ts";
import type { Attributes } from "#principals/attributes.ts";
import { interruptible, useThreads } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { writeForLoad, writeForPeople } from "./csv.ts";
import type { FileStyle } from "./csv.ts";
import { columnsOf, createRelations, exportedNames } from "./relations.ts";
import type { ExportedTable } from "./relations.ts";
import { formatNumber } from "#text.ts";

/** What is exported, and the resources for it. */
export interface ExportOptions extends LoadSignals {
  /** Reads the target into the table `principals` of a workbench. */
  readonly read: (workbench: Workbench, signal: AbortSignal) => Promise<void>;
  /** What the target's principals have. */
  readonly declared: Attributes;
  /** The folder of the workbenches. */
  readonly folder: string;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  /** Called with each step of the export. */
  readonly progress?: ((doing: string) => void) | undefined;
}

/** How one table was exported. */
export interface TableExport {
  readonly table: ExportedTable;
  readonly rows: number;
  readonly seconds: number;
  /** Why it failed; then the table has what it had before. */
  readonly error?: unknown;
}

/**
 * Exports a target's users and groups into tables of a database: each table in a load of its own that replaces its
 * rows, so that nobody ever sees half of one. A table that cannot be loaded keeps what it has, and the others are still
 * loaded. If the service becomes unreachable or the export is stopped, the remaining tables are left out.
 * @returns the result for each table, in the order of the loads
 * @throws when the export fails or is stopped before anything is loaded
 */
export async function exportToTables(
  options: ExportOptions,
  into: { readonly database: string; readonly schema?: string },
  load: Loads["load"],
): Promise<TableExport[]> {
  // A text that no directory contains.
  const nothing = randomUUID();
  const columns = columnsOf(options.declared);
  return withRelations(options, async (connection, file) => {
    const results: TableExport[] = [];
    let over: unknown;
    for (const table of exportedNames) {
      const path = file(`${table}.csv`);
      const result = await timed(table, async () => {
        if (over !== undefined) throw new UnavailableError("left out", { cause: over });
        options.progress?.(`writing ${table}`);
        const rows = await writeForLoad(connection, { table, columns: columns[table] }, path, nothing);
        options.progress?.(`loading ${table} (${formatNumber(rows)} rows)`);
        await loadTable({ into: { ...into, table }, path, nothing }, options, load);
        return rows;
      });
      if (result.error instanceof UnavailableError || options.signal.aborted) over = result.error;
      results.push(result);
    }
    return results;
  });
}

/** Replaces the rows of a table by those in a file, which is removed then. */
async function loadTable(
  { into, path, nothing }: { readonly into: Load["into"]; readonly path: string; readonly nothing: string },
  signals: LoadSignals,
  load: Loads["load"],
): Promise<void> {
  const title = `the load into ${[into.database, into.schema, into.table].filter((part) => part !== undefined).join(".")}`;
  const loaded = await load(
    {
      into,
      format: { type: "csv", field_separator: ",", enclosing_character: '"', null_value: nothing },
      options: { empty_target: true, max_ignored_rows: 0 },
      sources: [{ name: into.table, path }],
    },
    signals,
  ).catch((error: unknown) => {
    throw isMissingTable(error) ? new RefusedError(`${title}: ${missingTable}`, { cause: error }) : error;
  });
  await rm(path);
  requireLoaded(loaded, title);
}

const missingTable =
  "there is no such table in the service; make it as config/sample/tables.sql does, for instance by `service.tables`";

function isMissingTable(error: unknown): boolean {
  return error instanceof RefusedError && error.message.includes("Unable to find table");
}

/**
 * Writes a target's users and groups to CSV files in a folder, `users.csv` and so on, each complete or not at all.
 * @throws {InputError} when the folder cannot be written to, or has files of these names that no export has written
 */
export async function exportToFolder(options: ExportOptions, folder: string, style: FileStyle): Promise<TableExport[]> {
  await makeLastFolder(folder);
  const columns = columnsOf(options.declared);
  for (const table of exportedNames) await refuseForeign(join(folder, `${table}.csv`), columns[table]);
  return withRelations(options, async (connection) => {
    const results: TableExport[] = [];
    for (const table of exportedNames) {
      const path = join(folder, `${table}.csv`);
      const partial = `${path}.${process.pid}.partial`;
      const write = async (): Promise<number> => {
        options.progress?.(`writing ${path}`);
        try {
          const rows = await writeForPeople(connection, { table, columns: columns[table] }, partial, style);
          await chmod(partial, 0o600);
          await rename(partial, path);
          return rows;
        } catch (cause) {
          options.signal.throwIfAborted();
          throw unwritable(path, cause);
        } finally {
          await rm(partial, { force: true });
        }
      };
      results.push(await timed(table, write));
      options.signal.throwIfAborted();
    }
    return results;
  });
}

/**
 * An export replaces an earlier one, also one that a spreadsheet has saved again without quotes, and nothing else: the files
 * of a source may have the same names.
 */
async function refuseForeign(path: string, columns: readonly string[]): Promise<void> {
  let header: string;
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4096));
    header =
      buffer
        .toString("utf8", 0, bytesRead)
        .replace(/^\uFEFF/, "")
        .split(/[\r\n]/, 1)[0] ?? "";
  } catch {
    // What cannot be read either is not there, or cannot be written.
    return;
  }
  const isOwn = header === "" || header.startsWith(`"${columns[0]}"`);
  if (isOwn || header.split(/[,;\t]/).every((name) => columns.includes(name))) return;
  throw new InputError(
    `${path} was not written by an export, and would be replaced; choose another folder, or move the file away`,
  );
}

/** Makes the folder, but none above it: a misspelled path is not to become a tree. */
async function makeLastFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (cause) {
    if (codeOf(cause) === "EEXIST" && (await isFolder(folder))) return;
    const above = dirname(folder);
    const why =
      codeOf(cause) === "ENOENT" && !(await isFolder(above))
        ? `there is no folder ${above}; make it first, or check the path`
        : reasonOf(cause);
    throw new InputError(`the folder ${folder} cannot be made: ${why}`, { cause });
  }
}

async function timed(table: ExportedTable, work: () => Promise<number>): Promise<TableExport> {
  const started = performance.now();
  const seconds = (): number => Math.round(performance.now() - started) / 1000;
  try {
    return { table, rows: await work(), seconds: seconds() };
  } catch (error) {
    return { table, rows: 0, seconds: seconds(), error };
  }
}

/** Lists users and groups, makes the views for the tables, and runs `work` in that workbench. */
async function withRelations<Result>(
  options: ExportOptions,
  work: (connection: Connection, file: (name: string) => string) => Promise<Result>,
): Promise<Result> {
  const { signal } = options;
  signal.throwIfAborted();
  await using workbench = await Workbench.open(options);
  const { connection } = workbench;
  try {
    return await interruptible(connection, signal, async () => {
      options.progress?.("listing users and groups");
      await options.read(workbench, signal);
      options.progress?.("resolving group memberships");
      await useThreads(connection);
      await createRelations(connection, "principals", options.declared, signal);
      return work(connection, (name) => workbench.file(name));
    });
  } catch (error) {
    signal.throwIfAborted();
    throw naming(`the folder ${options.folder}`, error);
  }
}
