import { randomUUID } from "node:crypto";
import type { Connection } from "#duckdb/database.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { receiveRows, stageLines, writeRows } from "#service/transfers.ts";
import { DirectoryChangedError, findAccount, findEffectiveGroups, findName, lastingGroups } from "./store.ts";
import type { Account, Dialect, DirectoryStore, FirstPassword, Snapshot } from "./store.ts";

const columns = `
  name text COLLATE "C" PRIMARY KEY,
  display_name text NOT NULL,
  description json,
  mail json,
  group_names text[] COLLATE "C" NOT NULL,
  created bigint NOT NULL,
  modified bigint NOT NULL`;

/**
 * Names are sorted by code point. Times are epoch milliseconds. `description` and `mail` are JSON strings: PostgreSQL's text
 * has no U+0000, which they may contain.
 */
export const directorySchema: Schema = {
  part: "directory",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.users (${columns}, id uuid NOT NULL, password_hash text NOT NULL);
     CREATE TABLE IF NOT EXISTS rollcall.groups (${columns});
     CREATE TABLE IF NOT EXISTS rollcall.directory (revision bigint NOT NULL);
     INSERT INTO rollcall.directory SELECT 0 WHERE NOT EXISTS (SELECT FROM rollcall.directory)`,
    // Says whether a commit whose answer was lost was written.
    `CREATE TABLE IF NOT EXISTS rollcall.directory_writes (id uuid PRIMARY KEY, written_at timestamptz NOT NULL DEFAULT now())`,
    // A backup that is restored counts on from an earlier revision.
    `ALTER TABLE rollcall.directory ADD COLUMN IF NOT EXISTS state uuid NOT NULL DEFAULT gen_random_uuid()`,
  ],
};

/** How long reading or writing all users and groups may take, in milliseconds, statement by statement. */
const patience = 10 * 60_000;

/** The clock of the database, which all its clients share. */
const now = "(extract(epoch FROM now()) * 1000)::bigint";

const dialect: Dialect = { schema: "rollcall", isNamed: "name = $1" };

/**
 * The users and groups in PostgreSQL. Any number of processes may write them: what a call of `user/sync` has compared with is
 * compared again, by its revision, in the transaction that writes: a process that lost its turn writes nothing.
 */
export class PostgresStore implements DirectoryStore {
  readonly #postgres: Postgres;
  readonly #folder: string;

  /** @param folder an empty one, for what is between PostgreSQL and DuckDB */
  constructor(postgres: Postgres, folder: string) {
    this.#postgres = postgres;
    this.#folder = folder;
  }

  setUp(administrator: string, password: FirstPassword | undefined): Promise<boolean> {
    return this.#postgres.transaction((transaction) => setUp(transaction, administrator, password), {
      isRepeatable: true,
    });
  }

  async account(name: string): Promise<Account | undefined> {
    return name.includes("\0") ? undefined : findAccount(this.#postgres, dialect, name);
  }

  nameOf(id: string): Promise<string | undefined> {
    return findName(this.#postgres, dialect, id);
  }

  effectiveGroups(name: string): Promise<ReadonlySet<string>> {
    return findEffectiveGroups(this.#postgres, dialect, name);
  }

  async state(): Promise<string> {
    // The revision, too: processes of an earlier release count up nothing else.
    const [found] = await this.#postgres.rows<{ state: string }>(
      "SELECT revision || '-' || state AS state FROM rollcall.directory",
    );
    if (found === undefined) throw new Error("the directory has no state");
    return found.state;
  }

  async inTurn<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
    let begun: Promise<Result> | undefined;
    const turn = this.#postgres.transaction(
      async (transaction) => {
        // After a lost connection, waiting callers wait again; a turn that was taken stays taken.
        if (begun === undefined) {
          await transaction.lock("user/sync");
          begun = work();
        }
        await begun.catch(() => undefined);
      },
      // Others may take as long as they take.
      { readOnly: true, timeout: 0, signal, isRepeatable: true },
    );
    // What was done stays done if the turn itself is lost.
    await turn.catch((error: unknown) => {
      if (begun === undefined) throw error;
    });
    if (begun === undefined) throw new Error("the turn did nothing");
    return begun;
  }

  async read(connection: Connection): Promise<Snapshot> {
    const revision = await this.#postgres.transaction(
      async (transaction) => {
        const found = await revisionOf(transaction);
        await this.#receive(transaction, connection, "user");
        await this.#receive(transaction, connection, "group");
        return found;
      },
      { readOnly: true, snapshot: true, timeout: patience, isRepeatable: true },
    );
    return { write: (signal) => this.#write(connection, revision, signal) };
  }

  async close(): Promise<void> {}

  /** Makes `actual_users` or `actual_groups`. */
  #receive(transaction: Transaction, connection: Connection, kind: "user" | "group"): Promise<void> {
    const fields = "name, display_name, description, mail, group_names, created, modified";
    return receiveRows(this.#folder, transaction, connection, {
      query: `SELECT row_to_json(p) FROM (SELECT ${fields} FROM rollcall.${kind}s) p`,
      columns: `name: 'VARCHAR', display_name: 'VARCHAR', description: 'VARCHAR', mail: 'VARCHAR',
        group_names: 'VARCHAR[]', created: 'BIGINT', modified: 'BIGINT'`,
      select: `'${kind}' AS kind, *`,
      into: `actual_${kind}s`,
    });
  }

  async #write(connection: Connection, revision: bigint, signal: AbortSignal): Promise<void> {
    const [any] = await connection.rows("FROM changes LIMIT 1");
    if (any === undefined) return;
    await writeRows(this.#folder, connection, changesAsJson, async (path) => {
      signal.throwIfAborted();
      const id = randomUUID();
      await this.#postgres.transaction((transaction) => apply(transaction, path, { id, revision }), {
        timeout: patience,
        signal,
        isRepeatable: true,
      });
    });
  }
}

async function revisionOf(transaction: Transaction): Promise<bigint> {
  const [found] = await transaction.rows<{ revision: bigint }>("SELECT revision FROM rollcall.directory");
  return found?.revision ?? 0n;
}

/** Others that write wait here. */
async function lock(transaction: Transaction): Promise<void> {
  await transaction.lock("directory");
}

async function setUp(
  transaction: Transaction,
  administrator: string,
  password: FirstPassword | undefined,
): Promise<boolean> {
  await lock(transaction);
  const there = await transaction.rows<{ mine: boolean | null }>(
    "SELECT password_hash = $2 AS mine FROM rollcall.users WHERE name = $1",
    [administrator, password?.hash ?? null],
  );
  const isCreated = password !== undefined && there.length === 0;
  if (password?.isGenerated === false && !isCreated) {
    await transaction.rows("UPDATE rollcall.users SET password_hash = $2 WHERE name = $1", [
      administrator,
      password.hash,
    ]);
  } else if (isCreated) {
    await transaction.rows(
      `INSERT INTO rollcall.users (name, display_name, group_names, created, modified, id, password_hash)
       VALUES ($1, 'Administrator', '{}', ${now}, ${now}, gen_random_uuid(), $2)`,
      [administrator, password.hash],
    );
  }
  const created = await transaction.count(
    `INSERT INTO rollcall.groups (name, display_name, group_names, created, modified)
     SELECT name, name, '{}', ${now}, ${now} FROM unnest($1::text[]) AS lasting(name)
     WHERE name NOT IN (SELECT name FROM rollcall.groups)`,
    [lastingGroups],
  );
  if (isCreated || created > 0) await countUp(transaction);
  // An earlier attempt has created it, whose answer was lost.
  return isCreated || there[0]?.mine === true;
}

async function countUp(transaction: Transaction): Promise<void> {
  await transaction.run("UPDATE rollcall.directory SET revision = revision + 1, state = gen_random_uuid()");
}

/** What to write, from DuckDB: each change as three columns of JSON. */
const changesAsJson = `
  SELECT
    to_json({action: c.action, kind: c.kind, name: c.name, display_name: d.display_name, group_names: d.group_names,
      password_hash: CASE WHEN c.kind = 'user' THEN h.hash END})::VARCHAR,
    to_json(d.description)::VARCHAR,
    to_json(d.mail)::VARCHAR
  FROM changes c LEFT JOIN desired d ON d.kind = c.kind AND d.name = c.name
  LEFT JOIN hashes h ON h.name = c.name`;

async function apply(
  transaction: Transaction,
  path: string,
  { id, revision }: { readonly id: string; readonly revision: bigint },
): Promise<void> {
  await lock(transaction);
  const written = await transaction.rows("SELECT FROM rollcall.directory_writes WHERE id = $1", [id]);
  if (written.length > 0) return;
  if ((await revisionOf(transaction)) !== revision) throw new DirectoryChangedError();
  await stageLines(transaction, path);
  await transaction.run(`
    CREATE TEMP TABLE rollcall_changes ON COMMIT DROP AS
      SELECT c.*, description, mail
      FROM rollcall_lines, json_to_record(line) AS c(action text, kind text, name text COLLATE "C", display_name text,
        group_names text[] COLLATE "C", password_hash text);
    ANALYZE rollcall_changes`);
  for (const kind of ["user", "group"]) {
    const which = (action: string): string => `c.kind = '${kind}' AND c.action = '${action}'`;
    await transaction.run(`
      DELETE FROM rollcall.${kind}s t USING rollcall_changes c WHERE t.name = c.name AND ${which("delete")};
      UPDATE rollcall.${kind}s t SET display_name = c.display_name, description = c.description, mail = c.mail,
        group_names = c.group_names, modified = ${now}
      FROM rollcall_changes c WHERE t.name = c.name AND ${which("update")}`);
    const own = kind === "user" ? { names: ", id, password_hash", values: ", gen_random_uuid(), password_hash" } : none;
    await transaction.run(`
      INSERT INTO rollcall.${kind}s
        (name, display_name, description, mail, group_names, created, modified${own.names})
      SELECT name, display_name, description, mail, group_names, ${now}, ${now}${own.values}
      FROM rollcall_changes c WHERE ${which("create")}`);
  }
  await countUp(transaction);
  await transaction.run("DELETE FROM rollcall.directory_writes WHERE written_at < now() - INTERVAL '1 day'");
  await transaction.rows("INSERT INTO rollcall.directory_writes (id) VALUES ($1)", [id]);
}

const none = { names: "", values: "" };
