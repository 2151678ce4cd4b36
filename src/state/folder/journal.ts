import { randomBytes } from "node:crypto";
import { link, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Low } from "lowdb";
import { z } from "zod";
import { firstLineOf, InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import { lastReads, recordOf, runDocument, runStates } from "#state/record.ts";
import type { RunDocument, RunRecord, SyncEvent, SyncState } from "#state/record.ts";

/** The content of the file. */
export interface JournalDocument {
  readonly version: 1;
  /** The oldest first. */
  readonly runs: readonly RunRecord[];
  readonly syncs: Readonly<Record<string, SyncState>>;
  /** A damaged file was put aside: when, under which name, and what was wrong with it. */
  readonly damaged?: Damage;
  /** The newest line of the audit log. */
  readonly audit?: { readonly sequence: number; readonly hash: string };
}

interface Damage {
  readonly at: string;
  readonly keptAs: string;
  readonly problem: string;
  /** It is not known which syncs had applied anything before: it may have been all of them. */
  readonly ofAll?: true;
}

/**
 * The runs: `journal.json` in the daemon's folder, readable by people. Only one process at a time writes it. Its writes
 * survive a power failure.
 */
export interface Journal {
  /** Set if the file was damaged and has been put aside. */
  readonly damaged?: Damage;
  readonly document: JournalDocument;
  find(id: string): RunRecord | undefined;
  /**
   * Adds or replaces runs and changes the state of a sync, all of it or nothing.
   * @param events what follows from it, for whoever notifies people: only where several processes share the journal
   */
  put(
    runs: RunRecord | readonly RunRecord[],
    state?: { readonly sync: string; readonly change: Change },
    events?: readonly SyncEvent[],
  ): Promise<void>;
  /**
   * Replaces a run that is under way, for whoever looks at it: it gets into the file with the next write, or within a second.
   */
  note(run: RunRecord): void;
  remove(id: string): Promise<void>;
  state(sync: string): SyncState;
  change(sync: string, change: Change): Promise<void>;
  /** Records the newest line of the audit log, with the next write. */
  audited(head: { readonly sequence: number; readonly hash: string }): void;
  /** Removes runs, and marks those whose plans are no longer stored, by the retention. */
  prune(now: number): Promise<void>;
}

type Change = (state: SyncState) => SyncState;

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
    throw new InputError(`the journal ${file} cannot be read: ${firstLineOf(error)}`, { cause: error });
  }
  return parse(text, file);
}

/**
 * Opens the journal for writing, and creates the folder if it is missing. A damaged journal is put aside with its stored
 * plans, and a new one says so. What was pending, rejected or undone is unknown then, so every sync that has ever applied
 * anything needs a person to approve a run.
 * @throws {InputError} when it cannot be read or written, or is from a newer Rollcall
 */
export async function openJournal(folder: string, retention: Retention): Promise<Journal> {
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
  if (damaged !== undefined) database.data = await startOver(folder, damaged);
  const writing = createQueue();
  /** The write that has not begun yet: it takes everything that changes until it does. */
  let next: Promise<void> | undefined;
  /** What was noted has no write yet. */
  let noted: NodeJS.Timeout | undefined;
  /** In order: a write never replaces a newer one. */
  const write = (): Promise<void> => {
    clearTimeout(noted);
    noted = undefined;
    next ??= writing(() => {
      next = undefined;
      return database.write();
    });
    return next;
  };
  const set = (change: Partial<JournalDocument>): void => {
    database.data = { ...database.data, ...change };
  };
  const state = (sync: string): SyncState => database.data.syncs[sync] ?? initialState(database.data);
  const setRuns = (changed: readonly RunRecord[]): void => {
    let { runs } = database.data;
    for (const run of changed) {
      const at = runs.findIndex(({ id }) => id === run.id);
      runs = at === -1 ? [...runs, run] : runs.with(at, run);
    }
    set({ runs });
  };
  const remember = (sync: string, change: Change): void => {
    set({ syncs: { ...database.data.syncs, [sync]: change(state(sync)) } });
  };
  if (damaged !== undefined) await write();
  return {
    damaged,
    get document() {
      return database.data;
    },
    find: (id) => database.data.runs.find((run) => run.id === id),
    put: (changed, of) => {
      setRuns([changed].flat());
      if (of !== undefined) remember(of.sync, of.change);
      return write();
    },
    note: (run) => {
      setRuns([run]);
      noted ??= setTimeout(() => void write().catch(() => undefined), noteDelay).unref();
    },
    remove: (id) => {
      set({ runs: database.data.runs.filter((run) => run.id !== id) });
      return write();
    },
    state,
    change: (sync, change) => {
      remember(sync, change);
      return write();
    },
    audited: (audit) => {
      set({ audit });
    },
    prune: async (now) => {
      const runs = retain(database.data.runs, retention, now);
      if (runs === database.data.runs) return;
      set({ runs });
      await write();
    },
  };
}

/** The JSON of each run: most of the many runs are the same in the next write. */
const written = new WeakMap<RunRecord, string>();

function textOf({ version, runs, ...rest }: JournalDocument): string {
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

/** How much history to keep. */
export interface Retention {
  /** How long to keep a run after its end, in milliseconds. */
  readonly keep: number;
  /** The most runs to keep. */
  readonly runs: number;
  /** The most stored plans to keep. */
  readonly lists: number;
}

/**
 * The runs that stay, oldest first; those whose stored plans go lose `kept`. Runs that are running or can still be approved
 * stay whatever their age; of the rest, those without changes go first. The last run of a sync stays among however many, and
 * so does the last that has read everything.
 * @param now in epoch milliseconds
 * @returns `runs` itself when nothing goes
 */
export function retain(
  runs: readonly RunRecord[],
  { keep, runs: most, lists }: Retention,
  now: number,
): readonly RunRecord[] {
  const old = ({ endedAt, startedAt }: RunRecord): boolean => Date.parse(endedAt ?? startedAt) < now - keep;
  const young = runs.filter((run) => isNeeded(run) || !old(run));
  const surplus = young.length - most;
  // Without the last one, a sync would seem not to run any more once there are as many runs with changes as are remembered.
  const last = new Set([...new Map(young.map((run) => [run.sync, run])).values(), ...lastReads(young)]);
  const leastUseful = [
    ...young.filter((run) => run.state === "no change" && !last.has(run)),
    ...young.filter((run) => run.state !== "no change" && !last.has(run) && !isNeeded(run)),
  ];
  const going = new Set(leastUseful.slice(0, Math.max(0, surplus)));
  const staying = young.filter((run) => !going.has(run));
  const withLists = staying.filter((run) => run.kept && !isNeeded(run));
  const losing = new Set(withLists.slice(0, Math.max(0, withLists.length - lists)));
  if (staying.length === runs.length && losing.size === 0) return runs;
  return staying.map((run) => (losing.has(run) ? Object.assign({}, run, { kept: false }) : run));
}

/** Running, waiting for approval, or with an unknown end. */
function isNeeded({ state, expiresAt, endUnknown }: RunRecord): boolean {
  return (
    state === "running" || endUnknown === true || state === "pending" || (state === "held" && expiresAt !== undefined)
  );
}

/**
 * The id of a new run: `20261121-101235-4f9c2e`, its time in UTC. It sorts behind every earlier id, even in the same second
 * or when the clock was put back.
 * @param newest the latest id so far
 * @param now in epoch milliseconds
 */
export function idAfter(newest: string | undefined, now: number): string {
  const id = idOf(now);
  return newest === undefined || id > newest ? id : idOf(Math.max(now, timeOf(newest)) + 1);
}

/** The last six digits are the milliseconds and three random ones: ids of two folders do not collide. */
function idOf(time: number): string {
  const [date = "", clock = "", milliseconds = ""] = new Date(time)
    .toISOString()
    .replaceAll(/[-:Z]/g, "")
    .split(/[T.]/);
  const suffix = Number(milliseconds).toString(16).padStart(3, "0") + randomBytes(2).toString("hex").slice(1);
  return `${date}-${clock}-${suffix}`;
}

/** The time of an id in epoch milliseconds; 0 if it is not an id. */
function timeOf(id: string): number {
  const [, date = "", clock = "", milliseconds = ""] = /^(\d{8})-(\d{6})-([0-9a-f]{3})[0-9a-f]{3}$/.exec(id) ?? [];
  const iso = `${date}T${clock}`.replace(/^(....)(..)(..)T(..)(..)(..)$/, "$1-$2-$3T$4:$5:$6Z");
  const time = Date.parse(iso);
  return Number.isNaN(time) ? 0 : time + Number.parseInt(milliseconds, 16);
}
