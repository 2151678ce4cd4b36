import { DatabaseSync } from "node:sqlite";
import { Worker } from "node:worker_threads";

export type Value = null | string | number | bigint | Uint8Array;

/** A statement to begin, or the next rows of the one that has begun. */
export interface Question {
  readonly sql?: string | undefined;
  /** The most rows to answer with. */
  readonly size: number;
}

/** Some rows, fewer than asked for at the end; or SQLite's result code and its text. */
export type Answer =
  | {
      readonly columns: readonly string[];
      readonly types: readonly (string | null)[];
      readonly rows: readonly Value[][];
    }
  | { readonly code: number; readonly message: string };

const { file, busy } = JSON.parse(process.argv[2] ?? "") as { readonly file: string; readonly busy: number };
// A statement that runs hears nothing. Without this, it would go on, and keep writers waiting, after its reader was killed.
const watch = `setInterval(() => process.ppid === ${process.ppid} || process.kill(process.pid, "SIGKILL"), 1_000);`;
new Worker(watch, { eval: true }).unref();

let database: DatabaseSync | undefined;
let running:
  | { readonly columns: string[]; readonly types: (string | null)[]; readonly rows: Iterator<unknown> }
  | undefined;

process.on("message", (question: Question) => {
  process.send?.(answer(question));
});

function answer({ sql, size }: Question): Answer {
  try {
    if (database === undefined) {
      database = new DatabaseSync(file, { readOnly: true, timeout: busy });
      database.exec("BEGIN");
    }
    if (sql !== undefined) running = begin(database, sql);
    const { columns = [], types = [] } = running ?? {};
    const rows: Value[][] = [];
    while (rows.length < size) {
      const next = running?.rows.next();
      if (next?.done !== false) break;
      rows.push(next.value as Value[]);
    }
    return { columns, types, rows };
  } catch (error) {
    const { errcode = 1, message } = error as Error & { readonly errcode?: number };
    return { code: errcode, message };
  }
}

function begin(database: DatabaseSync, sql: string): typeof running {
  const statement = database.prepare(sql);
  statement.setReadBigInts(true);
  statement.setReturnArrays(true);
  const columns = statement.columns();
  return {
    columns: columns.map(({ name }) => name),
    types: columns.map(({ type }) => type),
    rows: statement.iterate(),
  };
}
