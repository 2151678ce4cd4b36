import bindings from "@duckdb/node-bindings";
import type { DuckDBDataChunk, DuckDBResult } from "@duckdb/node-api";
import { nextChunk } from "#duckdb/chunk.ts";
import type { Column } from "#service/engine/engine.ts";

/*
 * Rows of DuckDB in PostgreSQL's binary form of COPY, straight from the columns of a chunk: no object for a row, no text for a
 * value. A row is the number of its fields, and for each field its length and its bytes; all integers are big-endian. A chunk
 * is written column by column, once it is known where each of its rows begins.
 */

const signature = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const trailer = Buffer.from([0xff, 0xff]);

/** How many bytes are sent, or fetched from DuckDB's texts, at a time; more for a row, or a text, that is longer. */
const pieceSize = 256 * 1024;

/** Where fields are written. */
interface Output {
  readonly bytes: Buffer;
  readonly view: DataView;
}

/** The values of a column in one chunk. */
interface Values {
  /** How many bytes a value takes, or that of a row. */
  readonly size: number | ((row: number) => number);
  /** Writes it. Rows come in their order. */
  readonly put: (output: Output, at: number, row: number) => void;
}

/** A bit for each row that has a value; undefined where all have. */
type Validity = Uint8Array | undefined;

function isNull(validity: Validity, row: number): boolean {
  return validity !== undefined && (((validity[row >> 3] ?? 0) >> (row & 7)) & 1) === 0;
}

/** The stream that `COPY … FROM STDIN (FORMAT binary)` reads. @param columns those of the result */
export async function* copyOf(result: DuckDBResult, columns: readonly Column[]): AsyncGenerator<Buffer> {
  yield signature;
  let coming = fetch(result);
  try {
    for (;;) {
      const chunk = await coming;
      if (chunk === undefined) break;
      // DuckDB works on the next one while this one is written.
      coming = fetch(result);
      yield* rowsOf(chunk, columns);
    }
  } finally {
    await coming.catch(() => undefined);
  }
  yield trailer;
}

function fetch(result: DuckDBResult): Promise<DuckDBDataChunk | undefined> {
  const chunk = nextChunk(result);
  // It is thrown where the chunk is awaited.
  chunk.catch(() => undefined);
  return chunk;
}

/** The rows of a chunk, in pieces. */
function* rowsOf(chunk: DuckDBDataChunk, columns: readonly Column[]): Generator<Buffer> {
  const count = chunk.rowCount;
  const fields = columns.map((column, index) => fieldsOf(chunk, index, column));
  const sizes = new Float64Array(count).fill(fields.reduce((sum, { least }) => sum + least, 2));
  for (const { measure } of fields) measure(sizes);
  const places = new Float64Array(count);
  for (let from = 0; from < count;) {
    let to = from;
    let size = 0;
    do {
      places[to] = size;
      size += sizes[to++] ?? 0;
    } while (to < count && size + (sizes[to] ?? 0) <= pieceSize);
    const bytes = Buffer.allocUnsafeSlow(size);
    const output: Output = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, size) };
    for (let row = from; row < to; row++) {
      const at = places[row] ?? 0;
      output.view.setInt16(at, columns.length);
      places[row] = at + 2;
    }
    for (const { write } of fields) write(output, places, from, to);
    yield bytes;
    from = to;
  }
}

/** The fields of a column in one chunk. */
function fieldsOf(chunk: DuckDBDataChunk, index: number, column: Column) {
  const vector = bindings.data_chunk_get_vector(chunk.chunk, index);
  const rows = chunk.rowCount;
  const mask = bindings.vector_get_validity(vector, Math.ceil(rows / 64) * 8);
  // Without a null, there is no mask.
  const validity = mask === null || mask.byteLength === 0 ? undefined : mask;
  const { size, put } = valuesOf(column, rows, validity, (bytes) => {
    const data = bindings.vector_get_data(vector, rows * bytes);
    return new DataView(data.buffer, data.byteOffset, data.byteLength);
  });
  const isFixed = typeof size === "number";
  return {
    /** The size that each of them has. */
    least: isFixed && validity === undefined ? 4 + size : 4,
    /** Adds to the size of each row what its field has beyond that. */
    measure: (sizes: Float64Array): void => {
      if (isFixed && validity === undefined) return;
      for (let row = 0; row < rows; row++) {
        if (!isNull(validity, row)) sizes[row] = (sizes[row] ?? 0) + (isFixed ? size : size(row));
      }
    },
    /** Writes those of some rows at `places`, and moves these behind them. */
    write: (output: Output, places: Float64Array, from: number, to: number): void => {
      const { view } = output;
      for (let row = from; row < to; row++) {
        const at = places[row] ?? 0;
        if (isNull(validity, row)) {
          view.setInt32(at, -1);
          places[row] = at + 4;
          continue;
        }
        const length = isFixed ? size : size(row);
        view.setInt32(at, length);
        put(output, at + 4, row);
        places[row] = at + 4 + length;
      }
    },
  };
}

/** 2000-01-01, from which PostgreSQL counts. */
const epoch = { days: 10_957, microseconds: 946_684_800_000_000n };
const epochLow = Number(epoch.microseconds & 0xffff_ffffn);
const epochHigh = Number(epoch.microseconds >> 32n);

/** @param dataOf the values of the column in DuckDB's memory, each of so many bytes */
function valuesOf(
  { type, width = 18, scale = 0 }: Column,
  rows: number,
  validity: Validity,
  dataOf: (bytes: number) => DataView,
): Values {
  switch (type) {
    case "VARCHAR":
      return texts(dataOf(16), rows, validity);
    case "DECIMAL":
      return decimals(unscaled(dataOf, width), scale, rows, validity);
    case "SMALLINT": {
      const data = dataOf(2);
      return fixed(2, ({ view }, at, row) => {
        view.setInt16(at, data.getInt16(row * 2, true));
      });
    }
    case "INTEGER":
    case "FLOAT": {
      // The bits of a float are copied as they are.
      const data = dataOf(4);
      return fixed(4, ({ view }, at, row) => {
        view.setInt32(at, data.getInt32(row * 4, true));
      });
    }
    case "DATE": {
      const data = dataOf(4);
      return fixed(4, ({ view }, at, row) => {
        view.setInt32(at, data.getInt32(row * 4, true) - epoch.days);
      });
    }
    case "BIGINT":
    case "DOUBLE":
    case "TIME": {
      const data = dataOf(8);
      return fixed(8, ({ view }, at, row) => {
        view.setInt32(at, data.getInt32(row * 8 + 4, true));
        view.setInt32(at + 4, data.getInt32(row * 8, true));
      });
    }
    case "TIMESTAMP": {
      // In halves: a BigInt for each would take longer than all the rest.
      const data = dataOf(8);
      return fixed(8, ({ view }, at, row) => {
        const low = data.getUint32(row * 8, true) - epochLow;
        view.setInt32(at, data.getInt32(row * 8 + 4, true) - epochHigh - (low < 0 ? 1 : 0));
        view.setInt32(at + 4, low);
      });
    }
    case "BOOLEAN": {
      const data = dataOf(1);
      return fixed(1, ({ view }, at, row) => {
        view.setInt8(at, data.getInt8(row));
      });
    }
    case "UUID":
      break;
  }
  // DuckDB has UUIDs as integers with a sign, so that they sort: the first bit is turned.
  const data = dataOf(16);
  return fixed(16, ({ view }, at, row) => {
    view.setInt32(at, data.getInt32(row * 16 + 12, true) ^ 0x8000_0000);
    for (let part = 1; part < 4; part++) {
      view.setInt32(at + part * 4, data.getInt32(row * 16 + 12 - part * 4, true));
    }
  });
}

function fixed(size: number, put: Values["put"]): Values {
  return { size, put };
}

/** Up to how many bytes DuckDB has a text in the vector itself; of a longer one it has the address there. */
const inlined = 12;

/** A short text is copied faster byte by byte. */
const shortText = 48;

/**
 * Fetching a text is a call of the library, which takes longer than all else. In a result DuckDB has texts one behind the
 * other, so that one call fetches hundreds; wherever one is not right behind the one before it, another call begins.
 */
function texts(data: DataView, rows: number, validity: Validity): Values {
  const vector = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const length = (row: number): number => data.getUint32(row * 16, true);
  /** Texts that were fetched together: those up to the row `end`, of which the next one begins at `next`. */
  let fetched: Uint8Array = vector;
  let end = 0;
  let next = 0;

  function fetchFrom(first: number): void {
    let size = length(first);
    for (end = first + 1; end < rows; end++) {
      if (isNull(validity, end)) continue;
      const more = length(end);
      if (more <= inlined) continue;
      if (size + more > pieceSize || !follows(data, first, size, end)) break;
      size += more;
    }
    fetched = bindings.get_data_from_pointer(data.buffer as ArrayBuffer, data.byteOffset + first * 16 + 8, size);
    next = 0;
  }

  return {
    size: length,
    put: ({ bytes }, at, row) => {
      const size = length(row);
      if (size <= inlined) {
        const from = row * 16 + 4;
        for (let i = 0; i < size; i++) bytes[at + i] = vector[from + i] ?? 0;
        return;
      }
      if (row >= end) fetchFrom(row);
      if (size <= shortText) for (let i = 0; i < size; i++) bytes[at + i] = fetched[next + i] ?? 0;
      else bytes.set(fetched.subarray(next, next + size), at);
      next += size;
    },
  };
}

/** Whether the text of a row is `size` bytes behind the beginning of another, by their addresses. */
function follows(data: DataView, first: number, size: number, row: number): boolean {
  const low = data.getUint32(first * 16 + 8, true) + size;
  const carry = low >= 2 ** 32 ? 1 : 0;
  return (
    data.getUint32(row * 16 + 8, true) === low - carry * 2 ** 32 &&
    data.getUint32(row * 16 + 12, true) === data.getUint32(first * 16 + 12, true) + carry
  );
}

/** The most digits of base 10,000 that a number of 38 decimal digits has, with a point somewhere. */
const mostDigits = 11;

/**
 * A `numeric`: the number of its digits of base 10,000, the power of the first, the sign, how many decimals it shows, and the
 * digits.
 */
function decimals(read: (row: number) => number | bigint, scale: number, rows: number, validity: Validity): Values {
  const counts = new Uint8Array(rows);
  const powers = new Int8Array(rows);
  const digits = new Int16Array(rows * mostDigits);
  const isNegative = new Uint8Array(rows);
  /** The last digit may have fewer decimals than four. */
  const lastDecimals = scale % 4;
  for (let row = 0; row < rows; row++) {
    if (isNull(validity, row)) continue;
    const value = read(row);
    if (value < 0) isNegative[row] = 1;
    let rest = value < 0 ? -value : value;
    let count = 0;
    let power = -Math.ceil(scale / 4);
    const first = row * mostDigits;
    for (let base = lastDecimals === 0 ? 10_000 : 10 ** lastDecimals; rest > 0; base = 10_000) {
      let digit: number;
      if (typeof rest === "bigint") {
        digit = Number(rest % BigInt(base));
        rest /= BigInt(base);
        if (rest <= Number.MAX_SAFE_INTEGER) rest = Number(rest);
      } else {
        digit = rest % base;
        rest = Math.floor(rest / base);
      }
      // Zeros at the end are not written.
      if (count > 0 || digit !== 0) digits[first + count++] = digit * (10_000 / base);
      else power += 1;
    }
    counts[row] = count;
    powers[row] = count === 0 ? 0 : power + count - 1;
  }
  return {
    size: (row) => 8 + 2 * (counts[row] ?? 0),
    put: ({ view }, at, row) => {
      const count = counts[row] ?? 0;
      view.setInt16(at, count);
      view.setInt16(at + 2, powers[row] ?? 0);
      view.setInt16(at + 4, isNegative[row] === 1 ? 0x4000 : 0);
      view.setInt16(at + 6, scale);
      for (let i = 0; i < count; i++) {
        view.setInt16(at + 8 + 2 * i, digits[row * mostDigits + count - 1 - i] ?? 0);
      }
    },
  };
}

/** DuckDB has decimals as integers, as small as their width allows. */
function unscaled(dataOf: (size: number) => DataView, width: number): (row: number) => number | bigint {
  if (width <= 4) {
    const data = dataOf(2);
    return (row) => data.getInt16(row * 2, true);
  }
  if (width <= 9) {
    const data = dataOf(4);
    return (row) => data.getInt32(row * 4, true);
  }
  if (width <= 18) {
    const data = dataOf(8);
    // Up to 15 digits, a number holds it exactly.
    if (width <= 15) return (row) => data.getInt32(row * 8 + 4, true) * 2 ** 32 + data.getUint32(row * 8, true);
    return (row) => data.getBigInt64(row * 8, true);
  }
  const data = dataOf(16);
  return (row) => (data.getBigInt64(row * 16 + 8, true) << 64n) + data.getBigUint64(row * 16, true);
}
