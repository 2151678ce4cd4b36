import type { Socket } from "node:net";
import { Client, DatabaseError, types } from "pg";
import type { ClientConfig, FieldDef, QueryArrayConfig } from "pg";
import { destroyed, protectionOf, shortly, stopTime } from "./connection.ts";
import { floatOf, numberOf, quoted, textOf, timestampOf, UnreadableText } from "./dialect.ts";
import type { Cell, Dialect, Meaning, Place, Rows, Session } from "./dialect.ts";

/** PostgreSQL, and what speaks its protocol and has its snapshots. */
export const postgres: Dialect = {
  name: "PostgreSQL",
  grouping: (column) => ({ shown: quoted(column), by: quoted(column) }),
  session: (place) => new PostgresSession(place),
  explain,
};

/** By PostgreSQL's codes (SQLSTATE). */
const meanings: readonly (readonly [RegExp, Meaning["kind"]])[] = [
  [/^(?:28|42501|3D000)/, "refused"],
  // 08P01: the query has a parameter ($1). 25P…: the server's limits of transactions.
  [/^(?:08(?!P01)|53|58|57|55P03|40|25006|25P0[34]|XX)/, "unavailable"],
];

/** A table was replaced or written anew after the transaction began, which does not see what is in it now. */
class ReplacedTableError extends Error {}

/**
 * Tables of this transaction's statements that are not what they were when it began: it sees `pg_class` as it was, and the
 * functions as it is. TRUNCATE, most ALTER TABLE and a new table under an old name look empty to it (PostgreSQL, 13.6).
 */
const replacedTables = `SELECT l.relation::regclass FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation
  WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.database <> 0
    AND (pg_identify_object('pg_catalog.pg_class'::regclass, l.relation, 0)).type = 'table'
    AND (c.oid IS NULL OR c.relfilenode <> pg_relation_filenode(c.oid) AND c.relfilenode <> 0
      OR quote_ident(c.relname) <> (pg_identify_object('pg_catalog.pg_class'::regclass, c.oid, 0)).name) LIMIT 1`;

function explain(error: unknown): Meaning | undefined {
  if (error instanceof ReplacedTableError) return { kind: "torn", message: error.message };
  if (error instanceof DatabaseError) {
    const { code = "", hint } = error;
    // Errors of data (class 22) quote the value that could not be converted.
    const message = code.startsWith("22") ? error.message.replace(/".*"/s, '"…"') : error.message;
    const kind = meanings.find(([pattern]) => pattern.test(code))?.[1] ?? "input";
    if (/statement timeout/.test(message))
      return { kind: "unavailable", message: `${message} (timeouts: { statement })` };
    if (code === "25006") return { kind: "input", message: `${message}: the query must only read` };
    if (/row-level security/.test(message))
      return {
        kind: "incomplete",
        message: `${message}: rows would be missing; give the account BYPASSRLS, or set rowSecurity: true if it is to see only these`,
      };
    return { kind, message: hint === undefined ? message : `${message}; ${hint}` };
  }
  const message = error instanceof Error ? error.message : "";
  if (message === "The server does not support SSL connections")
    return {
      kind: "refused",
      message: "the server does not encrypt: turn on its ssl, or write ?sslmode=disable if the network is trusted",
    };
  return /^Connection terminated|^timeout expired|^Client (?:has encountered|was closed)/.test(message)
    ? { kind: "unavailable", message }
    : undefined;
}

class PostgresSession implements Session {
  readonly #config: ClientConfig;
  readonly #client: Client;
  readonly #place: Place;
  #pid = 0;
  /** Why the connection was lost between two statements. */
  #lostBy: Error | undefined;

  constructor(place: Place) {
    const { server, options, tls } = place;
    this.#place = place;
    this.#config = {
      host: server?.host,
      port: server?.port,
      database: server?.database,
      user: server?.user,
      password: server?.password,
      application_name: "rollcall",
      ssl: tls ?? false,
      connectionTimeoutMillis: options.timeouts.connect,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
    };
    this.#client = new Client(this.#config);
    this.#client.on("error", (error) => {
      this.#lostBy ??= error;
    });
  }

  async begin(): Promise<void> {
    const { options } = this.#place;
    await this.#client.connect();
    await this.#query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const settings = {
      // The next rows are fetched when the last ones are stored.
      idle_in_transaction_session_timeout: "0",
      statement_timeout: String(options.timeouts.statement),
      row_security: options.rowSecurity ? "on" : "off",
      TimeZone: "UTC",
      DateStyle: "ISO",
      IntervalStyle: "postgres",
      bytea_output: "hex",
      extra_float_digits: "1",
      // All rows are fetched, not a tenth of them.
      cursor_tuple_fraction: "1",
    };
    const set = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
    const [pid] = (await this.#query(`SELECT pg_backend_pid(), ${set.join(", ")}`)).rows[0] ?? [];
    this.#pid = Number(pid);
  }

  async *rows(sql: string, size: number): AsyncGenerator<Rows> {
    await this.#query(`DECLARE rollcall NO SCROLL CURSOR FOR ${sql}`);
    let readers: readonly ((text: string) => Cell)[] | undefined;
    for (;;) {
      const { fields, rows } = await this.#query(`FETCH FORWARD ${size} FROM rollcall`);
      readers ??= await this.#readersOf(fields);
      yield page(fields, rows, readers);
      if (rows.length < size) break;
    }
    await this.#query("CLOSE rollcall");
    const [replaced] = (await this.#query(replacedTables)).rows;
    if (replaced === undefined) return;
    throw new ReplacedTableError(
      `the table ${replaced[0]} was replaced or emptied (TRUNCATE, ALTER TABLE) during the read, which cannot see all its rows`,
    );
  }

  async describe(): Promise<readonly string[]> {
    const [row = []] = (
      await this.#query(
        "SELECT current_setting('server_version'), current_user, pg_is_in_recovery(), (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)",
      )
    ).rows;
    const [version, user, isStandby, isAbove] = row;
    const policies = this.#place.options.rowSecurity
      ? "row-level security policies decide which rows are read"
      : "a row-level security policy that may hide rows fails the read";
    return [
      `PostgreSQL ${version} at ${this.#place.server?.place}${isStandby === "t" ? ", a standby" : ""}, ${protectionOf(this.#stream)}`,
      `as ${user}`,
      isAbove === "t" ? "row-level security does not apply to this account" : policies,
    ];
  }

  async stop(): Promise<void> {
    await destroyed(this.#stream);
    if (this.#pid === 0) return;
    const other = new Client({ ...this.#config, connectionTimeoutMillis: stopTime });
    other.on("error", () => undefined);
    const told = async (): Promise<void> => {
      await other.connect();
      await other.query("SELECT pg_cancel_backend($1)", [this.#pid]);
    };
    await shortly(told());
    await destroyed(streamOf(other));
  }

  async close(): Promise<void> {
    await shortly(this.#client.end());
    await destroyed(this.#stream);
  }

  get #stream(): Socket {
    return streamOf(this.#client);
  }

  /** By the protocol that takes one statement, with values as PostgreSQL's texts. */
  async #query(text: string): Promise<{ fields: FieldDef[]; rows: (string | null)[][] }> {
    const query: QueryArrayConfig = { text, rowMode: "array", types: { getTypeParser: () => String } };
    try {
      return await this.#client.query<(string | null)[]>(Object.assign(query, { queryMode: "extended" }));
    } catch (error) {
      throw this.#lostBy ?? error;
    }
  }

  /** The types that extensions and users make have no fixed numbers: arrays of them are found by their elements. */
  async #readersOf(fields: readonly FieldDef[]): Promise<readonly ((text: string) => Cell)[]> {
    const oids = [...new Set(fields.map(({ dataTypeID }) => dataTypeID))];
    const sql = `SELECT typarray, CASE typbasetype WHEN 0 THEN oid ELSE typbasetype END
      FROM pg_catalog.pg_type WHERE typdelim = ',' AND typarray IN (${oids.join(", ")})`;
    const found = oids.length === 0 ? [] : (await this.#query(sql)).rows;
    const elements = new Map(found.map(([oid, element]) => [Number(oid), Number(element)]));
    return fields.map(({ dataTypeID }) => {
      const element = elements.get(dataTypeID);
      return element === undefined ? (readers[dataTypeID] ?? textOf) : (text) => listOf(text, element);
    });
  }
}

function page(
  fields: readonly FieldDef[],
  rows: (string | null)[][],
  readers: readonly ((text: string) => Cell)[],
): Rows {
  return {
    columns: fields.map(({ name }) => name),
    rows: rows.map((row) => row.map((text, index) => (text === null ? null : (readers[index] ?? textOf)(text)))),
  };
}

/** The driver's type does not have it. */
function streamOf(client: Client): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** By the numbers of PostgreSQL's types; all others are texts as PostgreSQL writes them. */
const readers: Readonly<Record<number, (text: string) => Cell>> = {
  16: (text) => text === "t",
  17: (text) => text.replace(/^\\x/, ""),
  20: numberOf,
  21: numberOf,
  23: numberOf,
  26: numberOf,
  700: floatOf,
  701: floatOf,
  1042: (text) => textOf(text.trimEnd()),
  1114: timestampOf,
  1184: timestampOf,
  1700: numberOf,
};

/** Parses the text form of `text[]`. */
const parseArray = (types.getTypeParser as (oid: number) => (text: string) => unknown[])(1009);

/** Types whose elements are not as PostgreSQL writes them. A number in a list is a text, with the digits that it has. */
const rewritten: ReadonlySet<number> = new Set([16, 17, 1042, 1114, 1184]);

/** @param element the number of its elements' type */
function listOf(text: string, element: number): Cell {
  const values = parseArray(text).filter((value) => value !== null && value !== "");
  if (!values.every((value) => typeof value === "string")) return new UnreadableText("is a list of lists", text);
  const read = rewritten.has(element) ? readers[element] : undefined;
  return read === undefined ? values : values.map((value) => String(read(value)));
}
