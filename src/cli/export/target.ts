import { join } from "node:path";
import type { ExportConfiguration } from "#config/configuration.ts";
import { InputError } from "#errors.ts";
import type { FileStyle } from "#exports/csv.ts";
import { exportToFolder, exportToTables } from "#exports/export.ts";
import type { ExportOptions, TableExport } from "#exports/export.ts";
import type { RunResult } from "#sync/run.ts";
import { daemonFolder } from "#cli/context.ts";
import type { Context } from "#cli/context.ts";
import { exportRecord } from "./record.ts";
import { openConfiguredLoads } from "#cli/open/loads.ts";
import { openConfiguredTarget, placeOf } from "#cli/open/sync.ts";
import { describeError } from "#cli/output.ts";

/** What became of an export. */
export interface Exported {
  readonly target: string;
  /** For a person: the database, with its schema if one was given, or the folder. */
  readonly to: string;
  readonly tables: readonly TableExport[];
  readonly seconds: number;
  /** Set when any table did not arrive: it names those that did not. */
  readonly problem?: InputError;
}

/**
 * Exports the target of a sync to where its `export:` says.
 * @throws when nothing could be exported at all
 */
export async function exportTables(context: Context, sync: string): Promise<Exported> {
  const { configuration, embedded } = context;
  const settings = configuration.syncs[sync];
  if (settings?.export === undefined) throw new InputError(`the sync ${sync} has no \`export:\``);
  const { to: target, export: into } = settings;
  const record = exportRecord(configuration, placeOf(configuration, target));
  const loads = await openConfiguredLoads(configuration, target, embedded, {
    log: (message) => {
      context.log.info({ sync }, `sync ${sync}: ${message}`);
    },
  });
  try {
    const exported = await exportTarget(context, sync, databaseOf(into), (options) =>
      exportToTables(options, into, (...load) => loads.load(...load)),
    );
    if (exported.problem === undefined) record.settle(into);
    else record.invalidate();
    return exported;
  } finally {
    await loads.close();
  }
}

/**
 * Exports after a run, where the sync has an `export:` and its tables do not hold what the run left. That is more than
 * what this run changed: an export that failed before is made up for. Never throws: the run has succeeded.
 */
export async function exportAfter(
  context: Context,
  sync: string,
  outcome: RunResult["outcome"],
): Promise<Exported | undefined> {
  const { configuration, interruption } = context;
  const settings = configuration.syncs[sync];
  if (settings?.export === undefined || outcome === "planned") return undefined;
  const record = exportRecord(configuration, placeOf(configuration, settings.to));
  if (outcome === "no change" && record.has(settings.export)) return undefined;
  const to = databaseOf(settings.export);
  try {
    return await exportTables(context, sync);
  } catch (error) {
    const why = interruption.stop.aborted ? "it was stopped" : describeError(error);
    const problem = new InputError(`nothing was exported to ${to}, and its tables are as they were: ${why}`);
    return { target: settings.to, to, tables: [], seconds: 0, problem };
  }
}

/** Writes the users and groups of a sync's target to CSV files. @throws {InputError} when they cannot be written */
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
  try {
    const tables = await work({
      list: (destination, signal) => target.list(destination, signal),
      folder: join(daemonFolder(configuration), "work"),
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
    return { target: name, to, tables, seconds, ...(problem === undefined ? {} : { problem }) };
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
      "what was not exported is as it was",
    { problems: failed.map(({ table, error }) => `${table}: ${describeError(error)}`) },
  );
}
