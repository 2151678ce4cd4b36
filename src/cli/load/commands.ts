import type { Command } from "commander";
import { load, sql } from "#cli/commands.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";
import { loadStopping, sqlStopping } from "#cli/context.ts";
import { addLoadFlags } from "./options.ts";
import type { LoadFlags } from "./options.ts";

/** The commands for tables of a service. */
export function addTableCommands(program: Command, { within }: Frame): void {
  addLoadFlags(
    common(program.command("load"))
      .description("load files of rows into a table of a service")
      .argument("<file...>", "CSV or delimited text, also packed with gzip or zstd; a pattern; - is standard input"),
  ).action((files: string[], options: CommonOptions & LoadFlags) =>
    within(options, (context) => load(context, files, options), loadStopping),
  );
  common(program.command("sql"))
    .description("run SQL of an administrator in the databases of the configuration's own service")
    .argument("<statements>", "SQL; - is standard input. The rows of the last statement are shown")
    .option("-d, --database <name>", "the current database (default: the only one)")
    .option("--csv", "rows as CSV")
    .action((statements: string, options: CommonOptions & { database?: string; csv?: boolean }) => {
      const { database, csv = false } = options;
      const settings = { csv, ...(database === undefined ? {} : { database }) };
      return within(options, (context) => sql(context, statements, settings), sqlStopping);
    });
}
