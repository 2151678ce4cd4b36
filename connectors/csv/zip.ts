import { Readable, pipeline } from "node:stream";
import { crc32, createInflateRaw } from "node:zlib";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { OpenFile } from "#files/source-file.ts";
import { highestRatio, isBomb, longestAnswer } from "#input-bounds.ts";

/** A file in an archive. Sizes in bytes. */
interface ZipEntry {
  readonly method: number;
  readonly isEncrypted: boolean;
  readonly crc: number;
  readonly packed: number;
  readonly unpacked: number;
  readonly offset: number;
}

const [endMark, entryMark, localMark] = [0x06054b50, 0x02014b50, 0x04034b50];
const [endLength, entryLength, localLength] = [22, 46, 30];
const longestComment = 0xffff;
/** A workbook has a few dozen files. */
const longestDirectory = 4 * 2 ** 20;
/** What means that the number is in the extra field of ZIP64, which some programs always write. */
const elsewhere = 0xffffffff;
const zip64Extra = 1;

const readSize = 256 * 1024;
const chunkSize = 32 * 1024;

/** The archive that a workbook is. Its list of contents is at its end, so an archive that is cut off has none. */
export class Zip {
  readonly #file: OpenFile;
  /** By their names in lower case: the names of a workbook's parts are the same in any case (ECMA-376-2, 6.2.2.3). */
  readonly #entries: ReadonlyMap<string, ZipEntry>;

  /** @throws {IncompleteReadError} the archive is cut off */
  static async open(file: OpenFile): Promise<Zip> {
    const { size } = file;
    const tail = await file.read(Math.max(0, size - endLength - longestComment), endLength + longestComment);
    let at = tail.length - endLength;
    while (at >= 0 && tail.readUInt32LE(at) !== endMark) at--;
    if (at < 0)
      throw new IncompleteReadError(`${file.name} ends before the end of the workbook: it is cut off; copy it again`);
    const [length, start] = [tail.readUInt32LE(at + 12), tail.readUInt32LE(at + 16)];
    if (length > longestDirectory || start + length > size) throw damaged(file, "its list of contents is wrong");
    return new Zip(file, entriesIn(await file.read(start, length), file));
  }

  private constructor(file: OpenFile, entries: ReadonlyMap<string, ZipEntry>) {
    this.#file = file;
    this.#entries = entries;
  }

  has(name: string): boolean {
    return this.#entries.has(name.toLowerCase());
  }

  /**
   * The bytes of a file in it, unpacked, at most 32 KiB at a time.
   * @throws {InputError} it is damaged, or grows out of all proportion
   */
  async *content(name: string, signal: AbortSignal): AsyncGenerator<Buffer> {
    const entry = this.#entries.get(name.toLowerCase());
    if (entry === undefined) throw damaged(this.#file, `${name} is missing in it`);
    const { method, isEncrypted, packed, unpacked, crc } = entry;
    if (isEncrypted || (method !== 0 && method !== 8)) throw damaged(this.#file, `${name} is packed in an unknown way`);
    const head = await this.#file.read(entry.offset, localLength);
    if (head.length < localLength || head.readUInt32LE(0) !== localMark)
      throw damaged(this.#file, `${name} is not where it should be`);
    const start = entry.offset + localLength + head.readUInt16LE(26) + head.readUInt16LE(28);
    const bytes = this.#bytes(start, packed, signal);
    let [size, sum] = [0, 0];
    for await (const chunk of method === 0 ? bytes : this.#inflated(name, bytes)) {
      size += chunk.length;
      if (size > longestAnswer || isBomb(packed, size))
        throw new InputError(
          `${this.#file.name}: ${name} grows to more than ${highestRatio} times its size, which no workbook does; save the sheet as CSV if it is right`,
        );
      sum = crc32(chunk, sum);
      yield chunk;
    }
    if (size !== unpacked || sum !== crc) throw damaged(this.#file, `${name} is not as it was written`);
  }

  async *#bytes(start: number, length: number, signal: AbortSignal): AsyncGenerator<Buffer> {
    for (let at = start; at < start + length;) {
      signal.throwIfAborted();
      const block = await this.#file.read(at, Math.min(readSize, start + length - at));
      if (block.length === 0) throw damaged(this.#file, "it is shorter than its list of contents says");
      at += block.length;
      yield block;
    }
  }

  async *#inflated(name: string, bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const inflate = createInflateRaw({ chunkSize });
    try {
      // The pipeline passes every error of `bytes` to the iteration.
      yield* pipeline(Readable.from(bytes), inflate, () => {}) as AsyncIterable<Buffer>;
    } catch (error) {
      if (error instanceof Error && "code" in error && String(error.code).startsWith("Z_"))
        throw damaged(this.#file, `${name} cannot be unpacked (${error.message})`);
      throw error;
    }
  }
}

function entriesIn(bytes: Buffer, file: OpenFile): ReadonlyMap<string, ZipEntry> {
  const entries = new Map<string, ZipEntry>();
  for (let at = 0; at < bytes.length;) {
    if (at + entryLength > bytes.length || bytes.readUInt32LE(at) !== entryMark)
      throw damaged(file, "its list of contents is wrong");
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((field) => bytes.readUInt16LE(at + field)) as [
      number,
      number,
      number,
    ];
    const end = at + entryLength + nameLength;
    const larger = zip64In(bytes.subarray(end, end + extraLength));
    // In the order in which ZIP64 has those that are elsewhere.
    const [unpacked, packed, offset] = [24, 20, 42].map((field) => {
      const number = bytes.readUInt32LE(at + field);
      return number === elsewhere ? (larger.shift() ?? number) : number;
    }) as [number, number, number];
    if (Math.max(packed, unpacked, offset) >= elsewhere)
      throw new InputError(`${file.name} is larger than 4 GiB inside; save the sheet as CSV`);
    entries.set(bytes.toString("utf8", at + entryLength, end).toLowerCase(), {
      isEncrypted: (bytes.readUInt16LE(at + 8) & 1) === 1,
      method: bytes.readUInt16LE(at + 10),
      crc: bytes.readUInt32LE(at + 16),
      packed,
      unpacked,
      offset,
    });
    at = end + extraLength + commentLength;
  }
  return entries;
}

/** The numbers of 64 bits in the extra fields of an entry. */
function zip64In(fields: Buffer): number[] {
  const numbers: number[] = [];
  for (let at = 0; at + 4 <= fields.length;) {
    const [id, length] = [fields.readUInt16LE(at), fields.readUInt16LE(at + 2)];
    at += 4;
    const end = Math.min(at + length, fields.length);
    if (id === zip64Extra)
      for (let each = at; each + 8 <= end; each += 8) numbers.push(Number(fields.readBigUInt64LE(each)));
    at = end;
  }
  return numbers;
}

export function damaged({ name }: Pick<OpenFile, "name">, reason: string): InputError {
  return new InputError(`${name} is a damaged Excel workbook: ${reason}; open it in Excel and save it again`);
}
