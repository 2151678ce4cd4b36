import { openDatabase, literal, useThreads } from "#duckdb/database.ts";
import type { Connection, Database } from "#duckdb/database.ts";
import { Rows } from "#duckdb/insert.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import type { Entry, RecordId, SourceRecord } from "#connector.ts";
import type { SyncSource } from "#sync/sync.ts";
import { nfc } from "#text.ts";

/** `place`: the DN of the entry above, for records that have one. */
const tables = {
  record: "seq INTEGER, source VARCHAR, kind VARCHAR, id VARCHAR, place VARCHAR, body VARCHAR",
} as const;

/** DuckDB's memory limit, in bytes: the records are on disk. */
const memory = 256 * 1024 * 1024;

/** The records of one read of the sources, on disk, in the order they came. */
export class Spool {
  /** For questions about the table `record`, and what was added to it. Not while a source is read or recorded. */
  readonly connection: Connection;
  readonly #database: Database;
  /** Found records are looked up while others are read. */
  readonly #lookups: Connection;
  readonly #failures = new Map<string, Error>();
  #seq = 0;

  private constructor(database: Database, connection: Connection, lookups: Connection) {
    this.#database = database;
    this.connection = connection;
    this.#lookups = lookups;
  }

  /** Opens an empty spool among the files of a workbench. */
  static async open(workbench: Pick<Workbench, "file">): Promise<Spool> {
    const database = await openDatabase({
      path: workbench.file("records.duckdb"),
      memory,
      spill: workbench.file("records.spill"),
    });
    const connection = await database.connect();
    const lookups = await database.connect();
    await connection.run(`CREATE TABLE record (${tables.record})`);
    await useThreads(connection);
    return new Spool(database, connection, lookups);
  }

  /** The source, whose records are kept as they are read. */
  recording(each: SyncSource): SyncSource {
    return {
      ...each,
      source: {
        ...each.source,
        read: (context) => this.#recorded(each.name, each.source.read({ ...context, takeLines: undefined })),
        version: undefined,
      },
    };
  }

  async *#recorded(
    name: string,
    records: AsyncIterable<readonly SourceRecord[]>,
  ): AsyncGenerator<readonly SourceRecord[]> {
    // A torn read is repeated.
    await this.connection.run(`DELETE FROM record WHERE source = ${literal(name)}`);
    this.#failures.delete(name);
    const rows = new Rows(this.connection.raw, tables);
    try {
      for await (const batch of records) {
        for (const record of batch) {
          const id = record.kind === "membership" ? "" : nfc(record.id);
          rows.append("record", this.#seq++, name, record.kind, id, placeOf(record), JSON.stringify(record));
        }
        await rows.room();
        yield batch;
      }
      await rows.flush();
    } catch (error) {
      if (error instanceof Error) this.#failures.set(name, error);
      throw error;
    } finally {
      await rows.close();
    }
  }

  /** What the read of a source ended with; undefined: it delivered everything. */
  failure(source: string): Error | undefined {
    return this.#failures.get(source);
  }

  /** The records of a source again. */
  replay(source: string): AsyncIterable<readonly SourceRecord[]> {
    return bodies(this.connection, `source = ${literal(source)}`);
  }

  /** Those with these ids. */
  find(source: string, records: readonly RecordId[]): AsyncIterable<readonly SourceRecord[]> {
    const ids = records.map(({ kind, id }) => `(${literal(kind)}, ${literal(nfc(id))})`).join(", ");
    return bodies(this.#lookups, `source = ${literal(source)} AND (kind, id) IN (VALUES ${ids})`);
  }

  [Symbol.dispose](): void {
    this.connection.close();
    this.#lookups.close();
    this.#database.close();
  }
}

/** The records of a condition, in the order they came. */
async function* bodies(on: Connection, where: string): AsyncGenerator<readonly SourceRecord[]> {
  for await (const rows of on.batches<{ body: string }>(`SELECT body FROM record WHERE ${where} ORDER BY seq`))
    yield rows.map(({ body }) => JSON.parse(body) as SourceRecord);
}

/** The DN above that of an entry; none for records without a DN. */
function placeOf(record: SourceRecord): string {
  if (record.kind === "membership" || !isDn(record)) return "";
  return /^(?:\\.|[^\\,])*,(.*)$/s.exec(record.origin)?.[1]?.trim() ?? "";
}

function isDn({ origin, keys: [key = ""] }: Entry): boolean {
  return /^[a-z][a-z0-9-]*=/i.test(origin) && key.includes("=");
}
