import { constants, createReadStream, openSync } from "node:fs";
import { glob, open, stat } from "node:fs/promises";
import { Socket } from "node:net";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { LoadSource } from "#client/chunks.ts";
import { InputError, messageOf } from "#errors.ts";
import { longestMagic, packingOf, packings, unpacked } from "./packing.ts";

const readSize = 1024 * 1024;

/** What is loaded: the sources, and where rejected rows of theirs belong. */
export interface LoadInputs {
  readonly sources: readonly LoadSource[];
  /** Bytes that will be sent; undefined: not known before. */
  readonly total: number | undefined;
  /** Beside the first input: `people.csv.bad`. */
  readonly badRecords: string;
}

/**
 * Finds what the arguments name: files, patterns like `data/*.csv` that nothing is called like, and `-` for standard
 * input. gzip and zstd are unpacked while they are sent.
 * @throws {InputError} naming what cannot be read
 */
export async function findInputs(names: readonly string[], stdin: Readable): Promise<LoadInputs> {
  if (names.filter((name) => name === "-").length > 1) throw new InputError("- (standard input) can be read once only");
  const found = await Promise.all(names.map(filesOf));
  const inputs = await Promise.all(
    found.flat().map(async (file) => (file === "-" ? standardInput(stdin) : inputOf(file))),
  );
  const [first = "-"] = found.flat();
  const sizes = inputs.map(({ size }) => size);
  return {
    sources: inputs.map(({ source }) => source),
    total: sizes.reduce((sum, size) => (sum === undefined || size === undefined ? undefined : sum + size), 0),
    badRecords: badRecordsBeside(first),
  };
}

/** `people.csv.gz`: `people.csv.bad`, which a pattern like `*.csv` does not find the next time. */
function badRecordsBeside(file: string): string {
  if (file === "-") return "stdin.bad";
  const packing = packings.find(({ extension }) => file.toLowerCase().endsWith(extension));
  return `${packing === undefined ? file : file.slice(0, -packing.extension.length)}.bad`;
}

async function filesOf(name: string): Promise<string[]> {
  if (name === "-") return [name];
  const problem = await unreadable(name);
  if (problem === undefined) return [name];
  if (!/[*?[{]/.test(name)) throw new InputError(`${name} cannot be read: ${problem}`);
  const matches: string[] = [];
  for await (const entry of glob(name, { withFileTypes: true })) {
    if (!entry.isDirectory()) matches.push(join(entry.parentPath, entry.name));
  }
  if (matches.length === 0) throw new InputError(`no file is called like ${name}`);
  return matches.sort();
}

async function unreadable(path: string): Promise<string | undefined> {
  try {
    const found = await stat(path);
    return found.isDirectory() ? `it is a folder; its files would be ${join(path, "*.csv")}` : undefined;
  } catch (error) {
    return messageOf(error);
  }
}

interface Input {
  readonly source: LoadSource;
  readonly size?: number;
}

async function inputOf(path: string): Promise<Input> {
  const { size, isFile, isPipe, start } = await look(path);
  const packing = packingOf(start);
  const named = packings.find(({ extension }) => path.toLowerCase().endsWith(extension));
  if (isFile && named !== undefined && named !== packing) {
    throw new InputError(`${path} is called ${named.extension}, but its content is not ${named.name}`);
  }
  if (isFile && packing === undefined) return { source: { name: path, path }, size };
  // A pipe with a name, too, is read once and in order.
  return {
    source: {
      name: path,
      stream: () => unpacked(path, isPipe ? openPipe(path) : createReadStream(path, { highWaterMark: readSize })),
    },
  };
}

/**
 * A pipe with a name. As a file, its opening waits for somebody who writes, and a read for what they write, each in a
 * thread that nothing can end; not even the process would.
 */
function openPipe(path: string): Readable {
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    return new Socket({ fd, readable: true, writable: false });
  } catch (error) {
    throw new InputError(`${path} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function standardInput(stdin: Readable): Input {
  return { source: { name: "standard input", stream: () => unpacked("standard input", stdin) } };
}

interface Look {
  readonly size: number;
  readonly isFile: boolean;
  readonly isPipe: boolean;
  readonly start: Buffer;
}

async function look(path: string): Promise<Look> {
  try {
    const found = await stat(path);
    if (!found.isFile()) return { size: 0, isFile: false, isPipe: found.isFIFO(), start: Buffer.alloc(0) };
    const file = await open(path);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(longestMagic), 0, longestMagic, 0);
      return { size: found.size, isFile: true, isPipe: false, start: buffer.subarray(0, bytesRead) };
    } finally {
      await file.close();
    }
  } catch (error) {
    throw new InputError(`${path} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}
