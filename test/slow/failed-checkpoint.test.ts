import { randomBytes } from "node:crypto";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { into, startLoadService } from "../e2e/interface/loading.ts";
import { group, user } from "../e2e/interface/principals.ts";
import { startAdministration } from "../e2e/interface/syncing.ts";
import { childrenOf, limitFiles } from "../support/file-size.ts";
import { call, login } from "../support/rollcall/service.ts";
import type { Answer, TestService } from "../support/rollcall/service.ts";

const mebibyte = 2 ** 20;

let folder: string | undefined;
afterEach(async () => {
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

/** Limits the service, the process of its databases, and those that come after that. */
async function limitAll({ running }: TestService, size: number | undefined): Promise<void> {
  const pid = running.process.pid ?? 0;
  for (const each of [pid, ...(await childrenOf(pid))]) await limitFiles(each, size);
}

function readiness({ url }: TestService): Promise<Answer> {
  return call(`${url}/readyz`);
}

async function becomesReady(service: TestService): Promise<void> {
  while ((await readiness(service)).status !== 200);
}

/** Only the log of a database can grow, not the file. */
async function limitNear(service: TestService, file: string): Promise<void> {
  const { size } = await stat(join(service.data, "service", file));
  await limitAll(service, size + mebibyte);
}

describe("a service that may not make its files larger", () => {
  test.each(["stop", "kill"] as const)(
    "A.24 writes loads once, and goes on when it may, also after %s",
    async (how) => {
      let it = await startLoadService();
      folder = it.service.data;
      let [id, written] = [0, 0];
      const load = async (bytes: number): Promise<string> => {
        const line = (): string => `${++id},${randomBytes(750).toString("base64")}\n`;
        const rows = Array.from({ length: Math.floor(bytes / 1007) }, line).join("");
        const ended = await it.load(into(), rows);
        written += Number(ended.rows_written);
        return ended.status.code;
      };
      for (let first = 0; first < 3; first++) expect(await load(8 * mebibyte)).toBe("OK");
      await limitNear(it.service, "databases/d.duckdb");
      const ends: string[] = [];
      while (ends.at(-1) !== "LOAD_FAILED") ends.push(await load(6 * mebibyte));
      // The one that was under way when the log could not be moved, too.
      expect(it.service.running.output()).toContain('"reason":"disk"');
      expect(ends.length).toBeGreaterThan(3);
      expect(JSON.parse((await readiness(it.service)).text)).toEqual({
        status: "failing",
        reasons: [expect.stringContaining("the database cannot grow")],
      });
      expect(await load(2000)).toBe("OK");
      if (how === "kill") it = await it.restart(how);
      else {
        await limitAll(it.service, undefined);
        await becomesReady(it.service);
      }
      expect(await load(8 * mebibyte)).toBe("OK");
      await it.stop();
      const counts = "SELECT count(*)::INTEGER AS n, count(DISTINCT id)::INTEGER AS ids FROM t";
      expect(await it.rows(counts)).toEqual([{ n: written, ids: written }]);
    },
  );

  test("B.8 applies a list whole, keeps sessions and logins, and says that it is not ready until it may", async () => {
    folder = await mkdtemp(join(tmpdir(), "rollcall-checkpoint-"));
    const it = await startAdministration({ data: folder });
    const { service } = it;
    const people = (): unknown[] => [
      group("staff"),
      ...Array.from({ length: 60_000 }, (_, index) => {
        const { password: _password, ...rest } = user(`user ${index}`, ["staff"]);
        return { ...rest, displayName: randomBytes(180).toString("base64") };
      }),
    ];
    const apply = (list: unknown[]): Promise<Answer> =>
      it.post({ applyChanges: "true", defaultPassword: "secret", principals: JSON.stringify(list) });
    let list = people();
    expect((await apply(list)).status).toBe(200);
    // Its log has it all, and is moved into the file next.
    const { size } = await stat(join(folder, "service", "service.duckdb.wal"));
    await limitAll(service, size + 2 * mebibyte);
    const statuses: number[] = [];
    while (!statuses.includes(507)) {
      const next = people();
      const { status } = await apply(next);
      if (status === 200) list = next;
      statuses.push(status);
      expect(await it.preview(list)).toMatchObject({ usersAdded: [], usersUpdated: [], usersDeleted: [] });
      await login(service.url);
    }
    expect((await readiness(service)).status).toBe(503);
    await limitAll(service, undefined);
    await becomesReady(service);
    list = people();
    expect((await apply(list)).status).toBe(200);
    expect(await it.preview(list)).toMatchObject({ usersAdded: [], usersUpdated: [], usersDeleted: [] });
    await login(service.url);
    await service.stop();
  });
});
