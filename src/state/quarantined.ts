import type { Connection } from "#duckdb/database.ts";
import { literal } from "#duckdb/database.ts";
import { csvLine } from "#plan/render/csv.ts";
import { openReader } from "#plan/stored.ts";
import { summarizeQuarantined } from "#principals/assembly.ts";
import type { Quarantined } from "#principals/assembly.ts";
import type { Kind } from "#principals/principal.ts";

/** A quarantined record, as it is stored with the run that read it. */
export interface StoredRecord {
  readonly kind: Kind;
  /** Null where not even that is known. */
  readonly name: string | null;
  readonly source: string;
  readonly id: string;
  readonly origin: string;
  readonly reason: string;
}

/** The quarantined records in a file of a run, in the order in which they were read. */
export function storedRecords(connection: Connection, file: string): AsyncIterable<StoredRecord[]> {
  return connection.batches(
    `SELECT kind::VARCHAR AS kind, name, source, source_id AS id, origin, reason FROM read_parquet(${literal(file)})`,
  );
}

/** The quarantined records of a run. */
export class QuarantinedRecords {
  readonly #file: string;
  readonly #spill: string;

  /** @param spill a folder where DuckDB may spill what does not fit into memory */
  constructor(file: string, spill: string) {
    this.#file = file;
    this.#spill = spill;
  }

  /** @param most.reasons the most reasons that are named. @param most.records the most records of each */
  async summary(most: { readonly reasons: number; readonly records: number }): Promise<Quarantined> {
    await using opened = await openReader(this.#spill);
    const { connection } = opened;
    await connection.run(`CREATE TEMP TABLE quarantined AS FROM read_parquet(${literal(this.#file)})`);
    return await summarizeQuarantined(connection, most);
  }

  async *all(): AsyncIterable<StoredRecord[]> {
    await using opened = await openReader(this.#spill);
    yield* storedRecords(opened.connection, this.#file);
  }
}

/** The columns of quarantined records as CSV. */
export const quarantinedHeader = `\uFEFF${csvLine(["sync", "time", "kind", "name", "source", "id", "origin", "cause"])}`;

/** A row for a spreadsheet. @param at when the sources were read, ISO 8601 */
export function quarantinedRow(
  sync: string,
  at: string,
  { kind, name, source, id, origin, reason }: Partial<StoredRecord>,
): string {
  return csvLine([sync, at, kind, name ?? undefined, source, id, origin, reason]);
}
