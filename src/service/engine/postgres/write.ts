import { pipeline } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { interruptible } from "#duckdb/database.ts";
import { identifier } from "#postgres/database.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import { RefusedError } from "#errors.ts";
import { inputError, isAway, isForeignAway, sqlState } from "#postgres/errors.ts";
import { exactType, TableChangedError } from "#service/engine/engine.ts";
import type { Column, Stage, Table, Writing } from "#service/engine/engine.ts";
import { latest, listOf, sameKey, upsert } from "#service/engine/write.ts";
import { copyOf } from "./copy.ts";
import { qualified } from "./names.ts";
import { findTable } from "./tables.ts";

/** How long a load waits for a server that went away: a failover takes some seconds. In milliseconds. */
const patience = { all: 60_000, between: 1_000 };

/**
 * Writes the rows of `accepted` into the table, all or nothing (A.15, A.21), and begins again when the server goes away: the
 * load's record says whether a commit without an answer was written (A.24).
 */
export async function writeTable(
  postgres: Postgres,
  stage: Stage,
  table: Table,
  writing: Writing,
  signal: AbortSignal,
): Promise<void> {
  const until = performance.now() + patience.all;
  let isFirst = true;
  for (;;) {
    try {
      return await writeOnce(postgres, stage, table, writing, signal, isFirst);
    } catch (error) {
      if (!(isAway(error) || isForeignAway(error)) || performance.now() > until) throw error;
    }
    isFirst = false;
    await delay(patience.between, undefined, { signal });
  }
}

async function writeOnce(
  postgres: Postgres,
  { connection }: Stage,
  table: Table,
  { empty, load, rows, claim }: Writing,
  signal: AbortSignal,
  isFirst: boolean,
): Promise<void> {
  const { database, schema, name, columns, primaryKey } = table;
  const work = async (transaction: Transaction): Promise<void> => {
    const part = `table ${database}.${schema}.${name}`.toLowerCase();
    // Loads of other processes too write to a table one at a time: two would conflict over its keys.
    await transaction.lock(part);
    const written = await transaction.rows("SELECT load FROM rollcall.loads WHERE load = $1", [load]);
    if (written.length > 0) {
      // This time `accepted` was not read, so its number of rows is not known; after a lost commit it is ours.
      if (rows !== undefined && isFirst) throw new Error("the load was written before");
      return;
    }
    const found = await findTable(transaction, { database, schema, table: name });
    if (found === undefined) throw new TableChangedError(table);
    const target = qualified(found.namespace, name);
    // From here on nobody changes its columns; so they are read again.
    const present = await transaction.rows(`SELECT 1 FROM ${target} LIMIT 1`);
    const now = await findTable(transaction, { database, schema, table: name });
    if (!isDeepStrictEqual(now?.table, table)) throw new TableChangedError(table);
    if (empty) await transaction.run(`DELETE FROM ${target}`);
    const isUpsert = primaryKey.length > 0 && !empty && present.length > 0;
    const list = listOf(columns);
    if (isUpsert) await transaction.run(`CREATE TEMPORARY TABLE ${staged} (LIKE ${target}) ON COMMIT DROP`);
    const copied = await interruptible(connection, signal, async () => {
      const result = await connection.raw.stream(
        `SELECT ${columns.map(typed).join(", ")} FROM (${await latest(connection, table)})`,
      );
      const copy = transaction.copyIn(`COPY ${isUpsert ? staged : target} (${list}) FROM STDIN (FORMAT binary)`);
      await pipeline(copyOf(result, columns), copy, { signal });
      return copy.rowCount;
    });
    if (rows !== undefined && copied !== rows) throw new Error(`${copied} rows instead of ${rows}`);
    if (isUpsert) await replaceRows(transaction, table, target);
    await transaction.rows("INSERT INTO rollcall.loads (load) VALUES ($1)", [load]);
    if (claim !== undefined) await markWritten(transaction, load, claim);
  };
  await postgres.transaction(
    (transaction) =>
      work(transaction).catch((error: unknown) => {
        // It was dropped or changed after it was found.
        if (sqlState(error) === "42P01" || sqlState(error) === "42703") throw new TableChangedError(table);
        throw inputError(error) ?? error;
      }),
    { timeout: 0, signal, settings: keepalives },
  );
}

/** A machine that vanishes leaves its transaction open, with locks on the table, until the server notices. In seconds. */
const keepalives = { tcp_keepalives_idle: "10", tcp_keepalives_interval: "5", tcp_keepalives_count: "4" };

/** Comes last, so that whoever finds out that the node is lost never waits long for the row. */
async function markWritten(
  transaction: Transaction,
  load: string,
  { node, written }: NonNullable<Writing["claim"]>,
): Promise<void> {
  const marked = await transaction.count("UPDATE rollcall.cycles SET written = $3 WHERE id = $1 AND node = $2", [
    load,
    node,
    written,
  ]);
  if (marked === 0) throw new RefusedError("this node was away for too long, and the load counts as lost");
}

/**
 * Rows that replace others come through a temporary table: what is in it is dropped with the transaction, whatever happens to
 * the process, and it is written without a log.
 */
const staged = "pg_temp.rollcall_load";

/**
 * Writes the rows that were copied. PostgreSQL checks unique columns row by row, so that rows which swap their values
 * contradict each other: then those that are replaced are deleted first, which takes longer.
 */
async function replaceRows(transaction: Transaction, table: Table, target: string): Promise<void> {
  const write = upsert(table, target, `SELECT ${listOf(table.columns)} FROM ${staged}`);
  await transaction.run("SAVEPOINT before_rows");
  try {
    await transaction.run(write);
  } catch (error) {
    if (sqlState(error) !== "23505") throw error;
    await transaction.run("ROLLBACK TO SAVEPOINT before_rows");
    if (!(await canDeleteFirst(transaction, target))) throw error;
    await transaction.run(`DELETE FROM ${target} AS kept USING ${staged} AS loaded WHERE ${sameKey(table)}`);
    await transaction.run(write);
  }
}

/**
 * Not where a foreign key, a trigger, a rule or a policy would have a say in it, or where there are partitions or child
 * tables; distributed tables of Citus have a trigger.
 */
async function canDeleteFirst(transaction: Transaction, target: string): Promise<boolean> {
  const found = await transaction.rows(
    `SELECT 1 FROM pg_class c
     WHERE c.oid = $1::regclass AND c.relkind = 'r'
       AND NOT (c.relispartition OR c.relhassubclass OR c.relhasrules OR c.relrowsecurity)
       AND has_table_privilege(c.oid, 'DELETE')
       AND NOT EXISTS (
         SELECT 1 FROM pg_trigger t LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
         WHERE t.tgrelid = c.oid AND (k.contype = 'f' AND k.conrelid = c.oid AND k.confrelid <> c.oid) IS NOT TRUE)`,
    [target],
  );
  return found.length > 0;
}

/** A column of the stage in exactly the type that `copyOf` reads: for what a load has parsed, nothing is to do. */
function typed(column: Column): string {
  const name = identifier(column.name);
  return `CAST(${name} AS ${exactType(column)}) AS ${name}`;
}
