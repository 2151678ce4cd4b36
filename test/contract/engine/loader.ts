import { postgres } from "#postgres/options.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import { rowsPerLoad, stageOf } from "./stage.ts";

/** A process that loads into the engine of a folder, or of a URL, until it is killed, and says after each pair of loads which it was. */
const [folder = "", first = "1", url] = process.argv.slice(2);
const options = { folder, memory: 512 * 2 ** 20 };
const engine =
  url === undefined
    ? await openDuckDbEngine(options)
    : await openPostgresEngine({ ...options, postgres: postgres.parse({ postgres: url }) });
const never = new AbortController().signal;
await engine.define(
  `CREATE DATABASE IF NOT EXISTS shop;
   CREATE TABLE IF NOT EXISTS shop.keyed (id INTEGER PRIMARY KEY, name VARCHAR, load INTEGER);
   CREATE TABLE IF NOT EXISTS shop.plain (id INTEGER, name VARCHAR, load INTEGER);`,
  "tables.sql",
);
for (let load = Number(first); ; load += 1) {
  for (const name of ["keyed", "plain"]) {
    const table = await engine.find({ database: "shop", schema: "core_default_schema", table: name });
    if (table === undefined) throw new Error(`no table ${name}`);
    const stage = await stageOf(
      engine,
      `SELECT i AS id, 'row ' || hash(i + ${load}) AS name, ${load} AS load FROM range(${rowsPerLoad}) r(i)`,
    );
    // Every way of writing: emptied, made anew, updated in place.
    const empty = name === "plain" || load % 2 === 0;
    await engine.write(stage, table, { empty, load: `${name} ${load}` }, never);
    await stage.close();
  }
  process.stdout.write(`${load}\n`);
}
