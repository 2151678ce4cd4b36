import { runSql } from "#client/sql.ts";
import type { Load } from "#client/loads.ts";
import type { Context } from "#cli/context.ts";
import { embeddedOptions } from "#cli/wiring.ts";
import { InputError } from "#errors.ts";
import { tableText } from "./options.ts";
import { didYouMean, nearest } from "#text.ts";

/** A column of a table, with its type as SQL has it: `BIGINT`, `DECIMAL(9,2)`. */
export interface TableColumn {
  readonly name: string;
  readonly type: string;
}

/** The schema of `database.table`. */
const usualSchema = "core_default_schema";

const query = `SELECT table_catalog, table_schema, table_name, column_name, data_type
  FROM information_schema.columns WHERE table_schema <> 'main' ORDER BY ordinal_position`;

/**
 * The columns of a table of the configuration's own service.
 * @throws {InputError} when there is none, with those that have nearly its name
 */
export async function columnsOfTable(
  { embedded, interruption }: Pick<Context, "embedded" | "interruption">,
  { database, schema = usualSchema, table }: Load["into"],
): Promise<readonly TableColumn[]> {
  const options = await embeddedOptions("embedded", embedded);
  const { rows } = await runSql(options, { sql: query }, interruption.stop);
  const all = rows.map(([inDatabase, inSchema, inTable, name, type]) => ({
    path: [inDatabase, inSchema, inTable].map(String) as [string, string, string],
    name: String(name),
    type: String(type),
  }));
  const wanted = written([database, schema, table]);
  const found = all.filter(({ path }) => written(path).toLowerCase() === wanted.toLowerCase());
  if (found.length === 0) throw missingTable(wanted, [...new Set(all.map(({ path }) => written(path)))]);
  return found;
}

function missingTable(wanted: string, tables: readonly string[]): InputError {
  const namesake = tables.find((path) => lastPart(path) === lastPart(wanted));
  const meant = nearest(wanted, tables) ?? namesake;
  const hint =
    tables.length === 0
      ? "there are no tables yet"
      : meant === undefined
        ? didYouMean(wanted, tables.slice(0, 20))
        : `did you mean ${JSON.stringify(meant)}?`;
  const end = hint.endsWith("?") ? "" : ".";
  return new InputError(
    `there is no table ${wanted}; ${hint}${end} To make it, add it to the file of \`service.tables\`, or use \`rollcall sql "CREATE TABLE …"\``,
  );
}

/** As `--table` takes it: the usual schema is left out. */
function written([database, schema, table]: readonly [string, string, string]): string {
  return tableText(schema === usualSchema ? [database, table] : [database, schema, table]);
}

function lastPart(path: string): string {
  return (path.split(".").at(-1) ?? path).toLowerCase();
}
