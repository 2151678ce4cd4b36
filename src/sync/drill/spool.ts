import { openDatabase, literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { Rows } from "#duckdb/insert.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import type { Entry, RecordId, SourceRecord } from "#connector.ts";
import type { SyncSource } from "#sync/sync.ts";
import { nfc } from "#text.ts";

/** The records of one read of the sources, on disk, in the order they came. */
export interface Spool {
  /** For questions about the table `record`, and what was added to it. Not while a source is read or recorded. */
  readonly connection: Connection;
  /** The source, whose records are kept as they are read. */
  recording(source: SyncSource): SyncSource;
  /** What the read of a source ended with; absent: it delivered everything. */
  failure(source: string): Error | undefined;
  /** The records of a source again. */
  replay(source: string): AsyncIterable<readonly SourceRecord[]>;
  /** Those with these ids. */
  find(source: string, records: readonly RecordId[]): AsyncIterable<readonly SourceRecord[]>;
  close(): void;
}

/** `place`: the DN of the entry above, for records that have one. */
const tables = {
  record: "seq INTEGER, source VARCHAR, kind VARCHAR, id VARCHAR, place VARCHAR, body VARCHAR",
} as const;

/** DuckDB's memory limit, in bytes: the records are on disk. */
const memory = 256 * 1024 * 1024;

/** Opens an empty spool among the files of a workbench. */
export async function openSpool(workbench: Pick<Workbench, "file">): Promise<Spool> {
  const database = await openDatabase({
    path: workbench.file("records.duckdb"),
    memory,
    spill: workbench.file("records.spill"),
  });
  const connection = await database.connect();
  // Found records are looked up while others are read.
  const lookups = await database.connect();
  await connection.run(`CREATE TABLE record (${tables.record})`);
  await useThreads(connection);
  let seq = 0;
  const failures = new Map<string, Error>();

  async function* recorded(
    name: string,
    records: AsyncIterable<readonly SourceRecord[]>,
  ): AsyncGenerator<readonly SourceRecord[]> {
    // A torn read is repeated.
    await connection.run(`DELETE FROM record WHERE source = ${literal(name)}`);
    failures.delete(name);
    const rows = new Rows(connection.raw, tables);
    try {
      for await (const batch of records) {
        for (const record of batch) {
          const id = record.kind === "membership" ? "" : nfc(record.id);
          rows.append("record", seq++, name, record.kind, id, placeOf(record), JSON.stringify(record));
        }
        await rows.room();
        yield batch;
      }
      await rows.flush();
    } catch (error) {
      if (error instanceof Error) failures.set(name, error);
      throw error;
    } finally {
      await rows.close();
    }
  }

  return {
    connection,
    recording: (each) => ({
      ...each,
      source: {
        ...each.source,
        read: (context) => recorded(each.name, each.source.read({ ...context, takeLines: undefined })),
        version: undefined,
      },
    }),
    failure: (source) => failures.get(source),
    replay: (source) => bodies(connection, `source = ${literal(source)}`),
    find: (source, records) => {
      const ids = records.map(({ kind, id }) => `(${literal(kind)}, ${literal(nfc(id))})`).join(", ");
      return bodies(lookups, `source = ${literal(source)} AND (kind, id) IN (VALUES ${ids})`);
    },
    close: () => {
      connection.close();
      lookups.close();
      database.close();
    },
  };
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
