import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { request } from "undici";
import { openDatabase } from "#duckdb/database.ts";
import { Postgres } from "#postgres/database.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { openPostgresReader } from "#state/postgres/store.ts";
import { startPostgres } from "./postgres.ts";
import type { PostgresServer } from "./postgres.ts";
import { startProxy } from "./proxy.ts";
import type { Proxy } from "./proxy.ts";
import { startRollcall, watchOutput } from "./rollcall/rollcall.ts";
import type { Ended, Running } from "./rollcall/rollcall.ts";
import type { Trap } from "./rollcall/replica-process.ts";
import { administrator, call, login, startService } from "./rollcall/service.ts";
import type { TestService } from "./rollcall/service.ts";
import { listen, stop, track } from "./scripted-server.ts";

/** Several daemons with their state in one PostgreSQL, the target that they write to, and who is told. */

/** A list that the target got with applyChanges=true. */
export interface Sending {
  /** The names in it. */
  readonly names: readonly string[];
  /** What the target did, as it answered; absent: not yet, or nothing. */
  did?: Readonly<Record<"creates" | "updates" | "deletes", number>> | undefined;
}

/** A real service behind a server that notes what is sent to be applied. */
export interface RecordedTarget {
  readonly url: string;
  readonly sendings: readonly Sending[];
  /** Holds back the answer to the next list that is applied. Resolves when the service has applied it. */
  hold(): Promise<void>;
  release(): void;
  /** Names and display names of the users that begin so. */
  directory(beginning: string): Promise<Readonly<Record<string, string>>>;
  close(): Promise<void>;
}

async function startTarget(): Promise<RecordedTarget> {
  const service: TestService = await startService();
  const sendings: Sending[] = [];
  let hold: (() => Promise<void>) | undefined;
  let holding = Promise.withResolvers<void>();
  const forward = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await buffer(incoming);
    const form = new URLSearchParams(incoming.url?.endsWith("/user/sync") === true ? body.toString() : "");
    let sending: Sending | undefined;
    if (form.get("applyChanges") === "true") {
      const principals = JSON.parse(form.get("principals") ?? "[]") as { name: string }[];
      sending = { names: principals.map(({ name }) => name) };
      sendings.push(sending);
    }
    const { host: _, connection: __, "content-length": ___, "transfer-encoding": ____, ...headers } = incoming.headers;
    const method = incoming.method as "GET" | "POST";
    const answer = await request(service.url + incoming.url, { method, headers, ...(body.length > 0 && { body }) });
    const text = await answer.body.text();
    if (sending !== undefined && answer.statusCode === 200) {
      sending.did = didOf(text);
      const waits = hold?.();
      hold = undefined;
      await waits;
    }
    const { "transfer-encoding": _____, "content-length": ______, ...given } = answer.headers;
    response.writeHead(answer.statusCode, given).end(text);
  };
  const server = createServer((incoming, response) => {
    forward(incoming, response).catch(() => response.destroy());
  });
  const open = track(server);
  const port = await listen(server);
  let session: string | undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    sendings,
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      holding = Promise.withResolvers();
      const until = holding.promise;
      hold = () => {
        resolve();
        return until;
      };
      return promise;
    },
    release: () => holding.resolve(),
    directory: async (beginning) => {
      const url = `${service.url}/tspublic/v1/user/list`;
      let answer = await call(url, session === undefined ? {} : { session });
      if (answer.status === 401) answer = await call(url, { session: (session = await login(service.url)) });
      const list = JSON.parse(answer.text) as { name: string; displayName: string }[];
      const own = list.filter(({ name }) => name.startsWith(beginning));
      return Object.fromEntries(own.map(({ name, displayName }) => [name, displayName]));
    },
    close: async () => {
      holding.resolve();
      await stop(server, open);
      await service.kill();
    },
  };
}

function didOf(text: string): NonNullable<Sending["did"]> {
  const answer = JSON.parse(text) as Readonly<Record<string, readonly string[]>>;
  const count = (done: string): number =>
    (answer[`users${done}`]?.length ?? 0) + (answer[`groups${done}`]?.length ?? 0);
  return { creates: count("Added"), updates: count("Updated"), deletes: count("Deleted") };
}

/** Who is told: the runs that notices are about. */
interface Told {
  readonly url: string;
  readonly runs: readonly string[];
  close(): Promise<void>;
}

async function startTold(): Promise<Told> {
  const runs: string[] = [];
  const server = createServer((incoming, response) => {
    void (async () => {
      const body = await buffer(incoming);
      const { notices = [] } = JSON.parse(body.toString()) as { notices?: { run?: string }[] };
      runs.push(...notices.flatMap(({ run }) => run ?? []));
      response.writeHead(204).end();
    })();
  });
  const open = track(server);
  const port = await listen(server);
  return { url: `http://127.0.0.1:${port}/notices`, runs, close: () => stop(server, open) };
}

/** One of the daemons. */
export interface Replica {
  readonly config: string;
  /** Between it and PostgreSQL. */
  readonly proxy: Proxy;
  running: Running | undefined;
}

interface Fall {
  readonly token: string;
  /** Waits for it. @returns the index of the one that has fallen into the trap */
  fallen(): Promise<number>;
}

export interface ReplicasOptions {
  readonly syncs: Readonly<Record<string, { readonly schedule?: string; readonly approval?: string | object }>>;
  /** In milliseconds. */
  readonly lease?: number;
  /** How wrong the clocks are, in milliseconds. */
  readonly clocks?: readonly number[];
  /** How many more machines there are, on which no daemon is started. */
  readonly others?: number;
}

export interface Replicas {
  readonly lease: number;
  readonly all: readonly Replica[];
  readonly server: PostgresServer;
  readonly postgres: Postgres;
  readonly target: RecordedTarget;
  readonly told: Told;
  start(index: number): Promise<void>;
  /** Starts those that do not run, without traps. */
  startAll(): Promise<void>;
  kill(index: number): Promise<void>;
  /** The index of the one that leads now; waits until one does. */
  leader(): Promise<number>;
  /** Sets a trap for all, those too that start later; `after`: once one has fallen into that. */
  trap(point: string, signal: Trap["signal"], after?: Fall): Promise<Fall>;
  /** Writes the next version of a sync's source. @returns what the target has then */
  next(sync: string): Promise<Readonly<Record<string, string>>>;
  /** Runs a command with the configuration of one of them. */
  command(index: number, ...args: readonly string[]): Promise<Ended>;
  runs(): Promise<RunRecord[]>;
  /** Waits for a run of a sync that waits, with a plan for the newest version. */
  waiting(sync: string): Promise<RunRecord>;
  /**
   * Waits until the target is as the sources say, everything has an end, and all that was promised holds.
   * @returns what the target has then
   */
  settled(sync: string): Promise<Readonly<Record<string, string>>>;
  close(): Promise<void>;
}

const program = fileURLToPath(new URL("rollcall/replica-process.ts", import.meta.url));
const compileCache = fileURLToPath(new URL("../../node_modules/.cache/compile", import.meta.url));

/** The users of a sync at version `n`: from one to the next one joins, one leaves, and the others change. */
function versionOf(sync: string, n: number): Record<string, string> {
  const people = [n - 2, n - 1, n].filter((index) => index > 0).map((index) => `${sync}-${index}`);
  return Object.fromEntries(people.map((name) => [name, `${name} at ${n}`]));
}

/** How many daemons there are. */
const count = 3;

/** Whether a process is stopped by a signal. */
async function isStopped(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, "latin1");
  // The name before the state may hold spaces and parentheses.
  return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
}

export async function startReplicas({
  syncs,
  lease = 2_000,
  clocks = [],
  others = 0,
}: ReplicasOptions): Promise<Replicas> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-replicas-"));
  const server = await startPostgres();
  const url = await server.createDatabase();
  const settings = { postgres: url, poolSize: 3, statementTimeout: 0 };
  const postgres = await Postgres.open(settings);
  const [target, told] = [await startTarget(), await startTold()];
  const versions = new Map<string, number>();
  const versionNow = (sync: string): Record<string, string> => versionOf(sync, versions.get(sync) ?? 0);
  const write = async (sync: string): Promise<void> => {
    const rows = Object.entries(versionNow(sync)).map(([name, display]) => `${name},${display}\n`);
    await writeFile(join(folder, `${sync}.new`), `id,name\n${rows.join("")}`);
    await rename(join(folder, `${sync}.new`), join(folder, `${sync}.csv`));
  };
  const all: Replica[] = [];
  for (let index = 0; index < count + others; index++) {
    const proxy = await startProxy(`http://127.0.0.1:${server.port}`);
    const config = join(folder, `replica${index}.yaml`);
    // JSON is YAML.
    await writeFile(
      config,
      JSON.stringify(
        configurationOf(syncs, {
          folder,
          data: join(folder, `data${index}`),
          postgres: url.replace(`:${server.port}/`, `:${new URL(proxy.url).port}/`),
          lease,
          target,
          told,
        }),
      ),
    );
    all.push({ config, proxy, running: undefined });
  }
  for (const sync of Object.keys(syncs)) await write(sync);

  const runs = async (): Promise<RunRecord[]> =>
    (await postgres.rows<{ document: RunRecord }>("SELECT document FROM rollcall.runs ORDER BY id")).map(
      ({ document }) => document,
    );
  const isLeft = ({ state, endUnknown }: RunRecord): boolean => state === "running" || endUnknown === true;
  const replicaOf = (pid: number): number => all.findIndex(({ running }) => running?.process.pid === pid);
  const isUp = ({ running }: Replica): boolean =>
    running !== undefined && running.process.exitCode === null && running.process.signalCode === null;
  const at = (index: number): Replica => all[index] ?? fail(`there is no replica ${index}`);

  let traps: readonly Trap[] = [];
  const setTraps = async (some: readonly Trap[]): Promise<void> => {
    traps = some;
    for (const { running } of all)
      if (running?.process.connected === true)
        await new Promise((resolve) => {
          running.process.send([...some], resolve);
        });
  };

  const start = async (index: number): Promise<void> => {
    const replica = at(index);
    const child = spawn(process.execPath, [program, "start", "--config", replica.config], {
      stdio: ["pipe", "pipe", "pipe", "ipc"],
      env: {
        ...process.env,
        NO_COLOR: "1",
        ROLLCALL_CONFIG: undefined,
        NODE_COMPILE_CACHE: compileCache,
        ROLLCALL_TEST_CLOCK: String(clocks[index] ?? 0),
        ROLLCALL_TEST_TRAPS: JSON.stringify(traps),
      },
    });
    const running = watchOutput(child as Parameters<typeof watchOutput>[0]);
    child.stdin?.end();
    replica.running = running;
    const presence = join(folder, `data${index}`, "daemon", "control.json");
    const isReady = async (): Promise<boolean> => {
      const text = await readFile(presence, "utf8").catch(() => "{}");
      return (JSON.parse(text || "{}") as { pid?: number }).pid === child.pid;
    };
    while (!(await isReady())) {
      if (!isUp(replica)) {
        // It may have fallen into a trap.
        if (running.process.signalCode !== null) return;
        fail(`replica ${index} did not start: ${running.output()}`);
      }
      await delay(20);
    }
  };

  /** Nothing is left that belongs to no run, and nothing was done twice. */
  const check = async (): Promise<void> => {
    const copies = join(folder, "checks");
    await using read = await openPostgresReader(settings, copies);
    await read.files.fetch(["ledgers/"]);
    const journal = await read.journal();
    const applied = journal.runs.filter(({ state }) => state === "applied");
    const expected = await read.audit.head();
    const digests = new Set<unknown>();
    const { broken, damages } = await verifyAudit(read.audit, {
      ...(expected && { expected }),
      visit: ({ facts }) => {
        if (facts["result"] === "applied") digests.add(facts["digest"]);
      },
    });
    assert.deepEqual({ broken, damages }, { broken: undefined, damages: [] });
    for (const { digest } of applied) assert.ok(digests.has(digest));
    // What the target has done is in the record of exactly one run, in that order. A list that changes nothing was there before.
    const done = target.sendings.flatMap(({ did }) => did ?? []);
    const recorded = applied.map(({ counts }) => ({
      creates: (counts?.users.create ?? 0) + (counts?.groups.create ?? 0),
      updates: (counts?.users.update ?? 0) + (counts?.groups.update ?? 0),
      deletes: (counts?.users.delete ?? 0) + (counts?.groups.delete ?? 0),
    }));
    const inOrder = (some: typeof recorded): string[] => some.map((each) => JSON.stringify(each)).sort();
    assert.deepEqual(inOrder(done), inOrder(recorded));
    assert.ok(done.every(({ creates, updates, deletes }) => creates + updates + deletes > 0));
    // A slot is one run's.
    const slots = await postgres.rows<{ sync: string; slot: Date; run: string }>("SELECT * FROM rollcall.slots");
    const begun = journal.runs.filter(({ slot }) => slot !== undefined);
    assert.equal(new Set(begun.map(({ sync, slot }) => `${sync} ${slot}`)).size, begun.length);
    const known = new Map(slots.map(({ sync, slot, run }) => [`${sync} ${slot.toISOString()}`, run]));
    for (const { id, sync, slot = "" } of begun) assert.equal(known.get(`${sync} ${slot}`), id);
    // The ids are in the order of the times, which are as exact as the answers of the database are fast.
    const times = journal.runs.map(({ startedAt }) => Date.parse(startedAt));
    for (const [index, time] of times.entries()) assert.ok(time >= (times[index - 1] ?? 0) - lease);
    await checkLedger(join(read.files.folder, "ledgers"), journal.runs, Object.keys(syncs), versionNow);
    await rm(copies, { recursive: true });
  };

  const poll = async <Value>(
    what: string,
    look: () => Promise<Value | undefined>,
    patience = 60_000,
  ): Promise<Value> => {
    const end = performance.now() + patience;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() > end) {
        const said = all.map(({ running }, index) => `--- ${index}\n${running?.output().slice(-6_000)}`).join("\n");
        const journal = (await runs()).slice(-5).map((run) => JSON.stringify(run));
        fail(`${what} does not come\n${said}\n${journal.join("\n")}`);
      }
      await delay(50);
    }
  };

  return {
    lease,
    all,
    server,
    postgres,
    target,
    told,
    start,
    startAll: async () => {
      await setTraps([]);
      await Promise.all(all.slice(0, count).map(async (replica, index) => (isUp(replica) ? undefined : start(index))));
    },
    kill: async (index) => {
      const { running } = at(index);
      running?.process.kill("SIGKILL");
      await running?.ended;
    },
    leader: () =>
      poll("a leader", async () => {
        const [row] = await postgres.rows<{ name: string }>(
          `SELECT n.name FROM rollcall.claims c JOIN rollcall.nodes n ON n.id = c.node
           WHERE c.name = 'leader' AND n.expires > clock_timestamp()`,
        );
        const index = replicaOf(Number(row?.name.slice(hostname().length + 1)));
        return index === -1 ? undefined : index;
      }),
    trap: async (point, signal, after) => {
      const token = join(folder, randomUUID());
      await setTraps([...traps, { point, signal, token, after: after?.token }]);
      return {
        token,
        fallen: async () => {
          const pid = await poll(`the point ${point}`, async () => {
            const text = existsSync(token) ? await readFile(token, "utf8") : "";
            return text === "" ? undefined : Number(text);
          });
          const index = replicaOf(pid);
          if (signal === "SIGKILL") await at(index).running?.ended;
          // The token is written before the signal: what is sent in between would come before it.
          else await poll(`replica ${index} to stop`, async () => (await isStopped(pid)) || undefined);
          await setTraps(traps.filter((each) => each.token !== token));
          return index;
        },
      };
    },
    next: async (sync) => {
      versions.set(sync, (versions.get(sync) ?? 0) + 1);
      await write(sync);
      return versionNow(sync);
    },
    command: (index, ...args) => startRollcall([...args, "--config", at(index).config]).ended,
    runs,
    waiting: (sync) =>
      poll("a run that waits", async () => {
        const people = Object.keys(versionNow(sync));
        const there = await target.directory(`${sync}-`);
        const creates = people.filter((name) => !(name in there)).length;
        return (await runs()).findLast(
          (run) => run.sync === sync && isOpen(run) && run.counts?.users.create === creates,
        );
      }),
    settled: async (sync) => {
      await poll(`everything as the source of ${sync} says`, async () => {
        const there = await target.directory(`${sync}-`);
        const wanted = versionNow(sync);
        const isThere = JSON.stringify(sorted(there)) === JSON.stringify(sorted(wanted));
        return isThere && !(await runs()).some(isLeft) ? true : undefined;
      });
      // Runs go on meanwhile, and change nothing any more.
      await poll("a moment without a run", async () => ((await runs()).some(isLeft) ? undefined : true));
      await check();
      return target.directory(`${sync}-`);
    },
    close: async () => {
      for (const { running } of all) {
        running?.process.kill("SIGCONT");
        running?.process.kill("SIGKILL");
        await running?.ended;
      }
      for (const { proxy } of all) await proxy.close();
      await Promise.all([target.close(), told.close(), postgres.close()]);
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function configurationOf(
  syncs: ReplicasOptions["syncs"],
  at: {
    readonly folder: string;
    readonly data: string;
    readonly postgres: string;
    readonly lease: number;
    readonly target: RecordedTarget;
    readonly told: Told;
  },
): object {
  const none = { deletes: "none", updates: "none", membershipsLost: "none", blanked: "none", shrink: "none" };
  const { name: username, password } = administrator;
  return {
    daemon: { data: at.data, state: { postgres: at.postgres, poolSize: 5 }, lease: `${at.lease / 1000}s` },
    targets: { analytics: { url: at.target.url, username, password } },
    sources: Object.fromEntries(
      Object.keys(syncs).map((sync) => [
        sync,
        { connector: "csv", users: { file: join(at.folder, `${sync}.csv`), id: "id" } },
      ]),
    ),
    syncs: Object.fromEntries(
      Object.entries(syncs).map(([sync, more]) => [
        sync,
        {
          from: [sync],
          to: "analytics",
          users: { name: "entry.id", displayName: "entry.name" },
          limits: none,
          retries: { attempts: 2, first: "1s" },
          ...more,
        },
      ]),
    ),
    notifications: {
      ops: { by: "webhook", url: at.told.url, secret: "a secret of the replicas", events: ["pending", "failed"] },
    },
  };
}

/** The ledger has what is in the target, and every applied change counts for limits exactly once. */
async function checkLedger(
  folder: string,
  runs: readonly RunRecord[],
  syncs: readonly string[],
  versionNow: (sync: string) => Readonly<Record<string, string>>,
): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const name = names.find((each) => each.endsWith(".duckdb"));
  if (name === undefined) return;
  const path = join(folder, name);
  await mkdir(`${path}.spill`, { recursive: true });
  const database = await openDatabase({ path, memory: 64 * 1024 * 1024, spill: `${path}.spill` });
  const connection = await database.connect();
  try {
    for (const sync of syncs) {
      const owned = await connection.rows<{ name: string }>(
        `SELECT DISTINCT name FROM principal WHERE sync = '${sync}' ORDER BY name`,
      );
      const applied = runs.filter((run) => run.sync === sync && run.state === "applied");
      if (applied.length === 0) continue;
      assert.deepEqual(
        owned.map((each) => each.name),
        Object.keys(versionNow(sync)).sort(),
      );
      const rows = await connection.rows<{ measure: string; amount: number }>(
        `SELECT measure, sum(amount)::INTEGER AS amount FROM applied WHERE sync = '${sync}' GROUP BY ALL`,
      );
      const counted = new Map(rows.map(({ measure, amount }) => [measure, amount]));
      for (const action of ["create", "update", "delete"] as const) {
        const sum = applied.reduce((total, { counts }) => total + (counts?.users[action] ?? 0), 0);
        assert.equal(counted.get(`${action}s`) ?? 0, sum, `${sync}: ${action}s`);
      }
    }
  } finally {
    connection.close();
    database.close();
  }
}

function sorted(people: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(people).sort(([one], [other]) => (one < other ? -1 : 1));
}

function fail(message: string): never {
  throw new Error(message);
}
