import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { createKeyedQueue, createQueue, createShared } from "#queue.ts";

test("B.8 calls run one at a time, in order of arrival", async () => {
  const queue = createQueue(1);
  const events: string[] = [];
  const work = (name: string) => async (): Promise<void> => {
    events.push(`${name} starts`);
    await sleep(1);
    events.push(`${name} ends`);
  };
  await Promise.all([queue(work("a")), queue(work("b")), queue(work("c"))]);
  expect(events).toEqual(["a starts", "a ends", "b starts", "b ends", "c starts", "c ends"]);
});

test("no more than its width run at once", async () => {
  const queue = createQueue(2);
  let running = 0;
  let most = 0;
  const work = async (): Promise<void> => {
    most = Math.max(most, ++running);
    await sleep(1);
    running--;
  };
  await Promise.all(Array.from({ length: 10 }, () => queue(work)));
  expect(most).toBe(2);
});

test("B.8 a call that is given up while it waits never runs, and holds nobody up", async () => {
  const queue = createQueue(1);
  const release = Promise.withResolvers<void>();
  const first = queue(() => release.promise);
  const controller = new AbortController();
  const second = queue(() => Promise.reject(new Error("ran")), controller.signal);
  const third = queue(() => Promise.resolve("third"));
  controller.abort(new Error("gone"));
  await expect(second).rejects.toThrow("gone");
  release.resolve();
  await first;
  await expect(third).resolves.toBe("third");
});

test("a call that fails lets the next one run", async () => {
  const queue = createQueue(1);
  await expect(queue(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
  await expect(queue(() => Promise.resolve(1))).resolves.toBe(1);
});

test("a queue is idle when nothing runs or waits, also after a failure and with what came meanwhile", async () => {
  const queue = createQueue();
  const done: string[] = [];
  await queue.idle();
  const failing = queue(() => Promise.reject(new Error("no"))).catch(() => done.push("failed"));
  void queue(async () => {
    await sleep(1);
    done.push("first");
    void queue(async () => {
      await sleep(1);
      done.push("late");
    });
  });
  await queue.idle();
  expect(done).toEqual(["failed", "first", "late"]);
  await failing;
});

test("calls with one key run one after the other, those with another at the same time", async () => {
  const queue = createKeyedQueue();
  const events: string[] = [];
  const work = (name: string) => async (): Promise<void> => {
    events.push(`${name} starts`);
    await sleep(5);
    events.push(`${name} ends`);
  };
  const failing = queue("a", () => Promise.reject(new Error("no")));
  void queue("a", work("a1"));
  void queue("a", work("a2"));
  void queue("b", work("b"));
  await expect(failing).rejects.toThrow("no");
  await queue.idle();
  expect(events.filter((event) => event.startsWith("a"))).toEqual(["a1 starts", "a1 ends", "a2 starts", "a2 ends"]);
  expect(events.indexOf("b starts")).toBeLessThan(events.indexOf("a1 ends"));
  await expect(queue("a", () => Promise.resolve("again"))).resolves.toBe("again");
});

test("a call with a key that is given up while it waits never runs", async () => {
  const queue = createKeyedQueue();
  const release = Promise.withResolvers<void>();
  const first = queue("a", () => release.promise);
  const controller = new AbortController();
  const second = queue("a", () => Promise.reject(new Error("ran")), controller.signal);
  controller.abort(new Error("gone"));
  await expect(second).rejects.toThrow("gone");
  release.resolve();
  await first;
  await expect(queue.idle()).resolves.toBeUndefined();
});

test("of a key, a queue runs as many as it may", async () => {
  const queue = createKeyedQueue(2);
  const gate = Promise.withResolvers<void>();
  const begun: string[] = [];
  const run = (key: string): Promise<void> =>
    queue(key, async () => {
      begun.push(key);
      await gate.promise;
    });
  const all = [run("a"), run("a"), run("a"), run("b")];
  await Promise.resolve();
  await Promise.resolve();
  expect(begun.toSorted()).toEqual(["a", "a", "b"]);
  gate.resolve();
  await Promise.all(all);
  expect(begun).toHaveLength(4);
});

test("calls during a run share the next one, and a run that fails fails only those who share it", async () => {
  const gates = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
  let runs = 0;
  const shared = createShared(() => gates[runs++]!.promise);
  const first = shared();
  await Promise.resolve();
  await Promise.resolve();
  await Promise.resolve();
  const others = [shared(), shared()];
  expect(runs).toBe(1);
  gates[0]!.reject(new Error("no"));
  await expect(first).rejects.toThrow("no");
  gates[1]!.resolve();
  await Promise.all(others);
  expect(runs).toBe(2);
  gates[2]!.resolve();
  await shared();
  expect(runs).toBe(3);
});
