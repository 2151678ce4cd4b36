import { spawn } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { debianPackages } from "./ldap/debian.ts";
import { freePort } from "./process.ts";

/** Debian's pgbouncer, downloaded where it is not installed. */
export const pgbouncerPackages = (): ReturnType<typeof debianPackages> =>
  debianPackages("pgbouncer", "usr/sbin/pgbouncer", ["pgbouncer"]);

/** A pgbouncer with `pool_mode = transaction` in front of a server, with few connections to it. */
export interface PgBouncer {
  /** The same database, through it. */
  through(url: string): string;
  stop(): Promise<void>;
}

/** @param url a URL of the server: its port, its user and their password */
export async function startPgBouncer(url: string): Promise<PgBouncer> {
  const packages = await pgbouncerPackages();
  const server = new URL(url);
  const folder = await mkdtemp(join(tmpdir(), "rollcall-pgbouncer-"));
  const isRoot = process.getuid?.() === 0;
  // It does not run as root.
  if (isRoot) await chmod(folder, 0o755);
  const port = await freePort();
  await writeFile(join(folder, "users.txt"), `"${server.username}" "${server.password}"\n`);
  await writeFile(
    join(folder, "pgbouncer.ini"),
    `[databases]
* = host=127.0.0.1 port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${join(folder, "users.txt")}
pool_mode = transaction
default_pool_size = 4
server_reset_query_always = 0
; a server that refuses is tried again soon: it may be in the middle of a failover
server_login_retry = 1
`,
  );
  const child = spawn(
    packages.path("/usr/sbin/pgbouncer"),
    [...(isRoot ? ["-u", "postgres"] : []), join(folder, "pgbouncer.ini")],
    { env: packages.env, stdio: ["ignore", "ignore", "pipe"] },
  );
  let output = "";
  child.stderr.on("data", (data: Buffer) => {
    output += data.toString();
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const through = (text: string): string => text.replace(`:${server.port}/`, `:${port}/`);
  for (;;) {
    if (child.exitCode !== null) throw new Error(`pgbouncer did not start: ${output}`);
    const client = new Client(through(url));
    const answers = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end().catch(() => undefined);
    if (answers) break;
    await delay(50);
  }
  return {
    through,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
