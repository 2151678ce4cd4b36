import { chmod, chown, cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { request } from "undici";
import { debianPackages, missing } from "./ldap/debian.ts";
import type { Unpacked } from "./ldap/debian.ts";
import { isOpen, nobody } from "./postgres.ts";
import { freePort, spawnDaemon } from "./process.ts";
import type { Daemon } from "./process.ts";

/** How a cluster gets another primary. */
export type Failover =
  /** Asked for: the primary becomes the standby. */
  | "switchover"
  /** The primary's PostgreSQL is killed. Patroni notices, and starts it again as a standby. */
  | "kill"
  /** The primary, Patroni and all, is lost until `restore`: its lease has to end first. */
  | "lose"
  /** The primary, Patroni and all, stops as a machine that hangs does, and still believes to be the primary when it goes on. */
  | "hang";

/** One PostgreSQL with its Patroni. */
export interface PatroniNode {
  readonly name: string;
  readonly port: number;
  /** What it logs: Patroni, and PostgreSQL. */
  log(): Promise<string>;
}

const names = ["one", "two"] as const;
const secret = "a-password-for-a-test";
const ofRollcall = "a-secret-of-rollcall";
const programs = "/usr/lib/postgresql/15/bin";

interface Packages {
  readonly postgres: Unpacked;
  readonly patroni: Unpacked;
  readonly etcd: Unpacked;
  readonly haproxy: Unpacked;
}

/** Debian's packages, downloaded where they are not installed. */
async function packages(): Promise<Packages> {
  const [postgres, patroni, etcd, haproxy] = await Promise.all([
    debianPackages("postgresql-15", `${programs}/postgres`, ["postgresql-15"]),
    // Patroni's code for etcd 3 uses that for etcd 2.
    debianPackages("patroni", "/usr/bin/patroni", ["patroni", "python3-etcd"]),
    debianPackages("etcd", "/usr/bin/etcd", ["etcd-server"]),
    debianPackages("haproxy", "/usr/sbin/haproxy", ["haproxy"]),
  ]);
  return { postgres, patroni, etcd, haproxy };
}

/** A node, and where it is. */
interface Member {
  readonly name: (typeof names)[number];
  readonly base: string;
  /** Patroni's file. */
  readonly configuration: string;
  readonly port: number;
  readonly api: number;
  readonly data: string;
}

function patroniConfiguration(
  { name, base, port, api, data }: Member,
  { etcdUrl, programs }: { readonly etcdUrl: string; readonly programs: string },
): object {
  const account = (username: string): object => ({ username, password: secret });
  return {
    scope: "rollcall",
    name,
    log: { dir: base },
    restapi: { listen: `127.0.0.1:${api}`, connect_address: `127.0.0.1:${api}` },
    etcd3: { hosts: etcdUrl.replace("http://", "") },
    bootstrap: {
      dcs: {
        // Of a real cluster: 30, 10 and 10.
        ttl: 6,
        loop_wait: 1,
        retry_timeout: 2,
        // A primary that crashed is not waited for.
        primary_start_timeout: 0,
        synchronous_mode: true,
        postgresql: {
          use_pg_rewind: true,
          parameters: { wal_keep_size: "256MB", max_connections: 100, max_prepared_transactions: 0 },
        },
      },
      initdb: [{ encoding: "UTF8" }, "no-locale", "no-sync", "data-checksums"],
    },
    postgresql: {
      listen: `127.0.0.1:${port}`,
      connect_address: `127.0.0.1:${port}`,
      data_dir: data,
      bin_dir: programs,
      pgpass: join(base, "pgpass"),
      authentication: {
        superuser: account("postgres"),
        replication: account("replicator"),
        rewind: account("rewinder"),
      },
      pg_hba: ["host all all 127.0.0.1/32 scram-sha-256", "host replication replicator 127.0.0.1/32 scram-sha-256"],
      // Only a machine that loses power loses anything by it.
      parameters: {
        unix_socket_directories: base,
        fsync: "off",
        logging_collector: "on",
        log_directory: base,
        log_filename: "postgres.log",
      },
    },
  };
}

/** A balancer that leads to the primary. */
function haproxyConfiguration(port: number, members: readonly Member[]): string {
  return `global
  maxconn 200
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
listen primary
  bind 127.0.0.1:${port}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fastinter 200ms downinter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
${members.map(({ name, port: own, api }) => `  server ${name} 127.0.0.1:${own} check port ${api}\n`).join("")}`;
}

/** PostgreSQL's first process; undefined when it is down. */
function postmaster({ data }: Member): number | undefined {
  try {
    return Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]);
  } catch {
    return undefined;
  }
}

function signalPostgres(member: Member, signal: NodeJS.Signals): void {
  const pid = postmaster(member);
  if (pid === undefined) return;
  for (const each of [pid, ...childrenOf(pid)]) signalTo(each, signal);
}

function clientOf(toPort: number, database = "postgres"): Client {
  const address = { host: "127.0.0.1", port: toPort, user: "postgres", password: secret, database };
  const client = new Client({ ...address, connectionTimeoutMillis: 3_000, query_timeout: 10_000 });
  client.on("error", () => undefined);
  return client;
}

async function asked<Row extends object>(toPort: number, sql: string): Promise<Row[]> {
  const client = clientOf(toPort);
  try {
    await client.connect();
    return (await client.query<Row>(sql)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** The name of the node behind haproxy, if that writes. */
async function writerBehind(port: number, members: readonly Member[]): Promise<string | undefined> {
  const [row] = await asked<{ port: string; standby: boolean }>(
    port,
    "SELECT current_setting('port') AS port, pg_is_in_recovery() AS standby",
  ).catch(() => []);
  if (row === undefined || row.standby) return undefined;
  return members.find((member) => member.port === Number(row.port))?.name;
}

async function logOf({ base }: Member): Promise<string> {
  const read = (file: string): Promise<string> => readFile(join(base, file), "utf8").catch(() => "");
  return `${await read("patroni.log")}\n${await read("postgres.log")}`;
}

async function logsOf(members: readonly Member[]): Promise<string> {
  const logs = members.map(async (member) => `${member.name}:\n${(await logOf(member)).slice(-3_000)}`);
  return (await Promise.all(logs)).join("\n");
}

/** Why a cluster cannot be had here; undefined if it can. With `CI=true` it throws instead. */
export async function noPatroni(): Promise<string | undefined> {
  return missing(packages());
}

/** Starts a cluster, as `nobody` where this process is root: PostgreSQL does not run as root. Takes some ten seconds. */
export async function startPatroni(): Promise<PatroniCluster> {
  const found = await packages();
  const folder = await ownFolder(await mkdtemp(join(tmpdir(), "rollcall-patroni-")));
  if (isRoot) await chmod(folder, 0o755);
  const at = await rootsFor(found, folder);
  const env = environment(at);
  const { etcd, url: etcdUrl } = await startEtcd(at, folder, env);
  const members = await Promise.all(
    names.map(async (name): Promise<Member> => {
      const base = await ownFolder(join(folder, name));
      const configuration = join(base, "patroni.json");
      return { name, base, configuration, port: await freePort(), api: await freePort(), data: join(base, "data") };
    }),
  );
  for (const member of members) {
    const configuration = patroniConfiguration(member, { etcdUrl, programs: `${at.postgres}${programs}` });
    // JSON is YAML.
    await writeFile(member.configuration, JSON.stringify(configuration));
  }
  const port = await freePort();
  await writeFile(join(folder, "haproxy.cfg"), haproxyConfiguration(port, members));
  const balancer = spawnAsNobody(
    `${at.haproxy}/usr/sbin/haproxy`,
    ["-db", "-q", "-f", join(folder, "haproxy.cfg")],
    env,
  );
  const startMember = ({ configuration }: Member): Daemon =>
    spawnAsNobody(at.python, [`${at.patroni}/usr/bin/patroni`, configuration], env);
  const cluster = new PatroniCluster(port, members, { folder, etcd, balancer, startMember });
  try {
    await cluster.begin();
  } catch (error) {
    await cluster.stop();
    throw error;
  }
  return cluster;
}

async function startEtcd(
  at: Roots,
  folder: string,
  env: NodeJS.ProcessEnv,
): Promise<{ readonly etcd: Daemon; readonly url: string }> {
  const url = `http://127.0.0.1:${await freePort()}`;
  const peers = `http://127.0.0.1:${await freePort()}`;
  const options = [
    `--data-dir=${await ownFolder(join(folder, "etcd"))}`,
    "--log-level=error",
    "--unsafe-no-fsync",
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peers}`,
    `--initial-advertise-peer-urls=${peers}`,
    `--initial-cluster=default=${peers}`,
  ];
  const etcd = spawnAsNobody(`${at.etcd}/usr/bin/etcd`, options, env);
  await etcd.ready(async () => {
    const { statusCode, body } = await request(`${url}/health`);
    await body.dump();
    if (statusCode !== 200) throw new Error(`etcd: ${statusCode}`);
  });
  return { etcd, url };
}

interface Parts {
  readonly folder: string;
  readonly etcd: Daemon;
  readonly balancer: Daemon;
  readonly startMember: (member: Member) => Daemon;
}

/** Two PostgreSQL 15 with Patroni, etcd and synchronous replication, and haproxy in front of the primary. */
export class PatroniCluster {
  readonly nodes: readonly PatroniNode[];
  /** haproxy's port, which leads to the primary. */
  readonly port: number;
  readonly #members: readonly Member[];
  readonly #parts: Parts;
  readonly #running = new Map<string, Daemon>();
  /** What was lost or hangs. */
  readonly #away = new Set<Member>();
  #databases = 0;

  constructor(port: number, members: readonly Member[], parts: Parts) {
    this.port = port;
    this.nodes = members.map((member) => ({ name: member.name, port: member.port, log: () => logOf(member) }));
    this.#members = members;
    this.#parts = parts;
    process.once("exit", this.#killAll);
  }

  /** Starts both servers, the primary first. */
  async begin(): Promise<void> {
    const [first, second] = this.#members as [Member, Member];
    this.#start(first);
    await this.primary();
    this.#start(second);
    for (const sql of [`CREATE ROLE rollcall LOGIN PASSWORD '${ofRollcall}'`, "SELECT pg_switch_wal()"])
      await asked(this.port, sql);
    await this.#whole();
  }

  /** Makes an empty database that belongs to the user `rollcall`. @returns the URL of that user, through haproxy */
  async createDatabase(name = `test${++this.#databases}`): Promise<string> {
    await asked(this.port, `CREATE DATABASE "${name}" OWNER rollcall`);
    return `postgres://rollcall:${ofRollcall}@127.0.0.1:${this.port}/${encodeURIComponent(name)}`;
  }

  /** The URL of the same database with both servers as its hosts, past haproxy. */
  direct(url: string): string {
    const hosts = this.nodes.map(({ port }) => `127.0.0.1:${port}`);
    return url.replace(`127.0.0.1:${this.port}/`, `${hosts.join(",")}/`);
  }

  /** The URL of the superuser for the same database. */
  asSuperuser(url: string): string {
    return url.replace(/\/\/[^@]*@/, `//postgres:${secret}@`);
  }

  /** A connection of the superuser to the primary, which the caller ends. */
  async connect(database?: string): Promise<Client> {
    const client = clientOf(this.port, database);
    await client.connect();
    return client;
  }

  /** The node that writes; waits until there is one. */
  async primary(): Promise<PatroniNode> {
    const name = await this.#until("primary", () => this.#writer());
    return this.nodes.find((node) => node.name === name)!;
  }

  /**
   * Gives the cluster another primary, and waits until haproxy leads there.
   * @returns how long nobody could write, in milliseconds
   */
  async failover(how: Failover): Promise<number> {
    const before = await this.#primaryMember();
    const began = performance.now();
    if (how === "switchover") {
      const { statusCode, body } = await request(`http://127.0.0.1:${before.api}/switchover`, {
        method: "POST",
        body: JSON.stringify({ leader: before.name }),
      });
      const said = await body.text();
      if (statusCode !== 200) throw new Error(`no switchover: ${statusCode} ${said}\n${await logsOf(this.#members)}`);
    } else if (how === "kill") {
      signalPostgres(before, "SIGKILL");
    } else {
      this.#away.add(before);
      this.#signal(before, how === "lose" ? "SIGKILL" : "SIGSTOP");
    }
    await this.#until("other primary", async () => {
      const name = await this.#writer();
      return name === before.name ? undefined : name;
    });
    return performance.now() - began;
  }

  /** Brings back what was lost or hangs, and waits until a standby follows synchronously: the next failover can come. */
  async restore(): Promise<void> {
    for (const member of this.#away) {
      this.#signal(member, "SIGCONT");
      const { process: patroni } = this.#running.get(member.name)!;
      if (patroni.exitCode !== null || patroni.signalCode !== null) this.#start(member);
    }
    this.#away.clear();
    await this.#whole();
  }

  /** haproxy forwards nothing and closes nothing, as a network that swallows everything, until `reconnect`. */
  cutOff(): void {
    this.#parts.balancer.process.kill("SIGSTOP");
  }

  reconnect(): void {
    this.#parts.balancer.process.kill("SIGCONT");
  }

  async stop(): Promise<void> {
    const { folder, etcd, balancer } = this.#parts;
    process.off("exit", this.#killAll);
    // A standstill first, so that nobody starts anybody again.
    for (const member of this.#members) this.#signal(member, "SIGSTOP");
    this.#killAll();
    await Promise.all([...this.#running.values(), balancer, etcd].map((daemon) => daemon.kill()));
    await rm(folder, { recursive: true, force: true, maxRetries: 10 });
  }

  #start(member: Member): void {
    this.#running.set(member.name, this.#parts.startMember(member));
  }

  #signal(member: Member, signal: NodeJS.Signals): void {
    const patroni = this.#running.get(member.name)?.process.pid;
    if (patroni !== undefined) for (const pid of [patroni, ...childrenOf(patroni)]) signalTo(pid, signal);
    signalPostgres(member, signal);
  }

  readonly #killAll = (): void => {
    for (const member of this.#members) this.#signal(member, "SIGKILL");
  };

  #writer(): Promise<string | undefined> {
    return writerBehind(this.port, this.#members);
  }

  async #primaryMember(): Promise<Member> {
    const { name } = await this.primary();
    return this.#members.find((member) => member.name === name)!;
  }

  /** Waits for a standby without which no commit is acknowledged any more. */
  async #whole(): Promise<void> {
    await this.#until("synchronous standby", async () => {
      const followers = await asked<{ state: string }>(
        this.port,
        "SELECT sync_state AS state FROM pg_stat_replication WHERE state = 'streaming'",
      ).catch(() => []);
      if (!followers.some(({ state }) => state === "sync")) return undefined;
      // Patroni has to know it, too: it fails over to nobody else.
      const { api } = await this.#primaryMember();
      const { statusCode, body } = await request(`http://127.0.0.1:${api}/cluster`);
      const cluster = (await body.json()) as { members: { role: string }[] };
      return statusCode === 200 && cluster.members.some(({ role }) => role === "sync_standby") ? true : undefined;
    });
  }

  async #until<Value>(what: string, look: () => Promise<Value | undefined>): Promise<Value> {
    for (const end = performance.now() + patience; performance.now() < end;) {
      const value = await look();
      if (value !== undefined) return value;
      await delay(50);
    }
    throw new Error(`the cluster has no ${what} after ${patience} ms\n${await logsOf(this.#members)}`);
  }
}

const isRoot = process.getuid?.() === 0;

/** Makes a folder that the servers may write in. */
async function ownFolder(path: string): Promise<string> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  if (isRoot) await chown(path, nobody.uid, nobody.gid);
  return path;
}

function spawnAsNobody(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Daemon {
  if (!isRoot) return spawnDaemon(program, args, env);
  const asNobody = ["--reuid", String(nobody.uid), "--regid", String(nobody.gid), "--clear-groups"];
  // Whoever changes the user is not ended with their parent any more, unless they say so again.
  return spawnDaemon("setpriv", [...asNobody, "--pdeathsig", "KILL", program, ...args], env);
}

/** How long a cluster may take to settle, in milliseconds. */
const patience = 90_000;

/** Where the packages are: `""` for what is installed. */
interface Roots extends Readonly<Record<keyof Packages, string>> {
  readonly python: string;
}

/** The folders of the packages, copied where their owner may not enter the folder that this project is in. */
async function rootsFor(found: Packages, folder: string): Promise<Roots> {
  const rootOf = async (name: keyof Packages): Promise<string> => {
    const root = found[name].path("/").replace(/\/$/, "");
    if (root === "" || !isRoot || (await isOpen(root))) return root;
    const copy = join(folder, "packages", name);
    await cp(root, copy, { recursive: true, verbatimSymlinks: true });
    return copy;
  };
  if (isRoot) await mkdir(join(folder, "packages"), { mode: 0o755 });
  const [postgres, patroni, etcd, haproxy] = [
    await rootOf("postgres"),
    await rootOf("patroni"),
    await rootOf("etcd"),
    await rootOf("haproxy"),
  ];
  // Debian's own Python, for which its modules are.
  const unpacked = `${patroni}/usr/bin/python3`;
  const python = patroni !== "" && (await isOpen(unpacked).catch(() => false)) ? unpacked : "/usr/bin/python3";
  return { postgres, patroni, etcd, haproxy, python };
}

function environment({ postgres, patroni, haproxy, python }: Roots): NodeJS.ProcessEnv {
  const machine = process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  const libraries = [postgres, patroni, haproxy].flatMap((root) =>
    root === "" ? [] : [`${root}/usr/lib/${machine}`, `${root}/lib/${machine}`],
  );
  return {
    // Nothing of the machine's own Python, which may be another.
    PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
    HOME: "/nonexistent",
    LC_ALL: "C.UTF-8",
    LD_LIBRARY_PATH: libraries.join(delimiter),
    PYTHONDONTWRITEBYTECODE: "1",
    ...(patroni === "" ? {} : { PYTHONPATH: `${patroni}/usr/lib/python3/dist-packages` }),
    ...(python.startsWith("/usr/") ? {} : { PYTHONHOME: `${patroni}/usr` }),
  };
}

function childrenOf(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
    return children.flatMap((child) => [child, ...childrenOf(child)]);
  } catch {
    return [];
  }
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}
