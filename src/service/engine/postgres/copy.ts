import bindings from "@duckdb/node-bindings";
import type { DuckDBDataChunk, DuckDBResult } from "@duckdb/node-api";
import type { Column } from "#service/engine/engine.ts";

/*
 * Rows of DuckDB in PostgreSQL's binary form of COPY, straight from the columns of a chunk: no object for a row, no text for a
 * value. A row is the number of its fields, and for each field its length and its bytes; all integers are big-endian.
 */

const signature = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const trailer = Buffer.from([0xff, 0xff]);

/** How many bytes are sent at a time. */
const pieceSize = 256 * 1024;

/** Bytes that grow. */
interface Output {
  bytes: Buffer;
  view: DataView;
  at: number;
}

/** Writes the field of a row: its length and its bytes. */
type WriteField = (output: Output, row: number) => void;

/** The stream that `COPY … FROM STDIN (FORMAT binary)` reads. @param columns those of the result */
export async function* copyOf(result: DuckDBResult, columns: readonly Column[]): AsyncGenerator<Buffer> {
  const output: Output = { bytes: Buffer.alloc(0), view: new DataView(new ArrayBuffer(0)), at: 0 };
  renew(output, pieceSize);
  signature.copy(output.bytes);
  output.at = signature.length;
  const width = columns.reduce((sum, column) => sum + 4 + sizeOf(column), 2);
  for (;;) {
    const chunk = await result.fetchChunk();
    const rows = chunk?.rowCount ?? 0;
    if (chunk === null || rows === 0) break;
    const fields = columns.map((column, index) => fieldOf(chunk, index, column));
    for (let row = 0; row < rows; row++) {
      reserve(output, width);
      output.view.setInt16(output.at, columns.length);
      output.at += 2;
      for (const write of fields) write(output, row);
      if (output.at < pieceSize) continue;
      yield output.bytes.subarray(0, output.at);
      renew(output, pieceSize);
    }
  }
  reserve(output, trailer.length);
  trailer.copy(output.bytes, output.at);
  yield output.bytes.subarray(0, output.at + trailer.length);
}

/** The last piece belongs to the stream now. */
function renew(output: Output, size: number): void {
  output.bytes = Buffer.allocUnsafeSlow(size + 4096);
  output.view = new DataView(output.bytes.buffer, output.bytes.byteOffset, output.bytes.length);
  output.at = 0;
}

function reserve(output: Output, size: number): void {
  if (output.at + size <= output.bytes.length) return;
  const { bytes, at } = output;
  renew(output, Math.max(bytes.length * 2, at + size));
  bytes.copy(output.bytes, 0, 0, at);
  output.at = at;
}

/** The most bytes of a value, texts apart. */
function sizeOf({ type, width = 0 }: Column): number {
  if (type === "DECIMAL") return 8 + 2 * (Math.ceil(width / 4) + 2);
  return type === "UUID" ? 16 : 8;
}

function fieldOf(chunk: DuckDBDataChunk, index: number, column: Column): WriteField {
  const vector = bindings.data_chunk_get_vector(chunk.chunk, index);
  const rows = chunk.rowCount;
  const write = valueOf(column, (size) => {
    const data = bindings.vector_get_data(vector, rows * size);
    return new DataView(data.buffer, data.byteOffset, data.byteLength);
  });
  const validity = bindings.vector_get_validity(vector, Math.ceil(rows / 64) * 8);
  // Without a null, there is no mask.
  if (validity === null || validity.byteLength === 0) return write;
  return (output, row) => {
    if (((validity[row >> 3] ?? 0) >> (row & 7)) & 1) write(output, row);
    else {
      output.view.setInt32(output.at, -1);
      output.at += 4;
    }
  };
}

/** PostgreSQL counts from 2000-01-01. */
const epoch = { days: 10_957, microseconds: 946_684_800_000_000n };

/** @param dataOf the values of the column in DuckDB's memory, each of so many bytes */
function valueOf({ type, width = 18, scale = 0 }: Column, dataOf: (size: number) => DataView): WriteField {
  switch (type) {
    case "VARCHAR":
      return textOf(dataOf(16));
    case "DECIMAL":
      return decimalOf(dataOf, width, scale);
    case "SMALLINT": {
      const data = dataOf(2);
      return fixed(2, ({ view, at }, row) => {
        view.setInt16(at, data.getInt16(row * 2, true));
      });
    }
    case "INTEGER":
    case "FLOAT": {
      // The bits of a float are copied as they are.
      const data = dataOf(4);
      return fixed(4, ({ view, at }, row) => {
        view.setInt32(at, data.getInt32(row * 4, true));
      });
    }
    case "DATE": {
      const data = dataOf(4);
      return fixed(4, ({ view, at }, row) => {
        view.setInt32(at, data.getInt32(row * 4, true) - epoch.days);
      });
    }
    case "BIGINT":
    case "DOUBLE":
    case "TIME": {
      const data = dataOf(8);
      return fixed(8, ({ view, at }, row) => {
        view.setInt32(at, data.getInt32(row * 8 + 4, true));
        view.setInt32(at + 4, data.getInt32(row * 8, true));
      });
    }
    case "TIMESTAMP": {
      const data = dataOf(8);
      return fixed(8, ({ view, at }, row) => {
        view.setBigInt64(at, data.getBigInt64(row * 8, true) - epoch.microseconds);
      });
    }
    case "BOOLEAN": {
      const data = dataOf(1);
      return fixed(1, ({ view, at }, row) => {
        view.setInt8(at, data.getInt8(row));
      });
    }
    case "UUID":
      break;
  }
  // DuckDB has UUIDs as integers with a sign, so that they sort: the first bit is turned.
  const data = dataOf(16);
  return fixed(16, ({ view, at }, row) => {
    view.setBigUint64(at, data.getBigUint64(row * 16 + 8, true) ^ (1n << 63n));
    view.setBigUint64(at + 8, data.getBigUint64(row * 16, true));
  });
}

function fixed(size: number, set: (output: Output, row: number) => void): WriteField {
  return (output, row) => {
    output.view.setInt32(output.at, size);
    output.at += 4;
    set(output, row);
    output.at += size;
  };
}

/** Up to how many bytes DuckDB has a text in the vector itself. */
const inlined = 12;

function textOf(data: DataView): WriteField {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return (output, row) => {
    const from = row * 16;
    const length = data.getUint32(from, true);
    // The fields after it have their room too.
    reserve(output, length + 4096);
    output.view.setInt32(output.at, length);
    output.at += 4;
    if (length <= inlined) {
      for (let i = 0; i < length; i++) output.bytes[output.at + i] = bytes[from + 4 + i] ?? 0;
    } else {
      const buffer = data.buffer as ArrayBuffer;
      output.bytes.set(bindings.get_data_from_pointer(buffer, data.byteOffset + from + 8, length), output.at);
    }
    output.at += length;
  };
}

/**
 * A `numeric`: the number of its digits of base 10,000, the power of the first, the sign, how many decimals it shows, and the
 * digits.
 */
function decimalOf(dataOf: (size: number) => DataView, width: number, scale: number): WriteField {
  const read = unscaled(dataOf, width);
  const fractions = Math.ceil(scale / 4);
  /** Brings the decimals to whole digits of base 10,000. */
  const shift = 10n ** BigInt(fractions * 4 - scale);
  const digits: number[] = [];
  return (output, row) => {
    const value = read(row);
    let rest = (value < 0n ? -value : value) * shift;
    digits.length = 0;
    let power = -fractions;
    while (rest > 0n) {
      const digit = Number(rest % 10_000n);
      rest /= 10_000n;
      // Zeros at the end are not written.
      if (digits.length > 0 || digit !== 0) digits.push(digit);
      else power += 1;
    }
    const { view } = output;
    view.setInt32(output.at, 8 + 2 * digits.length);
    view.setInt16(output.at + 4, digits.length);
    view.setInt16(output.at + 6, digits.length === 0 ? 0 : power + digits.length - 1);
    view.setInt16(output.at + 8, value < 0n ? 0x4000 : 0);
    view.setInt16(output.at + 10, scale);
    output.at += 12;
    for (let i = digits.length - 1; i >= 0; i--) {
      view.setInt16(output.at, digits[i] ?? 0);
      output.at += 2;
    }
  };
}

/** DuckDB has decimals as integers, as small as their width allows. */
function unscaled(dataOf: (size: number) => DataView, width: number): (row: number) => bigint {
  if (width <= 4) {
    const data = dataOf(2);
    return (row) => BigInt(data.getInt16(row * 2, true));
  }
  if (width <= 9) {
    const data = dataOf(4);
    return (row) => BigInt(data.getInt32(row * 4, true));
  }
  if (width <= 18) {
    const data = dataOf(8);
    return (row) => data.getBigInt64(row * 8, true);
  }
  const data = dataOf(16);
  return (row) => (data.getBigInt64(row * 16 + 8, true) << 64n) + data.getBigUint64(row * 16, true);
}
