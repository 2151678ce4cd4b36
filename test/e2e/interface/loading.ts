import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { Postgres } from "#postgres/database.ts";
import { postgres } from "#postgres/options.ts";
import { loadStarted, loadStatus } from "#wire/loads.ts";
import type { LoadStatus } from "#wire/loads.ts";
import { databaseFor, portForAll } from "../../support/postgres.ts";
import { call, login, startService } from "../../support/rollcall/service.ts";
import type { Answer, CallOptions, ServiceOptions, TestService } from "../../support/rollcall/service.ts";

/** The tables of these tests. */
const tables = `
CREATE DATABASE IF NOT EXISTS d;
CREATE TABLE IF NOT EXISTS d.t (id BIGINT NOT NULL, name VARCHAR);
CREATE TABLE IF NOT EXISTS d.keyed (id BIGINT PRIMARY KEY, name VARCHAR);
CREATE TABLE IF NOT EXISTS d.numbered (row_number BIGINT PRIMARY KEY, "ROW_NUMBER_" VARCHAR);
`;

/** A body of StartLoad for the table `t`, with what the test adds. */
export function into(table = "t", more: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ target: { database: "d", table }, ...more });
}

export interface Part {
  /** Default: `file`. */
  readonly name?: string;
  /** Null: the part has no filename. Default: `rows.csv`. */
  readonly filename?: string | null;
  readonly type?: string;
  readonly data: string | Buffer;
}

const boundary = "----------the-end-of-a-part";
export const multipartType = `multipart/form-data; boundary=${boundary}`;

/** A multipart body of parts. */
export function multipart(...parts: readonly Part[]): Buffer {
  const pieces = parts.flatMap(({ name = "file", filename = "rows.csv", type, data }) => {
    const file = filename === null ? "" : `; filename="${filename}"`;
    const contentType = type === undefined ? "" : `Content-Type: ${type}\r\n`;
    return [
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"${file}\r\n${contentType}\r\n`),
      Buffer.from(data),
      Buffer.from("\r\n"),
    ];
  });
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

/** What loads of one service are made with, by one user. */
export interface Loading {
  readonly url: string;
  readonly session: string;
  /** Calls below family A's root. */
  call(method: "GET" | "POST", path: string, options?: CallOptions): Promise<Answer>;
  /** Starts a cycle, which must be possible, and returns its id. */
  start(body?: string): Promise<string>;
  upload(
    id: string,
    data: string | Buffer | readonly Part[],
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answer>;
  commit(id: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  cancel(id: string): Promise<Answer>;
  /** The status, which must be one. */
  status(id: string): Promise<LoadStatus>;
  /** The status when the cycle has ended. */
  ended(id: string): Promise<LoadStatus>;
  badRecords(id: string): Promise<Answer>;
  /** Starts, uploads chunks one after the other, commits and waits for the end. */
  load(body: string, ...chunks: readonly (string | Buffer)[]): Promise<LoadStatus>;
}

export function loadingOf(url: string, session: string): Loading {
  const callA: Loading["call"] = (method, path, options = {}) =>
    call(`${url}/ts_dataservice/v1${path}`, { method, session, ...options });
  const self: Loading = {
    url,
    session,
    call: callA,
    start: async (body = into()) => {
      const answer = await callA("POST", "/public/loads", { body });
      expect(answer).toMatchObject({ status: 202 });
      return loadStarted.parse(JSON.parse(answer.text)).cycle_id;
    },
    upload: (id, data, headers = {}) => {
      const parts = typeof data === "string" || Buffer.isBuffer(data) ? [{ data }] : data;
      return callA("POST", `/public/loads/${id}`, {
        headers: { "content-type": multipartType, ...headers },
        body: multipart(...parts),
      });
    },
    commit: (id, headers = {}) => callA("POST", `/public/loads/${id}/commit`, { headers }),
    cancel: (id) => callA("POST", `/public/loads/${id}/cancel`),
    status: async (id) => {
      const answer = await callA("GET", `/loads/${id}`);
      expect(answer, answer.text).toMatchObject({ status: 200 });
      return loadStatus.parse(JSON.parse(answer.text));
    },
    ended: async (id) => {
      for (;;) {
        const status = await self.status(id);
        if (status.internal_stage === "DONE") return status;
      }
    },
    badRecords: (id) => callA("GET", `/public/loads/${id}/bad_records_file`),
    load: async (body, ...chunks) => {
      const id = await self.start(body);
      for (const chunk of chunks) expect(await self.upload(id, chunk)).toMatchObject({ status: 202 });
      expect(await self.commit(id)).toMatchObject({ status: 202 });
      return self.ended(id);
    },
  };
  return self;
}

/** A service with the tables above, and its administrator's loads. */
export interface LoadService extends Loading {
  readonly service: TestService;
  /** The rows of a query, once the service has ended: its databases are its own while it runs. */
  rows(sql: string): Promise<readonly object[]>;
  /** What lies in the folder of the cycles. */
  folders(): Promise<readonly string[]>;
  /** What lies in a cycle's folder of chunks. */
  chunkFiles(id: string): Promise<readonly string[]>;
  stop(): Promise<void>;
  /** Ends the service, and starts another on its data. */
  restart(how: "stop" | "kill", options?: ServiceOptions): Promise<LoadService>;
  /** Ends it, and removes what it had. */
  end(): Promise<void>;
}

/** What every service of these tests is told, unless it is told otherwise: disks of test machines may be nearly full. */
const loads = { minFreeDisk: "1MiB" };

/** @param prepare is given the folder of the data before anything is in it */
export async function startLoadService(
  options: ServiceOptions = {},
  prepare: (data: string) => Promise<unknown> = () => Promise.resolve(),
): Promise<LoadService> {
  const data = await mkdtemp(join(tmpdir(), "rollcall-loads-"));
  await prepare(data);
  await writeFile(join(data, "tables.sql"), tables);
  return serve(data, options);
}

async function serve(data: string, options: ServiceOptions): Promise<LoadService> {
  const service = await startService({
    ...options,
    data,
    service: {
      tables: join(data, "tables.sql"),
      ...options.service,
      loads: { ...loads, ...(options.service?.["loads"] as object | undefined) },
    },
  });
  return {
    ...loadingOf(service.url, await login(service.url)),
    service,
    rows: (sql) => readRows(data, sql),
    folders: () => readdir(join(data, "service", "loads")),
    chunkFiles: (id) => readdir(join(data, "service", "loads", id, "chunks")),
    stop: async () => {
      await service.stop();
    },
    restart: async (how, next = options) => {
      await service[how]();
      return serve(data, next);
    },
    end: async () => {
      await service.stop();
      await rm(data, { recursive: true, force: true });
    },
  };
}

async function readRows(data: string, sql: string): Promise<readonly object[]> {
  const port = portForAll();
  if (port !== undefined) return readFromPostgres(await databaseFor(port, data), sql);
  const path = join(data, "service", "databases", "d.duckdb");
  const database = await openDatabase({ path, memory: 2 ** 28, spill: join(data, "spill") });
  const connection = await database.connect();
  try {
    return await connection.rows(`USE core_default_schema; ${sql}`);
  } finally {
    connection.close();
    database.close();
  }
}

async function readFromPostgres(url: string, sql: string): Promise<readonly object[]> {
  const pool = await Postgres.open(postgres.parse({ postgres: url }));
  try {
    return await pool.transaction((transaction) => transaction.rows(sql.replace(/^FROM/, "SELECT * FROM")), {
      settings: { search_path: "d" },
    });
  } finally {
    await pool.close();
  }
}
