import { createHash } from "node:crypto";
import type { BigIntStats } from "node:fs";
import { existsSync } from "node:fs";
import { glob, open, stat, type FileHandle } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { highestRatio, isBomb } from "#input-bounds.ts";
import { IncompleteReadError, InputError, messageOf, type RollcallError, UnavailableError } from "#errors.ts";
import { codeOf, fileLike, lookedIn } from "./disk.ts";
import { isUnwritten, unwritten, zeroTail } from "./content.ts";
import { checked, expectedChecksum, settle, type Checks } from "./settle.ts";

/** In bytes. Parsing a chunk blocks the event loop, so it must take only a few milliseconds. */
const chunkSize = 32 * 1024;

/** In bytes: how much is read at a time, since each read has to wait for the system. */
const readSize = 8 * chunkSize;

type Expected = Parameters<typeof checked>[1];

/** A file that is open for one read. */
export class OpenFile {
  /** As in the configuration. */
  readonly name: string;
  readonly path: string;
  readonly #where: FilesPlace;
  readonly #handle: FileHandle;
  readonly #before: BigIntStats;
  readonly #checksum: Expected | undefined;

  /**
   * Opens a file for one read.
   * @throws {IncompleteReadError} the file does not exist, cannot be read, or keeps changing
   * @throws {UnavailableError} any other error of the system
   */
  static async open(
    name: string,
    where: FilesPlace,
    { settled, checksum: algorithm }: Checks,
    signal: AbortSignal,
  ): Promise<OpenFile> {
    const path = resolve(where.folder, name);
    const status = (): Promise<BigIntStats> => orUnreadable(name, where, () => stat(path, { bigint: true }));
    // Before opening: opening a pipe would wait for its writer.
    if (!(await status()).isFile()) throw new IncompleteReadError(`${name} is not a file`);
    if (settled !== undefined) await settle(name, settled, status, signal);
    const checksum =
      algorithm === undefined
        ? undefined
        : { name, algorithm, expected: await expectedChecksum(name, where.folder, algorithm) };
    const handle = await orUnreadable(name, where, () => open(path));
    try {
      const before = await orUnreadable(name, where, () => handle.stat({ bigint: true }));
      return new OpenFile(name, path, where, handle, before, checksum);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  private constructor(
    name: string,
    path: string,
    where: FilesPlace,
    handle: FileHandle,
    before: BigIntStats,
    checksum: Expected | undefined,
  ) {
    this.name = name;
    this.path = path;
    this.#where = where;
    this.#handle = handle;
    this.#before = before;
    this.#checksum = checksum;
  }

  /** Its first bytes: `length`, or fewer when the file is shorter. */
  head(length: number): Promise<Buffer> {
    return this.#read(0, length);
  }

  /** In bytes, when it was opened. */
  get size(): number {
    return Number(this.#before.size);
  }

  /** As many of its bytes as there are, up to `length`, from anywhere. Its checksum is checked by `bytes` alone. */
  async read(position: number, length: number): Promise<Buffer> {
    const wanted = Math.min(length, this.size - position);
    const parts: Buffer[] = [];
    for (let at = 0; at < wanted;) {
      const part = await this.#read(position + at, wanted - at);
      if (part.length === 0) break;
      parts.push(part);
      at += part.length;
    }
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
  }

  /**
   * Its bytes, from the start. Throws the signal's reason when aborted.
   * @throws {IncompleteReadError} at the end, when the checksum does not match
   */
  bytes(signal: AbortSignal): AsyncGenerator<Buffer> {
    const bytes = bytesOf((position) => this.#read(position, readSize), signal);
    return this.#checksum === undefined ? bytes : checked(bytes, this.#checksum);
  }

  /** @throws {IncompleteReadError} the file has changed since it was opened */
  async assertUnchanged(): Promise<void> {
    // The path too: replacing a file does not change the open one.
    const after = await orUnreadable(this.name, this.#where, () =>
      Promise.all([this.#handle.stat({ bigint: true }), stat(this.path, { bigint: true })]),
    );
    if (after.every((now) => isSame(this.#before, now))) return;
    throw new IncompleteReadError(
      `${this.name} changed while it was being read; read it again when nothing writes to it ` +
        "(an export should be written under another name and then renamed)",
      { transient: true },
    );
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  #read(position: number, length: number): Promise<Buffer> {
    return orUnreadable(this.name, this.#where, async () => {
      const { bytesRead, buffer } = await this.#handle.read(Buffer.allocUnsafe(length), 0, length, position);
      return buffer.subarray(0, bytesRead);
    });
  }
}

async function orUnreadable<T>(name: string, where: FilesPlace, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    throw unreadable(name, where, error);
  }
}

async function* bytesOf(read: (position: number) => Promise<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  for (let position = 0; ;) {
    signal.throwIfAborted();
    const block = await read(position);
    if (block.length === 0) return;
    position += block.length;
    for (let from = 0; from < block.length; from += chunkSize) yield block.subarray(from, from + chunkSize);
  }
}

function isSame(before: BigIntStats, now: BigIntStats): boolean {
  return before.dev === now.dev && before.ino === now.ino && before.size === now.size && before.mtimeNs === now.mtimeNs;
}

const reasons: Readonly<Record<string, string>> = {
  ENOTDIR: "does not exist: part of its path is a file, not a folder",
  ELOOP: "does not exist: it is a link that leads back to itself",
  EACCES: "cannot be read: permission denied; allow the account that runs this program to read it",
  EPERM: "cannot be read: permission denied; allow the account that runs this program to read it",
};

/** Where the files of a source are. */
export interface FilesPlace {
  /** Relative names start there. */
  readonly folder: string;
  /** Where the configuration names a file: `rollcall.yaml:11`; undefined where that is not known. */
  readonly placeOf?: ((name: string) => string | undefined) | undefined;
}

/** What there is to say of a file, after the place where the configuration names it. */
function placed(text: string, name: string, { placeOf }: FilesPlace): string {
  const place = placeOf?.(name);
  return place === undefined ? text : `${place}: ${text}`;
}

function unreadable(name: string, where: FilesPlace, cause: unknown): RollcallError {
  const code = codeOf(cause) || messageOf(cause);
  const path = resolve(where.folder, name);
  const hint = fileLike(path) === undefined ? "; check the path and the export" : "";
  const reason = code === "ENOENT" ? `does not exist ${lookedIn(path)}${hint}` : reasons[code];
  if (reason !== undefined) return new IncompleteReadError(placed(`${name} ${reason}`, name, where), { cause });
  return new UnavailableError(placed(`${name} cannot be read now (${code})`, name, where), { cause });
}

/** The files of one or several patterns, open for one read. */
export class OpenFiles {
  readonly files: readonly OpenFile[];
  /** The names that match now. */
  readonly #matching: () => Promise<readonly string[]>;

  /**
   * Opens files for one read. A name with `*`, `?`, `[…]` or `{…}` is a pattern: all files that match it, sorted by name.
   * @throws {IncompleteReadError} a name matches nothing, or what `OpenFile.open` says
   */
  static async open(
    names: readonly string[],
    where: FilesPlace,
    checks: Checks,
    signal: AbortSignal,
  ): Promise<OpenFiles> {
    const matching = () => matches(names, where, checks);
    const files: OpenFile[] = [];
    try {
      for (const name of await matching()) files.push(await OpenFile.open(name, where, checks, signal));
      return new OpenFiles(files, matching);
    } catch (error) {
      await Promise.all(files.map((file) => file.close()));
      throw error;
    }
  }

  private constructor(files: readonly OpenFile[], matching: () => Promise<readonly string[]>) {
    this.files = files;
    this.#matching = matching;
  }

  /** @throws {IncompleteReadError} a file has changed, or the patterns match other files */
  async assertUnchanged(): Promise<void> {
    for (const file of this.files) await file.assertUnchanged();
    const found = this.files.map(({ name }) => name);
    const now = await this.#matching();
    if (now.length === found.length && now.every((name, index) => name === found[index])) return;
    const news = now.find((name) => !found.includes(name)) ?? "a file";
    throw new IncompleteReadError(
      `${news} appeared while the others were being read; read again when nothing writes there`,
      { transient: true },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.files.map((file) => file.close()));
  }
}

/**
 * A digest of everything in files, and of their names.
 * @throws what `openFiles`, reading and `assertUnchanged` throw
 */
export async function digestOf(
  some: readonly { readonly names: readonly string[]; readonly checks: Checks }[],
  where: FilesPlace,
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash("sha256");
  await using sets = new AsyncDisposableStack();
  const opened: OpenFiles[] = [];
  for (const { names, checks } of some) opened.push(sets.use(await OpenFiles.open(names, where, checks, signal)));
  for (const { files } of opened) {
    hash.update(`${files.length}\n`);
    for (const file of files) {
      const own = createHash("sha256");
      for await (const bytes of file.bytes(signal)) own.update(bytes);
      hash.update(`${JSON.stringify(file.name)} ${own.digest("hex")}\n`);
    }
  }
  for (const set of opened) await set.assertUnchanged();
  return hash.digest("hex");
}

async function matches(names: readonly string[], where: FilesPlace, { checksum }: Checks): Promise<readonly string[]> {
  const { folder } = where;
  const found: string[] = [];
  for (const name of names) {
    // A file itself may have such a name.
    if (!/[*?[{]/.test(name) || existsSync(resolve(folder, name))) {
      found.push(name);
      continue;
    }
    const all = await Array.fromAsync(glob(name, { cwd: folder }));
    const matching = all
      .filter((file) => checksum === undefined || !file.endsWith(`.${checksum}`))
      // What Office writes beside a file while somebody has it open.
      .filter((file) => !basename(file).startsWith("~$"))
      .sort();
    if (matching.length === 0) {
      throw new IncompleteReadError(
        `${placed(`no file matches ${name}`, name, where)} (looked in ${folder}); check the pattern and the export`,
      );
    }
    found.push(...matching);
  }
  return [...new Set(found)];
}

/**
 * The bytes of a text file, decompressed if the first bytes or the name say gzip.
 * @param at the current position of the reader, for messages
 * @throws {IncompleteReadError} compressed data ends early, or the end was reserved and never written
 * @throws {InputError} something that is not gzip follows
 */
export async function* contentOf(file: OpenFile, at: () => string, signal: AbortSignal): AsyncGenerator<Buffer> {
  const head = await file.head(2);
  const isGzip = (head[0] === 0x1f && head[1] === 0x8b) || file.name.endsWith(".gz");
  if (!isGzip) await assertWritten(file);
  const bytes = file.bytes(signal);
  yield* isGzip ? gunzipped(bytes, at) : bytes;
}

/** @throws {IncompleteReadError} the end of a text has not been written */
async function assertWritten(file: OpenFile): Promise<void> {
  const tail = await file.read(Math.max(0, file.size - zeroTail), zeroTail);
  if (isUnwritten(tail)) throw new IncompleteReadError(unwritten(file.name), { transient: true });
}

async function* gunzipped(bytes: AsyncIterable<Buffer>, at: () => string): AsyncGenerator<Buffer> {
  let unpacked = 0;
  const unpacking = createGunzip({ chunkSize });
  // The pipeline passes every error of `bytes` to the iteration below.
  const gunzip = pipeline(Readable.from(bytes), unpacking, () => {});
  try {
    for await (const chunk of gunzip as AsyncIterable<Buffer>) {
      unpacked += chunk.length;
      if (isBomb(unpacking.bytesWritten, unpacked)) {
        throw new InputError(
          `${at()}: the compressed data grows to more than ${highestRatio} times its size, which no export does; unpack the file if it is right`,
        );
      }
      yield chunk;
    }
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "Z_BUF_ERROR") {
      const message = `${at()}: the compressed data ends here, before its end; write the file again`;
      throw new IncompleteReadError(message, { cause: error });
    }
    if (error instanceof Error && (code === "ERR_TRAILING_JUNK_AFTER_STREAM_END" || "errno" in error)) {
      throw new InputError(`${at()}: the data after this point is not gzip (${error.message})`, { cause: error });
    }
    throw error;
  }
}
