import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { Postgres } from "#postgres/database.ts";
import { postgres } from "#postgres/options.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";
import { openedReader, openedStore } from "./opened.ts";
import type { Opened, OpenedReader, Opening } from "./opened.ts";

/** A store that is empty at the beginning of each test. */
export interface Stores {
  /** What a process opens that takes part: a machine of its own has its own folder. */
  readonly opening: (machine?: string) => Opening;
  open(machine?: string, options?: Partial<Opening>): Promise<Opened>;
  reader(machine?: string): Promise<OpenedReader>;
  /** As if all processes had been silent for longer than their leases. */
  endLeases(): Promise<void>;
}

/** How long a killed process keeps its lease, in milliseconds. */
const lease = 1_500;

export const kinds = ["folder", "postgres"] as const;

export function storeOfEachTest(kind: (typeof kinds)[number]): Stores {
  let server: PostgresServer | undefined;
  let folder = "";
  let url: string | undefined;
  let ends: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    if (kind === "postgres") server = await startPostgres();
  });
  afterAll(() => server?.stop());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-state-"));
    url = await server?.createDatabase();
    ends = [];
  });
  afterEach(async () => {
    for (const end of ends.reverse()) await end();
    await rm(folder, { recursive: true, force: true });
  });
  // The folder is one machine's.
  const opening: Stores["opening"] = (machine = "one") => ({
    data: join(folder, kind === "folder" ? "one" : machine),
    url,
    lease,
    retention: { keep: 1e12, runs: 1_000, lists: 100 },
  });
  return {
    opening,
    open: async (machine, options = {}) => {
      const { close, ...opened } = await openedStore({ ...opening(machine), ...options });
      let closed: Promise<void> | undefined;
      const closeOnce = () => (closed ??= close());
      ends.push(closeOnce);
      return { ...opened, close: closeOnce };
    },
    reader: async (machine) => {
      const reader = await openedReader(opening(machine));
      ends.push(() => reader.close());
      return reader;
    },
    endLeases: async () => {
      const database = await Postgres.open(postgres.parse({ postgres: url }));
      await database.rows("UPDATE rollcall.nodes SET expires = clock_timestamp() - interval '1 second'");
      await database.close();
    },
  };
}
