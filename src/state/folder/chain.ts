import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import { InputError, reasonOf } from "#errors.ts";
import { codeOf } from "#files/disk.ts";
import { readJson, writeDurably } from "#files/durable.ts";
import { currentName } from "#state/audit/chain.ts";
import type { AuditChain, AuditFile } from "#state/audit/chain.ts";
import type { Head } from "#state/audit/entry.ts";

/** The audit log of a daemon's folder: `audit.jsonl`, and the files before it. */
export function chainIn(folder: string): AuditChain {
  return {
    files: () => auditFiles(folder),
    read: ({ name }) => contentOf(join(folder, name)),
    head: () => readHead(folder),
  };
}

const earlierName = /^audit-(?<first>\d{10,15})(?<damaged>\.damaged-[0-9TZ]+)?\.jsonl$/;

/** The files of the chain in order, the current one last. Without the folder there are none. */
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

/** The name of a file that gets no more entries. */
export function earlierFile(first: number, damagedAt?: Date): string {
  const damaged = damagedAt === undefined ? "" : `.damaged-${stamp(damagedAt)}`;
  return `audit-${String(first).padStart(10, "0")}${damaged}.jsonl`;
}

/** A time for a file name: `20261121T101235123Z`. */
export function stamp(time: Date): string {
  return time.toISOString().replaceAll(/[-:.]/g, "");
}

/** The content of a file. @throws {InputError} when it cannot be read */
export async function* contentOf(path: string): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of createReadStream(path)) yield chunk as Buffer;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): InputError {
  const why = reasons[codeOf(error)] ?? reasonOf(error);
  return new InputError(`${called(path)} cannot be read: ${why}`, { cause: error });
}

/** A file of the chain, as messages name it. */
export function called(path: string): string {
  return `the audit file ${basename(path)} (${path})`;
}

const reasons: Readonly<Record<string, string>> = {
  EACCES: "permission denied (EACCES); run as the owner of the data folder",
  EISDIR: "it is a folder (EISDIR); move it away",
};

/** Beside the audit log: its last entry, written with each. Without it, entries could be cut off its end unseen. */
const headName = "audit-head.json";

const headSchema = z.object({ sequence: z.int(), hash: z.string() });
const journalSchema = z.object({ audit: headSchema });

/** Stores the last entry of the audit log, in the daemon's folder. */
export function writeHead(folder: string, { sequence, hash }: Head): Promise<void> {
  return writeDurably(join(folder, headName), `${JSON.stringify({ sequence, hash })}\n`);
}

/**
 * The newest entry of the audit log that is known to have been written: as stored with each entry, or as the journal knows it.
 * Undefined if neither can be read.
 */
export async function readHead(folder: string): Promise<Head | undefined> {
  const own = headSchema.safeParse(await readJson(join(folder, headName))).data;
  const known = journalSchema.safeParse(await readJson(join(folder, "journal.json"))).data?.audit;
  return own === undefined || (known !== undefined && known.sequence > own.sequence) ? known : own;
}
