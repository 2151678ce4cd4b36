import type { ExportConfiguration } from "#config/configuration.ts";
import { errorDocument, InputError, RollcallError, UnavailableError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import type { FileStyle } from "#exports/csv.ts";
import { exportToFolder, exportToTables } from "#exports/export.ts";
import type { ExportOptions, TableExport } from "#exports/export.ts";
import { ExportRecord } from "#state/exports.ts";
import type { RunRecord } from "#state/record.ts";
import type { StateFiles } from "#state/store.ts";
import type { RunResult } from "#sync/context.ts";
import { readTarget } from "#sync/planning/target.ts";
import { workFolder } from "#daemon/data-folder.ts";
import type { Context } from "#daemon/context.ts";
import { describeError } from "#daemon/output.ts";
import { declaredBy, openConfiguredLoads, openConfiguredTarget, placeOf } from "#daemon/targets.ts";
import { formatNumber } from "#text.ts";

/** What was exported, for `--json` and the record of a run. */
export interface ExportDocument extends NonNullable<RunRecord["export"]> {
  readonly target: string;
  /** For a person: the database, with its schema if one was given, or the folder. */
  readonly to: string;
  readonly seconds: number;
  readonly tables: readonly {
    readonly table: string;
    readonly rows?: number;
    readonly seconds?: number;
    readonly error?: ErrorDocument;
  }[];
  /** Set when any table did not arrive. */
  readonly error?: ErrorDocument | undefined;
}

export function exportDocument({ target, to, seconds, tables, problem }: Exported): ExportDocument {
  return {
    target,
    to,
    seconds,
    tables: tables.map(({ table, rows, seconds, error }) =>
      error === undefined ? { table, rows, seconds } : { table, error: errorDocument(error) },
    ),
    error: problem === undefined ? undefined : errorDocument(problem),
  };
}

/** What was exported, for a person. */
export function describeExported(sync: string, { target, to, tables, seconds }: ExportDocument): string {
  const done = tables.filter(({ error }) => error === undefined);
  if (done.length === 0) return "";
  const width = Math.max(...done.map(({ table }) => table.length));
  const counts = done.map(({ rows = 0 }) => formatNumber(rows));
  const digits = Math.max(...counts.map((count) => count.length));
  return [
    `${sync}: exported ${target} to ${to} (${seconds.toFixed(1)} s)`,
    ...done.map(({ table }, index) => `  ${table.padEnd(width)}  ${(counts[index] ?? "").padStart(digits)} rows`),
    "",
  ].join("\n");
}

/** The result of an export. */
export interface Exported {
  readonly target: string;
  /** For a person: the database, with its schema if one was given, or the folder. */
  readonly to: string;
  readonly tables: readonly TableExport[];
  readonly seconds: number;
  /** Set when any table failed, and names these. */
  readonly problem?: RollcallError | undefined;
}

/**
 * Exports the target of a sync to the tables of its `export:`.
 * @param files have the record of it
 * @throws when nothing could be exported at all
 */
export async function exportTables(context: Context, files: StateFiles, sync: string): Promise<Exported> {
  const { configuration, embedded } = context;
  const settings = configuration.syncs[sync];
  if (settings?.export === undefined) throw new InputError(`the sync ${sync} has no \`export:\``);
  const { to: target, export: into } = settings;
  const record = new ExportRecord(files, placeOf(configuration, target));
  const { loads } = await openConfiguredLoads(configuration, target, embedded, {
    log: (message) => {
      context.log.info({ sync }, `sync ${sync}: ${message}`);
    },
  });
  try {
    const exported = await exportTarget(context, sync, databaseOf(into), (options) =>
      exportToTables(options, into, (...load) => loads.load(...load)),
    );
    if (exported.problem === undefined) await record.settle(into);
    else await record.invalidate();
    return exported;
  } finally {
    await loads.close();
  }
}

/**
 * Exports after a run, if the sync has an `export:` and its tables are not up to date: also after a run without changes,
 * if an earlier export failed. Never throws, because the run has succeeded.
 */
export async function exportAfter(
  context: Context,
  files: StateFiles,
  sync: string,
  outcome: RunResult["outcome"],
): Promise<Exported | undefined> {
  const { configuration, interruption } = context;
  const settings = configuration.syncs[sync];
  if (settings?.export === undefined || outcome === "planned") return undefined;
  const record = new ExportRecord(files, placeOf(configuration, settings.to));
  if (outcome === "no change" && (await record.has(settings.export))) return undefined;
  const to = databaseOf(settings.export);
  try {
    return await exportTables(context, files, sync);
  } catch (error) {
    const why = interruption.stop.aborted ? "it was cancelled" : describeError(error);
    const message = `nothing was exported to ${to}; its tables are unchanged: ${why}`;
    const isForLater = error instanceof RollcallError && error.advice === "retry";
    const problem = isForLater ? new UnavailableError(message) : new InputError(message);
    return { target: settings.to, to, tables: [], seconds: 0, problem };
  }
}

/** Exports a sync's target to CSV files. @throws {InputError} when they cannot be written */
export function exportFiles(context: Context, sync: string, folder: string, style: FileStyle): Promise<Exported> {
  return exportTarget(context, sync, folder, (options) => exportToFolder(options, folder, style));
}

async function exportTarget(
  { configuration, embedded, interruption, log, output }: Context,
  sync: string,
  to: string,
  work: (options: ExportOptions) => Promise<TableExport[]>,
): Promise<Exported> {
  const started = performance.now();
  const name = configuration.syncs[sync]?.to ?? "";
  const target = await openConfiguredTarget(configuration, name, embedded);
  const declared = declaredBy(configuration, name);
  const warn = (message: string): void => {
    output.say(`${sync}: ${message}`);
  };
  try {
    if (target.takes === "changes" && !target.abilities.readsMembers)
      throw new InputError(`the target ${name} cannot be exported: it does not show who is in its groups`);
    const tables = await work({
      read: async (workbench, signal) => {
        await readTarget(target, workbench, "principals", { declared, isListing: true, signal, warn });
      },
      declared,
      folder: await workFolder(configuration),
      memory: configuration.memory,
      signal: interruption.stop,
      abandon: interruption.abandon,
      progress: (doing) => {
        log.debug({ sync }, `sync ${sync}: export: ${doing}`);
        output.progress(`${sync}: ${doing} …`);
      },
    });
    const seconds = Math.round(performance.now() - started) / 1000;
    const problem = problemOf(tables, to);
    return { target: name, to, tables, seconds, problem };
  } finally {
    output.progress();
    await target.close();
  }
}

function databaseOf({ database, schema }: ExportConfiguration): string {
  return `database ${schema === undefined ? database : `${database}.${schema}`}`;
}

function problemOf(tables: readonly TableExport[], to: string): InputError | undefined {
  const failed = tables.filter(({ error }) => error !== undefined);
  if (failed.length === 0) return undefined;
  const arrived = tables.filter(({ error }) => error === undefined).map(({ table }) => table);
  return new InputError(
    `not exported to ${to}: ${failed.map(({ table }) => table).join(", ")} (exported: ${arrived.join(", ") || "none"}); ` +
      "the others are unchanged",
    { problems: failed.map(({ table, error }) => `${table}: ${describeError(error)}`) },
  );
}
