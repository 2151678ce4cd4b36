import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startReplicas } from "../../support/replicas/replicas.ts";
import type { Replicas } from "../../support/replicas/replicas.ts";

/** Daemons that cannot reach the database, are stopped past their lease, or lose the database itself. */

const isAll = process.env["ROLLCALL_TEST_KILLS"] === "all";

function some<Item>(items: readonly Item[], every: number): readonly Item[] {
  return isAll ? items : items.filter((_, index) => index % every === 0);
}

let replicas: Replicas;
beforeAll(async () => {
  replicas = await startReplicas({ syncs: { staff: { schedule: "*/2 * * * * *" } } });
  await replicas.startAll();
  await replicas.next("staff");
  await replicas.settled("staff");
});
afterAll(() => replicas.close());

/** Waits until a daemon says once more than before that it is part of the group again. */
async function backAfter(index: number, work: () => Promise<void>): Promise<void> {
  const times = (): number => (replicas.all[index]?.running?.output() ?? "").split("is part of the group again").length;
  const before = times();
  await work();
  await expect.poll(times).toBeGreaterThan(before);
}

describe("a daemon that is cut off from the database", () => {
  const ways = ["freeze", "cut"] as const;
  test.each(
    some(
      ways.flatMap((way) => (["leads", "runs", "applies"] as const).map((when) => [way, when] as const)),
      4,
    ),
  )("%s, while it %s", async (way, when) => {
    const index = await replicas.leader();
    const { proxy } = replicas.all[index] ?? expect.fail();
    await backAfter(index, async () => {
      if (when === "applies") {
        const applied = replicas.target.hold();
        await replicas.next("staff");
        await applied;
        proxy[way]();
      } else if (when === "runs") {
        const { fallen } = await replicas.trap("list create", "SIGSTOP");
        await replicas.next("staff");
        expect(await fallen()).toBe(index);
        proxy[way]();
        replicas.all[index]?.running?.process.kill("SIGCONT");
      } else {
        proxy[way]();
        await replicas.next("staff");
      }
      expect(await replicas.leader()).toBeDefined();
      await expect.poll(() => replicas.leader()).not.toBe(index);
      await replicas.settled("staff");
      const { length } = replicas.target.sendings;
      await delay(2 * replicas.lease);
      replicas.target.release();
      if (way === "freeze") proxy.thaw();
      else proxy.forward(`http://127.0.0.1:${replicas.server.port}`);
      expect(replicas.target.sendings).toHaveLength(length);
    });
    await replicas.next("staff");
    const { code, stderr } = await replicas.command(index, "apply", "staff");
    expect(code, stderr).toBe(0);
    await replicas.settled("staff");
  });
});

describe("a daemon that is stopped past its lease", () => {
  test.each(
    some(
      [
        "journal running sent:before",
        "journal running sent:after",
        "files runs:after",
        "files ledgers:after",
        "apply create",
        "journal running sent:commit",
        "slot:commit",
        "apply trailers",
        "journal applied:before",
        "claim decisions:after",
      ],
      4,
    ),
  )("%s", async (point) => {
    const { fallen } = await replicas.trap(point, "SIGSTOP");
    await replicas.next("staff");
    const index = await fallen();
    await replicas.settled("staff");
    const { length } = replicas.target.sendings;
    await backAfter(index, async () => {
      replicas.all[index]?.running?.process.kill("SIGCONT");
    });
    expect(replicas.target.sendings).toHaveLength(length);
    await replicas.next("staff");
    await replicas.settled("staff");
  });
});

describe("the database", () => {
  test.each(some(["is away for a moment", "is away longer than a lease", "is away while a list is applied"], 3))(
    "%s",
    async (what) => {
      const applied = what.includes("applied") ? replicas.target.hold() : undefined;
      await replicas.next("staff");
      await applied;
      await replicas.server.halt();
      if (what.includes("longer")) await delay(2 * replicas.lease);
      await replicas.server.start();
      replicas.target.release();
      await replicas.settled("staff");
      const people = await replicas.next("staff");
      expect(await replicas.settled("staff")).toEqual(people);
    },
  );
});
