import { randomUUID } from "node:crypto";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "#files/disk.ts";
import { openPostgres } from "#postgres/database.ts";
import type { Postgres } from "#postgres/database.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { lostRecord } from "#sync/coordinator/recover.ts";
import type { JournalDocument } from "#sync/journal.ts";
import type { RunRecord, SyncState } from "#sync/record.ts";
import { copyAudit, sharedHead } from "./audit.ts";
import { openSharedFiles } from "./files.ts";
import { migrateShared } from "./shared.ts";

/** What of the shared state is to be read. */
export interface Wanted {
  /** Beginnings of paths: `runs/20261121-101235-4f9c2e/`. */
  readonly files?: readonly string[];
  /** `journal.json`; a run whose process has ended is shown as such. */
  readonly journal?: boolean;
  /** `audit.jsonl`. */
  readonly audit?: boolean;
}

/**
 * Copies of what daemons share, in the layout of a daemon's folder: for whatever only reads it. The files of the daemon's
 * folder itself belong to its process.
 * @param daemonFolder the copies are in its folder `copies`
 * @returns their folder
 * @throws {UnavailableError} when PostgreSQL does not answer
 */
export async function copyShared(
  settings: PostgresSettings,
  daemonFolder: string,
  { files = [], journal = false, audit = false }: Wanted,
): Promise<string> {
  const folder = join(daemonFolder, "copies");
  const postgres = await openPostgres(settings);
  try {
    await migrateShared(postgres);
    await makeFolder(folder, "the daemon's folder");
    if (files.length > 0) await openSharedFiles(postgres, folder).pull(files);
    // The end of the audit log first: the log, read later, has at least that.
    if (journal || audit) await copyJournal(postgres, folder);
    if (audit) await copyAudit(postgres, folder);
    return folder;
  } finally {
    await postgres.close();
  }
}

async function copyJournal(postgres: Postgres, folder: string): Promise<void> {
  const head = await sharedHead(postgres);
  const rows = await postgres.rows<{ document: RunRecord; lives: boolean }>(
    `SELECT document, node IN (SELECT id FROM rollcall.nodes WHERE expires > clock_timestamp()) AS lives
     FROM rollcall.runs ORDER BY id`,
  );
  const syncs = await postgres.rows<{ name: string; document: SyncState }>("SELECT name, document FROM rollcall.syncs");
  const document: JournalDocument = {
    version: 1,
    runs: rows.map(({ document: run, lives }) => (run.state === "running" && !lives ? lostRecord(run) : run)),
    syncs: Object.fromEntries(syncs.map(({ name, document: state }) => [name, state])),
    audit: head,
  };
  const path = join(folder, "journal.json");
  // Several may be copying at once.
  const beside = `${path}.${randomUUID()}.new`;
  await writeFile(beside, `${JSON.stringify(document)}\n`, { mode: 0o600 });
  await rename(beside, path);
}
