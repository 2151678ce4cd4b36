import { execFile } from "node:child_process";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { from } from "pg-copy-streams";
import { startPostgres } from "../support/postgres.ts";
import { cpuOfAll } from "./measure.ts";
import { columns } from "./rows.ts";

/** A PostgreSQL of its own, with the settings it comes with. */
export interface BenchPostgres {
  /** An empty database of its own. @returns its URL, for a user who is no superuser */
  createDatabase(): Promise<string>;
  /** `\copy` of a CSV file into a new table, in milliseconds. */
  copy(file: string): Promise<number>;
  /** The time that the processors have spent on the server, in milliseconds. */
  cpu(): Promise<number>;
  stop(): Promise<void>;
}

export async function startBenchPostgres(): Promise<BenchPostgres> {
  const server = await startPostgres({ isFast: false });
  const { port, password } = server;
  const client = await server.connect();

  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const [, fields = ""] = (await readFile(`/proc/${rows[0]?.pid}/stat`, "utf8")).split(") ");
  const main = Number(fields.split(" ")[1]);

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
    createDatabase: () => server.createDatabase(),
    copy: async (file) => {
      await client.query(`DROP TABLE IF EXISTS rows; CREATE TABLE rows (${columns})`);
      const started = performance.now();
      await copyWith(file);
      return performance.now() - started;
    },
    cpu: () => cpuOfAll(main),
    stop: async () => {
      await client.end();
      await server.stop();
    },
  };
}
