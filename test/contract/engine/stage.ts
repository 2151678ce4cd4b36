import type { Engine, Query, RowSink, Stage } from "#service/engine/engine.ts";

/** How many rows the loader writes at once. */
export const rowsPerLoad = 100_000;

/** A stage with the rows of a query as what a load accepted. */
export async function stageOf(engine: Engine, rows: string): Promise<Stage> {
  const stage = await engine.openStage();
  await stage.connection.run(`CREATE TABLE accepted AS SELECT *, row_number() OVER () AS row_number FROM (${rows})`);
  return stage;
}

/** Loads the rows of a query into a table of the database `shop`. @param id the load's permanent name */
export async function loadRows(engine: Engine, name: string, rows: string, empty: boolean, id: string): Promise<void> {
  const table = await engine.find({ database: "shop", schema: "core_default_schema", table: name });
  if (table === undefined) throw new Error(`no table ${name}`);
  const stage = await stageOf(engine, rows);
  try {
    await engine.write(stage, table, { empty, load: id }, new AbortController().signal);
  } finally {
    await stage.close();
  }
}

export interface Page {
  readonly columnNames: readonly string[];
  readonly rows: readonly (readonly unknown[])[];
  readonly totalRowCount: number;
}

/** The page of a query, all at once. */
export function pageOf(engine: Engine, asked: Query, signal: AbortSignal): Promise<Page> {
  return collect((sink) => engine.query(asked, signal, sink));
}

/** The rows of an administrator's statements, all at once. */
export function executed(
  engine: Engine,
  database: string | undefined,
  sql: string,
  signal: AbortSignal,
): Promise<Page> {
  return collect((sink) => engine.execute(database, sql, signal, sink));
}

async function collect(work: (sink: RowSink) => Promise<number>): Promise<Page> {
  let columnNames: readonly string[] = [];
  let rows: (readonly unknown[])[] = [];
  const totalRowCount = await work({
    begin: async (names) => {
      [columnNames, rows] = [names, []];
    },
    rows: async (more) => {
      rows.push(...more);
    },
  });
  return { columnNames, rows, totalRowCount };
}
