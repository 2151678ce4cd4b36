import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openDatabase } from "#duckdb/database.ts";
import { Directory } from "#service/directory/directory.ts";
import type { Arriving } from "#service/directory/directory.ts";
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
  const file = join(folder, "piece");
  await promisify(execFile)("mkfifo", [file]);
  const elements = { wrong: [], repeated: undefined };
  const reading = Promise.withResolvers<void>();
  const upload: Arriving = {
    begun: async () => true,
    pieces: async function* () {
      reading.resolve();
      yield { file, first: 0, bytes: 2, isTyped: true };
    },
    received: Promise.resolve({ elements, apply: false, removeDeleted: true, defaultPassword: undefined }),
  };
  const answer = directory.sync(upload, "admin", new AbortController().signal);
  answer.catch(() => undefined);
  // Connections open in any order: the next call comes once this one has its turn.
  await reading.promise;
  const later = directory.sync(upload, "admin", AbortSignal.timeout(50));
  await expect(later).rejects.toThrow("timeout");
  expect(progress.stalled()).toBeUndefined();
  time = 11 * 60_000;
  expect(progress.stalled()).toMatch(/^a call of user\/sync has not moved for 11 min: /);
  const over = answer.then(
    (sent) => {
      sent?.destroy();
      return true;
    },
    () => true,
  );
  const write = async (): Promise<boolean> => {
    await writeFile(file, "[]", { flag: constants.O_WRONLY | constants.O_NONBLOCK }).catch(() => undefined);
    return sleep(20, false);
  };
  while (!(await Promise.race([over, write()])));
  await directory.close();
  expect(progress.stalled()).toBeUndefined();
  database.close();
  await rm(folder, { recursive: true });
});
