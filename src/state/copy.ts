import { createHash } from "node:crypto";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import { openPostgres } from "#postgres/database.ts";
import type { Postgres, Transaction } from "#postgres/database.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { auditFiles, beginning, scan } from "#state/audit/chain.ts";
import { readHead } from "#state/folder/audit-head.ts";
import type { Head } from "#state/audit/entry.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import type { Verification } from "#state/audit/verify.ts";
import { breakWords } from "#state/audit/words.ts";
import { initialState, readJournal } from "#state/folder/journal.ts";
import type { JournalDocument } from "#state/folder/journal.ts";
import { pluralize } from "#text.ts";
import { linesOfAudit, sharedHead, writeAuditFile } from "#state/postgres/audit.ts";
import { copyJournal } from "#state/postgres/copies.ts";
import { hashesIn, hashesOf, openSharedFiles } from "#state/postgres/files.ts";
import type { Hashes } from "#state/postgres/files.ts";
import { migrateShared } from "#state/postgres/store.ts";
import { recordOf, runDocument } from "./record.ts";
import type { RunDocument } from "./record.ts";

/** A part of the state that was copied, and is the same on both sides. */
export interface CopiedState {
  /** `runs`, `audit log`, `ledgers`. */
  readonly what: string;
  /** Of runs, syncs, entries or files. */
  readonly count: number;
  /** Of all of them. */
  readonly digest: string;
}

export interface StateCopyOptions {
  readonly postgres: PostgresSettings;
  /** The folder of the state that is in no database, whose lock the caller has. */
  readonly folder: string;
  /** Gets each part, once all are copied and compared. */
  readonly copied: (part: CopiedState) => Promise<void>;
  /** Stops it; then nothing was copied. */
  readonly signal: AbortSignal;
}

/** What is a file in the database, too, as beginnings of paths. */
const files = ["ledgers/", "runs/", "baselines/", "exports/", "outbox/", "configuration.json", "aside/"] as const;

/** What they and the files of the audit log are called. */
const names: Readonly<Record<(typeof files)[number] | "audit", string>> = {
  "ledgers/": "ledgers",
  "runs/": "files of stored plans",
  "baselines/": "files of baselines",
  "exports/": "export records",
  "outbox/": "files of notifications",
  "configuration.json": "configuration.json",
  "aside/": "audit files put aside earlier",
  audit: "audit files put aside",
};

/** What the audit log has put aside as it was found. Back from the database, it is in `aside`, since the log is one file then. */
const putAside = /^audit[^/]*\.(?:damaged|torn)-/;

/** What a folder with a state has. */
const ofState = /^(?:journal|audit|configuration|ledgers|runs|baselines|exports|outbox|aside)/;

/**
 * Copies the state of a daemon from its folder, which is only read, into a database: all of it or nothing, compared before
 * it counts.
 * @param syncs those of the configuration
 * @throws {InputError} when the folder has no state, its audit log is not as it was written, or the database has a state
 */
export async function copyStateIn(
  { postgres: settings, folder, copied, signal }: StateCopyOptions,
  syncs: readonly string[],
): Promise<void> {
  const document = await readJournal(folder);
  if (document.runs.length === 0 && (await auditFiles(folder)).length === 0)
    throw new InputError(`there is nothing to copy: no daemon has written a state into the folder ${folder}`);
  const postgres = await openPostgres(settings);
  try {
    await migrateShared(postgres);
    const parts = await postgres.transaction(
      async (transaction) => {
        await refuseNodes(postgres, transaction);
        await refuseState(postgres, transaction);
        return [
          ...(await copyRunsIn(transaction, document, syncs)),
          await copyAuditIn(transaction, folder, await readHead(folder)),
          ...(await copyFilesIn(postgres, transaction, folder)),
        ];
      },
      { signal },
    );
    for (const part of parts) await copied(part);
  } finally {
    await postgres.close();
  }
}

/** What a copy back leaves behind, or takes as it is. */
export interface CopiedBack {
  /** What is wrong with the audit log: it is copied as it is. */
  readonly broken?: Verification["broken"];
  /** How many ends of runs no daemon has told people of: nobody does any more. */
  readonly untold: number;
}

/**
 * Copies the state from the database, which is only read, into the folder of a daemon that has none. The journal comes
 * last: without it, the folder has no state.
 * @throws {InputError} when the folder has a state, or the database has none or is in use
 */
export async function copyStateOut({
  postgres: settings,
  folder,
  copied,
  signal,
}: StateCopyOptions): Promise<CopiedBack> {
  await makeFolder(folder, "the daemon's folder");
  const namesOfState = async (): Promise<string[]> => (await readdir(folder)).filter((name) => ofState.test(name));
  const [present] = await namesOfState();
  if (present !== undefined)
    throw new InputError(
      `the folder ${folder} has the state of a daemon (${present}) already: rename the folder, then copy again`,
    );
  const postgres = await openPostgres(settings);
  try {
    await migrateShared(postgres);
    const { parts, ...rest } = await postgres.transaction(
      async (transaction) => {
        await refuseNodes(postgres, transaction);
        return copyAllOut(postgres, transaction, folder, signal);
      },
      { signal },
    );
    for (const part of parts) await copied(part);
    return rest;
  } catch (error) {
    for (const name of await namesOfState()) await rm(join(folder, name), { recursive: true, force: true });
    throw error;
  } finally {
    await postgres.close();
  }
}

async function copyAllOut(
  postgres: Postgres,
  transaction: Transaction,
  folder: string,
  signal: AbortSignal,
): Promise<CopiedBack & { readonly parts: readonly CopiedState[] }> {
  const head = await sharedHead(transaction);
  const runs = await readRuns(transaction);
  if (head.sequence === 0 && runs.runs.length === 0)
    throw new InputError(`there is nothing to copy: the database ${postgres.place} has no state of a daemon`);
  const untold = await transaction.rows("SELECT FROM rollcall.events");
  const all = [...files, ...(await putAsideIn(transaction))];
  const inTransaction = { ...postgres, transaction: (async (work) => work(transaction)) as Postgres["transaction"] };
  await openSharedFiles(inTransaction, folder).pull(all);
  const fileParts = compareFiles(await hashesIn(transaction, all), await hashesOf(folder, all));
  for (const name of (await readdir(folder)).filter((each) => putAside.test(each))) {
    await mkdir(join(folder, "aside"), { recursive: true, mode: 0o700 });
    await rename(join(folder, name), join(folder, "aside", name));
  }
  await writeAuditFile(transaction, folder);
  // From its first entry on: earlier ones may be archived elsewhere.
  const { entries, broken } = await verifyAudit(folder, { from: 0, expected: head });
  signal.throwIfAborted();
  await copyJournal(transaction, folder, (run) => run);
  await syncFolder(folder);
  return {
    parts: [
      ...compareJournals(runs, await readJournal(folder)),
      { what: "audit log", count: entries, digest: head.hash.slice(0, 16) },
      ...fileParts,
    ],
    broken,
    untold: untold.length,
  };
}

async function putAsideIn(transaction: Transaction): Promise<string[]> {
  return [...(await hashesIn(transaction, ["audit"])).keys()];
}

/** Nobody may begin to write meanwhile, and nobody may be about to. */
async function refuseNodes({ place }: Postgres, transaction: Transaction): Promise<void> {
  await transaction.run("LOCK TABLE rollcall.nodes IN SHARE MODE");
  const [node] = await transaction.rows<{ name: string }>(
    "SELECT name FROM rollcall.nodes WHERE expires > clock_timestamp() ORDER BY id LIMIT 1",
  );
  if (node !== undefined)
    throw new InputError(`a daemon or a command (${node.name}) uses the database ${place}: stop all of them first`);
}

async function refuseState({ place }: Postgres, transaction: Transaction): Promise<void> {
  const { sequence } = await sharedHead(transaction);
  const { runs } = await readRuns(transaction);
  if (runs.length === 0 && sequence === 0) return;
  const has = `${pluralize(runs.length, "run")} and ${pluralize(sequence, "entry", "entries")} of the audit log`;
  throw new InputError(
    `the database ${place} has the state of daemons already (${has}); a state is copied into a database that has none`,
  );
}

async function copyRunsIn(
  transaction: Transaction,
  document: JournalDocument,
  configured: readonly string[],
): Promise<CopiedState[]> {
  // A journal that was damaged is cautious about syncs that it does not know.
  const unknown = configured.filter((sync) => document.damaged?.ofAll === true && document.syncs[sync] === undefined);
  const syncs = { ...document.syncs, ...Object.fromEntries(unknown.map((sync) => [sync, initialState(document)])) };
  const [head] = await transaction.rows<{ revision: bigint }>(
    "UPDATE rollcall.journal SET revision = revision + 1 RETURNING revision",
  );
  const revision = head?.revision ?? 0n;
  await transaction.rows(
    `INSERT INTO rollcall.runs (id, document, node, writer, revision)
     SELECT id, document::json, NULL, 0, $3 FROM unnest($1::text[], $2::text[]) AS t (id, document)`,
    [document.runs.map(({ id }) => id), document.runs.map((run) => JSON.stringify(runDocument(run))), revision],
  );
  await transaction.rows(
    `INSERT INTO rollcall.syncs (name, document, revision)
     SELECT name, document::json, $3 FROM unnest($1::text[], $2::text[]) AS t (name, document)`,
    [Object.keys(syncs), Object.values(syncs).map((state) => JSON.stringify(state)), revision],
  );
  const withSlot = document.runs.filter(({ slot }) => slot !== undefined);
  await transaction.rows(
    `INSERT INTO rollcall.slots (sync, slot, run, node)
     SELECT sync, slot, run, 0 FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS t (sync, slot, run)
     ON CONFLICT DO NOTHING`,
    [withSlot.map(({ sync }) => sync), withSlot.map(({ slot = "" }) => slot), withSlot.map(({ id }) => id)],
  );
  return compareJournals({ ...document, syncs }, await readRuns(transaction));
}

async function readRuns(transaction: Transaction): Promise<Pick<JournalDocument, "runs" | "syncs">> {
  const runs = await transaction.rows<{ document: RunDocument }>("SELECT document FROM rollcall.runs ORDER BY id");
  const syncs = await transaction.rows<{ name: string; document: JournalDocument["syncs"][string] }>(
    "SELECT name, document FROM rollcall.syncs",
  );
  return {
    runs: runs.map(({ document }) => recordOf(document)),
    syncs: Object.fromEntries(syncs.map(({ name, document }) => [name, document])),
  };
}

type Runs = Pick<JournalDocument, "runs" | "syncs">;

function compareJournals(one: Runs, other: Runs): CopiedState[] {
  const [here, there] = [textsOfJournal(one), textsOfJournal(other)];
  return (["runs", "syncs"] as const).map((what) => same(what, here[what], there[what]));
}

function textsOfJournal({ runs, syncs }: Runs): Record<"runs" | "syncs", readonly string[]> {
  const [these, those] = [runs, Object.entries(syncs)].map((all) => all.map((each) => JSON.stringify(each)).sort());
  return { runs: these ?? [], syncs: those ?? [] };
}

async function copyAuditIn(transaction: Transaction, folder: string, expected: Head | undefined): Promise<CopiedState> {
  let lines: [sequence: number, line: string][] = [];
  let [entries, first] = [0, 0];
  const write = async (): Promise<void> => {
    await transaction.rows(
      "INSERT INTO rollcall.audit (sequence, line) SELECT * FROM unnest($1::bigint[], $2::text[])",
      [lines.map(([sequence]) => sequence), lines.map(([, line]) => line)],
    );
    lines = [];
  };
  // From its first entry on: earlier ones may be archived elsewhere.
  const { head, broken } = await verifyAudit(folder, {
    from: 0,
    expected,
    visit: async ({ sequence }, line) => {
      if (entries === 0) first = sequence;
      entries += 1;
      lines.push([sequence, line.toString()]);
      if (lines.length === linesAtOnce) await write();
    },
  });
  if (broken !== undefined)
    throw new InputError(
      `${breakWords(broken)}. Start the daemon once as it was: it puts the file aside and says so in the audit log, and that can be copied`,
    );
  await write();
  await transaction.rows("UPDATE rollcall.audit_head SET sequence = $1, hash = $2", [head.sequence, head.hash]);
  const arrived = await scan(linesOfAudit(transaction), entries === 0 ? beginning : first);
  if (arrived.broken !== undefined || arrived.lines !== entries || arrived.head?.hash !== head.hash)
    throw new Error("the audit log did not arrive in the database as it is in the folder; nothing was copied");
  return { what: "audit log", count: entries, digest: head.hash.slice(0, 16) };
}

/** How many lines of the audit log travel at once. */
const linesAtOnce = 1_000;

async function copyFilesIn(postgres: Postgres, transaction: Transaction, folder: string): Promise<CopiedState[]> {
  const all = [...files, ...(await readdir(folder)).filter((name) => putAside.test(name))];
  await openSharedFiles(postgres, folder, { fenced: (work) => work(transaction) }).push(all);
  return compareFiles(await hashesOf(folder, all), await hashesIn(transaction, all));
}

/** A text for each file whose path begins so. */
function textsOfFiles(hashes: Hashes, name: string): string[] {
  return [...hashes].flatMap(([path, parts]) => (path.startsWith(name) ? [[path, ...parts].join("\n")] : [])).sort();
}

function compareFiles(one: Hashes, other: Hashes): CopiedState[] {
  return [...files, "audit" as const].flatMap((name) => {
    const part = same(names[name], textsOfFiles(one, name), textsOfFiles(other, name));
    return part.count === 0 ? [] : [part];
  });
}

function same(what: string, here: readonly string[], there: readonly string[]): CopiedState {
  const [one, other] = [here, there].map((texts) =>
    createHash("sha256").update(texts.join("\n\n")).digest("hex").slice(0, 16),
  );
  if (one !== other || here.length !== there.length)
    throw new Error(`the ${what} did not arrive as they are; nothing was copied`);
  return { what, count: here.length, digest: one ?? "" };
}
