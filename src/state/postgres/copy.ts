import { InputError } from "#errors.ts";
import { Postgres } from "#postgres/database.ts";
import type { Transaction } from "#postgres/database.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import { breakWords } from "#state/audit/words.ts";
import { copyInbox, sourcesIn } from "#state/inbox/copy.ts";
import type { Contents, Copyable } from "#state/copy.ts";
import type { AuditChain } from "#state/audit/chain.ts";
import { recordOf, runDocument } from "#state/record.ts";
import type { RunDocument, SyncState } from "#state/record.ts";
import { pluralize } from "#text.ts";
import { readAccess, writeAccess } from "./access.ts";
import { chainIn, writeHead } from "./audit.ts";
import { hashesIn, insertParts } from "./files.ts";
import { databaseOf } from "./inbox.ts";
import { migrateState } from "./store.ts";

/** The state in a database, while no daemon is running on it. @param signal stops a copy; then nothing was copied */
export function copyableDatabase(settings: PostgresSettings, signal: AbortSignal): Copyable {
  const inTransaction = async <Result>(
    work: (transaction: Transaction, place: string) => Promise<Result>,
  ): Promise<Result> => {
    const postgres = await Postgres.open(settings);
    try {
      await migrateState(postgres);
      return await postgres.transaction(
        async (transaction) => {
          await refuseNodes(postgres, transaction);
          return work(transaction, postgres.place);
        },
        { signal },
      );
    } finally {
      await postgres.close();
    }
  };
  return {
    read: (work) =>
      inTransaction(async (transaction, place) => {
        const contents = await contentsOf(transaction);
        if (contents.runs.length === 0 && (await contents.audit.head())?.sequence === 0)
          throw new InputError(`there is nothing to copy: the database ${place} has no state of a daemon`);
        return work(contents);
      }),
    write: (contents, check) =>
      inTransaction(async (transaction, place) => {
        await refuseState(transaction, place);
        await writeRuns(transaction, contents);
        await writeAudit(transaction, contents.audit);
        await writeAccess(transaction, contents.access);
        for (const [path, parts] of contents.files)
          await insertParts(transaction, path, [...parts.keys()], (part) => contents.part(path, part));
        const inboxes = databaseOf(transaction);
        for (const source of contents.inboxes.sources)
          await contents.inboxes.read(source, (from) => copyInbox(source, from, inboxes));
        await check(await contentsOf(transaction));
      }),
  };
}

async function contentsOf(transaction: Transaction): Promise<Contents> {
  const runs = await transaction.rows<{ document: RunDocument }>("SELECT document FROM rollcall.runs ORDER BY id");
  const syncs = await transaction.rows<{ name: string; document: SyncState }>(
    "SELECT name, document FROM rollcall.syncs",
  );
  const inboxes = databaseOf(transaction);
  const untold = await transaction.rows("SELECT FROM rollcall.events");
  return {
    runs: runs.map(({ document }) => recordOf(document)),
    syncs: Object.fromEntries(syncs.map(({ name, document: state }) => [name, state])),
    audit: chainIn(transaction),
    access: await readAccess(transaction, "the database"),
    files: await hashesIn(transaction, [""]),
    part: async (path, part) => {
      const [row] = await transaction.rows<{ content: Buffer }>(
        "SELECT content FROM rollcall.files WHERE path = $1 AND part = $2",
        [path, part],
      );
      if (row === undefined) throw new Error(`the file ${path} has gone from the database`);
      return row.content;
    },
    inboxes: { sources: await sourcesIn(inboxes), read: (_, work) => work(inboxes) },
    untold: untold.length,
  };
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

async function refuseState(transaction: Transaction, place: string): Promise<void> {
  const { runs, audit } = await contentsOf(transaction);
  const { sequence = 0 } = (await audit.head()) ?? {};
  if (runs.length === 0 && sequence === 0) return;
  const has = `${pluralize(runs.length, "run")} and ${pluralize(sequence, "entry", "entries")} of the audit log`;
  throw new InputError(
    `the database ${place} has the state of daemons already (${has}); a state is copied into a database that has none`,
  );
}

async function writeRuns(transaction: Transaction, { runs, syncs }: Contents): Promise<void> {
  const [head] = await transaction.rows<{ revision: bigint }>(
    "UPDATE rollcall.journal SET revision = revision + 1 RETURNING revision",
  );
  const revision = head?.revision ?? 0n;
  await transaction.rows(
    `INSERT INTO rollcall.runs (id, document, node, writer, revision)
     SELECT id, document::json, NULL, 0, $3 FROM unnest($1::text[], $2::text[]) AS t (id, document)`,
    [runs.map(({ id }) => id), runs.map((run) => JSON.stringify(runDocument(run))), revision],
  );
  await transaction.rows(
    `INSERT INTO rollcall.syncs (name, document, revision)
     SELECT name, document::json, $3 FROM unnest($1::text[], $2::text[]) AS t (name, document)`,
    [Object.keys(syncs), Object.values(syncs).map((state) => JSON.stringify(state)), revision],
  );
  const withSlot = runs.filter(({ slot }) => slot !== undefined);
  await transaction.rows(
    `INSERT INTO rollcall.slots (sync, slot, run, node)
     SELECT sync, slot, run, 0 FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS t (sync, slot, run)
     ON CONFLICT DO NOTHING`,
    [withSlot.map(({ sync }) => sync), withSlot.map(({ slot = "" }) => slot), withSlot.map(({ id }) => id)],
  );
}

/** How many lines of the audit log travel at once. */
const linesAtOnce = 1_000;

/** A log that is not whole could not be put aside here. */
async function writeAudit(transaction: Transaction, audit: AuditChain): Promise<void> {
  let lines: [sequence: number, line: string][] = [];
  const write = async (): Promise<void> => {
    await transaction.rows(
      "INSERT INTO rollcall.audit (sequence, line) SELECT * FROM unnest($1::bigint[], $2::text[])",
      [lines.map(([sequence]) => sequence), lines.map(([, line]) => line)],
    );
    lines = [];
  };
  // From its first entry on: earlier ones may be archived elsewhere.
  const { head, broken } = await verifyAudit(audit, {
    from: 0,
    expected: await audit.head(),
    visit: async ({ sequence }, line) => {
      lines.push([sequence, line.toString()]);
      if (lines.length === linesAtOnce) await write();
    },
  });
  if (broken !== undefined)
    throw new InputError(
      `${breakWords(broken)}. Start the daemon once as it was: it puts the file aside and says so in the audit log, and that can be copied`,
    );
  await write();
  await writeHead(transaction, head);
}
