import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { createConnection } from "mysql2";
import type { Connection, ConnectionOptions, FieldPacket } from "mysql2";
import { isSocket } from "./address.ts";
import { destroyed, protectionOf, shortly, stopTime } from "./connection.ts";
import { floatOf, numberOf, quoted, textOf, timestampOf } from "./dialect.ts";
import type { Cell, Dialect, Meaning, Place, Rows, Session } from "./dialect.ts";

/** MySQL and MariaDB. */
export const mysql: Dialect = {
  name: "MySQL",
  grouping: (column) => {
    const name = quoted(column, "`");
    return { shown: `min(${name})`, by: `CAST(${name} AS BINARY)` };
  },
  session: (place) => new MysqlSession(place),
  explain,
};

/** The server cut values off, and said so in a warning. */
class CutOffError extends Error {}

/** By the names of the server's errors, and the driver's codes for what the server did not say. */
const meanings: readonly (readonly [RegExp, Meaning["kind"]])[] = [
  [/ACCESS_?DENIED|BAD_DB_ERROR|HOST_(?:NOT_PRIVILEGED|IS_BLOCKED)|NOT_SUPPORTED_AUTH|MUST_CHANGE_PASSWORD/, "refused"],
  [
    /TIMEOUT|ETIMEDOUT|INTERRUPTED|DEADLOCK|SHUTDOWN|KILLED|CON_COUNT|TOO_MANY_|_NET_|(?:DISK|FILE)_FULL|RESOURCES|OUTOFMEMORY|USER_LIMIT|^PROTOCOL_/,
    "unavailable",
  ],
  [/CRASHED|NOT_KEYFILE/, "incomplete"],
  [/TABLE_DEF_CHANGED/, "torn"],
];

function explain(error: unknown): Meaning | undefined {
  if (error instanceof CutOffError) return { kind: "incomplete", message: error.message };
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  const { code } = error;
  const number = "errno" in error ? error.errno : undefined;
  // MariaDB and MySQL.
  if (number === 1969 || number === 3024)
    return { kind: "unavailable", message: `${error.message} (timeouts: { statement })` };
  // Errors of data quote the value that could not be converted.
  const message = error.message.replace(/((?:value|error): )'.*'/s, "$1'…'");
  if (code === "HANDSHAKE_NO_SSL_SUPPORT")
    return {
      kind: "refused",
      message: "the server does not encrypt: turn on its TLS, or write ?sslmode=disable if the network is trusted",
    };
  if (code === "HANDSHAKE_SSL_ERROR")
    return {
      kind: "refused",
      message: `the certificate is not accepted: ${message}; give its issuer's certificate as the source's \`ca\`, and write a host of the certificate in the url`,
    };
  const isAnswer = "errno" in error && "sqlState" in error;
  const kind = meanings.find(([pattern]) => pattern.test(String(code)))?.[1] ?? (isAnswer ? "input" : undefined);
  return kind && { kind, message };
}

class MysqlSession implements Session {
  readonly #config: ConnectionOptions;
  readonly #connection: Connection;
  readonly #place: Place;
  #version = "";
  /** Why the connection was lost. */
  #lostBy: Error | undefined;
  /** The result that is arriving, which the driver does not tell. */
  #arriving: Readable | undefined;

  constructor(place: Place) {
    const { server, options, tls } = place;
    this.#place = place;
    this.#config = {
      ...(isSocket(server?.host ?? "") ? { socketPath: server?.host } : { host: server?.host, port: server?.port }),
      user: server?.user,
      password: server?.password,
      database: server?.database,
      charset: "utf8mb4",
      connectTimeout: options.timeouts.connect,
      ...(tls === undefined
        ? {}
        : {
            ssl: {
              ca: tls.ca as string,
              rejectUnauthorized: tls.rejectUnauthorized,
              verifyIdentity: server?.sslmode === "verify-full",
            },
          }),
      rowsAsArray: true,
      typeCast: false,
    };
    this.#connection = createConnection(this.#config);
    this.#connection.on("error", (error) => {
      this.#lostBy ??= error;
      this.#arriving?.destroy(error);
    });
  }

  async begin(): Promise<void> {
    const { statement } = this.#place.options.timeouts;
    const [row] = await this.#query("SELECT version()");
    this.#version = row?.[0] ?? "";
    const limit = /mariadb/i.test(this.#version)
      ? `max_statement_time = ${statement / 1_000}`
      : `max_execution_time = ${statement}`;
    // The server may cut off long results and long lists of GROUP_CONCAT, and give up slow readers.
    const settings = `time_zone = '+00:00', sql_select_limit = 18446744073709551615, group_concat_max_len = 16777216, net_write_timeout = 600`;
    await this.#query("SET NAMES utf8mb4");
    await this.#query(`SET SESSION ${limit}, ${settings}`);
    await this.#query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    await this.#query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
  }

  async *rows(sql: string, size: number): AsyncGenerator<Rows> {
    if (this.#lostBy !== undefined) throw this.#lostBy;
    let fields: FieldPacket[] = [];
    const stream = this.#connection.query(sql).stream({ highWaterMark: size });
    stream.on("fields", (found: FieldPacket[]) => {
      fields = found;
    });
    let rows: (readonly Cell[])[] = [];
    const page = (): Rows => ({ columns: fields.map(({ name }) => name), rows });
    this.#arriving = stream;
    for await (const row of stream as AsyncIterable<(Buffer | null)[]>) {
      rows.push(row.map((value, index) => cellOf(value, fields[index])));
      if (rows.length < size) continue;
      yield page();
      rows = [];
      // Rows that have arrived follow each other without a turn of the event loop.
      await setImmediate();
    }
    this.#arriving = undefined;
    yield page();
    await this.#assertWhole();
  }

  async describe(): Promise<readonly string[]> {
    const [row] = await this.#query("SELECT current_user()");
    const { server } = this.#place;
    const product = /mariadb/i.test(this.#version) ? this.#version : `MySQL ${this.#version}`;
    return [`${product} at ${server?.place}, ${protectionOf(this.#stream)}`, `as ${row?.[0]}`];
  }

  async stop(): Promise<void> {
    const { threadId } = this.#connection;
    this.#connection.destroy();
    await destroyed(this.#stream);
    if (!threadId) return;
    const other = createConnection({ ...this.#config, connectTimeout: stopTime });
    other.on("error", () => undefined);
    await shortly(new Promise((resolve) => other.query(`KILL ${threadId}`, resolve)));
    other.destroy();
    await destroyed(streamOf(other));
  }

  async close(): Promise<void> {
    // It would wait for the rows that are yet to come.
    if (this.#arriving === undefined) await shortly(new Promise((resolve) => this.#connection.end(resolve)));
    this.#connection.destroy();
    await destroyed(this.#stream);
  }

  get #stream(): Socket {
    return streamOf(this.#connection);
  }

  /** @throws {CutOffError} values of the last result were cut off: 1260 by GROUP_CONCAT, 1301 by max_allowed_packet */
  async #assertWhole(): Promise<void> {
    const warnings = await this.#query("SHOW WARNINGS");
    const cut = warnings.find(([, code]) => code === "1260" || code === "1301");
    if (cut !== undefined) throw new CutOffError(`the server cut values off: ${cut[2]}; raise its max_allowed_packet`);
  }

  #query(sql: string): Promise<(string | undefined)[][]> {
    return new Promise((resolve, reject) => {
      this.#connection.query(sql, (error, rows) => {
        if (error) reject(this.#lostBy ?? error);
        else
          resolve(
            Array.isArray(rows)
              ? (rows as (Buffer | null)[][]).map((row) => row.map((value) => value?.toString()))
              : [],
          );
      });
    });
  }
}

/** The driver's type does not have it. */
function streamOf(connection: Connection): Socket {
  return (connection as unknown as { stream: Socket }).stream;
}

/** The character set of bytes. */
const binary = 63;

/** By the numbers of the types; the others are texts, or bytes. */
const readers: Readonly<Record<number, (text: string) => Cell>> = {
  0x00: numberOf,
  0x01: numberOf,
  0x02: numberOf,
  0x03: numberOf,
  0x04: floatOf,
  0x05: floatOf,
  // TIMESTAMP is a moment, DATETIME is not.
  0x07: (text) => `${timestampOf(text)}Z`,
  0x08: numberOf,
  0x09: numberOf,
  0x0a: textOf,
  0x0b: textOf,
  0x0c: timestampOf,
  0x0d: numberOf,
  0xf5: textOf,
  0xf6: numberOf,
};
const [tinyInt, bit] = [0x01, 0x10];

function cellOf(value: Buffer | null, field: FieldPacket | undefined): Cell {
  if (value === null) return null;
  const { columnType = 0xff, columnLength, characterSet } = field as FieldPacket & { characterSet: number };
  if (columnType === bit)
    return columnLength === 1 ? value[0] === 1 : numberOf(String(BigInt(`0x${value.toString("hex")}`)));
  const text = value.toString();
  if (columnType === tinyInt && columnLength === 1 && /^[01]$/.test(text)) return text === "1";
  const reader = readers[columnType];
  if (reader !== undefined) return reader(text);
  return characterSet === binary ? value.toString("hex") : textOf(text);
}
