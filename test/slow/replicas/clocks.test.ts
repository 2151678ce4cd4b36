import { afterAll, beforeAll, expect, test } from "vitest";
import { startReplicas } from "../../support/replicas.ts";
import type { Replicas } from "../../support/replicas.ts";

/** The clock of one daemon is an hour ahead, and that of another an hour behind. */

const hour = 3_600_000;
const interval = 5_000;

let replicas: Replicas;
beforeAll(async () => {
  // A lease that no busy machine loses: then the slots around each kill are the only ones that are made up for.
  replicas = await startReplicas({
    syncs: { staff: { schedule: "*/5 * * * * *" } },
    clocks: [hour, -hour, 0],
    lease: 8_000,
  });
});
afterAll(() => replicas.close());

test("whoever leads, no slot is run twice or lost, and every time is the database's", async () => {
  const began = Date.now();
  const led = new Set<number>();
  /** When somebody was killed: a slot of that time is made up for once, however many there were. */
  const killed: number[] = [];
  await replicas.startAll();
  while (led.size < 3) {
    const index = await replicas.leader();
    const isNew = !led.has(index);
    led.add(index);
    const people = await replicas.next("staff");
    expect(await replicas.settled("staff")).toEqual(people);
    if (led.size === 3) break;
    killed.push(Date.now());
    await replicas.kill(index);
    // One that has led comes back when the others have, too.
    if (!isNew) await replicas.start(index);
  }
  const now = Date.now();
  const runs = await replicas.runs();
  for (const { id, startedAt, endedAt = startedAt, stages } of runs) {
    const times = [startedAt, endedAt, ...stages.map((stage) => stage.startedAt)].map((time) => Date.parse(time));
    for (const time of times) {
      expect(time).toBeGreaterThan(began - 5_000);
      expect(time).toBeLessThan(now + 5_000);
    }
    expect(id.slice(0, 8)).toBe(startedAt.slice(0, 10).replaceAll("-", ""));
  }
  const [state] = await replicas.postgres.rows<{ document: { skipped: readonly { at: string }[] } }>(
    "SELECT document FROM rollcall.syncs WHERE name = 'staff'",
  );
  const skipped = new Set(state?.document.skipped.map(({ at }) => Date.parse(at)));
  const slots = runs.flatMap(({ slot }) => (slot === undefined ? [] : Date.parse(slot)));
  expect(slots.every((slot) => slot % interval === 0)).toBe(true);
  for (let slot = Math.min(...slots); slot <= Math.max(...slots); slot += interval) {
    const isMadeUp = killed.some((at) => {
      const next = Math.min(...slots.filter((each) => each > at));
      return slot > at - interval && slot <= next;
    });
    const facts = JSON.stringify({ slot, slots, skipped: [...skipped], killed });
    expect(slots.includes(slot) || skipped.has(slot) || isMadeUp, facts).toBe(true);
  }
});
