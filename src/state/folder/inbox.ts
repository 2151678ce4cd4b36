import { existsSync } from "node:fs";
import { open, readdir } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { StatementSync } from "node:sqlite";
import { InputError, RollcallError, UnavailableError } from "#errors.ts";
import { codeOf, makeFolder, obstacleOf, unwritable } from "#files/disk.ts";
import { createQueue, createShared } from "#queue.ts";
import { InboxReader } from "#state/inbox/reader.ts";
import { InboxTokens } from "#state/inbox/tokens.ts";
import { InboxWriter } from "#state/inbox/writer.ts";
import type { Push } from "#state/inbox/events.ts";
import type { Inboxes } from "#state/inbox/inbox.ts";
import type { Database } from "#state/inbox/resources.ts";

/** The tables, numbered from 1 by their place. What was released is never changed: a change is a further one. */
const migrations: readonly string[] = [
  `CREATE TABLE inbox_sources (
     source TEXT PRIMARY KEY, revision INTEGER NOT NULL, numbers INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL);
   CREATE TABLE inbox_resources (
     source TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL, version INTEGER NOT NULL,
     created INTEGER NOT NULL, changed INTEGER NOT NULL, document TEXT NOT NULL, name TEXT, display TEXT, external TEXT,
     PRIMARY KEY (source, id));
   CREATE UNIQUE INDEX inbox_numbers ON inbox_resources (source, kind, number);
   CREATE UNIQUE INDEX inbox_names ON inbox_resources (source, kind, name);
   CREATE INDEX inbox_displays ON inbox_resources (source, kind, display);
   CREATE INDEX inbox_externals ON inbox_resources (source, kind, external);
   CREATE TABLE inbox_members (
     source TEXT NOT NULL, group_id TEXT NOT NULL, member TEXT NOT NULL, document TEXT,
     PRIMARY KEY (source, group_id, member)) WITHOUT ROWID;
   CREATE INDEX inbox_memberships ON inbox_members (source, member);
   CREATE TABLE inbox_addresses (
     source TEXT NOT NULL, address TEXT NOT NULL, id TEXT NOT NULL,
     PRIMARY KEY (source, address, id)) WITHOUT ROWID;
   CREATE INDEX inbox_addressees ON inbox_addresses (source, id);
   CREATE TABLE inbox_events (
     source TEXT NOT NULL, revision INTEGER NOT NULL, kind TEXT NOT NULL, resource TEXT NOT NULL, resource_kind TEXT NOT NULL,
     at INTEGER NOT NULL, amount INTEGER NOT NULL, token TEXT NOT NULL,
     PRIMARY KEY (source, revision, kind, resource)) WITHOUT ROWID;
   CREATE INDEX inbox_times ON inbox_events (source, at);
   CREATE INDEX inbox_kinds ON inbox_events (source, kind, at);
   CREATE TABLE inbox_tokens (
     source TEXT NOT NULL, id TEXT NOT NULL, digest TEXT NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL, used INTEGER,
     PRIMARY KEY (source, id));`,
];

const ending = ".sqlite";

/** What was pushed, in a file of SQLite for each source. Only the process with the lock of the data folder changes it. */
export class FolderInboxes implements Inboxes {
  readonly #folder: string;
  readonly #files = new Map<string, InboxFile>();

  /** @param folder the daemon's */
  constructor(folder: string) {
    this.#folder = join(folder, "inboxes");
  }

  read<Result>(source: string, work: (inbox: InboxReader) => Promise<Result>): Promise<Result> {
    return this.readDatabase(source, (database) => work(new InboxReader(source, database)));
  }

  change<Result>(source: string, push: Push, work: (inbox: InboxWriter) => Promise<Result>): Promise<Result> {
    return this.changeDatabase(source, async (database) => work(await InboxWriter.begin(source, database, push)));
  }

  changeTokens<Result>(source: string, work: (tokens: InboxTokens) => Promise<Result>): Promise<Result> {
    return this.changeDatabase(source, (database) => work(new InboxTokens(source, database)));
  }

  /** Those that have a file. */
  async sources(): Promise<string[]> {
    const names = await readdir(this.#folder).catch((error: unknown) => {
      if (codeOf(error) === "ENOENT") return [];
      throw error;
    });
    return names
      .filter((name) => name.endsWith(ending))
      .map((name) => decodeURIComponent(name.slice(0, -ending.length)));
  }

  /** Reads the tables of a source, as of one moment. */
  readDatabase<Result>(source: string, work: (database: Database) => Promise<Result>): Promise<Result> {
    return this.#file(source).read(work);
  }

  /** Changes the tables of a source: all of it or nothing. */
  async changeDatabase<Result>(source: string, work: (database: Database) => Promise<Result>): Promise<Result> {
    await makeFolder(this.#folder, "the folder of inboxes");
    return this.#file(source).change(work);
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    await Promise.all([...this.#files.values()].map((file) => file.close()));
    this.#files.clear();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #file(source: string): InboxFile {
    const found = this.#files.get(source);
    if (found !== undefined) return found;
    const file = new InboxFile(join(this.#folder, encodeURIComponent(source) + ending));
    this.#files.set(source, file);
    return file;
  }
}

/** One of the files: one connection that writes, and as many that read as there are reads at the same time. */
class InboxFile {
  readonly #path: string;
  readonly #calls = createQueue(Infinity);
  readonly #writes = createQueue();
  #writer: Connection | undefined;
  #idle: Connection[] = [];
  /** SQLite's log, in which every commit is until a checkpoint. */
  #log: FileHandle | undefined;
  /** The last commit has reached the disk. */
  #durable: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  /** A commit does not wait for the disk, so that changes made at the same time wait for it once, and nothing else waits. */
  change<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
    return this.#call(async () => {
      const result = await this.#writes(async () => {
        this.#writer ??= openToWrite(this.#path);
        return this.#writer.transaction("BEGIN IMMEDIATE", work);
      });
      this.#durable = this.#sync();
      await this.#durable;
      return result;
    });
  }

  read<Result>(work: (database: Database) => Promise<Result>): Promise<Result> {
    return this.#call(async () => {
      const connection = this.#idle.pop() ?? openToRead(this.#path);
      try {
        const result = await connection.transaction("BEGIN", work);
        // What was read may have been committed a moment ago.
        await this.#durable;
        return result;
      } finally {
        // What is in memory stands for a file that is not there yet.
        if (connection.isFile) this.#idle.push(connection);
        else connection.close();
      }
    });
  }

  async close(): Promise<void> {
    await this.#calls.idle();
    await this.#log?.close();
    for (const connection of this.#idle) connection.close();
    this.#writer?.close();
    [this.#log, this.#idle, this.#writer] = [undefined, [], undefined];
  }

  readonly #sync = createShared(async () => {
    this.#log ??= await open(`${this.#path}-wal`);
    await this.#log.datasync();
  });

  #call<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.#calls(async () => {
      try {
        return await work();
      } catch (error) {
        throw this.#named(error);
      }
    });
  }

  /** Errors of SQLite name the file. */
  #named(error: unknown): unknown {
    const what = `the inbox ${this.#path}`;
    if (error instanceof RollcallError) return error;
    if (obstacleOf(error) !== undefined) return unwritable(what, error);
    if (!(error instanceof Error) || !("errcode" in error)) return error;
    const code = Number(error.errcode) & 0xff;
    if (code === damaged.corrupt || code === damaged.notADatabase)
      return new InputError(`${what} is damaged (${error.message}): restore it from a backup`, { cause: error });
    return new UnavailableError(`${what}: ${error.message}`, { cause: error });
  }
}

/** Codes of SQLite. */
const damaged = { corrupt: 11, notADatabase: 26 } as const;

class Connection {
  readonly isFile: boolean;
  readonly #sqlite: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(sqlite: DatabaseSync, isFile: boolean) {
    this.#sqlite = sqlite;
    this.isFile = isFile;
  }

  async transaction<Result>(begin: string, work: (database: Database) => Promise<Result>): Promise<Result> {
    this.#sqlite.exec(begin);
    try {
      const result = await work({
        // oxlint-disable-next-line typescript/require-await
        rows: async (sql, parameters) => this.#rows(sql, parameters),
        each: (parameter) => `json_each(${parameter}) AS item`,
        // oxlint-disable-next-line typescript/require-await
        now: async () => Date.now(),
      });
      this.#sqlite.exec("COMMIT");
      return result;
    } catch (error) {
      // A full disk has rolled it back already.
      if (this.#sqlite.isTransaction) this.#sqlite.exec("ROLLBACK");
      throw error;
    }
  }

  close(): void {
    this.#sqlite.close();
  }

  #rows<Row extends object>(sql: string, parameters: readonly (string | number | null)[]): Row[] {
    const statement = this.#statements.get(sql) ?? this.#sqlite.prepare(sql.replaceAll("rollcall.", ""));
    this.#statements.set(sql, statement);
    const named = Object.fromEntries(parameters.map((value, index) => [`$${index + 1}`, value]));
    return statement.all(named) as unknown as Row[];
  }
}

/** A commit reaches the disk when its log is synced. */
function openToWrite(path: string): Connection {
  const sqlite = new DatabaseSync(path, { timeout: 5_000 });
  try {
    sqlite.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
    const version = versionOf(sqlite);
    refuseNewer(path, version);
    for (const [index, sql] of migrations.entries())
      if (index >= version) sqlite.exec(`BEGIN IMMEDIATE; ${sql} PRAGMA user_version = ${index + 1}; COMMIT`);
    return new Connection(sqlite, true);
  } catch (error) {
    sqlite.close();
    throw error;
  }
}

/** Nothing was pushed: a database in memory says so. */
function openToRead(path: string): Connection {
  if (existsSync(path)) {
    const sqlite = new DatabaseSync(path, { readOnly: true, timeout: 5_000 });
    const version = versionOf(sqlite);
    // 0: its first writer has not made the tables yet.
    if (version > 0) {
      refuseNewer(path, version);
      return new Connection(sqlite, true);
    }
    sqlite.close();
  }
  const empty = new DatabaseSync(":memory:");
  for (const sql of migrations) empty.exec(sql);
  return new Connection(empty, false);
}

function versionOf(sqlite: DatabaseSync): number {
  return Number(sqlite.prepare("PRAGMA user_version").get()?.["user_version"]);
}

function refuseNewer(path: string, version: number): void {
  if (version > migrations.length)
    throw new InputError(`a newer Rollcall has written the inbox ${path}; start the newer program`);
}
