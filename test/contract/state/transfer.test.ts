import { appendFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { postgres as options } from "#postgres/options.ts";
import { FolderAudit } from "#state/folder/audit.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import { FolderInboxes } from "#state/folder/inbox.ts";
import { FolderJournal, readJournal } from "#state/folder/journal.ts";
import { copyState } from "#state/copy.ts";
import type { Copied } from "#state/copy.ts";
import { readAccess, writeAccess } from "#state/folder/access.ts";
import { chainIn } from "#state/folder/chain.ts";
import { copyableFolder } from "#state/folder/copy.ts";
import { copyableDatabase } from "#state/postgres/copy.ts";
import { pendingRun } from "../../support/runs.ts";
import { sharedDatabaseOfEachTest, thrown } from "./support.ts";

const shared = sharedDatabaseOfEachTest();
const by = { name: "kim", from: "command line" };

/** A folder whose audit log has full files, one that was put aside as damaged, and a torn line. */
async function stateIn(folder: string): Promise<void> {
  const append = async (fullAt: number): Promise<void> => {
    const audit = await FolderAudit.open(folder, { fullAt });
    for (let number = 0; number < 5; number++) await audit.append({ event: "started", by, process: number });
    await audit.close();
  };
  await append(500);
  await appendFile(join(folder, "audit.jsonl"), '{"torn');
  await append(1e6);
  const current = join(folder, "audit.jsonl");
  await writeFile(current, (await readFile(current, "utf8")).replace('"process":3', '"process":7'));
  const audit = await FolderAudit.open(folder);
  await audit.append({ event: "started", by, process: 9 });
  const journal = await FolderJournal.open(folder, { keep: 1e12, runs: 100, lists: 100 });
  journal.audited = audit.head();
  await audit.close();
  await journal.put(pendingRun("20261121-100000-000001", { slot: "2026-11-21T10:00:00.000Z" }), {
    sync: "staff",
    change: (state) => ({ ...state, lastSlotAt: "2026-11-21T10:00:00.000Z" }),
  });
  await journal.put(pendingRun("20261121-100000-000002", { state: "running" }));
  const created = "2026-11-21T10:00:00.000Z";
  await writeAccess(folder, {
    version: 1,
    accounts: [{ id: "1", via: "account", name: "kim", role: "approver", password: "$argon2id$x", created }],
    sessions: [{ digest: "d", account: "1", opened: created, used: created }],
    tokens: [{ id: "t", digest: "d", account: "1", name: "laptop", created, expires: created }],
    logouts: {},
  });
  await using inboxes = new FolderInboxes(folder);
  await inboxes.changeTokens("okta", (tokens) => tokens.add({ id: "t", digest: "d", name: "okta", created: 5 }));
  await inboxes.changeTokens("only tokens/ä", (tokens) => tokens.add({ id: "t", digest: "d", name: "", created: 5 }));
  await inboxes.change("okta", { at: 7, token: "t" }, async (inbox) => {
    const ada = { userName: "Ada\u0000\ud800", active: true, emails: [{ value: "ada@x.example" }] };
    await inbox.create("group", "g", { displayName: "staff" });
    for (let number = 0; number < 1_100; number++)
      await inbox.create("user", `${number}`, { ...ada, userName: `${ada.userName}${number}` });
    await inbox.addMembers("g", [{ id: "5", document: { display: 'A "b"' } }, { id: "6" }]);
  });
  await mkdir(join(folder, "ledgers"));
  await writeFile(join(folder, "ledgers", "embedded.duckdb"), "a ledger");
}

const never = new AbortController().signal;
const inFolder = (folder: string) => copyableFolder(folder, ["staff"], never);
const inDatabase = (url = shared.url) => copyableDatabase(options.parse({ postgres: url }), never);
const copyIn = (folder: string): Promise<Copied> => copyState(inFolder(folder), inDatabase());
const copyOut = (folder: string): Promise<Copied> => copyState(inDatabase(), inFolder(folder));

test("a state with a damaged past arrives with all of it, and comes back as it was", async () => {
  const [folder, back] = [await shared.folder(), await shared.folder()];
  await stateIn(folder);
  const before = await verifyAudit(chainIn(folder));
  expect(before).toMatchObject({ damages: [{}] });
  await copyIn(folder);
  expect((await thrown(copyIn(folder))).message).toContain("has the state of daemons already");
  expect((await thrown(copyOut(folder))).message).toContain("rename the folder");
  expect(await copyOut(back)).toMatchObject({ broken: undefined, untold: 0 });
  const after = await verifyAudit(chainIn(back), { expected: before.head });
  expect(after).toMatchObject({ entries: before.entries, head: before.head, damages: [{}] });
  expect(after.broken).toBeUndefined();
  expect(await readJournal(back)).toMatchObject({ runs: (await readJournal(folder)).runs });
  expect(await readAccess(back)).toEqual(await readAccess(folder));
  await using inboxes = new FolderInboxes(back);
  await inboxes.read("okta", async (inbox) => {
    expect(await inbox.activity()).toEqual({ revision: 1, first: 7, last: 7 });
    expect(await inbox.findBy("user", "emails", "ADA@x.example")).toHaveLength(1_100);
    expect(await inbox.find("user", "5")).toMatchObject({ number: 7, document: { userName: "Ada\u0000\ud8005" } });
    expect(await inbox.members("g", { limit: 9 })).toEqual([{ id: "5", document: { display: 'A "b"' } }, { id: "6" }]);
    expect(await inbox.counts(0)).toEqual({ created: 1_101, joined: 2 });
  });
  const pushed = await inboxes.change("okta", { at: 8, token: "t" }, (inbox) =>
    inbox.create("user", "new", { userName: "new" }),
  );
  expect(pushed.number).toBe(1_102);
  expect(await inboxes.read("only tokens/ä", (inbox) => inbox.tokens())).toHaveLength(1);
  const aside = (await readdir(folder)).filter((name) => /damaged-|torn-/.test(name));
  expect(aside).toHaveLength(2);
  expect((await readdir(join(back, "aside"))).toSorted()).toEqual(aside.toSorted());
  // The log goes on there.
  const audit = await FolderAudit.open(back, { expected: before.head });
  await audit.append({ event: "started", by, process: 10 });
  await audit.close();
  expect(await verifyAudit(chainIn(back))).toMatchObject({ entries: before.entries + 1 });
});

test("nothing is copied of a log that was changed, beside a daemon that works, or when something does not arrive", async () => {
  const folder = await shared.folder();
  await stateIn(folder);
  const rows = (): Promise<object[]> =>
    shared.postgres.rows(
      "SELECT FROM rollcall.runs UNION ALL SELECT FROM rollcall.audit UNION ALL SELECT FROM rollcall.files",
    );
  const node = await shared.node();
  expect((await thrown(copyIn(folder))).message).toContain(`(${node.name}) uses the database`);
  await node.close();
  await shared.postgres.transaction((transaction) =>
    transaction.run(`CREATE FUNCTION rollcall.other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      NEW.content = 'other'; NEW.hash = sha256(NEW.content); RETURN NEW; END $$;
      CREATE TRIGGER other BEFORE INSERT ON rollcall.files FOR EACH ROW EXECUTE FUNCTION rollcall.other()`),
  );
  expect((await thrown(copyIn(folder))).message).toContain("arrived altered");
  await shared.postgres.rows("DROP TRIGGER other ON rollcall.files");
  const current = join(folder, "audit.jsonl");
  const log = await readFile(current, "utf8");
  await writeFile(current, log.replace('"process":9', '"process":8'));
  expect((await thrown(copyIn(folder))).message).toContain("Start the daemon once as it was");
  expect(await rows()).toHaveLength(0);
  await writeFile(current, log);
  await copyIn(folder);
});

test("a state moves between stores of the same kind, too", async () => {
  const folders = [await shared.folder(), await shared.folder(), await shared.folder()] as const;
  await stateIn(folders[0]);
  const copied = await copyState(inFolder(folders[0]), inFolder(folders[1]));
  expect(copied.parts.map(({ what, count }) => `${what} ${count}`)).toEqual([
    "runs 2",
    "syncs 1",
    `audit log ${(await verifyAudit(chainIn(folders[0]))).entries}`,
    "accounts 1",
    "access tokens 1",
    "ledgers 1",
    "inboxes 2",
    "audit files put aside 2",
  ]);
  const other = await shared.createDatabase();
  await copyIn(folders[1]);
  expect((await copyState(inDatabase(), inDatabase(other))).parts).toEqual(copied.parts);
  expect((await copyState(inDatabase(other), inFolder(folders[2]))).parts).toEqual(copied.parts);
  expect(await readJournal(folders[2])).toMatchObject({ runs: (await readJournal(folders[0])).runs });
});
