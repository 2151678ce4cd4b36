import {
  BLOB,
  DuckDBArrayType,
  DuckDBArrayValue,
  DuckDBBlobValue,
  DuckDBBlobVector,
  DuckDBListType,
  DuckDBListValue,
  DuckDBMapType,
  DuckDBMapValue,
  DuckDBStructType,
  DuckDBStructValue,
  DuckDBTypeId,
  DuckDBUnionType,
  DuckDBUnionValue,
  DuckDBVector,
  JSDuckDBValueConverter,
  ResultReturnType,
} from "@duckdb/node-api";
import type { DuckDBDataChunk, DuckDBResult, DuckDBType, DuckDBValue } from "@duckdb/node-api";
import bindings from "@duckdb/node-bindings";
import { UnavailableError } from "#errors.ts";

/**
 * A query failed after its first rows, was interrupted, or was ended by the next statement on its connection. DuckDB's library
 * does not say which.
 */
export class CutOffError extends UnavailableError {
  constructor() {
    super("a query failed after its first rows: the memory or the disk may be too small for it. Try again");
  }
}

/**
 * The next rows of a result; undefined: there are no more. Where a query fails after its first rows, the library gives none, as
 * at the end: only the type of the result differs then.
 * @throws {CutOffError}
 */
export async function nextChunk(result: DuckDBResult): Promise<DuckDBDataChunk | undefined> {
  const chunk = await result.fetchChunk();
  if (chunk !== null && chunk.rowCount > 0) return chunk;
  if (result.returnType === ResultReturnType.INVALID) throw new CutOffError();
  return undefined;
}

/*
 * The library's own readers drop a U+FEFF at the start of a text, and names are compared exactly (B.5). So here text is
 * read as bytes, also inside lists, structs, maps and unions.
 */

/**
 * What reads the values of a chunk, column by column, by the number of the row. Text is read when it is asked for: a
 * chunk may hold much of it.
 * @param types the column types of the result
 */
export function columnReaders(chunk: DuckDBDataChunk, types: readonly DuckDBType[]): ((row: number) => DuckDBValue)[] {
  const rows = chunk.rowCount;
  return types.map((type, index) => {
    const bytes = withBytes(type);
    if (bytes === type) {
      const values = chunk.getColumnValues(index);
      return (row) => values[row] ?? null;
    }
    const vector = DuckDBVector.create(bindings.data_chunk_get_vector(chunk.chunk, index), rows, bytes);
    return vector instanceof DuckDBBlobVector
      ? (row) => decode(vector.getItemBytes(row))
      : (row) => withText(vector.getItem(row), type);
  });
}

/** The rows of a chunk as objects by column name, their values as `Connection.rows` gives them. */
export function readRows(
  chunk: DuckDBDataChunk,
  names: readonly string[],
  types: readonly DuckDBType[],
): Record<string, unknown>[] {
  const rows: Record<string, unknown>[] = Array.from({ length: chunk.rowCount }, () => ({}));
  for (const [index, read] of columnReaders(chunk, types).entries()) {
    const [name, type] = [names[index], types[index]];
    if (name === undefined || type === undefined) throw new RangeError("a chunk has more columns than its result");
    for (const [place, row] of rows.entries())
      row[name] = JSDuckDBValueConverter(read(place), type, JSDuckDBValueConverter);
  }
  return rows;
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function decode(bytes: Uint8Array | null): string | null {
  return bytes === null ? null : decoder.decode(bytes);
}

/**
 * The type with bytes in place of text; the type itself when nothing in it can be text. The library reads the entries of a struct by
 * name, but those of `ROW(1, 2)` have none, and `__proto__` is one: here their names are their places.
 */
function withBytes(type: DuckDBType): DuckDBType {
  if (type.typeId === DuckDBTypeId.VARCHAR) return BLOB;
  if (type instanceof DuckDBListType) return new DuckDBListType(withBytes(type.valueType));
  if (type instanceof DuckDBArrayType) return new DuckDBArrayType(withBytes(type.valueType), type.length);
  if (type instanceof DuckDBStructType)
    return new DuckDBStructType(
      type.entryNames.map((_, index) => `${index}`),
      type.entryTypes.map(withBytes),
    );
  if (type instanceof DuckDBMapType) return new DuckDBMapType(withBytes(type.keyType), withBytes(type.valueType));
  if (type instanceof DuckDBUnionType) return new DuckDBUnionType(type.memberTags, type.memberTypes.map(withBytes));
  return type;
}

/** What the entries of a struct are called in its values here: those without names by their places, from 1. */
export function entryNamesOf({ entryNames }: DuckDBStructType): string[] {
  return entryNames.map((name, index) => (name === "" ? `${index + 1}` : name));
}

/** The value of a type, read by its `withBytes`, with its text. */
function withText(value: DuckDBValue, type: DuckDBType): DuckDBValue {
  if (value instanceof DuckDBBlobValue) return type.typeId === DuckDBTypeId.VARCHAR ? decode(value.bytes) : value;
  if (value instanceof DuckDBListValue && type instanceof DuckDBListType)
    return new DuckDBListValue(value.items.map((item) => withText(item, type.valueType)));
  if (value instanceof DuckDBArrayValue && type instanceof DuckDBArrayType)
    return new DuckDBArrayValue(value.items.map((item) => withText(item, type.valueType)));
  if (value instanceof DuckDBStructValue && type instanceof DuckDBStructType) {
    const names = entryNamesOf(type);
    const values = type.entryTypes.map((entryType, index) => withText(value.entries[index] ?? null, entryType));
    return new DuckDBStructValue(Object.fromEntries(names.map((name, index) => [name, values[index] ?? null])));
  }
  if (value instanceof DuckDBMapValue && type instanceof DuckDBMapType) {
    const { keyType, valueType } = type;
    const entries = value.entries.map(({ key, value }) => ({
      key: withText(key, keyType),
      value: withText(value, valueType),
    }));
    return new DuckDBMapValue(entries);
  }
  if (value instanceof DuckDBUnionValue && type instanceof DuckDBUnionType)
    return new DuckDBUnionValue(value.tag, withText(value.value, type.memberTypeForTag(value.tag)));
  return value;
}
