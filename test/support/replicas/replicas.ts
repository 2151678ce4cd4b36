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

/** Starts the servers, without any daemon. */
export async function startReplicas(options: ReplicasOptions): Promise<Replicas> {
  const { syncs, lease = 2_000, others = 0 } = options;
  const folder = await mkdtemp(join(tmpdir(), "rollcall-replicas-"));
  const server = await startPostgres();
  const url = await server.createDatabase();
  const [target, told] = [await startTarget(), await startTold()];
  const all: Replica[] = [];
  for (let index = 0; index < count + others; index++) {
    const proxy = await startProxy(`http://127.0.0.1:${server.port}`);
    const config = join(folder, `replica${index}.yaml`);
    const configuration = configurationOf(syncs, {
      folder,
      data: join(folder, `data${index}`),
      postgres: url.replace(`:${server.port}/`, `:${new URL(proxy.url).port}/`),
      lease,
      target,
      told,
    });
    // JSON is YAML.
    await writeFile(config, JSON.stringify(configuration));
    all.push({ config, proxy, running: undefined });
  }
  const settings = { postgres: url, poolSize: 3, statementTimeout: 0 };
  const postgres = await Postgres.open(settings);
  const replicas = new Replicas(options, { folder, settings, lease, all, server, postgres, target, told });
  await replicas.writeSources();
  return replicas;
}

interface Parts extends Pick<Replicas, "lease" | "all" | "server" | "postgres" | "target" | "told"> {
  readonly folder: string;
  readonly settings: Parameters<typeof Postgres.open>[0];
}

export class Replicas {
  readonly lease: number;
  readonly all: readonly Replica[];
  readonly server: PostgresServer;
  readonly postgres: Postgres;
  readonly target: RecordedTarget;
  readonly told: Told;
  readonly #options: ReplicasOptions;
  readonly #folder: string;
  readonly #settings: Parts["settings"];
  readonly #versions = new Map<string, number>();
  #traps: readonly Trap[] = [];

  constructor(options: ReplicasOptions, parts: Parts) {
    ({ lease: this.lease, all: this.all, server: this.server } = parts);
    ({ postgres: this.postgres, target: this.target, told: this.told } = parts);
    ({ folder: this.#folder, settings: this.#settings } = parts);
    this.#options = options;
  }

  /** Writes the sources of all syncs. */
  async writeSources(): Promise<void> {
    for (const sync of Object.keys(this.#options.syncs)) await this.#write(sync);
  }

  async start(index: number): Promise<void> {
    const replica = this.#at(index);
    const child = spawn(process.execPath, [program, "start", "--config", replica.config], {
      stdio: ["pipe", "pipe", "pipe", "ipc"],
      env: {
        ...process.env,
        NO_COLOR: "1",
        ROLLCALL_CONFIG: undefined,
        NODE_COMPILE_CACHE: compileCache,
        ROLLCALL_TEST_CLOCK: String(this.#options.clocks?.[index] ?? 0),
        ROLLCALL_TEST_TRAPS: JSON.stringify(this.#traps),
      },
    });
    const running = watchOutput(child as Parameters<typeof watchOutput>[0]);
    child.stdin?.end();
    replica.running = running;
    const presence = join(this.#folder, `data${index}`, "daemon", "control.json");
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
  }

  /** Starts those that do not run, without traps. */
  async startAll(): Promise<void> {
    await this.#setTraps([]);
    await Promise.all(
      this.all.slice(0, count).map(async (replica, index) => (isUp(replica) ? undefined : this.start(index))),
    );
  }

  async kill(index: number): Promise<void> {
    const { running } = this.#at(index);
    running?.process.kill("SIGKILL");
    await running?.ended;
  }

  /** The index of the one that leads now; waits until one does. */
  leader(): Promise<number> {
    return this.#poll("a leader", async () => {
      const [row] = await this.postgres.rows<{ name: string }>(
        `SELECT n.name FROM rollcall.claims c JOIN rollcall.nodes n ON n.id = c.node
         WHERE c.name = 'leader' AND n.expires > clock_timestamp()`,
      );
      const index = this.#indexOf(Number(row?.name.slice(hostname().length + 1)));
      return index === -1 ? undefined : index;
    });
  }

  /** Sets a trap for all, those too that start later; `after`: once one has fallen into that. */
  async trap(point: string, signal: Trap["signal"], after?: Fall): Promise<Fall> {
    const token = join(this.#folder, randomUUID());
    await this.#setTraps([...this.#traps, { point, signal, token, after: after?.token }]);
    return {
      token,
      fallen: async () => {
        const pid = await this.#poll(`the point ${point}`, async () => {
          const text = existsSync(token) ? await readFile(token, "utf8") : "";
          return text === "" ? undefined : Number(text);
        });
        const index = this.#indexOf(pid);
        if (signal === "SIGKILL") await this.#at(index).running?.ended;
        // The token is written before the signal: what is sent in between would come before it.
        else await this.#poll(`replica ${index} to stop`, async () => (await isStopped(pid)) || undefined);
        await this.#setTraps(this.#traps.filter((each) => each.token !== token));
        return index;
      },
    };
  }

  /** Writes the next version of a sync's source. @returns what the target has then */
  async next(sync: string): Promise<Readonly<Record<string, string>>> {
    this.#versions.set(sync, (this.#versions.get(sync) ?? 0) + 1);
    await this.#write(sync);
    return this.#versionNow(sync);
  }

  /** Runs a command with the configuration of one of them. */
  command(index: number, ...args: readonly string[]): Promise<Ended> {
    return startRollcall([...args, "--config", this.#at(index).config]).ended;
  }

  async runs(): Promise<RunRecord[]> {
    const rows = await this.postgres.rows<{ document: RunRecord }>("SELECT document FROM rollcall.runs ORDER BY id");
    return rows.map(({ document }) => document);
  }

  /** Waits for a run of a sync that waits, with a plan for the newest version. */
  waiting(sync: string): Promise<RunRecord> {
    return this.#poll("a run that waits", async () => {
      const people = Object.keys(this.#versionNow(sync));
      const there = await this.target.directory(`${sync}-`);
      const creates = people.filter((name) => !(name in there)).length;
      return (await this.runs()).findLast(
        (run) => run.sync === sync && isOpen(run) && run.counts?.users.create === creates,
      );
    });
  }

  /**
   * Waits until the target is as the sources say, everything has an end, and all that was promised holds.
   * @returns what the target has then
   */
  async settled(sync: string): Promise<Readonly<Record<string, string>>> {
    const { postgres, target, lease } = this;
    const isAnyLeft = async (): Promise<boolean> =>
      (await this.runs()).some(({ state, endUnknown }) => state === "running" || endUnknown === true);
    await this.#poll(`everything as the source of ${sync} says`, async () => {
      const there = await target.directory(`${sync}-`);
      const isThere = JSON.stringify(sorted(there)) === JSON.stringify(sorted(this.#versionNow(sync)));
      return isThere && !(await isAnyLeft()) ? true : undefined;
    });
    // Runs go on meanwhile, and change nothing any more.
    await this.#poll("a moment without a run", async () => ((await isAnyLeft()) ? undefined : true));
    const stored = { settings: this.#settings, postgres, target, folder: this.#folder, lease };
    await checkStored(stored, Object.keys(this.#options.syncs), (each) => this.#versionNow(each));
    return target.directory(`${sync}-`);
  }

  async close(): Promise<void> {
    for (const { running } of this.all) {
      running?.process.kill("SIGCONT");
      running?.process.kill("SIGKILL");
      await running?.ended;
    }
    for (const { proxy } of this.all) await proxy.close();
    await Promise.all([this.target.close(), this.told.close(), this.postgres.close()]);
    await this.server.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  #at(index: number): Replica {
    return this.all[index] ?? fail(`there is no replica ${index}`);
  }

  #indexOf(pid: number): number {
    return this.all.findIndex(({ running }) => running?.process.pid === pid);
  }

  #versionNow(sync: string): Record<string, string> {
    return versionOf(sync, this.#versions.get(sync) ?? 0);
  }

  async #write(sync: string): Promise<void> {
    const rows = Object.entries(this.#versionNow(sync)).map(([name, display]) => `${name},${display}\n`);
    const file = join(this.#folder, sync);
    await writeFile(`${file}.new`, `id,name\n${rows.join("")}`);
    await rename(`${file}.new`, `${file}.csv`);
  }

  async #setTraps(some: readonly Trap[]): Promise<void> {
    this.#traps = some;
    for (const { running } of this.all)
      if (running?.process.connected === true)
        await new Promise((resolve) => {
          running.process.send([...some], resolve);
        });
  }

  async #poll<Value>(what: string, look: () => Promise<Value | undefined>): Promise<Value> {
    const end = performance.now() + 60_000;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      if (performance.now() > end) {
        const said = this.all.map(({ running }, index) => `--- ${index}\n${running?.output().slice(-6_000)}`);
        const journal = (await this.runs()).slice(-5).map((run) => JSON.stringify(run));
        fail(`${what} does not come\n${said.join("\n")}\n${journal.join("\n")}`);
      }
      await delay(50);
    }
  }
}

function isUp({ running }: Replica): boolean {
  return running !== undefined && running.process.exitCode === null && running.process.signalCode === null;
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
