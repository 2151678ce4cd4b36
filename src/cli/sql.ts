import { addAbortSignal } from "node:stream";
import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { interruptMessages } from "#daemon/context.ts";
import { text } from "node:stream/consumers";
import { formatName, formatNumber, pluralize } from "#text.ts";
import { runSql } from "#client/sql.ts";
import { InputError } from "#errors.ts";
import { embeddedOptions } from "#daemon/targets.ts";
import type { Context } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import type { SqlResult } from "#client/sql.ts";
import { renderCsv, writeTable } from "./format.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("<statements>", "SQL; - is standard input. The rows of the last statement are shown")
    .option("-d, --database <name>", "the current database (default: the only one)")
    .option("--csv", "rows as CSV");
  help(command, {
    examples: [
      'rollcall sql "SELECT count(*) FROM hr.core_default_schema.people"',
      "rollcall sql - --csv < report.sql",
    ],
  }).action((statements: string, options: CommonOptions & SqlOptions) =>
    runner.runWithContext(options, (context) => sql(context, statements, options), interruptMessages.sql),
  );
}

export interface SqlOptions {
  readonly database?: string;
  readonly csv?: boolean;
}

/** `rollcall sql "…"`: runs SQL as the administrator in the databases of the configuration's own service. */
export async function sql(
  context: Context,
  statements: string,
  { database, csv = false }: SqlOptions,
): Promise<ExitCode> {
  const { configuration, embedded, interruption, output } = context;
  if (configuration.service === undefined)
    throw new InputError(`${configuration.file} has no \`service:\`, so there are no databases to run SQL in`);
  const script = statements === "-" ? await text(addAbortSignal(interruption.stop, process.stdin)) : statements;
  if (script.trim() === "")
    throw new InputError('there is no SQL; write `rollcall sql "SELECT …"`, or - to read standard input');
  const result = await runSql(
    await embeddedOptions("embedded", embedded),
    { sql: script, database },
    interruption.stop,
  );
  const { columnNames, rows, totalRowCount } = result;
  if (output.json) {
    await output.write(`${JSON.stringify(result)}\n`);
    return exitCodes.done;
  }
  if (columnNames.length === 0) return exitCodes.done;
  if (csv) {
    for (const part of renderCsv(columnNames, rows)) await output.write(part, "data");
    if (rows.length < totalRowCount)
      output.say(`only the first ${pluralize(rows.length, "row")} of ${formatNumber(totalRowCount)} are shown`);
    return exitCodes.done;
  }
  await writeRows(output, result);
  return exitCodes.done;
}

/** How many rows a terminal shows. */
const mostAtTerminal = 1000;

async function writeRows(output: Output, { columnNames, rows, totalRowCount }: SqlResult): Promise<void> {
  const { terminal } = output;
  const shown = terminal ? rows.slice(0, mostAtTerminal) : rows;
  const columns = [...columnNames.keys()];
  // Where there is no room for all columns, the last ones go.
  const expendable = columns.slice(1).toReversed();
  const hidden = await writeTable(output, columnNames, shown, { flexible: columns, expendable });
  await output.write(`(${pluralize(totalRowCount, "row")})\n`);
  const rest = terminal ? "; --csv and --json show more" : "";
  if (shown.length < totalRowCount)
    output.say(`only the first ${pluralize(shown.length, "row")} of ${formatNumber(totalRowCount)} are shown${rest}`);
  if (hidden.length > 0)
    output.say(
      `the terminal has no room for ${pluralize(hidden.length, "column")}: ${hidden.map(formatName).join(", ")}${rest}`,
    );
}
