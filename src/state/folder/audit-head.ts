import { join } from "node:path";
import { z } from "zod";
import { readJson, writeDurably } from "#files/durable.ts";
import type { Head } from "#state/audit/entry.ts";

/** Beside the audit log: its last entry, written with each. Without it, entries could be cut off its end unseen. */
const headName = "audit-head.json";

const head = z.object({ sequence: z.int(), hash: z.string() });
const journal = z.object({ audit: head });

/** Stores the last entry of the audit log, in the daemon's folder. */
export function writeHead(folder: string, { sequence, hash }: Head): Promise<void> {
  return writeDurably(join(folder, headName), `${JSON.stringify({ sequence, hash })}\n`);
}

/**
 * The newest entry of the audit log that is known to have been written: as stored with each entry, or as the journal knows it.
 * Undefined if neither can be read.
 */
export async function readHead(folder: string): Promise<Head | undefined> {
  const own = head.safeParse(await readJson(join(folder, headName))).data;
  const known = journal.safeParse(await readJson(join(folder, "journal.json"))).data?.audit;
  return own === undefined || (known !== undefined && known.sequence > own.sequence) ? known : own;
}
