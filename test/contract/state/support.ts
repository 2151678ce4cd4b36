import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { Postgres } from "#postgres/database.ts";
import { postgres as options } from "#postgres/options.ts";
import { openNode } from "#state/postgres/nodes.ts";
import type { Node } from "#state/postgres/nodes.ts";
import { migrateState } from "#state/postgres/store.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";

export interface SharedDatabase {
  readonly url: string;
  readonly postgres: Postgres;
  /** Another one. @returns its URL */
  createDatabase(): Promise<string>;
  /** A node with a pool of its own, closed after the test. @param lease in milliseconds */
  node(lease?: number): Promise<Node>;
  /** A folder of its own, removed after the test. */
  folder(): Promise<string>;
}

/** Gives every test of the file an empty database with the tables of the daemons' state. */
export function sharedDatabaseOfEachTest(): SharedDatabase {
  let server: PostgresServer;
  let url: string;
  let postgres: Postgres;
  let ends: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    url = await server.createDatabase();
    postgres = await Postgres.open(options.parse({ postgres: url }));
    await migrateState(postgres);
    ends = [() => postgres.close()];
  });
  afterEach(async () => {
    for (const end of ends.reverse()) await end();
  });
  return {
    get url() {
      return url;
    },
    get postgres() {
      return postgres;
    },
    createDatabase: () => server.createDatabase(),
    node: async (lease = 60_000) => {
      const own = await Postgres.open(options.parse({ postgres: url }));
      const node = await openNode(own, lease);
      ends.push(async () => {
        await node.close();
        await own.close();
      });
      return node;
    },
    folder: async () => {
      const folder = await mkdtemp(join(tmpdir(), "rollcall-shared-"));
      ends.push(() => rm(folder, { recursive: true, force: true }));
      return folder;
    },
  };
}

/** As if its process had been silent for longer than its lease, by the database's clock. */
export async function endLease(postgres: Postgres, node: Node): Promise<void> {
  await postgres.rows("UPDATE rollcall.nodes SET expires = clock_timestamp() - interval '1 second' WHERE id = $1", [
    node.id(),
  ]);
}

/** What something throws. */
export function thrown(work: Promise<unknown>): Promise<Error> {
  return work.then(
    () => new Error("nothing was thrown"),
    (error: Error) => error,
  );
}
