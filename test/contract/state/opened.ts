import { join } from "node:path";
import { holdLock, isLocked } from "#daemon/data-folder.ts";
import { postgres } from "#postgres/options.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import type { Verification, VerifyOptions } from "#state/audit/verify.ts";
import { FolderStore, openFolderReader } from "#state/folder/store.ts";
import { Plans } from "#state/plans.ts";
import { openPostgresReader, PostgresStore } from "#state/postgres/store.ts";
import type { Retention } from "#state/runs.ts";
import type { Reader, Store } from "#state/store.ts";

export interface Opening {
  readonly data: string;
  /** Of a database; absent: the state is in the folder. */
  readonly url: string | undefined;
  readonly lease: number;
  readonly retention: Retention;
}

/** A store, with the plans in it. */
export interface Opened extends Pick<
  Store,
  "journal" | "audit" | "access" | "throttle" | "files" | "inboxes" | "lease" | "close"
> {
  readonly plans: Plans;
}

export interface OpenedReader extends Pick<Reader, "journal" | "access" | "files" | "inboxes"> {
  verify(options?: VerifyOptions): Promise<Verification>;
  close(): Promise<void>;
}

/** Opens it as a process does that begins runs. */
export async function openedStore({ data, url, lease, retention }: Opening): Promise<Opened> {
  const lock = await holdLock({ data });
  const folder = join(data, "daemon", url === undefined ? "" : "shared");
  const options = { folder, retention, warn: () => {} };
  const store: Store =
    url === undefined
      ? await FolderStore.open(options)
      : await PostgresStore.open(postgres.parse({ postgres: url }), lease, options);
  const { journal, audit, access, files } = store;
  return {
    journal,
    audit,
    access,
    throttle: (throttled) => store.throttle(throttled),
    files,
    inboxes: store.inboxes,
    lease: store.lease,
    plans: new Plans(files),
    close: async () => {
      await store.close();
      lock.release();
    },
  };
}

/** Opens it as a command does that only reads. */
export async function openedReader({ data, url }: Opening): Promise<OpenedReader> {
  const folder = join(data, "daemon");
  const reader =
    url === undefined
      ? openFolderReader(folder, () => isLocked({ data }))
      : await openPostgresReader(postgres.parse({ postgres: url }), join(folder, "shared"));
  return {
    journal: () => reader.journal(),
    verify: async (options) => {
      const expected = await reader.audit.head();
      return verifyAudit(reader.audit, { ...(expected && { expected }), ...options });
    },
    access: reader.access,
    files: reader.files,
    inboxes: reader.inboxes,
    close: async () => reader[Symbol.asyncDispose](),
  };
}
