import type { Connection } from "#duckdb/database.ts";
import { UnavailableError } from "#errors.ts";

/** The groups that exist from the first start and are never deleted (0.7). */
export const lastingGroups = ["Administrator", "All"] as const;

export interface Account {
  /** Never reused, not even for the same name. */
  readonly id: string;
  readonly name: string;
  /** An argon2id hash in PHC form. */
  readonly passwordHash: string;
}

/** The password of the administrator at a start. */
export interface FirstPassword {
  readonly hash: string;
  /** It is for an administrator who is created now, not for one whom another process has created meanwhile. */
  readonly isGenerated: boolean;
}

/** The users and groups of one moment, on a connection of DuckDB. */
export interface Snapshot {
  /**
   * Writes what differs from this moment, in one transaction: `changes`, what they lead to in `desired`, and the password
   * hashes of created users in `hashes (name, hash)`, all of them relations of the connection.
   * @param signal until the transaction is committed
   * @throws {DirectoryChangedError} when somebody else has written since; nothing was written
   */
  write(signal: AbortSignal): Promise<void>;
}

/** Where the users and groups are stored. */
export interface DirectoryStore {
  /**
   * Creates the administrator and the lasting groups where they are missing, and sets the administrator's password.
   * @param password absent: the administrator exists, and their password stays
   * @returns whether the administrator was created now
   */
  setUp(administrator: string, password: FirstPassword | undefined): Promise<boolean>;
  /** The account of a user; undefined when there is none. */
  account(name: string): Promise<Account | undefined>;
  /** The name of the user of an id; undefined when there is none any more. */
  nameOf(id: string): Promise<string | undefined>;
  /** The names of all groups the user is in, directly or through groups (0.6). Cycle-safe. */
  effectiveGroups(name: string): Promise<ReadonlySet<string>>;
  /** A value that is another one after every change of what `user/list` answers, and never comes back. */
  state(): Promise<string>;
  /** Runs what will write, after everybody else who asked before (B.8). Reading needs no turn. */
  inTurn<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result>;
  /**
   * Makes `actual_users` and `actual_groups` on the connection, which is used for this alone: `Attributes.relation`, `created`
   * and `modified` in epoch milliseconds.
   */
  read(connection: Connection): Promise<Snapshot>;
  close(): Promise<void>;
}

/** How the databases differ in the statements that both understand. */
export interface Dialect {
  /** Where its tables are. */
  readonly schema: string;
  /** The condition that finds the user named `$1`. */
  readonly isNamed: string;
}

/** What runs a statement: a connection of either database. */
interface Runs {
  rows<Row extends object>(sql: string, values?: readonly string[]): Promise<Row[]>;
}

export async function findAccount(
  database: Runs,
  { schema, isNamed }: Dialect,
  name: string,
): Promise<Account | undefined> {
  const [account] = await database.rows<Account>(
    `SELECT id::text AS id, name, password_hash AS "passwordHash" FROM ${schema}.users WHERE ${isNamed}`,
    [name],
  );
  return account;
}

export async function findName(database: Runs, { schema }: Dialect, id: string): Promise<string | undefined> {
  const [user] = await database.rows<{ name: string }>(`SELECT name FROM ${schema}.users WHERE id::text = $1`, [id]);
  return user?.name;
}

/** UNION meets no group twice. */
export async function findEffectiveGroups(
  database: Runs,
  { schema, isNamed }: Dialect,
  name: string,
): Promise<ReadonlySet<string>> {
  const rows = await database.rows<{ name: string }>(
    `WITH RECURSIVE member_of(name) AS (
       SELECT unnest(group_names) FROM ${schema}.users WHERE ${isNamed}
       UNION
       SELECT unnest(g.group_names) FROM ${schema}.groups g JOIN member_of USING (name)
     )
     SELECT name FROM member_of`,
    [name],
  );
  return new Set(rows.map((row) => row.name));
}

/** Somebody else has changed the directory since it was read. */
export class DirectoryChangedError extends UnavailableError {
  constructor() {
    super("another call has changed the users and groups meanwhile: call again");
  }
}
