import { lostRecord } from "#state/record.ts";
import type { Lease, Reader, StateFiles, Store, StoreOptions } from "#state/store.ts";
import type { AuditEntry, Head } from "#state/audit/entry.ts";
import { FolderAccess, readAccess } from "./access.ts";
import { FolderAudit } from "./audit.ts";
import { chainIn, readHead } from "./chain.ts";
import { FolderInboxes } from "./inbox.ts";
import { FolderJournal, readJournal } from "./journal.ts";
import { Throttle } from "#throttle.ts";
import type { ThrottleOptions } from "#throttle.ts";

/** The state in the data folder, whose lock the process has. */
export class FolderStore implements Store {
  readonly place: string;
  readonly isShared = false;
  readonly journal: FolderJournal;
  readonly files: StateFiles;
  readonly lease = untilItEnds;
  readonly audit: Store["audit"];
  readonly access: FolderAccess;
  readonly inboxes: FolderInboxes;
  readonly #log: FolderAudit;

  private constructor(folder: string, journal: FolderJournal, log: FolderAudit) {
    this.place = folder;
    this.journal = journal;
    this.#log = log;
    this.files = filesIn(folder);
    this.access = new FolderAccess(folder);
    this.inboxes = new FolderInboxes(folder);
    this.audit = {
      // The journal's next write remembers how far the log goes.
      append: async (entry: AuditEntry): Promise<void> => {
        await log.append(entry);
        journal.audited = log.head();
      },
      head: (): Head => log.head(),
    };
  }

  /** @throws {InputError} when journal or audit log cannot be read or written */
  static async open({ folder, retention, warn }: StoreOptions): Promise<FolderStore> {
    const journal = await FolderJournal.open(folder, retention);
    const log = await FolderAudit.open(folder, { expected: await readHead(folder), warn });
    const store = new FolderStore(folder, journal, log);
    // A damaged log continues in a new file, whose head is not the one the journal knows.
    if (log.head().sequence > 0 && log.head().hash !== journal.audited?.hash) await store.#rememberHead();
    return store;
  }

  throttle(options: Omit<ThrottleOptions, "now">): Throttle {
    return new Throttle({ ...options, now: () => performance.now() });
  }

  /** Waits for the appends and pushes under way. */
  async close(): Promise<void> {
    await this.inboxes.close();
    await this.#log.close();
  }

  async #rememberHead(): Promise<void> {
    this.journal.audited = this.#log.head();
    await this.journal.put([]);
  }
}

/** The kernel gives the lock of the data folder to nobody else before this process ends. */
const untilItEnds: Lease = {
  now: () => Date.now(),
  check: () => {},
  lost: () => never,
  whileClaimed: (_, work) => work(),
};
const never = new AbortController().signal;

const nothing = async (): Promise<void> => {};

/** The files of a state in a folder: they are where they are used. */
export function filesIn(folder: string): StateFiles {
  return { folder, isCopy: false, fetch: nothing, save: nothing, prune: nothing };
}

/** Opens the state to read it. @param isHeld whether a process has the lock of the data folder: it may be at work on runs */
export function openFolderReader(folder: string, isHeld: () => boolean): Reader {
  const inboxes = new FolderInboxes(folder);
  return {
    place: folder,
    journal: async () => {
      const found = await readJournal(folder);
      if (!found.runs.some(({ state }) => state === "running") || isHeld()) return found;
      // Whatever was running has ended; it may have said how meanwhile.
      const { runs, ...rest } = await readJournal(folder);
      return { ...rest, runs: runs.map((run) => (run.state === "running" ? lostRecord(run) : run)) };
    },
    audit: chainIn(folder),
    access: { read: () => readAccess(folder) },
    files: filesIn(folder),
    inboxes,
    [Symbol.asyncDispose]: () => inboxes.close(),
  };
}
