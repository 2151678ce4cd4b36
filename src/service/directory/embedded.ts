import type { Connection, Database } from "#duckdb/database.ts";
import { createQueue } from "#queue.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import { findAccount, findEffectiveGroups, findName, lastingGroups } from "./store.ts";
import type { Dialect, DirectoryStore } from "./store.ts";

/** The `lookup` of a name, as SQL. */
const lookupOf = (name: string): string => `md5_number_lower(${name})`;

const dialect: Dialect = { schema: "directory", isNamed: `lookup = ${lookupOf("$1")} AND name = $1` };

/**
 * Opens the users and groups in the service's own database. One process has it, and its calls of `user/sync` queue: nobody
 * else can write between a read and a write.
 */
export async function openEmbeddedStore(database: Pick<Database, "use">): Promise<DirectoryStore> {
  await database.use((connection) => createTables(connection));
  // A statement occupies a thread of Node's pool until it ends, and passwords and files need threads too.
  const queue = createQueue();
  const look = <Found>(find: (connection: Connection) => Promise<Found>): Promise<Found> =>
    queue(() => database.use(find));
  // DuckDB lets a transaction update a row that another one is writing anew, and the update is lost.
  const writing = createQueue();
  // Every request asks for its caller, and every list for the state: waiting for a turn behind statements on everybody, most
  // would take a multiple of their time.
  const accounts = new Remembered((name) => look((connection) => findAccount(connection, dialect, name)));
  const memberships = new Remembered((name) => look((connection) => findEffectiveGroups(connection, dialect, name)));
  const states = new Remembered(() => look(stateOf));
  const forget = (): void => {
    accounts.forget();
    memberships.forget();
    states.forget();
  };
  return {
    // Nobody else can create the administrator meanwhile.
    setUp: (administrator, password) =>
      writing(() => database.use((connection) => setUp(connection, administrator, password?.hash))).finally(forget),
    account: (name) => accounts.find(name),
    nameOf: (id) => look((connection) => findName(connection, dialect, id)),
    effectiveGroups: (name) => memberships.find(name),
    state: () => states.find("everybody"),
    // This process is the only one, and has its own queue.
    inTurn: (work) => work(),
    read: async (connection) => {
      await connection.run(`
        CREATE TEMP VIEW actual_users AS FROM directory.users;
        CREATE TEMP VIEW actual_groups AS FROM directory.groups`);
      return { write: (signal) => writing(() => write(connection, signal)).finally(forget) };
    },
    close: () => queue.idle(),
  };
}

/** The most users of whom anything is remembered. */
const mostRemembered = 1000;

/** Remembers what was found of a name until `forget`. Who asks after that is told nothing from before it. */
class Remembered<Found> {
  readonly #look: (name: string) => Promise<Found>;
  /** The last used are at the end. */
  #found = new Map<string, Promise<Found>>();

  constructor(look: (name: string) => Promise<Found>) {
    this.#look = look;
  }

  find(name: string): Promise<Found> {
    const all = this.#found;
    const known = all.get(name);
    const asked = known ?? this.#look(name);
    all.delete(name);
    all.set(name, asked);
    for (const oldest of all.keys()) {
      if (all.size <= mostRemembered) break;
      all.delete(oldest);
    }
    const drop = (): void => {
      if (all.get(name) === asked) all.delete(name);
    };
    // Names that nobody has may be without number.
    if (known === undefined) asked.then((value) => value === undefined && drop(), drop);
    return asked;
  }

  forget(): void {
    this.#found = new Map();
  }
}

/**
 * Creates the tables, where they are missing. Times are epoch milliseconds.
 *
 * `sync` keeps names unique among users and among groups; DuckDB's own constraint would refuse a transaction that
 * deletes a name and inserts it again. `lookup` finds a user among a million in about two milliseconds: scanning
 * this narrow column is enough, and an index would have to stay in memory.
 */
async function createTables(connection: Connection): Promise<void> {
  const times = "created BIGINT NOT NULL, modified BIGINT NOT NULL";
  await connection.run(`
    CREATE SCHEMA IF NOT EXISTS directory;
    CREATE TABLE IF NOT EXISTS directory.users (
      lookup UBIGINT NOT NULL, id UUID NOT NULL, password_hash VARCHAR NOT NULL, ${serviceAttributes.ddl}, ${times});
    CREATE TABLE IF NOT EXISTS directory.groups (${serviceAttributes.ddl}, ${times});
    CREATE TABLE IF NOT EXISTS directory.state (id UUID NOT NULL);
    INSERT INTO directory.state SELECT uuid() WHERE NOT EXISTS (FROM directory.state);
    -- Of Rollcall 0.1.0, which compared a list with the one before.
    DROP TABLE IF EXISTS directory.unlisted;
    DROP TABLE IF EXISTS directory.revision;`);
}

async function setUp(connection: Connection, administrator: string, hash: string | undefined): Promise<boolean> {
  const now = BigInt(Date.now());
  const exists = (await findAccount(connection, dialect, administrator)) !== undefined;
  await connection.transaction(async () => {
    if (hash !== undefined && exists) {
      await connection.run("UPDATE directory.users SET password_hash = $2 WHERE name = $1", [administrator, hash]);
    } else if (hash !== undefined) {
      await connection.run(
        `INSERT INTO directory.users BY NAME
         SELECT ${lookupOf("$1")} AS lookup, uuid() AS id, $2 AS password_hash, 'user' AS kind, $1 AS name,
           'Administrator' AS display_name, []::VARCHAR[] AS group_names, $3 AS created, $3 AS modified`,
        [administrator, hash, now],
      );
    }
    for (const group of lastingGroups) {
      await connection.run(
        `INSERT INTO directory.groups BY NAME
         SELECT 'group' AS kind, $1 AS name, $1 AS display_name, []::VARCHAR[] AS group_names, $2 AS created, $2 AS modified
         WHERE NOT EXISTS (FROM directory.groups WHERE name = $1)`,
        [group, now],
      );
    }
    await connection.run(
      `${newState} WHERE EXISTS (FROM directory.users WHERE created = $1)
      OR EXISTS (FROM directory.groups WHERE created = $1)`,
      [now],
    );
  });
  return !exists;
}

const newState = "UPDATE directory.state SET id = uuid()";

async function stateOf(connection: Connection): Promise<string> {
  const [state] = await connection.rows<{ id: string }>("SELECT id::VARCHAR AS id FROM directory.state");
  if (state === undefined) throw new Error("the directory has no state");
  return state.id;
}

/**
 * Rows that change are written anew. DuckDB would update columns in place, unless one is a list: then it writes the whole row,
 * and with it, to its log, the lists of up to 2,048 rows that came before.
 */
async function write(connection: Connection, signal: AbortSignal): Promise<void> {
  const now = Date.now();
  const values = serviceAttributes.relation.map((column) => `d.${column}`).join(", ");
  /** @param own SQL of the columns that no list has; they stay what they are in `r` */
  const replace = (table: string, kind: string, own: string): string => `
    CREATE OR REPLACE TEMP TABLE replaced AS
      SELECT t.* EXCLUDE (${serviceAttributes.compared.join(", ")}) FROM ${table} t JOIN changes c USING (kind, name) WHERE c.action = 'update';
    DELETE FROM ${table} WHERE name IN (SELECT name FROM changes WHERE action <> 'create' AND kind = '${kind}');
    INSERT INTO ${table} BY NAME
      SELECT ${own} ${values}, coalesce(r.created, ${now}) AS created, ${now} AS modified
      FROM desired d JOIN changes c USING (kind, name) LEFT JOIN replaced r USING (name) LEFT JOIN hashes h USING (name)
      WHERE c.action <> 'delete' AND c.kind = '${kind}';`;
  const ofUsers = `
    coalesce(r.lookup, ${lookupOf("d.name")}) AS lookup, coalesce(r.id, uuid()) AS id,
    coalesce(r.password_hash, h.hash) AS password_hash,`;
  await connection.transaction(async () => {
    await connection.run(`
      ${replace("directory.users", "user", ofUsers)}
      ${replace("directory.groups", "group", "")}
      DROP TABLE replaced;
      ${newState} WHERE EXISTS (FROM changes);`);
    signal.throwIfAborted();
  });
}
