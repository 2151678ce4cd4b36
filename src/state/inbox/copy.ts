import { createHash } from "node:crypto";
import type { Database } from "./resources.ts";

/** The inboxes of a store, while nobody changes them. */
export interface StoredInboxes {
  /** Those that have something, a source each. */
  readonly sources: readonly string[];
  /** Reads the tables of one, as of one moment. */
  read<Result>(source: string, work: (database: Database) => Promise<Result>): Promise<Result>;
}

type Value = string | number | bigint | null;
type Row = Readonly<Record<string, Value>>;

interface Table {
  readonly key: readonly string[];
  readonly texts: readonly string[];
  readonly numbers: readonly string[];
}

/** The tables with their columns besides `source`; rows travel in the order of the key. */
const tables: Readonly<Record<string, Table>> = {
  inbox_sources: { key: ["revision"], texts: [], numbers: ["revision", "numbers", "first", "last"] },
  inbox_resources: {
    key: ["kind", "number"],
    texts: ["id", "kind", "document", "name", "display", "external"],
    numbers: ["number", "version", "created", "changed"],
  },
  inbox_members: { key: ["group_id", "member"], texts: ["group_id", "member", "document"], numbers: [] },
  inbox_addresses: { key: ["address", "id"], texts: ["address", "id"], numbers: [] },
  inbox_events: {
    key: ["revision", "kind", "resource"],
    texts: ["kind", "resource", "resource_kind", "token"],
    numbers: ["revision", "at", "amount"],
  },
  inbox_tokens: { key: ["id"], texts: ["id", "digest", "name"], numbers: ["created", "used"] },
};

/** The sources that a database has something of. */
export async function sourcesIn(database: Database): Promise<string[]> {
  const rows = await database.rows<{ source: string }>(
    "SELECT source FROM rollcall.inbox_sources UNION SELECT source FROM rollcall.inbox_tokens ORDER BY source",
    [],
  );
  return rows.map(({ source }) => source);
}

/** Copies all that is stored of a source into tables that have nothing of it. */
export async function copyInbox(source: string, from: Database, to: Database): Promise<void> {
  for (const [name, { texts, numbers }] of Object.entries(tables)) {
    const values = [
      ...texts.map((column) => `item.value ->> '${column}'`),
      ...numbers.map((column) => `CAST(item.value ->> '${column}' AS bigint)`),
    ];
    for await (const rows of pagesOf(source, name, from))
      await to.rows(
        `INSERT INTO rollcall.${name} (source, ${[...texts, ...numbers].join(", ")})
         SELECT $1, ${values.join(", ")} FROM ${to.each("$2")}`,
        [source, JSON.stringify(rows, (_, value: unknown) => (typeof value === "bigint" ? Number(value) : value))],
      );
  }
}

/** A digest of all that is stored of a source, the same in every store. */
export async function digestOfInbox(source: string, database: Database): Promise<string> {
  const hash = createHash("sha256");
  for (const [name, { texts, numbers }] of Object.entries(tables)) {
    hash.update(`${name}\n`);
    for await (const rows of pagesOf(source, name, database))
      for (const row of rows)
        hash.update(`${JSON.stringify([...texts, ...numbers].map((column) => row[column]?.toString() ?? null))}\n`);
  }
  return hash.digest("hex");
}

/** How many rows travel at once. */
const pageSize = 1_000;

async function* pagesOf(source: string, name: string, database: Database): AsyncGenerator<readonly Row[]> {
  const { key, texts, numbers } = tables[name] as Table;
  const columns = [...texts, ...numbers].join(", ");
  let after: readonly Value[] | undefined;
  for (;;) {
    const beyond = after && `AND (${key.join(", ")}) > (${key.map((_, index) => `$${index + 2}`).join(", ")})`;
    const rows: Row[] = await database.rows<Row>(
      `SELECT ${columns} FROM rollcall.${name} WHERE source = $1 ${beyond ?? ""} ORDER BY ${key.join(", ")} LIMIT ${pageSize}`,
      [source, ...(after ?? []).map((value) => (typeof value === "bigint" ? Number(value) : value))],
    );
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < pageSize) return;
    after = key.map((column) => last[column] ?? null);
  }
}
