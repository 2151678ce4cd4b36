import type { Engine, Stage } from "#service/engine/engine.ts";

/** How many rows the loader writes at once. */
export const rowsPerLoad = 100_000;

/** A stage with the rows of a query as what a load accepted. */
export async function stageOf(engine: Engine, rows: string): Promise<Stage> {
  const stage = await engine.openStage();
  await stage.connection.run(`CREATE TABLE accepted AS SELECT *, row_number() OVER () AS row_number FROM (${rows})`);
  return stage;
}
