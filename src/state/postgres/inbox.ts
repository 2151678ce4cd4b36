import type { Postgres, Transaction } from "#postgres/database.ts";
import type { Schema } from "#postgres/migrations.ts";
import { InboxReader, InboxTokens, InboxWriter } from "#state/inbox/inbox.ts";
import type { Database, Inboxes, Push } from "#state/inbox/inbox.ts";

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
     CREATE TABLE IF NOT EXISTS rollcall.inbox_tokens (
       source text COLLATE "C" NOT NULL, id text COLLATE "C" NOT NULL, digest text NOT NULL, name text NOT NULL,
       created bigint NOT NULL, used bigint, PRIMARY KEY (source, id));`,
  ],
};

/** What was pushed, in the database that daemons share: each of them may be pushed to. */
export class PostgresInboxes implements Inboxes {
  readonly #postgres: Postgres;

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
    return this.#postgres.transaction(async (transaction) =>
      work(await InboxWriter.begin(source, databaseOf(transaction), push)),
    );
  }

  changeTokens<Result>(source: string, work: (tokens: InboxTokens) => Promise<Result>): Promise<Result> {
    return this.#postgres.transaction((transaction) => work(new InboxTokens(source, databaseOf(transaction))));
  }
}

/** The tables of inboxes in a transaction. */
export function databaseOf(transaction: Transaction): Database {
  return {
    rows: (sql, parameters) => transaction.rows(sql, parameters),
    each: (parameter) => `json_array_elements(${parameter}::json) AS item(value)`,
  };
}
