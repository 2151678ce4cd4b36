import { nfc, objectionToKey, quote, visible } from "#text.ts";
import { spendValue } from "./budget.ts";

/** A table that rules look values up in: a CSV file beside the configuration. */
export interface LookupTable {
  /** Every column, the key's first. */
  readonly columns: readonly string[];
  /** By key: the fields of the row, as many as there are columns; an empty one is no value. */
  readonly rows: ReadonlyMap<string, readonly string[]>;
  /** SHA-256 of all of it in hexadecimal. */
  readonly digest: string;
}

/** The tables that rules name, by the file as written; an error: why one cannot be read. */
export type LookupTables = ReadonlyMap<string, LookupTable | Error>;

/**
 * Reads a table.
 * @param file as written in a rule, relative to `folder`, that of the configuration
 * @throws {RollcallError} naming the file, and the line where it is malformed
 */
export type TableReader = (file: string, folder: string) => Promise<LookupTable>;

/** Reads each table once. */
export async function readTables(
  files: readonly string[],
  folder: string,
  read: TableReader,
): Promise<ReadonlyMap<string, LookupTable | Error>> {
  const tables = new Map<string, LookupTable | Error>();
  for (const file of new Set(files)) {
    try {
      tables.set(file, await read(file, folder));
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      tables.set(file, error);
    }
  }
  return tables;
}

/**
 * Keys are compared without surrounding spaces and in Unicode form NFC.
 * @throws {Error} when nobody can see what the key is
 */
export function lookupKey(text: string): string {
  const key = nfc(text.trim());
  const objection = objectionToKey(key);
  if (objection !== undefined) throw new Error(`the key ${visible(quote(key))} ${objection}`);
  return key;
}

/** A row as CEL sees it, which reads the fields of a `Map` through `get`. Where no row has the key, every field is null. */
export class LookupRow extends Map<string, unknown> {
  readonly isMissing: boolean;
  private readonly columns: readonly string[];
  private readonly fields: readonly string[];

  constructor(columns: readonly string[], fields: readonly string[] | undefined) {
    super();
    this.isMissing = fields === undefined;
    this.columns = columns;
    this.fields = fields ?? [];
  }

  override keys(): never {
    throw new Error("a row of a table is no list; name the column: lookup(…).NAME");
  }

  override get(name: unknown): unknown {
    if (typeof name !== "string") throw new Error('the name of a column is a text: lookup(…)["…"]');
    const value = this.fields[this.columns.indexOf(nfc(name))] || null;
    spendValue(value);
    return value;
  }
}
