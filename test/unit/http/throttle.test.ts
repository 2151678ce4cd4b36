import { describe, expect, test } from "vitest";
import { createThrottle } from "#http/throttle.ts";
import type { Throttle } from "#http/throttle.ts";

const minute = 60_000;

function setUp(known: readonly string[] = []): { throttle: Throttle; clock: { time: number } } {
  const clock = { time: 1_000_000 };
  const throttle = createThrottle({
    attempts: 10,
    window: 5 * minute,
    lockout: 5 * minute,
    isKnown: (name, address) => known.includes(`${name}@${address}`),
    now: () => clock.time,
  });
  return { throttle, clock };
}

/** Logs in with a wrong password so many times. Returns in how many seconds to come back, when it was refused. */
async function fail(throttle: Throttle, name: string, address: string, times: number): Promise<number | undefined> {
  for (let time = 0; time < times; time++) {
    const attempt = await throttle.begin(name, address);
    if ("retryAfter" in attempt) return attempt.retryAfter;
    attempt.failed();
  }
  return undefined;
}

async function succeed(throttle: Throttle, name: string, address: string): Promise<number | undefined> {
  const attempt = await throttle.begin(name, address);
  if ("retryAfter" in attempt) return attempt.retryAfter;
  attempt.succeeded();
  return undefined;
}

describe("0.8", () => {
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
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const attempt = await throttle.begin("ada", "10.0.0.1");
        if ("retryAfter" in attempt) return "refused";
        await Promise.resolve();
        attempt.failed();
        return "failed";
      }),
    );
    expect(outcomes.filter((outcome) => outcome === "failed")).toHaveLength(10);
  });

  test("right logins made at once all succeed", async () => {
    const { throttle } = setUp();
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const attempt = await throttle.begin("ada", "10.0.0.1");
        if ("retryAfter" in attempt) return "refused";
        await Promise.resolve();
        attempt.succeeded();
        return "succeeded";
      }),
    );
    expect(outcomes.every((outcome) => outcome === "succeeded")).toBe(true);
  });

  test("what could not be decided is no failure", async () => {
    const { throttle } = setUp();
    for (let index = 0; index < 30; index++) {
      const attempt = await throttle.begin("ada", "10.0.0.1");
      if ("retryAfter" in attempt) throw new Error("refused");
      attempt.undecided();
    }
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBeUndefined();
  });

  test("what has not been seen for longest is forgotten: nobody can fill the memory", async () => {
    const { throttle } = setUp();
    await fail(throttle, "ada", "10.0.0.1", 9);
    for (let index = 0; index < 20_000; index++) await fail(throttle, `u${index}`, `address ${index}`, 1);
    expect(await fail(throttle, "ada", "10.0.0.1", 9)).toBeUndefined();
    await fail(throttle, "ada", "10.0.0.1", 1);
    expect(await succeed(throttle, "ada", "10.0.0.1")).toBe(300);
  });
});
