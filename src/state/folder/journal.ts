import { link, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Low } from "lowdb";
import { z } from "zod";
import { firstLineOf, InputError, reasonOf } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import type { Head } from "#state/audit/entry.ts";
import { recordOf, runDocument, runStates } from "#state/record.ts";
import type { RunDocument, RunRecord, SyncState } from "#state/record.ts";
import { retain } from "#state/runs.ts";
import type { Retention } from "#state/runs.ts";
import type { Change, Journal } from "#state/store.ts";

/** The content of the file. */
export interface JournalDocument {
  readonly version: 1;
  /** The oldest first. */
  readonly runs: readonly RunRecord[];
  readonly syncs: Readonly<Record<string, SyncState>>;
  /** A damaged file was put aside: when, under which name, and what was wrong with it. */
  readonly damaged?: Damage;
  /** The newest line of the audit log. */
  readonly audit?: Head;
}

interface Damage {
  readonly at: string;
  readonly keptAs: string;
  readonly problem: string;
  /** It is not known which syncs had applied anything before: it may have been all of them. */
  readonly ofAll?: true;
}

/** How long what was only noted may wait for a write, in milliseconds: the stages of most runs take less. */
const noteDelay = 1000;

const empty: JournalDocument = { version: 1, runs: [], syncs: {} };

/** The parts that must be valid for the rest to make sense. Only checked: what it returns lacks the others. */
const schema = z.object({
  version: z.literal(1),
  runs: z.array(
    z.object({
      id: z.string(),
      sync: z.string(),
      state: z.enum(runStates),
      startedAt: z.iso.datetime(),
      stages: z.array(z.object({ stage: z.string() })),
      limits: z.array(z.object({})),
      waiting: z.array(z.string()),
      notes: z.array(z.string()),
      decisions: z.array(z.object({})),
      kept: z.boolean(),
    }),
  ),
  syncs: z.record(z.string(), z.object({ skipped: z.array(z.object({})) })),
});

/**
 * Reads the journal of a daemon's folder, as it is now; an empty one if there is none yet.
 * @throws {InputError} when it is damaged or from a newer Rollcall
 */
export async function readJournal(folder: string): Promise<JournalDocument> {
  const file = fileOf(folder);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return empty;
    throw new InputError(`the journal ${file} cannot be read: ${reasonOf(error)}`, { cause: error });
  }
  return parse(text, file);
}

/** Whether a daemon has run with its state in this folder. @throws as `readJournal` does */
export async function hasRuns(folder: string): Promise<boolean> {
  return (await readJournal(folder)).runs.length > 0;
}

/**
 * The runs: `journal.json` in the daemon's folder, readable by people. Only one process at a time writes it. Its writes
 * survive a power failure.
 */
export class FolderJournal implements Journal {
  /** Set if the file was damaged and has been put aside. */
  readonly damaged: Damage | undefined;
  readonly #database: Low<JournalDocument>;
  readonly #retention: Retention;
  readonly #writing = createQueue();
  /** The write that has not begun yet: it takes everything that changes until it does. */
  #next: Promise<void> | undefined;
  /** What was noted has no write yet. */
  #noted: NodeJS.Timeout | undefined;

  private constructor(database: Low<JournalDocument>, retention: Retention, damaged: Damage | undefined) {
    this.#database = database;
    this.#retention = retention;
    this.damaged = damaged;
  }

  /**
   * Opens the journal for writing, and creates the folder if it is missing. A damaged journal is put aside with its stored
   * plans, and a new one says so. What was pending, rejected or undone is unknown then, so every sync that has ever applied
   * anything needs a person to approve a run.
   * @throws {InputError} when it cannot be read or written, or is from a newer Rollcall
   */
  static async open(folder: string, retention: Retention): Promise<FolderJournal> {
    await makeFolder(folder, "the daemon's folder");
    const database = new Low<JournalDocument>(
      {
        read: () => readJournal(folder),
        write: (document) => writeDurably(fileOf(folder), textOf(document)),
      },
      empty,
    );
    const damaged = await database.read().then(
      () => undefined,
      (error: unknown) => putAside(folder, error),
    );
    const journal = new FolderJournal(database, retention, damaged);
    if (damaged !== undefined) {
      database.data = await startOver(folder, damaged);
      await journal.#write();
    }
    return journal;
  }

  get runs(): readonly RunRecord[] {
    return this.#database.data.runs;
  }

  find(id: string): RunRecord | undefined {
    return this.runs.find((run) => run.id === id);
  }

  put(runs: RunRecord | readonly RunRecord[], of?: { readonly sync: string; readonly change: Change }): Promise<void> {
    this.#setRuns([runs].flat());
    if (of !== undefined) this.#setState(of.sync, of.change);
    return this.#write();
  }

  note(run: RunRecord): void {
    this.#setRuns([run]);
    this.#noted ??= setTimeout(() => void this.#write().catch(() => undefined), noteDelay).unref();
  }

  remove(id: string): Promise<void> {
    this.#set({ runs: this.runs.filter((run) => run.id !== id) });
    return this.#write();
  }

  state(sync: string): SyncState {
    return this.#database.data.syncs[sync] ?? initialState(this.#database.data);
  }

  change(sync: string, change: Change): Promise<void> {
    this.#setState(sync, change);
    return this.#write();
  }

  async prune(now: number): Promise<void> {
    const runs = retain(this.runs, this.#retention, now);
    if (runs === this.runs) return;
    this.#set({ runs });
    await this.#write();
  }

  /** Nobody else writes it. */
  async refresh(): Promise<readonly RunRecord[]> {
    return [];
  }

  isHere(): boolean {
    return true;
  }

  isElsewhere(): boolean {
    return false;
  }

  /** The newest entry of the audit log that it knows. */
  get audited(): Head | undefined {
    return this.#database.data.audit;
  }

  /** Records the newest entry of the audit log, with the next write. */
  set audited(audit: Head) {
    this.#set({ audit });
  }

  /** In order: a write never replaces a newer one. */
  #write(): Promise<void> {
    clearTimeout(this.#noted);
    this.#noted = undefined;
    this.#next ??= this.#writing(() => {
      this.#next = undefined;
      return this.#database.write();
    });
    return this.#next;
  }

  #set(change: Partial<JournalDocument>): void {
    this.#database.data = { ...this.#database.data, ...change };
  }

  #setRuns(changed: readonly RunRecord[]): void {
    let { runs } = this;
    for (const run of changed) {
      const at = runs.findIndex(({ id }) => id === run.id);
      runs = at === -1 ? [...runs, run] : runs.with(at, run);
    }
    this.#set({ runs });
  }

  #setState(sync: string, change: Change): void {
    this.#set({ syncs: { ...this.#database.data.syncs, [sync]: change(this.state(sync)) } });
  }
}

/** The JSON of each run: most of the many runs are the same in the next write. */
const written = new WeakMap<RunRecord, string>();

export function textOf({ version, runs, ...rest }: JournalDocument): string {
  const lines = runs.map((run) => {
    const text = written.get(run) ?? JSON.stringify(runDocument(run), null, 1);
    written.set(run, text);
    return text;
  });
  const others = Object.entries(rest).map(
    ([key, value]) => `,\n${JSON.stringify(key)}: ${JSON.stringify(value, null, 1)}`,
  );
  return `{"version": ${version},\n"runs": [\n${lines.join(",\n")}\n]${others.join("")}}\n`;
}

function fileOf(folder: string): string {
  return join(folder, "journal.json");
}

function parse(text: string, file: string): JournalDocument {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new DamagedJournal(file, firstLineOf(error));
  }
  const version = (value as { version?: unknown } | null)?.version;
  if (typeof version === "number" && version > empty.version) {
    throw new InputError(
      `the journal ${file} was written by a newer Rollcall (version ${version} of its format): use that version`,
    );
  }
  const result = schema.safeParse(value);
  if (result.success) {
    const document = value as Omit<JournalDocument, "runs"> & { readonly runs: readonly RunDocument[] };
    return { ...document, runs: document.runs.map(recordOf) };
  }
  const [issue] = result.error.issues;
  throw new DamagedJournal(file, `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not a journal"}`);
}

class DamagedJournal extends InputError {
  readonly problem: string;

  constructor(file: string, problem: string) {
    super(
      `the journal ${file} is damaged (${problem}): restore it from a backup. If you do not, the daemon moves it aside at its next start and begins a new one`,
    );
    this.problem = problem;
  }
}

/*
 * Whoever only reads the journal needs no database, so what looks into one is loaded where a journal is damaged.
 */

/** The damaged file stays in place, too, until the new journal replaces it. */
async function putAside(folder: string, error: unknown): Promise<Damage> {
  if (!(error instanceof DamagedJournal)) throw error;
  const at = new Date().toISOString();
  const suffix = `damaged-${at.replaceAll(/[-:]/g, "")}`;
  const keptAs = `journal.${suffix}.json`;
  await link(fileOf(folder), join(folder, keptAs));
  const { setPlansAside } = await import("#state/plans.ts");
  await setPlansAside(folder, suffix);
  return { at, keptAs, problem: error.problem };
}

async function startOver(folder: string, damaged: Damage): Promise<JournalDocument> {
  const cautious = cautiousAfter(damaged);
  try {
    const { syncsInLedgers } = await import("#state/ledger/ledger.ts");
    const syncs = await syncsInLedgers(folder);
    return { ...empty, damaged, syncs: Object.fromEntries(syncs.map((sync) => [sync, cautious])) };
  } catch {
    // A run that needs the ledger reports what is wrong with it.
    return { ...empty, damaged: { ...damaged, ofAll: true } };
  }
}

/** The state of a sync that the journal does not know. */
export function initialState({ damaged }: JournalDocument): SyncState {
  return damaged?.ofAll === true ? cautiousAfter(damaged) : { skipped: [] };
}

function cautiousAfter({ at, keptAs }: Damage): SyncState {
  const reason = `the journal was damaged (it is stored as ${keptAs}), and earlier decisions are not known`;
  return { skipped: [], caution: { since: at, reason } };
}
