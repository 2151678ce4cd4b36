import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { shortly } from "./connection.ts";
import { floatOf, numberOf, quoted, textOf } from "./dialect.ts";
import type { Cell, Dialect, Meaning, Place, Rows, Session } from "./dialect.ts";
import type { Answer, Question, Value } from "./sqlite-worker.ts";

/** A file of SQLite. It is read in a thread of its own, since a statement of `node:sqlite` blocks the one it is in. */
export const sqlite: Dialect = {
  name: "SQLite",
  grouping: (column) => ({ shown: quoted(column), by: `${quoted(column)} COLLATE BINARY` }),
  session: (place) => new SqliteSession(place),
  explain,
};

/** What SQLite answered instead of rows. */
class SqliteError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** By SQLite's primary result codes: BUSY, LOCKED, IOERR; PERM, AUTH; CORRUPT, NOTADB. */
const meanings: Readonly<Record<number, Meaning["kind"]>> = {
  5: "unavailable",
  6: "unavailable",
  10: "unavailable",
  3: "refused",
  23: "refused",
  11: "incomplete",
  26: "incomplete",
};

function explain(error: unknown): Meaning | undefined {
  if (!(error instanceof SqliteError)) return undefined;
  const code = error.code & 0xff;
  if (code === 8) return { kind: "input", message: `${error.message}: the query must only read` };
  return { kind: meanings[code] ?? "input", message: error.message };
}

class SqliteSession implements Session {
  readonly #worker: Worker;
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
    const { connect } = place.options.timeouts;
    this.#worker = new Worker(new URL(import.meta.resolve("#connectors/sql/sqlite-worker.ts")), {
      workerData: { file: place.file, busy: connect },
    });
    // The statement that waits fails.
    this.#worker.on("error", () => undefined);
  }

  async begin(): Promise<void> {
    await this.#version();
  }

  async #version(): Promise<string> {
    const { rows } = await this.#ask({
      sql: "SELECT sqlite_version() FROM sqlite_schema UNION SELECT sqlite_version()",
      size: 1,
    });
    return String(rows[0]?.[0]);
  }

  async *rows(sql: string, size: number): AsyncGenerator<Rows> {
    for (let answer = await this.#ask({ sql, size }); ; answer = await this.#ask({ size })) {
      const { columns, types, rows } = answer;
      yield { columns, rows: rows.map((row) => row.map((value, index) => cellOf(value, types[index] ?? null))) };
      if (rows.length < size) return;
    }
  }

  async describe(): Promise<readonly string[]> {
    return [`SQLite ${await this.#version()}, ${this.#place.file}`];
  }

  /** A statement ends before its thread does. */
  async stop(): Promise<void> {
    await shortly(this.#worker.terminate());
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  async #ask(question: Question): Promise<Extract<Answer, { rows: unknown }>> {
    const answered = once(this.#worker, "message");
    this.#worker.postMessage(question);
    const [answer] = (await answered) as [Answer];
    if ("rows" in answer) return answer;
    throw new SqliteError(answer.code, answer.message);
  }
}

/** @param type as the column of the table is declared; null: it is an expression */
function cellOf(value: Value, type: string | null): Cell {
  if (value === null) return null;
  if (typeof value === "string") return textOf(value);
  if (typeof value === "number") return floatOf(String(value));
  if (typeof value !== "bigint") return Buffer.from(value).toString("hex");
  if (/^bool(?:ean)?$/i.test(type ?? "") && (value === 0n || value === 1n)) return value === 1n;
  return numberOf(String(value));
}
