import { text } from "node:stream/consumers";
import { pluralize, formatNumber } from "#text.ts";
import { runSql } from "#client/sql.ts";
import { InputError } from "#errors.ts";
import { embeddedOptions } from "./wiring.ts";
import type { Context } from "./context.ts";
import { exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";
import { renderCsv, renderTable } from "./format.ts";

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
  const { embedded, interruption, output } = context;
  const script = statements === "-" ? await text(process.stdin) : statements;
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
  } else {
    for (const part of renderTable(columnNames, rows)) await output.write(part);
    await output.write(`(${pluralize(totalRowCount, "row")})\n`);
  }
  if (rows.length < totalRowCount) {
    output.say(`only the first ${pluralize(rows.length, "row")} of ${formatNumber(totalRowCount)} are shown`);
  }
  return exitCodes.done;
}
