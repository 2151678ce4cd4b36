import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { InputError, messageOf } from "#errors.ts";
import { codeOf } from "#files/disk.ts";
import { type Head, type Scan, type Sealed, scan } from "./chain.ts";

/** The file that entries are appended to. */
export const currentName = "audit.jsonl";

/** One file of the chain. */
export interface AuditFile {
  readonly name: string;
  /** The number of its first entry; unknown of the current one. */
  readonly first?: number;
  /** `full`: another one was begun after it. `damaged`: it was put aside; it is part of the chain up to its break. */
  readonly kind: "full" | "damaged" | "current";
}

const earlierName = /^audit-(?<first>\d{10,15})(?<damaged>\.damaged-[0-9TZ]+)?\.jsonl$/;

/** The files of the chain in their order, the current one last. Where the folder is not there, there are none. */
export async function auditFiles(folder: string): Promise<AuditFile[]> {
  const names: string[] = await readdir(folder).catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return [];
    throw unreadable(folder, error);
  });
  const earlier = names.sort().flatMap((name): AuditFile[] => {
    const { first, damaged } = earlierName.exec(name)?.groups ?? {};
    return first === undefined
      ? []
      : [{ name, first: Number(first), kind: damaged === undefined ? "full" : "damaged" }];
  });
  return names.includes(currentName) ? [...earlier, { name: currentName, kind: "current" }] : earlier;
}

/** The name of a file that entries are no longer appended to. */
export function earlierFile(first: number, damagedAt?: Date): string {
  const damaged = damagedAt === undefined ? "" : `.damaged-${stamp(damagedAt)}`;
  return `audit-${String(first).padStart(10, "0")}${damaged}.jsonl`;
}

/** A time as a part of a file's name: `20261121T101235123Z`. */
export function stamp(time: Date): string {
  return time.toISOString().replaceAll(/[-:.]/g, "");
}

/** `scan` over a file. @throws {InputError} when it cannot be read */
export async function scanFile(
  path: string,
  start: Head | number,
  tell?: (entry: Sealed, line: Buffer) => void | Promise<void>,
): Promise<Scan> {
  return scan(bytesOf(path), start, tell);
}

async function* bytesOf(path: string): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(path)) yield chunk as Buffer;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): InputError {
  const why = reasons[codeOf(error)] ?? messageOf(error);
  return new InputError(`${called(path)} cannot be read: ${why}`, { cause: error });
}

/** What a file of the chain is called in messages. */
export function called(path: string): string {
  return `the audit file ${basename(path)} (${path})`;
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "this account may not (EACCES); run as the owner of the data folder",
  EISDIR: "it is a folder (EISDIR); move it away",
};

/** The path of a file of the chain. */
export function pathOf(folder: string, { name }: Pick<AuditFile, "name">): string {
  return join(folder, name);
}
