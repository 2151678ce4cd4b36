import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Loads, requireLoaded } from "#client/loads.ts";
import { administrator } from "../../support/rollcall/service.ts";
import { startLoadService } from "../interface/loading.ts";
import type { LoadService } from "../interface/loading.ts";

let service: LoadService;
let loads: Loads;
let folder: string;
beforeAll(async () => {
  service = await startLoadService();
  folder = await mkdtemp(join(tmpdir(), "rollcall-client-"));
  const { name: username, password } = administrator;
  loads = new Loads({ name: "analytics", url: service.url, credentials: { username, password } });
});
afterAll(async () => {
  await loads.close();
  await service.end();
  await rm(folder, { recursive: true });
});

const signals = () => ({ signal: AbortSignal.timeout(60_000) });
const into = { database: "d", table: "t" };

async function file(name: string, content: string): Promise<{ name: string; path: string }> {
  const path = join(folder, name);
  await writeFile(path, content);
  return { name, path };
}

test("files and streams are loaded together; rejected rows are saved and overwrite nothing", async () => {
  const sources = [await file("a.csv", "1,a\nx,b\n"), { name: "rest", stream: Readable.from([Buffer.from("2,c\n")]) }];
  const badRecords = join(folder, "a.bad.csv");
  const loaded = await loads.load({ into, options: { max_ignored_rows: 1 }, sources, badRecords }, signals());
  expect(loaded).toMatchObject({ code: "OK", written: 2, ignored: 1, bytes: 12, chunks: 2, badRecords });
  expect(requireLoaded(loaded, "t")).toBe(loaded);
  const failed = await loads.load({ into, sources: [await file("b.csv", "y,b\n")], badRecords }, signals());
  expect(failed).toMatchObject({ code: "LOAD_FAILED", written: 0, ignored: 1 });
  expect(() => requireLoaded(failed, "the load")).toThrow(/^the load: 1 row was rejected.*\n {2}row 1, column id/s);
  expect(failed.badRecords).toBe(join(folder, "a.bad.2.csv"));
  expect(await readFile(badRecords, "utf8")).toBe("x,b\n");
  expect(await readFile(join(folder, "a.bad.2.csv"), "utf8")).toBe("y,b\n");
});
