import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { Directory } from "#service/directory/directory.ts";
import { openEmbeddedStore } from "#service/directory/embedded.ts";
import { Progress } from "#service/progress.ts";

test("a call of user/sync whose list cannot be read to its end is known as one that does not move", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-stalled-"));
  const database = await openDatabase({
    path: join(folder, "service.duckdb"),
    memory: 2 ** 28,
    spill: join(folder, "spill"),
  });
  let time = 0;
  const progress = new Progress(() => time);
  const administrator = { name: "admin", password: "correct horse battery staple" };
  const directory = await Directory.open({
    store: await openEmbeddedStore(database),
    database,
    folder,
    administrator,
    progress,
  });
  // Whoever opens a named pipe waits for its writer, as on a disk that does not answer.
  const list = join(folder, "list");
  await promisify(execFile)("mkfifo", [list]);
  const request = { list, caller: "admin", apply: false, removeDeleted: true, defaultPassword: undefined };
  const answer = directory.sync(request, new AbortController().signal);
  answer.catch(() => undefined);
  const later = directory.sync(request, AbortSignal.timeout(50));
  await expect(later).rejects.toThrow("timeout");
  expect(progress.stalled()).toBeUndefined();
  time = 11 * 60_000;
  expect(progress.stalled()).toMatch(/^a call of user\/sync has not moved for 11 min: /);
  const over = answer.then(text).then(
    () => true,
    () => true,
  );
  // Two read it, and each waits until it is written to while it has the pipe open.
  const write = async (): Promise<boolean> => {
    await writeFile(list, "[]", { flag: constants.O_WRONLY | constants.O_NONBLOCK }).catch(() => undefined);
    return sleep(20, false);
  };
  while (!(await Promise.race([over, write()])));
  await directory.close();
  expect(progress.stalled()).toBeUndefined();
  database.close();
  await rm(folder, { recursive: true });
});
