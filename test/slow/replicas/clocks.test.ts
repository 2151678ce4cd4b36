import { afterAll, beforeAll, expect, test } from "vitest";
import { startReplicas } from "../../support/replicas/replicas.ts";
import type { Replicas } from "../../support/replicas/replicas.ts";

/** The clock of one daemon is an hour ahead, and that of another an hour behind. */

const hour = 3_600_000;
const interval = 5_000;

let replicas: Replicas;
beforeAll(async () => {
  replicas = await startReplicas({
    syncs: { staff: { schedule: "*/5 * * * * *" } },
    clocks: [hour, -hour, 0],
    lease: 5_000,
  });
});
afterAll(() => replicas.close());

test("whoever leads, no slot is run twice or lost, and every time is the database's", async () => {
  const began = Date.now();
  const led = new Set<number>();
  await replicas.startAll();
  while (led.size < 3) {
    const index = await replicas.leader();
    const isNew = !led.has(index);
    led.add(index);
    const people = await replicas.next("staff");
    expect(await replicas.settled("staff")).toEqual(people);
    if (led.size === 3) break;
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
  const causes = new Map(
    runs.flatMap(({ slot, cause }) => (slot === undefined ? [] : [[Date.parse(slot), cause] as const])),
  );
  const slots = causes
    .keys()
    .toArray()
    .sort((one, other) => one - other);
  expect(slots.every((slot) => slot % interval === 0)).toBe(true);
  for (let slot = Math.min(...slots); slot <= Math.max(...slots); slot += interval) {
    // Slots that passed while nobody led are made up for: once, however many there were.
    const next = slots.find((each) => each >= slot) ?? 0;
    const isMadeUp = ["catch-up", "start"].includes(causes.get(next) ?? "");
    const facts = JSON.stringify({ slot, causes: [...causes], skipped: [...skipped] });
    expect(causes.has(slot) || skipped.has(slot) || isMadeUp, facts).toBe(true);
  }
});
