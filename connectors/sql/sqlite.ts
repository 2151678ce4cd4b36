import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { shortly } from "./connection.ts";
import { floatOf, numberOf, quoted, textOf } from "./dialect.ts";
import type { Cell, Dialect, Meaning, Place, Rows, Session } from "./dialect.ts";
import type { Answer, Question, Value } from "./sqlite-process.ts";

/**
 * A file of SQLite. It is read in a process of its own, since a statement of `node:sqlite` blocks the thread that it is in, and
 * can be stopped only with its process.
 */
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

/** SQLite's primary result codes. */
const codes = {
  perm: 3,
  busy: 5,
  locked: 6,
  readOnly: 8,
  ioError: 10,
  corrupt: 11,
  cannotOpen: 14,
  auth: 23,
  notDatabase: 26,
  /** A program that wrote has ended in the middle of it, and the next one that writes takes that back. */
  hotJournal: 776,
};

const meanings: Readonly<Record<number, Meaning["kind"]>> = {
  [codes.perm]: "refused",
  [codes.busy]: "unavailable",
  [codes.locked]: "unavailable",
  [codes.ioError]: "unavailable",
  [codes.corrupt]: "incomplete",
  [codes.auth]: "refused",
  [codes.notDatabase]: "incomplete",
};

function explain(error: unknown): Meaning | undefined {
  if (!(error instanceof SqliteError)) return undefined;
  const code = error.code & 0xff;
  if (error.code === codes.readOnly) return { kind: "input", message: `${error.message}: the query must only read` };
  if (error.code === codes.hotJournal)
    return {
      kind: "unavailable",
      message: `a program ended while it was writing (its -journal file is there); open the file once with the program that writes it, or with \`sqlite3\``,
    };
  // A file in WAL mode is read with the help of two files beside it, which the first reader has to make.
  if (code === codes.readOnly || code === codes.cannotOpen)
    return {
      kind: "refused",
      message: `${error.message}: in WAL mode, files beside it have to be written; let this account write to its folder, or read a copy of \`VACUUM INTO\``,
    };
  return { kind: meanings[code] ?? "input", message: error.message };
}

class SqliteSession implements Session {
  readonly #process: ChildProcess;
  readonly #place: Place;
  readonly #ended = new AbortController();

  constructor(place: Place) {
    this.#place = place;
    const program = fileURLToPath(import.meta.resolve("#connectors/sql/sqlite-process.ts"));
    const { connect } = place.options.timeouts;
    this.#process = fork(program, [JSON.stringify({ file: place.file, busy: connect })], {
      env: { TZ: process.env["TZ"], LD_LIBRARY_PATH: process.env["LD_LIBRARY_PATH"] },
      execArgv: [],
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    this.#process.once("error", (error) => {
      this.#ended.abort(error);
    });
    this.#process.once("exit", (code, signal) => {
      this.#ended.abort(new SqliteError(codes.ioError, `the process that reads the file ended (${signal ?? code})`));
    });
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

  async stop(): Promise<void> {
    this.#process.kill("SIGKILL");
    if (!this.#ended.signal.aborted) await shortly(once(this.#process, "exit"));
  }

  close(): Promise<void> {
    return this.stop();
  }

  async #ask(question: Question): Promise<Extract<Answer, { rows: unknown }>> {
    const { signal } = this.#ended;
    signal.throwIfAborted();
    const answered = once(this.#process, "message", { signal });
    this.#process.send(question, () => undefined);
    const [answer] = (await answered.catch(() => {
      throw signal.reason;
    })) as [Answer];
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
