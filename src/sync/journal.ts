import { randomBytes } from "node:crypto";
import { link, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Low } from "lowdb";
import { z } from "zod";
import { firstLineOf, InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { writeDurably } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import { syncsInLedgers } from "#sync/ledger/ledger.ts";
import { setPlansAside } from "#sync/plans/stored.ts";
import { runStates } from "./record.ts";
import type { RunRecord, SyncState } from "./record.ts";

/** What the file holds. */
export interface JournalDocument {
  readonly version: 1;
  /** The oldest first. */
  readonly runs: readonly RunRecord[];
  readonly syncs: Readonly<Record<string, SyncState>>;
  /** A file that could not be read was put aside: when, as what, and what was wrong with it. */
  readonly damaged?: Damage;
  /** The newest line of the audit file. */
  readonly audit?: { readonly sequence: number; readonly hash: string };
}

interface Damage {
  readonly at: string;
  readonly keptAs: string;
  readonly problem: string;
  /** Which syncs had applied anything before could not be found out: it may have been each of them. */
  readonly ofAll?: true;
}

/**
 * What is remembered of runs: `journal.json` in the daemon's folder, which a person can read. One process at a time
 * writes it. What has been written survives a power failure.
 */
export interface Journal {
  /** Set when the file that was found could not be read, and was put aside. */
  readonly damaged?: Damage;
  readonly document: JournalDocument;
  find(id: string): RunRecord | undefined;
  /** Adds runs, or replaces those with their ids, and changes what is remembered of a sync: all of it or nothing. */
  put(
    runs: RunRecord | readonly RunRecord[],
    state?: { readonly sync: string; readonly change: Change },
  ): Promise<void>;
  remove(id: string): Promise<void>;
  state(sync: string): SyncState;
  change(sync: string, change: Change): Promise<void>;
  /** Remembers the newest line of the audit file, with whatever is written next. */
  audited(head: { readonly sequence: number; readonly hash: string }): void;
  /** Removes runs, and says whose lists are no longer kept, as the retention has it. */
  prune(now: number): Promise<void>;
}

type Change = (state: SyncState) => SyncState;

const empty: JournalDocument = { version: 1, runs: [], syncs: {} };

/** What must be right for the rest to be understood. */
const schema = z.looseObject({
  version: z.literal(1),
  runs: z.array(
    z.looseObject({
      id: z.string(),
      sync: z.string(),
      state: z.enum(runStates),
      startedAt: z.iso.datetime(),
      stages: z.array(z.looseObject({ stage: z.string() })),
      limits: z.array(z.looseObject({})),
      waiting: z.array(z.string()),
      notes: z.array(z.string()),
      decisions: z.array(z.looseObject({})),
      kept: z.boolean(),
    }),
  ),
  syncs: z.record(z.string(), z.looseObject({ skipped: z.array(z.looseObject({})) })),
});

/**
 * Reads the journal of a daemon's folder, as it is at the moment; an empty one where there is none yet.
 * @throws {InputError} when it is damaged, or a newer Rollcall has written it
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
 * Opens the journal for the one who writes it, and makes the folder where it is missing. One that is damaged is put
 * aside under another name, with the lists of its runs, and a new one is begun that says so: of what was pending, rejected
 * or undone before nothing is known then, and no sync that has ever applied anything does so again before a person has
 * approved a run of it.
 * @throws {InputError} when it cannot be read or written, or a newer Rollcall has written it
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
  if (damaged !== undefined) database.data = await beginAnew(folder, damaged);
  const writing = createQueue();
  /** One after the other: what is written is never older than what was written before. */
  const write = (): Promise<void> => writing(() => database.write());
  const set = (change: Partial<JournalDocument>): void => {
    database.data = { ...database.data, ...change };
  };
  const state = (sync: string): SyncState => database.data.syncs[sync] ?? unknown(database.data);
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
      let { runs } = database.data;
      for (const run of [changed].flat()) {
        const at = runs.findIndex(({ id }) => id === run.id);
        runs = at === -1 ? [...runs, run] : runs.with(at, run);
      }
      set({ runs });
      if (of !== undefined) remember(of.sync, of.change);
      return write();
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

/** What is written of a run: most are as they were the last time, and there are many. */
const written = new WeakMap<RunRecord, string>();

function textOf({ version, runs, ...rest }: JournalDocument): string {
  const lines = runs.map((run) => {
    const text = written.get(run) ?? JSON.stringify(run, null, 1);
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
      `the journal ${file} was written by a newer Rollcall (version ${version} of its format): use that one`,
    );
  }
  const result = schema.safeParse(value);
  if (result.success) return value as JournalDocument;
  const [issue] = result.error.issues;
  throw new DamagedJournal(file, `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not a journal"}`);
}

class DamagedJournal extends InputError {
  readonly problem: string;

  constructor(file: string, problem: string) {
    super(
      `the journal ${file} is damaged (${problem}): restore it from a backup; else the daemon puts it aside when it starts, and begins a new one`,
    );
    this.problem = problem;
  }
}

/** The damaged one stays in its place, too, until the new one that tells of it takes that. */
async function putAside(folder: string, error: unknown): Promise<Damage> {
  if (!(error instanceof DamagedJournal)) throw error;
  const at = new Date().toISOString();
  const suffix = `damaged-${at.replaceAll(/[-:]/g, "")}`;
  const keptAs = `journal.${suffix}.json`;
  await link(fileOf(folder), join(folder, keptAs));
  await setPlansAside(folder, suffix);
  return { at, keptAs, problem: error.problem };
}

async function beginAnew(folder: string, damaged: Damage): Promise<JournalDocument> {
  const cautious = cautiousAfter(damaged);
  try {
    const syncs = await syncsInLedgers(folder);
    return { ...empty, damaged, syncs: Object.fromEntries(syncs.map((sync) => [sync, cautious])) };
  } catch {
    // Whoever needs the ledger says what is wrong with it.
    return { ...empty, damaged: { ...damaged, ofAll: true } };
  }
}

/** What is remembered of a sync that the journal does not know. */
function unknown({ damaged }: JournalDocument): SyncState {
  return damaged?.ofAll === true ? cautiousAfter(damaged) : { skipped: [] };
}

function cautiousAfter({ at, keptAs }: Damage): SyncState {
  const reason = `the journal was damaged (it is kept as ${keptAs}), and what was decided before is not known`;
  return { skipped: [], caution: { since: at, reason } };
}

/** How much of the past is kept. */
export interface Retention {
  /** How long a run is remembered after it has ended, in milliseconds. */
  readonly keep: number;
  /** How many runs are remembered at most. */
  readonly runs: number;
  /** Of how many runs the changes and the list are kept at most. */
  readonly lists: number;
}

/**
 * The runs that stay, oldest first, with `kept` taken from those whose lists go. What is under way, or can still be
 * approved, stays whatever its age; of the rest those without a change go first.
 * @param now in epoch milliseconds
 * @returns `runs` itself when nothing goes
 */
export function retain(
  runs: readonly RunRecord[],
  { keep, runs: most, lists }: Retention,
  now: number,
): readonly RunRecord[] {
  const old = ({ endedAt, startedAt }: RunRecord): boolean => Date.parse(endedAt ?? startedAt) < now - keep;
  const young = runs.filter((run) => isOpen(run) || !old(run));
  const surplus = young.length - most;
  const leastOfUse = [
    ...young.filter((run) => run.state === "no change"),
    ...young.filter((run) => run.state !== "no change" && !isOpen(run)),
  ];
  const going = new Set(leastOfUse.slice(0, Math.max(0, surplus)));
  const staying = young.filter((run) => !going.has(run));
  const withLists = staying.filter((run) => run.kept && !isOpen(run));
  const losing = new Set(withLists.slice(0, Math.max(0, withLists.length - lists)));
  if (staying.length === runs.length && losing.size === 0) return runs;
  return staying.map((run) => (losing.has(run) ? Object.assign({}, run, { kept: false }) : run));
}

/** Under way, still to be approved, or its end still to be found out. */
function isOpen({ state, expiresAt, endUnknown }: RunRecord): boolean {
  return (
    state === "running" || endUnknown === true || state === "pending" || (state === "held" && expiresAt !== undefined)
  );
}

/**
 * The id of a run that begins: `20261121-101235-4f9c2e`, its time in UTC. It sorts behind every earlier one, also of the
 * same second, and when the clock was set back.
 * @param newest the id of the one before
 * @param now in epoch milliseconds
 */
export function idAfter(newest: string | undefined, now: number): string {
  const id = idOf(now);
  return newest === undefined || id > newest ? id : idOf(Math.max(now, timeOf(newest)) + 1);
}

/** The last six digits are three of the milliseconds, and three by chance: ids of two folders do not meet. */
function idOf(time: number): string {
  const [date = "", clock = "", milliseconds = ""] = new Date(time)
    .toISOString()
    .replaceAll(/[-:Z]/g, "")
    .split(/[T.]/);
  const suffix = Number(milliseconds).toString(16).padStart(3, "0") + randomBytes(2).toString("hex").slice(1);
  return `${date}-${clock}-${suffix}`;
}

/** The time of an id in epoch milliseconds; of one that is none, 0. */
function timeOf(id: string): number {
  const [, date = "", clock = "", milliseconds = ""] = /^(\d{8})-(\d{6})-([0-9a-f]{3})[0-9a-f]{3}$/.exec(id) ?? [];
  const iso = `${date}T${clock}`.replace(/^(....)(..)(..)T(..)(..)(..)$/, "$1-$2-$3T$4:$5:$6Z");
  const time = Date.parse(iso);
  return Number.isNaN(time) ? 0 : time + Number.parseInt(milliseconds, 16);
}
