import type { Command } from "commander";
import { exportCommand } from "#cli/commands.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";
import { exportStopping } from "#cli/context.ts";

export function addExportCommand(program: Command, { within }: Frame): void {
  common(program.command("export"))
    .argument("[sync]", "the sync (default: all that have an `export:`)")
    .description("put the users, groups and memberships of a sync's target into tables, or into CSV files")
    .option("--to <folder>", "write CSV files for people there, instead of loading tables")
    .option("--raw", "with --to: values exactly as they are, also those that a spreadsheet would run as formulas")
    .action((sync: string | undefined, options: CommonOptions & { to?: string; raw?: boolean }) =>
      within(options, (context) => exportCommand(context, sync, options), exportStopping),
    );
}
