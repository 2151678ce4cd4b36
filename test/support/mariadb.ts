import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createConnection } from "mysql2/promise";
import type { Connection } from "mysql2/promise";
import { makeAuthority, makeCertificate } from "./certificates.ts";
import { debianPackages, missing } from "./ldap/debian.ts";
import type { Unpacked } from "./ldap/debian.ts";
import { freePort, runTool, spawnDaemon } from "./process.ts";
import type { Daemon } from "./process.ts";

/** A real MariaDB on a free port, with its data in a folder of its own. */
export interface MariaDb extends AsyncDisposable {
  readonly port: number;
  /** The path of its Unix socket. */
  readonly socket: string;
  /** The PEM file of the authority that signed its certificate, which is for `localhost`. */
  readonly caFile: string;
  /** A connection of the administrator, which the caller ends. */
  connect(database?: string): Promise<Connection>;
  /** Makes an empty database that the user `reader` may read. @returns its name */
  createDatabase(): Promise<string>;
  /** Gives it a certificate for another name than `localhost`. */
  rename(name: string): Promise<void>;
  /** SIGKILL; `start` starts it again on the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** The user who may read, with any host. */
export const reader = { name: "reader", password: "a-secret-of-the-reader" };

const programs = (): Promise<Unpacked> => debianPackages("mariadb", "/usr/sbin/mariadbd", ["mariadb-server-core"]);

/** Why MariaDB is unavailable here, as a reason to skip tests. With `CI=true` it throws instead. */
export const noMariaDb = (): Promise<string | undefined> => missing(programs());

/** What mariadb-install-db runs, which needs its programs in the places where Debian installs them. */
const systemTables = ["mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"];

/** @throws {Error} with the server's output if it does not start */
export async function startMariaDb(settings: readonly string[] = []): Promise<MariaDb> {
  const unpacked = await programs();
  const folder = await mkdtemp(join(tmpdir(), "rollcall-mariadb-"));
  const [data, socket, caFile] = ["data", "socket", "ca.pem"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const share = unpacked.path("/usr/share/mysql");
  const program = unpacked.path("/usr/sbin/mariadbd");
  const port = await freePort();
  const flags = [
    "--no-defaults",
    `--lc-messages-dir=${share}`,
    `--character-sets-dir=${join(share, "charsets")}`,
    `--datadir=${data}`,
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-log-file-size=16M",
    ...(process.getuid?.() === 0 ? ["--user=root"] : []),
  ];
  await mkdir(data);
  const authority = await makeAuthority();
  const certify = async (name: string): Promise<void> => {
    const { key, cert } = await makeCertificate({ dns: [name] }, { issuer: authority });
    const files = { "ca.pem": authority.cert, "key.pem": key, "cert.pem": cert };
    for (const [file, pem] of Object.entries(files)) await writeFile(join(folder, file), pem);
  };
  await certify("localhost");
  const scripts = await Promise.all(systemTables.map((name) => readFile(join(share, name), "utf8")));
  const prelude = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n";
  await runTool(program, [...flags, "--bootstrap"], prelude + scripts.join("\n"), unpacked.env);

  let server: Daemon | undefined;
  const connect = (database?: string): Promise<Connection> =>
    createConnection({ socketPath: socket, user: "root", ...(database === undefined ? {} : { database }) });
  const start = async (): Promise<void> => {
    const tls = ["ca", "cert", "key"].map((name) => `--ssl-${name}=${join(folder, `${name}.pem`)}`);
    const network = [`--socket=${socket}`, `--port=${port}`, "--bind-address=127.0.0.1", "--skip-name-resolve"];
    server = spawnDaemon(program, [...flags, ...network, ...tls, ...settings], unpacked.env);
    await server.ready(async () => (await connect()).end());
  };
  const kill = async (): Promise<void> => {
    await server?.kill();
    server = undefined;
  };
  await start();
  const administrator = await connect();
  await administrator.query(`CREATE USER ${reader.name} IDENTIFIED BY '${reader.password}'`);
  await administrator.end();

  let databases = 0;
  return {
    port,
    socket,
    caFile,
    connect,
    createDatabase: async () => {
      databases += 1;
      const name = `test${databases}`;
      const client = await connect();
      await client.query(`CREATE DATABASE ${name} CHARACTER SET utf8mb4`);
      await client.query(`GRANT SELECT ON ${name}.* TO ${reader.name}`);
      await client.end();
      return name;
    },
    rename: async (name) => {
      await certify(name);
      const client = await connect();
      await client.query("FLUSH SSL");
      await client.end();
    },
    kill,
    start,
    [Symbol.asyncDispose]: async () => {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
