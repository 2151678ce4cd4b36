import { randomUUID } from "node:crypto";
import { readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "#files/disk.ts";
import { openPostgres } from "#postgres/database.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import type { JournalDocument } from "#state/folder/journal.ts";
import { writeHead } from "#state/folder/audit-head.ts";
import { lostRecord, recordOf, runDocument } from "#state/record.ts";
import type { RunDocument, RunRecord, SyncState } from "#state/record.ts";
import { sharedHead, writeAuditFile } from "./audit.ts";
import { openSharedFiles } from "./files.ts";
import { migrateShared } from "./store.ts";

/** What of the shared state is to be read. */
export interface Wanted {
  /** Beginnings of paths: `runs/20261121-101235-4f9c2e/`. */
  readonly files?: readonly string[];
  /** `journal.json`; a run whose process has ended is shown as such. */
  readonly journal?: boolean;
  /** `audit.jsonl`, and its end: in a folder of their own, since other copies may not be as new. */
  readonly audit?: boolean;
}

/**
 * Copies of what daemons share, in the layout of a daemon's folder: for whatever only reads it. The files of the daemon's
 * folder itself belong to its process.
 * @param daemonFolder the copies are in its folder `copies`
 * @returns their folder; the caller removes that of `audit`
 * @throws {UnavailableError} when PostgreSQL does not answer
 */
export async function copyShared(
  settings: PostgresSettings,
  daemonFolder: string,
  { files = [], journal = false, audit = false }: Wanted,
): Promise<string> {
  const copies = join(daemonFolder, "copies");
  const folder = audit ? join(copies, `audit-${randomUUID()}`) : copies;
  const postgres = await openPostgres(settings);
  try {
    await migrateShared(postgres);
    await makeFolder(folder, "the daemon's folder");
    if (audit) await removeOldAudits(copies);
    if (files.length > 0) {
      await openSharedFiles(postgres, folder).pull(files);
      await removeEndedRuns(postgres, folder);
    }
    await postgres.transaction(
      async (transaction) => {
        if (journal) await copyJournal(transaction, folder, (run) => lostRecord(run));
        if (!audit) return;
        await writeAuditFile(transaction, folder);
        await writeHead(folder, await sharedHead(transaction));
      },
      { readOnly: true, snapshot: true },
    );
    return folder;
  } finally {
    await postgres.close();
  }
}

/** How long somebody may be reading a copy of the audit log, in milliseconds. A process that was killed leaves its one. */
const longestReading = 600_000;

async function removeOldAudits(copies: string): Promise<void> {
  for (const name of await readdir(copies)) {
    const path = join(copies, name);
    const changed = name.startsWith("audit-") ? await stat(path).catch(() => undefined) : undefined;
    if (changed !== undefined && changed.mtimeMs < Date.now() - longestReading)
      await rm(path, { recursive: true, force: true });
  }
}

/** Removes the copies of runs whose plans are not stored any more. */
async function removeEndedRuns(postgres: Postgres, copies: string): Promise<void> {
  const here = await readdir(join(copies, "runs")).catch(() => []);
  if (here.length === 0) return;
  const there = await postgres.rows<{ run: string }>(
    "SELECT DISTINCT split_part(path, '/', 2) AS run FROM rollcall.files WHERE starts_with(path, 'runs/')",
  );
  const stored = new Set(there.map(({ run }) => run));
  for (const run of here) if (!stored.has(run)) await rm(join(copies, "runs", run), { recursive: true, force: true });
}

/**
 * Writes the journal into a folder as its file, the way it is without a database.
 * @param lost makes what is shown of a run whose process has ended
 */
export async function copyJournal(
  postgres: Pick<Postgres | Transaction, "rows">,
  folder: string,
  lost: (run: RunRecord) => RunRecord,
): Promise<JournalDocument> {
  const rows = await postgres.rows<{ document: RunDocument; lives: boolean }>(
    `SELECT document, node IN (SELECT id FROM rollcall.nodes WHERE expires > clock_timestamp()) AS lives
     FROM rollcall.runs ORDER BY id`,
  );
  const syncs = await postgres.rows<{ name: string; document: SyncState }>("SELECT name, document FROM rollcall.syncs");
  const document: JournalDocument = {
    version: 1,
    runs: rows.map(({ document, lives }) => {
      const run = recordOf(document);
      return run.state === "running" && !lives ? lost(run) : run;
    }),
    syncs: Object.fromEntries(syncs.map(({ name, document: state }) => [name, state])),
    audit: await sharedHead(postgres),
  };
  // Several processes may do this at once.
  const beside = join(folder, `journal.json.${randomUUID()}.new`);
  await writeFile(beside, `${JSON.stringify({ ...document, runs: document.runs.map(runDocument) })}\n`, {
    mode: 0o600,
    flush: true,
  });
  await rename(beside, join(folder, "journal.json"));
  return document;
}
