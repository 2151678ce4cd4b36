import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import pino from "pino";
import { expect, test, vi } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { openDuckDbEngine } from "#service/engine/duckdb.ts";
import { load } from "#service/loads/commit.ts";
import { openEmbeddedRecords } from "#service/records.ts";
import { Loads } from "#service/loads/loads.ts";
import { readStartRequest } from "#service/loads/start-request.ts";
import { Progress } from "#service/progress.ts";

test("a load whose commit was acknowledged waits while no file can be opened, and then loads everything", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-handles-"));
  const place = join(folder, "loads");
  const engine = await openDuckDbEngine({ folder: join(folder, "databases"), memory: 2 ** 28, files: [place] });
  await engine.define("CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id BIGINT)", "tables.sql");
  const causes = [
    Object.assign(new Error("too many open files, open"), { code: "EMFILE" }),
    new Error('IO Error: Cannot open file "x.duckdb.wal": Too many open files'),
  ];
  const openStage = engine.openStage.bind(engine);
  vi.spyOn(engine, "openStage").mockImplementation(async () => {
    const cause = causes.shift();
    if (cause !== undefined) throw cause;
    return openStage();
  });
  const database = await openDatabase({ path: join(folder, "service.duckdb"), memory: 2 ** 28, spill: folder });
  const records = await openEmbeddedRecords(database);
  const loads = await Loads.open({
    records,
    folder: place,
    worker: {
      find: (name) => engine.find(name),
      load: (job, signal) => load(job, engine, signal),
    },
    expireAfter: 3_600_000,
    maxChunk: 2 ** 20,
    maxCycle: 2 ** 20,
    minFreeDisk: 0,
    log: pino({ level: "silent" }),
    progress: new Progress(),
  });
  const parameters = readStartRequest(JSON.stringify({ target: { database: "d", table: "t" } }));
  if (parameters === undefined) throw new Error("the request is not valid");
  const cycle = await loads.start("me", parameters);
  const upload = cycle.beginUpload(undefined);
  await upload.write(Readable.from([Buffer.from("1\n2\n")]), new AbortController().signal);
  expect(await cycle.publish(upload)).toBe(true);
  await cycle.endUpload(upload);
  await loads.commit(cycle, undefined);
  await cycle.ended;
  expect(cycle.outcome()).toMatchObject({ code: "OK", rowsWritten: 2 });
  expect(causes).toEqual([]);
  await loads.close();
  await engine.close();
  records.close();
  database.close();
  await rm(folder, { recursive: true });
});
