import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { interruptMessages, chosenSyncs } from "#daemon/context.ts";
import { daemonFolder } from "#daemon/data-folder.ts";
import { filesIn } from "#state/folder/store.ts";
import { describeExported, exportDocument, exportFiles, exportTables } from "#daemon/export.ts";
import { command } from "#commands.ts";
import { resolve } from "node:path";
import { InputError } from "#errors.ts";
import type { Context } from "#daemon/context.ts";
import { describeError, exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { placeOf } from "#daemon/targets.ts";
import { eachSync, failuresTo } from "./syncs.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("[sync]", "the sync (default: all that have an `export:`)")
    .option("--to <folder>", "write CSV files for spreadsheets to this folder instead of loading tables")
    .option("--raw", "with --to: write values unchanged, even those a spreadsheet would run as formulas");
  help(command, {
    examples: ["rollcall export", "rollcall export staff --to reports"],
    exits: { 1: "failed, or a table did not arrive" },
  }).action((sync: string | undefined, options: CommonOptions & ExportCommandOptions) =>
    runner.runWithContext(options, (context) => exportCommand(context, sync, options), interruptMessages.export),
  );
}

export interface ExportCommandOptions {
  /** A folder for CSV files, instead of tables. */
  readonly to?: string;
  /** Values in these files exactly as they are. */
  readonly raw?: boolean;
}

/**
 * `rollcall export [sync]`: the users, groups and memberships of a sync's target into the tables of `export:`, or into
 * CSV files. Exit code 1 when any of them did not arrive.
 */
export async function exportCommand(
  context: Context,
  name: string | undefined,
  { to, raw = false }: ExportCommandOptions,
): Promise<ExitCode> {
  if (raw && to === undefined)
    throw new InputError("--raw only applies to CSV files: name a folder for them with --to");
  if (to === "") throw new InputError("--to is empty: name a folder");
  const { output } = context;
  const documents: object[] = [];
  const failed = failuresTo(output, output.json ? documents : undefined);
  const code = await eachSync(context, chosen(context, name, to), failed, async (sync) => {
    const files = filesIn(daemonFolder(context.configuration));
    const exported =
      to === undefined
        ? await exportTables(context, files, sync)
        : await exportFiles(context, sync, resolve(to), { raw });
    const document = exportDocument(exported);
    documents.push({ sync, ...document });
    if (!output.json) await output.write(describeExported(sync, document));
    if (exported.problem === undefined) return exitCodes.done;
    if (!output.json) output.say(`${sync}: ${describeError(exported.problem)}`);
    return exitCodes.failed;
  });
  if (output.json) await output.write(`${JSON.stringify({ exports: documents }, undefined, 2)}\n`);
  return code;
}

/** The syncs to export: of several with the same target and database, one. */
function chosen({ configuration }: Context, name: string | undefined, to: string | undefined): string[] {
  const syncs = chosenSyncs(configuration, name).filter(
    (sync) => to !== undefined || configuration.syncs[sync]?.export !== undefined,
  );
  if (syncs.length === 0) {
    const which = name === undefined ? "no sync has" : `the sync ${name} does not have`;
    throw new InputError(`${which} an \`export: { database: … }\`: add it, or write CSV files with --to FOLDER`);
  }
  const places = new Map<string, string>();
  for (const sync of syncs) {
    const settings = configuration.syncs[sync];
    const place = placeOf(configuration, settings?.to ?? "");
    const key = JSON.stringify(to === undefined ? [place, settings?.export] : place);
    if (!places.has(key)) places.set(key, sync);
  }
  if (to !== undefined && places.size > 1)
    throw new InputError(`the syncs have several targets; name one: \`${command("export", "SYNC", "--to", to)}\``);
  return [...places.values()];
}
