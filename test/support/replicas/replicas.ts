import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Postgres } from "#postgres/database.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { startPostgres } from "../postgres.ts";
import type { PostgresServer } from "../postgres.ts";
import { startProxy } from "../proxy.ts";
import type { Proxy } from "../proxy.ts";
import { startRollcall, watchOutput } from "../rollcall/rollcall.ts";
import type { Ended, Running } from "../rollcall/rollcall.ts";
import type { Trap } from "../rollcall/replica-process.ts";
import { administrator } from "../rollcall/service.ts";
import { checkStored } from "./checks.ts";
import { startTarget, startTold } from "./target.ts";
import type { RecordedTarget, Told } from "./target.ts";

/** Several daemons with their state in one PostgreSQL, the target that they write to, and who is told. */

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

const program = fileURLToPath(new URL("../rollcall/replica-process.ts", import.meta.url));
const compileCache = fileURLToPath(new URL("../../../node_modules/.cache/compile", import.meta.url));

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
      await checkStored({ settings, postgres, target, folder, lease }, Object.keys(syncs), versionNow);
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

function sorted(people: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(people).sort(([one], [other]) => (one < other ? -1 : 1));
}

function fail(message: string): never {
  throw new Error(message);
}
