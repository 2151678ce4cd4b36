import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import type { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Loads } from "#client/loads.ts";
import type { LoadStatus } from "#wire/loads.ts";
import { into, loadingOf, multipart, multipartType } from "../e2e/interface/loading.ts";
import type { Loading } from "../e2e/interface/loading.ts";
import { group, sync, user } from "../e2e/interface/principals.ts";
import { startBalancer } from "../support/balancer.ts";
import type { Balancer } from "../support/balancer.ts";
import { makeCertificate } from "../support/certificates.ts";
import { startPostgres } from "../support/postgres.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { administrator, call, login, startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";

/** How long a replica may be away here, in milliseconds. */
const lease = 4_000;

const tables = `
CREATE SCHEMA IF NOT EXISTS d;
CREATE TABLE IF NOT EXISTS d.t (id BIGINT NOT NULL, name TEXT);
CREATE TABLE IF NOT EXISTS d.held (id BIGINT NOT NULL, name TEXT);
CREATE TABLE IF NOT EXISTS d.stopped (id BIGINT NOT NULL, name TEXT)`;

let folder: string;
let server: PostgresServer;
let database: string;
let watcher: Client;
let balancer: Balancer;
let session: string;
const replicas = new Map<string, TestService>();

/** Starts a replica with a data folder of its own, or again with the one it had. */
async function start(name: string, service: Readonly<Record<string, unknown>> = {}): Promise<Loading> {
  const replica = await startService({
    data: join(folder, name),
    isWhole: true,
    service: {
      engine: { postgres: database },
      tables: join(folder, "tables.sql"),
      loads: { lostAfter: `${lease / 1000}s`, minFreeDisk: "1MiB", statusHold: "1s" },
      ...service,
    },
  });
  replicas.set(name, replica);
  balancer.to([...replicas.values()].map(({ url }) => url));
  return at(name);
}

function at(name: string): Loading {
  return loadingOf(replica(name).url, session);
}

function replica(name: string): TestService {
  const found = replicas.get(name);
  if (found === undefined) throw new Error(`no replica ${name}`);
  return found;
}

async function end(name: string, how: "kill" | "stop"): Promise<void> {
  const ending = replica(name);
  replicas.delete(name);
  await ending[how]();
}

async function rowsOf(table: string): Promise<readonly unknown[]> {
  const { rows } = await watcher.query(`SELECT id::integer AS id, name FROM d.${table} ORDER BY id`);
  return rows;
}

/** A connection that keeps others out of a table until it ends. */
async function locked(table: string, mode: string): Promise<Client> {
  const client = await server.connect(new URL(database).pathname.slice(1));
  await client.query("BEGIN");
  await client.query(`LOCK TABLE ${table} IN ${mode} MODE`);
  return client;
}

const waitingFor = async (lock: string): Promise<unknown> =>
  (
    await watcher.query("SELECT count(*)::integer AS n FROM pg_locks WHERE NOT granted AND relation = $1::regclass", [
      lock,
    ])
  ).rows[0];

/** The status of a cycle at a replica when it has ended, however long that takes. */
async function endAt(loading: Loading, id: string): Promise<LoadStatus> {
  return loading.ended(id);
}

const lost = {
  internal_stage: "DONE",
  status: {
    code: "LOAD_FAILED",
    message: expect.stringMatching(/^The node .* was lost before the load was written/) as unknown,
  },
  rows_written: "0",
};

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-replicas-"));
  await writeFile(join(folder, "tables.sql"), tables);
  server = await startPostgres();
  database = await server.createDatabase();
  watcher = await server.connect(new URL(database).pathname.slice(1));
  balancer = await startBalancer([]);
  // The first one makes the administrator.
  await start("a");
  await Promise.all([start("b"), start("c")]);
  session = await login(balancer.url);
});

afterAll(async () => {
  for (const { stop, running } of replicas.values()) {
    running.process.kill("SIGCONT");
    await stop();
  }
  await watcher.end();
  await balancer.close();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

test("begun at one replica, uploaded at another, committed at the third, known to all", async () => {
  const [a, b, c] = [at("a"), at("b"), at("c")];
  const id = await a.start(into("t", { load_options: { max_ignored_rows: 1 } }));
  const large = `2,${"x".repeat(8 * 2 ** 20)}\n`;
  expect(await b.upload(id, large, { "x-ts-chunk-id": "2" })).toMatchObject({ status: 202, text: "Upload Complete." });
  expect(await c.upload(id, "1,one\nno number,x\n", { "x-ts-chunk-id": "1" })).toMatchObject({ status: 202 });
  for (const each of [a, b, c]) {
    const bytes = String(large.length + 18);
    expect(await each.status(id)).toMatchObject({ internal_stage: "INGESTING", bytes_written: bytes });
    const listed = JSON.parse((await each.call("GET", "/public/loads")).text) as LoadStatus[];
    expect(listed.find(({ cycle_id }) => cycle_id === id)).toMatchObject({ bytes_written: bytes });
    const summary = await each.call("GET", `/public/loads/${id}/input_summary`);
    expect(JSON.parse(summary.text)).toMatchObject({ load_params: { target: { table: "t" } } });
  }
  expect(await b.commit(id, { "x-ts-chunks": "3" })).toMatchObject({
    status: 400,
    text: "The commit expects 3 chunks, and 2 have arrived. The cycle goes on accepting data.",
  });
  expect(await c.commit(id, { "x-ts-chunks": "2" })).toMatchObject({ status: 202 });
  for (const each of [b, a, c]) {
    expect(await each.ended(id)).toMatchObject({
      status: { code: "OK" },
      rows_written: "2",
      ignored_row_count: "1",
      parsing_errors: [expect.stringContaining("row 2")],
    });
    expect(await each.badRecords(id)).toMatchObject({
      status: 200,
      headers: { "content-type": "text/plain; charset=utf-8", "content-length": "12" },
      text: "no number,x\n",
    });
    // Refused without its body being read; the client gets the answer all the same.
    expect(await each.upload(id, large)).toMatchObject({
      status: 400,
      text: `Cycle_id=[${id}] is not accepting data.`,
    });
  }

  // Its page of the console, too.
  const page = await call(`${b.url}/loads/${id}/bad-records`, { session });
  expect(page).toMatchObject({ status: 200, text: "no number,x\n" });
  expect(await call(`${c.url}/loads/${id}`, { session })).toMatchObject({
    status: 200,
    text: expect.stringContaining("Download them (12 bytes)") as unknown,
  });

  // A client that goes away leaves nothing behind.
  const broken = await a.start();
  const leaving = new AbortController();
  const body = async function* endless(): AsyncGenerator<Buffer> {
    yield multipart({ data: "1,one\n".repeat(200_000) }).subarray(0, -50);
    await expect.poll(async () => (await c.status(broken)).buffered_bytes_size).not.toBe("0");
    leaving.abort();
  };
  await expect(
    b.call("POST", `/public/loads/${broken}`, {
      headers: { "content-type": multipartType },
      body: Readable.from(body()),
      signal: leaving.signal,
    }),
  ).rejects.toThrow(/abort/i);
  await expect.poll(async () => (await c.status(broken)).buffered_bytes_size).toBe("0");
  await expect.poll(() => readdir(join(folder, "a", "service", "loads", broken, "chunks"))).toEqual([]);
  expect(await c.cancel(broken)).toMatchObject({ status: 200 });

  const cancelled = await a.start();
  expect(await b.cancel(cancelled)).toMatchObject({ status: 200, text: "" });
  expect(await c.status(cancelled)).toMatchObject({ internal_stage: "DONE", status: { code: "CANCELLED" } });
  await expect.poll(() => readdir(join(folder, "a", "service", "loads"))).toEqual([id]);

  // For others it does not exist, wherever it is; and nothing is passed on twice.
  const theirs = await a.start();
  await sync(a.url, session, [user("ada", ["DataManager"]), group("DataManager")]);
  const ada = loadingOf(b.url, await login(b.url, { name: "ada", password: "ada's password" }));
  expect(await ada.call("GET", `/loads/${theirs}`)).toMatchObject({
    status: 400,
    text: `Cycle_id=[${theirs}] does not exist.`,
  });
  expect(await b.call("GET", `/loads/${theirs}`, { headers: { "x-rollcall-node": "4711" } })).toMatchObject({
    status: 421,
  });
});

test("Rollcall's own client, each connection to another replica", async () => {
  const { name: username, password } = administrator;
  const loads = new Loads({
    name: "analytics",
    url: balancer.url,
    credentials: { username, password },
    fileChunk: 100_000,
  });
  const path = join(folder, "rows.csv");
  await writeFile(path, Array.from({ length: 50_000 }, (_, id) => `${id},name\n`).join(""));
  const options = { into: { database: "d", table: "t" }, options: { empty_target: true } };
  const loaded = await loads.load(
    { ...options, sources: [{ name: "rows", path }] },
    { signal: AbortSignal.timeout(60_000) },
  );
  await loads.close();
  expect(loaded).toMatchObject({ code: "OK", written: 50_000 });
  expect(loaded.chunks).toBeGreaterThan(4);
  expect(await rowsOf("t")).toHaveLength(50_000);
});

test("A.24 what a killed replica had: written is OK, everything else is lost; and what it has again, goes on", async () => {
  const [a, b, c] = [at("a"), at("b"), at("c")];
  const begun = await a.start();
  const uploaded = await a.start();
  await a.upload(uploaded, "1,one\n");
  const writing = await a.start(into("held"));
  await b.upload(writing, "1,writing\n");
  const written = await a.start(into("t", { load_options: { empty_target: true } }));
  await c.upload(written, "7,written\n");

  const keep = await locked("d.held", "ACCESS EXCLUSIVE");
  const ends = await locked("rollcall.ended_loads", "SHARE");
  expect(await b.commit(writing)).toMatchObject({ status: 202 });
  expect(await c.commit(written)).toMatchObject({ status: 202 });
  await expect.poll(() => waitingFor("d.held")).toEqual({ n: 1 });
  await expect.poll(() => waitingFor("rollcall.ended_loads")).toEqual({ n: 1 });
  await end("a", "kill");
  await ends.end();
  // Nothing is claimed before it is known.
  expect(await b.status(begun)).toMatchObject({ internal_stage: "INGESTING", status: { code: "OK" } });
  expect(await b.upload(uploaded, "2,two\n")).toMatchObject({ status: 503, headers: { "retry-after": "2" } });
  expect(await c.commit(uploaded)).toMatchObject({ status: 503 });
  expect(await c.status(writing)).toMatchObject({ internal_stage: "COMMITTING", status: { code: "OK" } });
  await keep.end();

  expect(await endAt(b, begun)).toMatchObject(lost);
  for (const each of [b, c]) {
    expect(await each.status(uploaded)).toMatchObject({ ...lost, bytes_written: "6" });
    expect(await each.status(writing)).toMatchObject(lost);
    expect(await each.status(written)).toMatchObject({
      internal_stage: "DONE",
      status: { code: "OK" },
      rows_written: "1",
    });
    expect(await each.upload(uploaded, "2,two\n")).toMatchObject({ status: 400 });
    expect(await each.commit(uploaded)).toMatchObject({ status: 202 });
    expect(await each.badRecords(writing)).toMatchObject({
      status: 500,
      text: `Node does not exist: /tmp/${writing}.bad_record`,
    });
  }
  expect(await rowsOf("held")).toEqual([]);
  expect(await rowsOf("t")).toEqual([{ id: 7, name: "written" }]);

  // Started again after that, it does not take up what the others have declared lost.
  const again = await start("a");
  for (const id of [begun, uploaded, writing]) expect(await again.status(id)).toMatchObject(lost);
  expect(await rowsOf("held")).toEqual([]);

  // Killed and started again in time, it has what it had.
  const survivor = await again.start(into("t", { load_options: { empty_target: true } }));
  await b.upload(survivor, "8,before\n");
  await end("a", "kill");
  const third = await start("a");
  expect(await b.upload(survivor, "9,after\n")).toMatchObject({ status: 202 });
  expect(await c.commit(survivor, { "x-ts-chunks": "2" })).toMatchObject({ status: 202 });
  expect(await third.ended(survivor)).toMatchObject({ status: { code: "OK" }, rows_written: "2" });
  expect(await rowsOf("t")).toEqual([
    { id: 8, name: "before" },
    { id: 9, name: "after" },
  ]);
});

test("a replica that was stopped past its lease writes nothing, and goes on as another node", async () => {
  const [a, b, c] = [at("a"), at("b"), at("c")];
  const writing = await b.start(into("stopped"));
  await b.upload(writing, "1,one\n");
  const idle = await b.start();
  const cancelled = await b.start();
  const keep = await locked("d.stopped", "ACCESS EXCLUSIVE");
  expect(await a.commit(writing)).toMatchObject({ status: 202 });
  await expect.poll(() => waitingFor("d.stopped")).toEqual({ n: 1 });
  const { process } = replica("b").running;
  process.kill("SIGSTOP");
  // It still accepts connections, and does not answer. Both requests wait until they know that it is lost.
  const [first, second] = await Promise.all([endAt(c, idle), a.upload(idle, "1,one\n"), a.status(cancelled)]);
  expect(first).toMatchObject(lost);
  expect(second).toMatchObject({ status: 400, text: `Cycle_id=[${idle}] is not accepting data.` });
  expect(await c.status(writing)).toMatchObject(lost);
  // Its other process goes on writing all this time.
  await keep.end();
  process.kill("SIGCONT");
  expect(await b.status(writing)).toMatchObject(lost);
  expect(await b.upload(idle, "1,one\n")).toMatchObject({ status: 400 });
  await replica("b").running.wrote("this node was away for longer than service.loads.lostAfter");
  expect(await rowsOf("stopped")).toEqual([]);
  expect(await b.load(into("stopped"), "2,two\n")).toMatchObject({ status: { code: "OK" } });
  expect(await rowsOf("stopped")).toEqual([{ id: 2, name: "two" }]);
});

test("a replica that is shut down keeps its loads for as long as it may be away", async () => {
  const [a, c] = [at("a"), at("c")];
  const kept = await c.start();
  await a.upload(kept, "3,kept\n");
  const dropped = await c.start();
  await end("c", "stop");
  expect(await a.status(kept)).toMatchObject({ internal_stage: "INGESTING", bytes_written: "7" });
  // A cancellation needs nobody's chunks.
  expect(await a.cancel(dropped)).toMatchObject({ status: 200 });
  expect(await a.status(dropped)).toMatchObject({ status: { code: "CANCELLED" } });
  const again = await start("c");
  expect(await a.commit(kept)).toMatchObject({ status: 202 });
  expect(await again.ended(kept)).toMatchObject({ status: { code: "OK" }, rows_written: "1" });
  await expect.poll(() => readdir(join(folder, "c", "service", "loads"))).toEqual([]);
});

test("replicas speak TLS with each other, whoever issued their certificates", async () => {
  const certificate = await makeCertificate({ dns: ["analytics.example.com"] });
  const files = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  await writeFile(files.cert, certificate.cert);
  await writeFile(files.key, certificate.key);
  const secure = await start("d", { tls: files, nodeAddress: { host: "d.example.com", port: 443 } });
  const started = await secure.call("POST", "/public/loads", { body: into() });
  const { cycle_id: id, node_address } = JSON.parse(started.text) as { cycle_id: string; node_address: object };
  expect(node_address).toEqual({ host: "d.example.com", port: 443 });
  const a = at("a");
  expect(await a.upload(id, "4,four\n")).toMatchObject({ status: 202 });
  // Another certificate than the one in the database, as somebody in between would have.
  await watcher.query("UPDATE rollcall.service_nodes SET certificate = $1 WHERE certificate IS NOT NULL", [
    (await makeCertificate({ dns: ["analytics.example.com"] })).cert,
  ]);
  expect(await a.upload(id, "5,five\n")).toMatchObject({ status: 503 });
  expect(await call(`${secure.url}/ts_dataservice/v1/loads/${id}`, { session })).toMatchObject({ status: 200 });
});
