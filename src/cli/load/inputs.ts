import { packingOf, packings, refuseForeign, unpacked } from "#files/unpack.ts";
import { constants, createReadStream, openSync } from "node:fs";
import { glob, open, stat } from "node:fs/promises";
import { Socket } from "node:net";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import type { LoadSource } from "#client/chunks.ts";
import { InputError } from "#errors.ts";
import { isUnwritten, tellingBytes, unwritten, zeroTail } from "#files/content.ts";
import { unreadable } from "#files/disk.ts";

const readSize = 1024 * 1024;

/** What is loaded, and where its rejected rows go. */
export interface LoadInputs {
  readonly sources: readonly LoadSource[];
  /** Bytes to send; undefined if not known in advance. */
  readonly total: number | undefined;
  /** Beside the first input: `people.csv.bad`. */
  readonly badRecords: string;
  /** Reads the beginning of each input; undefined for one that can be read only once. */
  readonly samples: readonly ((size?: number) => Promise<Sample> | undefined)[];
}

/** The beginning of an input, unpacked. */
export interface Sample {
  readonly name: string;
  readonly sample: Buffer;
  /** There is nothing after it. */
  readonly isWhole: boolean;
}

/** How much of an input is looked at, in bytes. */
const sampleSize = 1024 * 1024;

/**
 * Opens what the arguments name: files, patterns like `data/*.csv` unless a file has that name, and `-` for standard
 * input. gzip and zstd are unpacked while sending.
 * @param mayBeJson rows may begin as JSON does
 * @throws {InputError} naming what cannot be read, or is no table of text
 */
export async function findInputs(names: readonly string[], stdin: Readable, mayBeJson = false): Promise<LoadInputs> {
  if (names.filter((name) => name === "-").length > 1) throw new InputError("- (standard input) can be read only once");
  if (names.includes("")) throw new InputError("the name of a file is empty");
  const found = await Promise.all(names.map(filesOf));
  const inputs = await Promise.all(
    found.flat().map(async (file) => (file === "-" ? standardInput(stdin, mayBeJson) : inputOf(file, mayBeJson))),
  );
  const [first = "-"] = found.flat();
  const sizes = inputs.map(({ size }) => size);
  return {
    sources: inputs.map(({ source }) => source),
    total: sizes.reduce((sum, size) => (sum === undefined || size === undefined ? undefined : sum + size), 0),
    badRecords: badRecordsBeside(first),
    samples: inputs.map(
      ({ source, again }) =>
        (size = sampleSize) =>
          again === undefined ? undefined : sampleOf(source.name, again(), size),
    ),
  };
}

async function sampleOf(name: string, bytes: Readable, size: number): Promise<Sample> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of bytes as AsyncIterable<Buffer>) {
    parts.push(part);
    length += part.length;
    if (length > size) break;
  }
  return { name, sample: Buffer.concat(parts), isWhole: length <= size };
}

/** `people.csv.gz`: `people.csv.bad`, which the pattern `*.csv` does not match. */
function badRecordsBeside(file: string): string {
  if (file === "-") return "stdin.bad";
  const packing = packings.find(({ extension }) => file.toLowerCase().endsWith(extension));
  return `${packing === undefined ? file : file.slice(0, -packing.extension.length)}.bad`;
}

async function filesOf(name: string): Promise<string[]> {
  if (name === "-") return [name];
  const problem = await problemOf(name);
  if (problem === undefined) return [name];
  if (!/[*?[{]/.test(name)) throw problem;
  const matches: string[] = [];
  for await (const entry of glob(name, { withFileTypes: true })) {
    if (!entry.isDirectory()) matches.push(join(entry.parentPath, entry.name));
  }
  if (matches.length === 0) throw new InputError(`no file matches ${name}`);
  return matches.sort();
}

async function problemOf(path: string): Promise<InputError | undefined> {
  try {
    const found = await stat(path);
    if (!found.isDirectory()) return undefined;
    return new InputError(`${path} is a folder; to load its files, name ${join(path, "*.csv")}`);
  } catch (error) {
    return unreadable(path, resolve(path), error);
  }
}

interface Input {
  /** Reads it once more, unpacked. */
  readonly again?: (() => Readable) | undefined;
  readonly source: LoadSource;
  readonly size?: number;
}

async function inputOf(path: string, mayBeJson: boolean): Promise<Input> {
  const { size, isFile, isPipe, start, end } = await edgesOf(path);
  const packing = packingOf(start);
  const named = packings.find(({ extension }) => path.toLowerCase().endsWith(extension));
  if (isFile && named !== undefined && named !== packing) {
    throw new InputError(`${path} ends in ${named.extension}, but its content is not ${named.name}`);
  }
  if (packing === undefined) {
    refuseForeign(path, start, mayBeJson);
    if (isUnwritten(end)) throw new InputError(unwritten(path));
  }
  const again = isFile
    ? () => unpacked(path, createReadStream(path, { highWaterMark: readSize }), mayBeJson)
    : undefined;
  if (isFile && packing === undefined) return { source: { name: path, path }, size, again };
  // A named pipe, too, is read once and in order.
  return {
    source: {
      name: path,
      stream: () =>
        unpacked(path, isPipe ? openPipe(path) : createReadStream(path, { highWaterMark: readSize }), mayBeJson),
      isPipe,
    },
    again,
  };
}

/**
 * Opens a named pipe. Opened as a file, it would wait for a writer in a thread that nothing can end; even the process
 * would not exit.
 */
function openPipe(path: string): Readable {
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return new Socket({ fd, readable: true, writable: false });
  } catch (error) {
    throw unreadable(path, resolve(path), error);
  }
}

function standardInput(stdin: Readable, mayBeJson: boolean): Input {
  const name = "standard input";
  return { source: { name, stream: () => unpacked(name, stdin, mayBeJson), isPipe: true } };
}

interface FileEdges {
  readonly size: number;
  readonly isFile: boolean;
  readonly isPipe: boolean;
  readonly start: Buffer;
  readonly end: Buffer;
}

async function edgesOf(path: string): Promise<FileEdges> {
  try {
    const found = await stat(path);
    const none = Buffer.alloc(0);
    if (!found.isFile()) return { size: 0, isFile: false, isPipe: found.isFIFO(), start: none, end: none };
    await using file = await open(path);
    const read = async (length: number, position: number): Promise<Buffer> => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
      return buffer.subarray(0, bytesRead);
    };
    const [start, end] = [await read(tellingBytes, 0), await read(zeroTail, Math.max(0, found.size - zeroTail))];
    return { size: found.size, isFile: true, isPipe: false, start, end };
  } catch (error) {
    throw unreadable(path, resolve(path), error);
  }
}
