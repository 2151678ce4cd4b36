/**
 * Percent-encoding of bytes for `application/x-www-form-urlencoded`: letters, digits and `*-._` stay, every other byte
 * becomes `%XX`. The encoding of a byte does not depend on its neighbours, so a text may be cut anywhere.
 *
 * Two bytes are looked up at a time: a list of a million principals is hundreds of megabytes, and a branch for each
 * byte takes twice as long.
 */
interface Tables {
  /** For each pair of bytes as a 16-bit number: how many bytes it becomes, 2, 4 or 6. */
  readonly lengths: Uint8Array;
  /** The first four of these bytes, the first one lowest. */
  readonly heads: Uint32Array;
  /** The fifth and the sixth. */
  readonly tails: Uint16Array;
}

/** The encoding of each byte. */
const singles = Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte);
  const plain = /[A-Za-z0-9*._-]/.test(character);
  return Buffer.from(plain ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`);
});

let made: Tables | undefined;

function makeTables(): Tables {
  const lengths = new Uint8Array(65_536);
  const heads = new Uint32Array(65_536);
  const tails = new Uint16Array(65_536);
  // Each encoding as a number, its first byte lowest: those of two bytes fit into 48 bits.
  const sizes = singles.map((encoding) => encoding.length);
  const values = singles.map((encoding) => encoding.readUIntLE(0, encoding.length));
  const pair = new Uint8Array(2);
  const index = new Uint16Array(pair.buffer); // in the byte order of this machine
  for (let first = 0; first < 256; first += 1) {
    pair[0] = first;
    const size = sizes[first] ?? 0;
    const value = values[first] ?? 0;
    const shift = 256 ** size;
    for (let second = 0; second < 256; second += 1) {
      pair[1] = second;
      const at = index[0] ?? 0;
      const both = value + (values[second] ?? 0) * shift;
      lengths[at] = size + (sizes[second] ?? 0);
      heads[at] = both % 0x1_0000_0000;
      tails[at] = both / 0x1_0000_0000;
    }
  }
  return { lengths, heads, tails };
}

/** The bytes, percent-encoded. */
export function percentEncode(bytes: Uint8Array): Buffer {
  const { lengths, heads, tails } = (made ??= makeTables());
  const pairs = pairsOf(bytes);
  // Each pair is written as six bytes, of which the next pair overwrites what was too much.
  const buffer = Buffer.allocUnsafeSlow(bytes.length * 3 + 6);
  const view = new DataView(buffer.buffer, buffer.byteOffset, buffer.length);
  let end = 0;
  for (let index = 0; index < pairs.length; index += 1) {
    const pair = pairs[index] ?? 0;
    view.setUint32(end, heads[pair] ?? 0, true);
    view.setUint16(end + 4, tails[pair] ?? 0, true);
    end += lengths[pair] ?? 0;
  }
  const last = lastOf(bytes);
  buffer.set(last, end);
  return buffer.subarray(0, end + last.length);
}

/** How many bytes `percentEncode` makes of these. */
export function percentEncodedLength(bytes: Uint8Array): number {
  const { lengths } = (made ??= makeTables());
  const pairs = pairsOf(bytes);
  let length = 0;
  for (let index = 0; index < pairs.length; index += 1) length += lengths[pairs[index] ?? 0] ?? 0;
  return length + lastOf(bytes).length;
}

function pairsOf(bytes: Uint8Array): Uint16Array {
  const aligned = bytes.byteOffset % 2 === 0 ? bytes : Uint8Array.from(bytes);
  return new Uint16Array(aligned.buffer, aligned.byteOffset, bytes.length >> 1);
}

/** The encoding of the byte that has no partner. */
function lastOf(bytes: Uint8Array): Buffer {
  return (bytes.length % 2 === 1 ? singles[bytes.at(-1) ?? 0] : undefined) ?? Buffer.alloc(0);
}
