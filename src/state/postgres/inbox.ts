import { readClock } from "#postgres/clock.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { createKeyedQueue } from "#queue.ts";
import { InboxReader } from "#state/inbox/reader.ts";
import { InboxTokens } from "#state/inbox/tokens.ts";
import { InboxWriter } from "#state/inbox/writer.ts";
import type { Push } from "#state/inbox/events.ts";
import type { Inboxes } from "#state/inbox/inbox.ts";
import type { Database } from "#state/inbox/resources.ts";

export const inboxSchema: Schema = {
  part: "inbox",
  migrations: [
    `CREATE TABLE IF NOT EXISTS rollcall.inbox_sources (
       source text COLLATE "C" PRIMARY KEY, revision bigint NOT NULL, numbers bigint NOT NULL, first bigint NOT NULL,
       last bigint NOT NULL);
     CREATE TABLE IF NOT EXISTS rollcall.inbox_resources (
       source text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL, number bigint NOT NULL,
       version bigint NOT NULL, created bigint NOT NULL, changed bigint NOT NULL, document text NOT NULL,
       name text COLLATE "C", display text COLLATE "C", external text COLLATE "C",
       PRIMARY KEY (source, id));
     CREATE UNIQUE INDEX IF NOT EXISTS inbox_numbers ON rollcall.inbox_resources (source, kind, number);
     CREATE UNIQUE INDEX IF NOT EXISTS inbox_names ON rollcall.inbox_resources (source, kind, name);
     CREATE INDEX IF NOT EXISTS inbox_displays ON rollcall.inbox_resources (source, kind, display);
     CREATE INDEX IF NOT EXISTS inbox_externals ON rollcall.inbox_resources (source, kind, external);
     CREATE TABLE IF NOT EXISTS rollcall.inbox_members (
       source text COLLATE "C" NOT NULL, group_id text COLLATE "C" NOT NULL, member text COLLATE "C" NOT NULL, document text,
       PRIMARY KEY (source, group_id, member));
     CREATE INDEX IF NOT EXISTS inbox_memberships ON rollcall.inbox_members (source, member);
     CREATE TABLE IF NOT EXISTS rollcall.inbox_addresses (
       source text COLLATE "C" NOT NULL, address text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL,
       PRIMARY KEY (source, address, id));
     CREATE INDEX IF NOT EXISTS inbox_addressees ON rollcall.inbox_addresses (source, id);
     CREATE TABLE IF NOT EXISTS rollcall.inbox_events (
       source text COLLATE "C" NOT NULL, revision bigint NOT NULL, kind text COLLATE "C" NOT NULL,
       resource text COLLATE "C" NOT NULL, resource_kind text NOT NULL, at bigint NOT NULL, amount bigint NOT NULL,
       token text NOT NULL, PRIMARY KEY (source, revision, kind, resource));
     CREATE INDEX IF NOT EXISTS inbox_times ON rollcall.inbox_events (source, at);
     CREATE INDEX IF NOT EXISTS inbox_kinds ON rollcall.inbox_events (source, kind, at);
     CREATE TABLE IF NOT EXISTS rollcall.inbox_tokens (
       source text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, digest text NOT NULL, name text NOT NULL,
       created bigint NOT NULL, used bigint, PRIMARY KEY (source, id));`,
  ],
};

/** The most changes that share a transaction: PostgreSQL is quick with up to 64 savepoints. */
const largestGroup = 50;

/** What was pushed, in the database that daemons share: each of them may be pushed to. */
export class PostgresInboxes implements Inboxes {
  readonly #postgres: Postgres;
  readonly #groups = createKeyedQueue();
  /** By source. */
  readonly #waiting = new Map<string, Change[]>();

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  read<Result>(source: string, work: (inbox: InboxReader) => Promise<Result>): Promise<Result> {
    return this.#postgres.transaction((transaction) => work(new InboxReader(source, databaseOf(transaction))), {
      readOnly: true,
      snapshot: true,
    });
  }

  change<Result>(source: string, push: Push, work: (inbox: InboxWriter) => Promise<Result>): Promise<Result> {
    return this.#change(source, async (database) => work(await InboxWriter.begin(source, database, push)));
  }

  changeTokens<Result>(source: string, work: (tokens: InboxTokens) => Promise<Result>): Promise<Result> {
    return this.#change(source, (database) => work(new InboxTokens(source, database)));
  }

  /** Changes that wait for another one of the source share a transaction afterwards, and its commit. */
  async #change<Result>(source: string, work: (database: Database) => Promise<Result>): Promise<Result> {
    const waiting = this.#waiting.get(source) ?? [];
    this.#waiting.set(source, waiting);
    const change = changeOf(work);
    waiting.push(change);
    const committed = this.#groups(source, () => this.#commit(waiting.splice(0, largestGroup)));
    const [result] = await Promise.all([change.ended, committed]);
    return result;
  }

  async #commit(group: readonly Change[]): Promise<void> {
    if (group.length === 0) return;
    try {
      const ends: (() => void)[] = [];
      await this.#postgres.transaction(async (transaction) => {
        for (const change of group) {
          await transaction.run("SAVEPOINT change");
          try {
            ends.push(await change.work(databaseOf(transaction)));
          } catch (error) {
            await transaction.run("ROLLBACK TO change");
            ends.push(() => change.fail(error));
          }
        }
      });
      for (const end of ends) end();
    } catch (error) {
      for (const change of group) change.fail(error);
    }
  }
}

/** One that waits to be made with others. */
interface Change {
  /** @returns what to call when it is committed */
  readonly work: (database: Database) => Promise<() => void>;
  readonly fail: (error: unknown) => void;
}

function changeOf<Result>(work: (database: Database) => Promise<Result>): Change & { readonly ended: Promise<Result> } {
  const { promise: ended, resolve, reject } = Promise.withResolvers<Result>();
  return {
    ended,
    work: async (database) => {
      const result = await work(database);
      return () => resolve(result);
    },
    fail: reject,
  };
}

/** The tables of inboxes in a transaction. */
export function databaseOf(transaction: Transaction): Database {
  return {
    rows: (sql, parameters) => transaction.rows(sql, parameters),
    each: (parameter) => `json_array_elements(${parameter}::json) AS item(value)`,
    now: () => readClock(transaction),
  };
}
