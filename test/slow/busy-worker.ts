import { setTimeout as delay } from "node:timers/promises";
import { pino } from "pino";
import { Worker } from "#service/worker/worker.ts";

/** A service whose databases compute until it is killed. */
const [folder = ""] = process.argv.slice(2);
const worker = await Worker.open({
  folder: `${folder}/databases`,
  answers: `${folder}/answers`,
  memory: 64 * 2 ** 20,
  files: [],
  tables: { sql: "CREATE DATABASE IF NOT EXISTS own", origin: "t.sql" },
  log: pino({ level: "silent" }),
});
const sql = "SELECT levenshtein(repeat('a', 300000), repeat('b', 300000))";
const query = { database: "own", sql, limit: 1, timeout: 600_000 };
void worker.query(query, "COMPACT", new AbortController().signal);
await delay(500);
process.send?.("busy");
