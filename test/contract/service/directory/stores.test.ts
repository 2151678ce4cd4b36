import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import type { Database } from "#duckdb/database.ts";
import type { InputError } from "#errors.ts";
import { Postgres } from "#postgres/database.ts";
import { migrate } from "#postgres/migrations.ts";
import { Directory } from "#service/directory/directory.ts";
import { openEmbeddedStore } from "#service/directory/embedded.ts";
import { verifyPassword } from "#passwords.ts";
import { directorySchema, PostgresStore } from "#service/directory/postgres.ts";
import type { DirectoryStore } from "#service/directory/store.ts";
import { Progress } from "#service/progress.ts";
import { startPostgres } from "../../../support/postgres.ts";
import type { PostgresServer } from "../../../support/postgres.ts";
import { callSync } from "../../../support/rollcall/sync-call.ts";

/** One suite for everything that can hold the users and groups. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.stop());

const engines = {
  embedded: async (database: Database) => ({ open: () => openEmbeddedStore(database), close: async () => {} }),
  PostgreSQL: async (_: Database, folder: string) => {
    const postgres = await Postgres.open({
      postgres: await server.createDatabase(),
      poolSize: 4,
      statementTimeout: 60_000,
    });
    await migrate(postgres, [directorySchema]);
    const open = async (): Promise<DirectoryStore> => new PostgresStore(postgres, folder);
    return { open, close: () => postgres.close() };
  },
};

const never = new AbortController().signal;
const administrator = { name: "admin", password: "correct horse battery staple" };
interface Listed {
  readonly name: string;
  readonly displayName: string;
  readonly principalTypeEnum: string;
  readonly groupNames: readonly string[];
}
const user = (name: string, more: object = {}): Listed => ({
  name,
  displayName: `The ${name}`,
  principalTypeEnum: "LOCAL_USER",
  groupNames: ["All"],
  ...more,
});
const group = (name: string, ...groupNames: string[]): Listed => ({
  name,
  displayName: name,
  principalTypeEnum: "LOCAL_GROUP",
  groupNames,
});

describe.each(["embedded", "PostgreSQL"] as const)("%s", (engine) => {
  let folder: string;
  let database: Database;
  let opened: Awaited<ReturnType<(typeof engines)[typeof engine]>>;
  let store: DirectoryStore;
  let directory: Directory;

  const openAnother = async (password = administrator.password): Promise<Directory> =>
    Directory.open({
      store: await opened.open(),
      database,
      folder: join(folder, `node${Math.random()}`),
      administrator: { ...administrator, password },
      progress: new Progress(),
    });

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-stores-"));
    database = await openDatabase({
      path: join(folder, "service.duckdb"),
      memory: 2 ** 28,
      spill: join(folder, "spill"),
    });
    opened = await engines[engine](database, folder);
    store = await opened.open();
    directory = await Directory.open({ store, database, folder, administrator, progress: new Progress() });
  });
  afterEach(async () => {
    await directory.close();
    await opened.close();
    database.close();
    await rm(folder, { recursive: true });
  });

  const sync = async (list: readonly object[], more: object = {}, through = directory): Promise<unknown> =>
    json(
      await callSync(through, folder, { list, apply: true, removeDeleted: true, defaultPassword: "initial", ...more }),
    );
  const listed = async (): Promise<{ name: string; created: number; modified: number }[]> =>
    (await json(await directory.list(never))) as never;

  test("0.7 at first there are the administrator and the lasting groups, created now", async () => {
    const before = Date.now();
    expect(await listed()).toMatchObject([
      { name: "admin", displayName: "Administrator", groupNames: [], mail: "", principalTypeEnum: "LOCAL_USER" },
      { name: "Administrator", groupNames: [], principalTypeEnum: "LOCAL_GROUP" },
      { name: "All", groupNames: [], principalTypeEnum: "LOCAL_GROUP" },
    ]);
    for (const { created } of await listed()) expect(Math.abs(created - before)).toBeLessThan(60_000);
  });

  test("its state is another one after every change of the list, and only then", async () => {
    const states = [await directory.store.state()];
    const change = async (change: () => Promise<unknown>, isOther: boolean): Promise<void> => {
      await change();
      const state = await directory.store.state();
      expect(state === states.at(-1)).toBe(!isOther);
      expect(states.includes(state)).toBe(!isOther);
      if (isOther) states.push(state);
    };
    const ada = user("ada");
    await change(() => sync([ada]), true);
    await change(() => sync([ada]), false);
    await change(() => sync([ada, user("grace")], { apply: false }), false);
    await change(() => sync([{ ...ada, displayName: "Countess" }]), true);
    await change(() => sync([ada]), true);
    await change(() => sync([]), true);
    await change(() => sync([{ name: 1 }]).catch(() => undefined), false);
    const another = await openAnother("another password");
    expect(await another.store.state()).toBe(states.at(-1));
    await another.close();
  });

  test("B.9 the list of one state is computed once, and again when it has gone from the disk or the state has", async () => {
    const place = join(folder, "list");
    const files = async () => readdir(place);
    const empty = await listed();
    const [file, ...others] = await files();
    expect(others).toEqual([]);
    const [one, other] = await Promise.all([directory.list(never), directory.list(never)]);
    one.destroy();
    expect(await json(other)).toEqual(empty);
    expect(await listed()).toEqual(empty);
    expect(await files()).toEqual([file]);
    await rm(join(place, file as string));
    expect(await listed()).toEqual(empty);
    expect(await files()).not.toContain(file);

    // Whoever reads the old one gets it whole.
    const slow = await directory.list(never);
    await sync([user("ada")]);
    expect(await files()).toEqual([]);
    expect((await listed()).map(({ name }) => name)).toContain("ada");
    expect(await json(slow)).toEqual(empty);
    await directory.close();
    expect(await files()).toEqual([]);
  });

  test("0.7 a later start changes the administrator's password and nothing else", async () => {
    const [before] = [await directory.store.account("admin")];
    const all = await listed();
    await (await openAnother()).close();
    expect(await directory.store.account("admin")).toEqual(before);
    const another = await openAnother("another password");
    const after = await another.store.account("admin");
    await another.close();
    expect(after?.id).toBe(before?.id);
    expect(after?.passwordHash).not.toBe(before?.passwordHash);
    expect(await listed()).toEqual(all);
  });

  // Only on PostgreSQL several processes can start at once.
  test.for(engine === "PostgreSQL" ? [3] : [])(
    "0.7 %i first starts at once print one password, which is right",
    async (count) => {
      const { close, open } = await engines.PostgreSQL(database, folder);
      const starts = await Promise.all(
        Array.from({ length: count }, async (_, node) =>
          Directory.open({
            store: await open(),
            database,
            folder: join(folder, `first start ${node}`),
            administrator: { name: "admin" },
            progress: new Progress(),
          }),
        ),
      );
      const [printed, ...more] = starts.map(({ generatedPassword }) => generatedPassword).filter(Boolean);
      expect(more).toEqual([]);
      const account = await starts[0]?.store.account("admin");
      expect(await verifyPassword(account?.passwordHash ?? "", printed ?? "")).toBe(true);
      await Promise.all(starts.map((directory) => directory.close()));
      await close();
    },
  );

  test("4.2 a list is what there is then, and the answer says what that changed", async () => {
    const hostile = `a\0b"b\\c'd\u001f\u001e\n\r\t\\.\u0085\u{1F600}\u2028<script>`;
    const first = [
      user("ada", { mail: "ada@example.com", description: hostile, groupNames: ["staff", "All"] }),
      user("\u00e9\\N", { displayName: "\\." }),
      user('zoë {1,2} "NULL"', { displayName: "NULL", groupNames: ["staff", 'a "group", {of} \\many'] }),
      group("staff", "All"),
      group('a "group", {of} \\many'),
      group("going"),
    ];
    expect(await sync(first)).toEqual({
      usersAdded: ["ada", 'zoë {1,2} "NULL"', "\u00e9\\N"],
      usersDeleted: [],
      usersUpdated: [],
      groupsAdded: ['a "group", {of} \\many', "going", "staff"],
      groupsDeleted: [],
      groupsUpdated: [],
    });
    const created = await listed();
    const lasting = new Set(["admin", "Administrator", "All"]);
    const order = ["ada", 'zoë {1,2} "NULL"', "\u00e9\\N", 'a "group", {of} \\many', "going", "staff"];
    expect(created.filter(({ name }) => !lasting.has(name))).toMatchObject(
      order
        .map((name) => first.find((each) => each.name === name)!)
        .map((each) => ({ ...each, groupNames: [...each.groupNames].sort((x, y) => (x < y ? -1 : 1)) })),
    );

    const second = [user("ada", { displayName: "Ada" }), user("new"), group("staff", "All")];
    expect(await sync(second)).toEqual({
      usersAdded: ["new"],
      usersDeleted: ['zoë {1,2} "NULL"', "\u00e9\\N"],
      usersUpdated: ["ada"],
      groupsAdded: [],
      groupsDeleted: ['a "group", {of} \\many', "going"],
      groupsUpdated: [],
    });
    const names = (await listed()).map(({ name }) => name);
    expect(names).toEqual(["ada", "admin", "new", "Administrator", "All", "staff"]);
    const time = (name: string, all: typeof created): number | undefined =>
      all.find((each) => each.name === name)?.created;
    expect(time("ada", await listed())).toBe(time("ada", created));
  });

  test("a list that nobody waits for any more is not made", async () => {
    const [gone, first] = [new AbortController(), directory.list(never)];
    const waiting = directory.list(gone.signal);
    gone.abort(new Error("the client went away"));
    await expect(waiting).rejects.toThrow("the client went away");
    expect(await json(await first)).toHaveLength(3);
    const interrupted = new AbortController();
    const running = directory.list(interrupted.signal);
    interrupted.abort(new Error("this one, too"));
    await expect(running).rejects.toThrow("this one, too");
    expect(await listed()).toHaveLength(3);
  });

  test("B.4 a preview changes nothing", async () => {
    const before = await listed();
    expect(await sync([user("ada"), group("staff")], { apply: false })).toMatchObject({
      usersAdded: ["ada"],
      groupsAdded: ["staff"],
    });
    expect(await listed()).toEqual(before);
  });

  test("a user deleted and created again has another id", async () => {
    await sync([user("ada")]);
    const first = await directory.store.account("ada");
    await sync([]);
    expect(await directory.store.account("ada")).toBeUndefined();
    await sync([user("ada")]);
    const second = await directory.store.account("ada");
    expect(second?.id).not.toBe(first?.id);
    expect(second?.passwordHash).not.toBe(first?.passwordHash);
  });

  test("B.7 own passwords are hashed each, and kept when the user changes", async () => {
    await sync([user("ada", { password: "one" }), user("bob", { password: "one" })], { defaultPassword: undefined });
    const [ada, bob] = [await directory.store.account("ada"), await directory.store.account("bob")];
    expect(ada?.passwordHash).not.toBe(bob?.passwordHash);
    await sync([user("ada", { displayName: "Changed", password: "two" }), user("bob")], { defaultPassword: undefined });
    expect(await directory.store.account("ada")).toEqual(ada);
  });

  test("0.6 effective groups are those of groups too, in cycles as well", async () => {
    await sync([user("ada", { groupNames: ["a"] }), group("a", "b"), group("b", "c"), group("c", "a"), group("d")]);
    expect([...(await directory.store.effectiveGroups("ada"))].sort()).toEqual(["a", "b", "c"]);
    expect(await directory.store.effectiveGroups("nobody")).toEqual(new Set());
    expect(await directory.store.account("no\0body")).toBeUndefined();
  });

  test("B.5 a list that is not valid changes nothing", async () => {
    const before = await listed();
    await expect(sync([user("ada"), user("")])).rejects.toMatchObject({
      problems: ["principals[1].name: must be a string that is not empty"],
    });
    expect(await listed()).toEqual(before);
  });

  test("B.5 a list without names, or with one name for everybody, is refused however long it is", async () => {
    const refused = async (name: string): Promise<readonly string[]> => {
      const everybody = Array.from({ length: 30_000 }, () => user(name));
      const error = await sync(everybody).catch((thrown: unknown) => thrown);
      return (error as InputError).problems;
    };
    expect((await refused("")).slice(0, 2)).toEqual([
      "principals[0].name: must be a string that is not empty",
      "principals[1].name: must be a string that is not empty",
    ]);
    expect((await refused("ada"))[0]).toBe(
      "principals[1].name: is there before as principals[0]: names of one kind must differ",
    );
  });

  test("an aborted call changes nothing", async () => {
    const before = await listed();
    const controller = new AbortController();
    const call = { list: [user("ada")], apply: true, removeDeleted: true, defaultPassword: "initial" };
    const answer = callSync(directory, folder, call, controller.signal);
    controller.abort(new Error("gone"));
    await expect(answer).rejects.toThrow("gone");
    expect(await listed()).toEqual(before);
  });
});

test("a call whose commit was written and not answered says what it changed, and changes it once", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-stores-"));
  const url = await server.createDatabase();
  // Passes the commit of each write on, and cuts the connection before the answer to it comes.
  let lost = 0;
  const cutter = createServer((client) => {
    const upstream = connect(server.port, "127.0.0.1");
    upstream.on("error", () => undefined).pipe(client.on("error", () => undefined));
    let isWriting = false;
    client.on("data", (data: Buffer) => {
      isWriting ||= data.includes("INSERT INTO rollcall.directory_writes");
      upstream.write(data);
      if (!isWriting || !data.includes("COMMIT")) return;
      lost += 1;
      client.destroy();
    });
  }).listen(0, "127.0.0.1");
  await once(cutter, "listening");
  const through = url.replace(`:${server.port}/`, `:${(cutter.address() as AddressInfo).port}/`);
  const postgres = await Postgres.open({ postgres: through, poolSize: 3, statementTimeout: 60_000 });
  await migrate(postgres, [directorySchema]);
  const database = await openDatabase({ path: ":memory:", memory: 2 ** 27, spill: join(folder, "spill") });
  const store = new PostgresStore(postgres, folder);
  const directory = await Directory.open({ store, database, folder, administrator, progress: new Progress() });
  for (let nth = 0; nth < 5; nth++) {
    const call = { list: [user(`user${nth}`)], apply: true, removeDeleted: false, defaultPassword: "initial" };
    expect(await json(await callSync(directory, folder, call))).toMatchObject({ usersAdded: [`user${nth}`] });
  }
  expect(lost).toBe(5);
  await directory.close();
  await postgres.close();
  database.close();
  cutter.close();
  await rm(folder, { recursive: true });
});

test("calls of several processes at once are as if one came after the other", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-stores-"));
  const url = await server.createDatabase();
  const nodes = await Promise.all(
    [1, 2, 3].map(async (node) => {
      const place = join(folder, String(node));
      const postgres = await Postgres.open({ postgres: url, poolSize: 3, statementTimeout: 60_000 });
      await migrate(postgres, [directorySchema]);
      const database = await openDatabase({ path: ":memory:", memory: 2 ** 27, spill: join(place, "spill") });
      const store = new PostgresStore(postgres, place);
      const options = { store, database, folder: place, administrator, progress: new Progress() };
      return { directory: await Directory.open(options), postgres, database };
    }),
  );
  // Each adds one user and removes nobody: every one of them must be there in the end.
  const adding = Array.from({ length: 12 }, async (_, index) => {
    const { directory } = nodes[index % nodes.length]!;
    const list = [user(`user${index}`, { groupNames: ["All"] })];
    const call = { list, apply: true, removeDeleted: false, defaultPassword: "initial" };
    return json(await callSync(directory, folder, call));
  });
  const answers = (await Promise.all(adding)) as { usersAdded: string[] }[];
  expect(answers.map(({ usersAdded }) => usersAdded)).toEqual(adding.map((_, index) => [`user${index}`]));
  const all = (await json(await nodes[0]!.directory.list(never))) as { name: string }[];
  expect(all.filter(({ name }) => name.startsWith("user"))).toHaveLength(12);
  for (const { directory, postgres, database } of nodes) {
    await directory.close();
    await postgres.close();
    database.close();
  }
  await rm(folder, { recursive: true });
});
