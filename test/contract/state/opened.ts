import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { holdLock, isLocked } from "#daemon/data-folder.ts";
import { openPostgres } from "#postgres/database.ts";
import { postgres } from "#postgres/options.ts";
import { readHead } from "#state/folder/audit-head.ts";
import { openAudit } from "#state/folder/audit.ts";
import { openJournal, readJournal } from "#state/folder/journal.ts";
import { openPlans } from "#state/plans.ts";
import type { Plans } from "#state/plans.ts";
import { openSharedAudit } from "#state/postgres/audit.ts";
import { copyShared } from "#state/postgres/copies.ts";
import { openSharedFiles } from "#state/postgres/files.ts";
import { openSharedStore } from "#state/postgres/plans.ts";
import { openShared } from "#state/postgres/store.ts";
import { lostRecord } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import type { AuditLog, Journal, KnownJournal, Lease, StateFiles } from "#state/store.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import type { Verification, VerifyOptions } from "#state/audit/verify.ts";

export interface Opening {
  readonly data: string;
  /** Of a database; absent: the state is in the folder. */
  readonly url: string | undefined;
  readonly lease: number;
  readonly retention: { readonly keep: number; readonly runs: number; readonly lists: number };
}

/** A store as the tests use it. */
export interface Opened {
  readonly journal: Omit<Journal, "runs">;
  readonly runs: () => readonly RunRecord[];
  readonly audit: AuditLog;
  readonly lease: Pick<Lease, "whileClaimed">;
  readonly files: StateFiles;
  readonly plans: Plans;
  /** Its process has lost the right to write, and does not know it yet. Absent: that cannot happen while it lives. */
  readonly loseLease?: () => Promise<void>;
  close(): Promise<void>;
}

export interface OpenedReader {
  journal(): Promise<KnownJournal>;
  verify(options?: VerifyOptions): Promise<Verification>;
  readonly files: StateFiles;
  close(): Promise<void>;
}

/** Opens it as a process does that begins runs. */
export async function openedStore({ data, url, lease, retention }: Opening): Promise<Opened> {
  const lock = await holdLock({ data });
  const folder = join(data, "daemon");
  await mkdir(folder, { recursive: true });
  if (url === undefined) {
    const journal = await openJournal(folder, retention);
    const audit = await openAudit(folder, { expected: await readHead(folder) });
    return {
      journal: { ...journal, refresh: async () => [], isHere: () => true, isElsewhere: () => false },
      runs: () => journal.document.runs,
      audit,
      lease: { whileClaimed: (_, work) => work() },
      files: { folder, fetch: async () => {}, save: async () => {}, prune: async () => {} },
      plans: openPlans(folder),
      close: async () => {
        await audit.close();
        lock.release();
      },
    };
  }
  const cache = join(folder, "shared");
  const shared = await openShared(postgres.parse({ postgres: url }), { folder: cache, lease, retention });
  const audit = await openSharedAudit(shared.postgres, shared.node);
  const { pull, push, prune } = shared.files;
  return {
    journal: shared.journal,
    runs: () => shared.journal.document.runs,
    audit,
    lease: shared.node,
    files: { folder: cache, fetch: pull, save: push, prune },
    plans: openSharedStore(openPlans(cache), shared.files),
    loseLease: async () => {
      await shared.postgres.rows("UPDATE rollcall.nodes SET expires = clock_timestamp() - interval '1 second'");
    },
    close: async () => {
      await audit.close();
      await shared.close();
      lock.release();
    },
  };
}

/** Opens it as a command does that only reads. */
export async function openedReader({ data, url }: Opening): Promise<OpenedReader> {
  const folder = join(data, "daemon");
  const nothing = async (): Promise<void> => {};
  if (url === undefined) {
    return {
      journal: async () => {
        const found = await readJournal(folder);
        const held = isLocked({ data });
        return { ...found, runs: found.runs.map((run) => (run.state !== "running" || held ? run : lostRecord(run))) };
      },
      verify: async (options) => verifyAudit(folder, { expected: (await readHead(folder))!, ...options }),
      files: { folder, fetch: nothing, save: nothing, prune: nothing },
      close: nothing,
    };
  }
  const settings = postgres.parse({ postgres: url });
  const cache = join(folder, "shared");
  const database = await openPostgres(settings);
  const files = openSharedFiles(database, join(cache, "copies"));
  return {
    journal: async () => readJournal(await copyShared(settings, cache, { journal: true })),
    verify: async (options) => {
      const copy = await copyShared(settings, cache, { audit: true });
      return verifyAudit(copy, { expected: (await readHead(copy))!, ...options });
    },
    files: { folder: join(cache, "copies"), fetch: files.pull, save: files.push, prune: files.prune },
    close: () => database.close(),
  };
}
