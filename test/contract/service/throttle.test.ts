import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Throttle } from "#throttle.ts";
import type { ThrottleOptions } from "#throttle.ts";
import { Postgres } from "#postgres/database.ts";
import { migrate } from "#postgres/migrations.ts";
import { CountsInPostgres, throttleSchema } from "#postgres/failed-logins.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";

/** One suite for everything that counts failed logins. */

const minute = 60_000;

let server: PostgresServer;
let postgres: Postgres;
beforeAll(async () => {
  server = await startPostgres();
  postgres = await Postgres.open({ postgres: await server.createDatabase(), poolSize: 6, statementTimeout: minute });
  await migrate(postgres, [throttleSchema]);
});
afterAll(async () => {
  await postgres.close();
  await server.stop();
});
afterEach(() => postgres.rows("TRUNCATE rollcall.failed_logins"));

type Begins = Pick<Throttle, "begin">;

const implementations = {
  "in memory": (options: ThrottleOptions) => new Throttle(options),
  "three processes on PostgreSQL": (options: ThrottleOptions) => {
    const throttles = [1, 2, 3].map(() => new Throttle(options, new CountsInPostgres(options, postgres)));
    let turn = 0;
    return { begin: (...login) => throttles[turn++ % 3]!.begin(...login) } satisfies Begins;
  },
};

/** Logs in with a wrong password so many times. Returns in how many seconds to come back, when it was refused. */
async function fail(throttle: Begins, name: string, address: string, times: number): Promise<number | undefined> {
  for (let time = 0; time < times; time++) {
    const end = await throttle.begin(name, address);
    if (typeof end !== "function") return end.retryAfter;
    await end("failed");
  }
  return undefined;
}

async function succeed(throttle: Begins, name: string, address: string): Promise<number | undefined> {
  const end = await throttle.begin(name, address);
  if (typeof end !== "function") return end.retryAfter;
  await end("succeeded");
  return undefined;
}

/** What becomes of forty logins at once, all of them right or all of them wrong. */
function fortyAtOnce(throttle: Begins, outcome: "failed" | "succeeded"): Promise<string[]> {
  return Promise.all(
    Array.from({ length: 40 }, async () => {
      const end = await throttle.begin("ada", "10.0.0.1");
      if (typeof end !== "function") return "refused";
      await Promise.resolve();
      await end(outcome);
      return outcome;
    }),
  );
}

describe.each(["in memory", "three processes on PostgreSQL"] as const)("0.8 %s", (implementation) => {
  function setUp(known: readonly string[] = [], capacity?: number): { throttle: Begins; clock: { time: number } } {
    const clock = { time: 1_000_000 };
    const throttle = implementations[implementation]({
      attempts: 10,
      window: 5 * minute,
      lockout: 5 * minute,
      isKnown: (name, address) => known.includes(`${name}@${address}`),
      now: () => clock.time,
      capacity,
    });
    return { throttle, clock };
  }

  test("the eleventh login of a pair is refused for five minutes, the right password too", async () => {
    const { throttle, clock } = setUp();
    expect(await fail(throttle, "ada", "10.0.0.1", 10)).toBeUndefined();
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBe(300);
    clock.time += 2 * minute + 1;
    expect(await fail(throttle, "ada", "10.0.0.1", 1)).toBe(180);
    clock.time += 3 * minute;
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBeUndefined();
  });

  test("other names from that address and that name from other addresses go on", async () => {
    const { throttle } = setUp();
    await fail(throttle, "ada", "10.0.0.1", 10);
    expect(await succeed(throttle, "ben", "10.0.0.1")).toBeUndefined();
    expect(await succeed(throttle, "ada", "10.0.0.2")).toBeUndefined();
  });

  test("after a refusal the count begins anew", async () => {
    const { throttle, clock } = setUp();
    await fail(throttle, "ada", "10.0.0.1", 10);
    clock.time += 5 * minute;
    expect(await fail(throttle, "ada", "10.0.0.1", 10)).toBeUndefined();
    expect(await fail(throttle, "ada", "10.0.0.1", 1)).toBe(300);
  });

  test("failures count only within the window", async () => {
    const { throttle, clock } = setUp();
    await fail(throttle, "ada", "10.0.0.1", 9);
    clock.time += 5 * minute;
    expect(await fail(throttle, "ada", "10.0.0.1", 9)).toBeUndefined();
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBeUndefined();
  });

  test("a success resets the count of its pair", async () => {
    const { throttle } = setUp();
    for (let round = 0; round < 5; round++) {
      expect(await fail(throttle, "ada", "10.0.0.1", 9)).toBeUndefined();
      expect(await succeed(throttle, "ada", "10.0.0.1")).toBeUndefined();
    }
  });

  test("a success resets neither the count of its address nor that of its name", async () => {
    const { throttle } = setUp();
    for (let round = 0; round < 5; round++) {
      await fail(throttle, "ada", "10.0.0.1", 9);
      await succeed(throttle, "ada", "10.0.0.1");
    }
    await fail(throttle, "ada", "10.0.0.1", 5);
    expect(await succeed(throttle, "ben", "10.0.0.1")).toBe(300);
  });

  test("fifty failures from one address refuse it, whatever the names", async () => {
    const { throttle } = setUp();
    for (let index = 0; index < 50; index++) expect(await fail(throttle, `u${index}`, "10.0.0.1", 1)).toBeUndefined();
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBe(300);
    expect(await succeed(throttle, "ada", "10.0.0.2")).toBeUndefined();
  });

  test("who has logged in from an address before is not refused for what others try from there, but for their own failures", async () => {
    const { throttle } = setUp(["ada@10.0.0.1"]);
    for (let index = 0; index < 50; index++) await fail(throttle, `made up ${index}`, "10.0.0.1", 1);
    expect(await succeed(throttle, "ben", "10.0.0.1")).toBe(300);
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBeUndefined();
    expect(await fail(throttle, "ada", "10.0.0.1", 10)).toBeUndefined();
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBe(300);
  });

  test("a hundred failures of one name refuse it to every address it has not logged in from before", async () => {
    const { throttle } = setUp(["ada@10.0.0.1"]);
    for (let index = 0; index < 20; index++) expect(await fail(throttle, "ada", `10.1.0.${index}`, 5)).toBeUndefined();
    expect(await succeed(throttle, "ada", "10.2.0.1")).toBe(300);
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBeUndefined();
    expect(await succeed(throttle, "ben", "10.2.0.1")).toBeUndefined();
  });

  test("guesses made at once count like guesses made one after the other", async () => {
    const { throttle } = setUp();
    const outcomes = await fortyAtOnce(throttle, "failed");
    expect(outcomes.filter((outcome) => outcome === "failed")).toHaveLength(10);
  });

  test("right logins made at once all succeed", async () => {
    const { throttle } = setUp();
    const outcomes = await fortyAtOnce(throttle, "succeeded");
    expect(outcomes.every((outcome) => outcome === "succeeded")).toBe(true);
  });

  test("what could not be decided is no failure", async () => {
    const { throttle } = setUp();
    for (let index = 0; index < 30; index++) {
      const end = await throttle.begin("ada", "10.0.0.1");
      if (typeof end !== "function") throw new Error("refused");
      await end("undecided");
    }
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBeUndefined();
  });

  test("what has not been seen for longest is forgotten: nobody can fill the memory", async () => {
    const { throttle, clock } = setUp([], 50);
    await fail(throttle, "ada", "10.0.0.1", 9);
    for (let index = 0; index < 200; index++) {
      clock.time += 1;
      await fail(throttle, `u${index}`, `address ${index}`, 1);
    }
    expect(await fail(throttle, "ada", "10.0.0.1", 9)).toBeUndefined();
    await fail(throttle, "ada", "10.0.0.1", 1);
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBe(300);
  });
});

describe("0.8 on PostgreSQL", () => {
  const setUp = (
    more: Partial<ThrottleOptions> = {},
  ): { throttle: Begins; clock: { time: number }; asked: string[] } => {
    const clock = { time: 1_000_000 };
    const asked: string[] = [];
    // Those that count, not those that clear away.
    const rows: Postgres["rows"] = (sql, ...rest) => {
      if (sql.includes("INSERT")) asked.push(sql);
      return postgres.rows(sql, ...rest);
    };
    const options = {
      attempts: 10,
      window: 5 * minute,
      lockout: 5 * minute,
      isKnown: () => false,
      now: () => clock.time,
      ...more,
    };
    const throttle = new Throttle(options, new CountsInPostgres(options, { rows }));
    return { throttle, clock, asked };
  };

  test("what is refused asks the database once in each process", async () => {
    const [first, second] = [setUp(), setUp()];
    await fail(first.throttle, "ada", "10.0.0.1", 10);
    for (const { throttle, asked } of [first, second]) {
      const before = asked.length;
      for (let time = 0; time < 20; time++) expect(await succeed(throttle, "ada", "10.0.0.1")).toBe(300);
      expect(asked.length - before).toBe(throttle === first.throttle ? 0 : 1);
    }
  });

  test("what a process was checking when it died counts for two minutes", async () => {
    const [dead, alive] = [setUp(), setUp()];
    for (let time = 0; time < 10; time++) await dead.throttle.begin("ada", "10.0.0.1");
    let isOver = false;
    const waiting = succeed(alive.throttle, "ada", "10.0.0.1").finally(() => (isOver = true));
    const before = alive.asked.length;
    await expect.poll(() => alive.asked.length).toBeGreaterThan(before + 2);
    expect(isOver).toBe(false);
    alive.clock.time += 2 * minute + 1;
    expect(await waiting).toBeUndefined();
  });

  test("what was counted before the clock was set back refuses nobody until that time", async () => {
    const [first, second] = [setUp(), setUp()];
    await fail(first.throttle, "ada", "10.0.0.1", 10);
    await fail(first.throttle, "ben", "10.0.0.2", 9);
    await first.throttle.begin("ben", "10.0.0.2");
    for (const { throttle, clock } of [first, second]) {
      clock.time -= 2 * minute;
      for (const [name, address] of [
        ["ada", "10.0.0.1"],
        ["ben", "10.0.0.2"],
      ] as const)
        expect(await succeed(throttle, name, address)).toBeUndefined();
    }
    await fail(first.throttle, "ada", "10.0.0.1", 10);
    expect(await succeed(second.throttle, "ada", "10.0.0.1")).toBe(300);
  });

  test("a flood of names and addresses fills no more than the capacity, and goes when it is old", async () => {
    const { throttle, clock } = setUp({ capacity: 40 });
    const count = async (): Promise<number> => {
      const [found] = await postgres.rows<{ n: bigint }>("SELECT count(*) AS n FROM rollcall.failed_logins");
      return Number(found?.n);
    };
    for (let index = 0; index < 200; index++) await fail(throttle, `name ${index}`, `address ${index}`, 1);
    // Three of each login; it looks again after every second one.
    expect(await count()).toBeLessThanOrEqual(3 * 40 + 3 * 2);
    expect(await count()).toBeGreaterThanOrEqual(3 * 40);
    clock.time += 5 * minute;
    await succeed(throttle, "ada", "10.0.0.1");
    expect(await count()).toBe(3);
  });
});
