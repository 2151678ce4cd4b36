import { expect, test } from "vitest";
import { PostgresJournal } from "#state/postgres/journal.ts";
import { SlotTakenError } from "#state/store.ts";
import type { Node } from "#state/postgres/nodes.ts";
import { pendingRun } from "../../support/runs.ts";
import { endLease, sharedDatabaseOfEachTest, thrown } from "./support.ts";
import type { SyncEvent } from "#state/record.ts";

const shared = sharedDatabaseOfEachTest();

interface Replica {
  readonly node: Node;
  readonly journal: PostgresJournal;
}

const retention = { keep: 1e12, runs: 1_000, lists: 100 };

async function replica(more: Partial<typeof retention> = {}): Promise<Replica> {
  const node = await shared.node();
  return { node, journal: await PostgresJournal.open(shared.postgres, node, { ...retention, ...more }) };
}

const ids = ({ runs }: PostgresJournal): string[] => runs.map(({ id }) => id);
const idOf = (number: number): string => `20261121-100000-${String(number).padStart(6, "0")}`;
const started = (number: number, more = {}) => pendingRun(idOf(number), { state: "running", ...more });

test("each knows what the others have written after it has looked, and never loses its own", async () => {
  const [one, other] = [await replica(), await replica()];
  await one.journal.put(started(1));
  expect(ids(other.journal)).toEqual([]);
  expect(await other.journal.refresh()).toMatchObject([{ id: idOf(1) }]);
  // What it has seen is no news, and neither is what it has written itself.
  expect(await other.journal.refresh()).toEqual([]);
  await other.journal.put(started(2));
  expect(await other.journal.refresh()).toEqual([]);

  // Both write, and look, at the same time.
  const both = [one, other].flatMap(({ journal }, index) =>
    Array.from({ length: 20 }, async (_, at) => {
      await journal.put(started(10 + 2 * at + index));
      await journal.refresh();
      expect(journal.find(idOf(10 + 2 * at + index))).toBeDefined();
    }),
  );
  await Promise.all(both);
  await Promise.all([one.journal.refresh(), other.journal.refresh()]);
  expect(ids(one.journal)).toHaveLength(42);
  expect(ids(other.journal)).toEqual(ids(one.journal));
  expect(ids(one.journal)).toEqual(ids(one.journal).toSorted());
  const later = await replica();
  expect(later.journal.runs).toEqual(one.journal.runs);
});

test("changes of a sync's state by several are all there", async () => {
  const replicas = [await replica(), await replica(), await replica()];
  await Promise.all(
    replicas.flatMap(({ journal }) =>
      Array.from({ length: 10 }, () =>
        journal.change("staff", (state) => ({
          ...state,
          failures: { count: (state.failures?.count ?? 0) + 1, since: "2026-11-21T10:00:00.000Z" },
        })),
      ),
    ),
  );
  for (const { journal } of replicas) {
    await journal.refresh();
    expect(journal.state("staff").failures?.count).toBe(30);
  }
});

test("a slot has one run, whoever is first, also long after it was pruned", async () => {
  const [one, other] = [await replica(), await replica()];
  const slot = "2026-01-21T10:00:00.000Z";
  const attempts = await Promise.all(
    [one, other].map(({ journal }, index) =>
      journal
        .put(started(index, { slot }), {
          sync: "staff",
          change: (state) => ({ ...state, lastSlotAt: slot }),
        })
        .then(
          () => "begun",
          (error: unknown) => error,
        ),
    ),
  );
  expect(attempts).toContain("begun");
  expect(attempts.find((each) => each !== "begun")).toBeInstanceOf(SlotTakenError);
  // The one that came too late is nowhere, here neither.
  for (const { journal } of [one, other]) {
    await journal.refresh();
    expect(ids(journal)).toHaveLength(1);
  }
  // The run itself may be written again, and other syncs have slots of their own.
  const [winner = ""] = ids(one.journal);
  await other.journal.put({ ...started(0), id: winner, slot });
  await other.journal.put(started(5, { sync: "others", slot }));
  // Of runs that are gone, slots stay for a week.
  const recent = new Date().toISOString();
  await one.journal.put(started(7, { slot: recent }));
  await one.journal.remove(winner);
  await one.journal.remove(idOf(7));
  const slots = await shared.postgres.rows<{ run: string }>("SELECT run FROM rollcall.slots ORDER BY run");
  expect(slots.map(({ run }) => run)).toEqual([idOf(5), idOf(7)]);
  expect(await thrown(one.journal.put(started(8, { slot: recent })))).toBeInstanceOf(SlotTakenError);
});

test("slots that were taken before the clock was set back can be taken again, once the schedule counts from now", async () => {
  const [one, other] = [await replica(), await replica()];
  const hour = 3_600_000;
  const slotIn = (hours: number): string => new Date(Date.now() + hours * hour).toISOString();
  const [past, next, later] = [slotIn(-1), slotIn(47), slotIn(48)];
  const take = async (number: number, slot: string, sync = "staff"): Promise<void> => {
    await one.journal.put(started(number, { slot, sync }), {
      sync,
      change: (state) => ({ ...state, lastSlotAt: slot }),
    });
  };
  await take(1, past);
  await take(2, next);
  await take(3, later);
  await take(4, later, "others");
  expect(await thrown(other.journal.put(started(5, { slot: next })))).toBeInstanceOf(SlotTakenError);
  await other.journal.change("staff", (state) => ({ ...state, lastSlotAt: new Date().toISOString() }));
  await other.journal.put([started(5, { slot: next }), started(6, { slot: later })]);
  for (const [slot, sync] of [
    [past, "staff"],
    [later, "others"],
  ])
    expect(await thrown(other.journal.put(started(7, { slot, sync })))).toBeInstanceOf(SlotTakenError);
});

test("what one prunes, the others forget", async () => {
  const [one, other] = [await replica({ runs: 2 }), await replica()];
  for (const number of [1, 2, 3, 4])
    await one.journal.put(pendingRun(idOf(number), { state: "applied", endedAt: "2026-11-21T10:00:00.000Z" }));
  await other.journal.refresh();
  expect(ids(other.journal)).toHaveLength(4);
  await one.journal.prune(Date.now());
  expect(await other.journal.refresh()).toEqual(expect.any(Array));
  expect(ids(other.journal)).toEqual([idOf(3), idOf(4)]);
  expect(other.journal.find(idOf(1))).toBeUndefined();
  expect(ids((await replica()).journal)).toEqual([idOf(3), idOf(4)]);
});

test("a write that fails leaves the journal as it is in the database", async () => {
  const [one, other] = [await replica(), await replica()];
  await one.journal.put(started(1));
  await endLease(shared.postgres, one.node);
  expect((await thrown(one.journal.put(pendingRun(idOf(1), { state: "applied" })))).message).toContain("lease");
  expect((await thrown(one.journal.put(started(2)))).message).toContain("lease");
  expect((await thrown(one.journal.change("staff", (state) => ({ ...state, lastSlotAt: "x" })))).message).toContain(
    "lease",
  );
  await one.journal.refresh();
  expect(one.journal.runs).toMatchObject([{ id: idOf(1), state: "running" }]);
  expect(one.journal.state("staff")).toEqual({ skipped: [] });
  await other.journal.refresh();
  expect(other.journal.runs).toEqual(one.journal.runs);
  expect(other.journal.state("staff")).toEqual(one.journal.state("staff"));
});

test("a run is elsewhere as long as its node has its lease", async () => {
  const [one, other] = [await replica(), await replica()];
  await one.journal.put(started(1));
  expect(one.journal.isElsewhere(idOf(1))).toBe(false);
  await other.journal.refresh();
  expect(other.journal.isElsewhere(idOf(1))).toBe(true);
  await one.node.close();
  // Nothing was written, and still it is seen.
  await other.journal.refresh();
  expect(other.journal.isElsewhere(idOf(1))).toBe(false);
  // Whoever takes it over has it then.
  await other.journal.put(started(1));
  const third = await replica();
  expect(third.journal.isElsewhere(idOf(1))).toBe(true);
  await other.journal.put(pendingRun(idOf(1)));
  await third.journal.refresh();
  expect(third.journal.isElsewhere(idOf(1))).toBe(false);
});

test("events come with their runs, in order, until somebody has taken them", async () => {
  const replicas = [await replica(), await replica()];
  const event = (number: number): SyncEvent => ({ type: "run", run: pendingRun(idOf(number)) });
  await Promise.all(
    replicas.flatMap(({ journal }, index) =>
      Array.from({ length: 60 }, (_, at) => {
        const number = 2 * at + index;
        return journal.put(pendingRun(idOf(number)), undefined, [event(number)]);
      }),
    ),
  );
  const told: string[] = [];
  for (let round = 0; ; round++) {
    const events = await replicas[round % 2]!.journal.events();
    if (events.length === 0) break;
    expect(events.map(({ id }) => id)).toEqual(events.map(({ id }) => id).toSorted((a, b) => Number(a - b)));
    for (const { event: each } of events) if (each.type === "run") told.push(each.run.id);
    // Somebody who was not told that they were taken gets them again.
    expect(await replicas[(round + 1) % 2]!.journal.events()).toEqual(events);
    await replicas[round % 2]!.journal.taken(events.at(-1)!.id);
  }
  expect(told.toSorted()).toEqual(Array.from({ length: 120 }, (_, number) => idOf(number)).toSorted());
  // Those of one process come in its own order.
  for (const index of [0, 1]) {
    const own = told.filter((id) => Number(id.slice(-6)) % 2 === index);
    expect(own).toEqual(own.toSorted());
  }
  // An event of a run that could not be written is told to nobody.
  await endLease(shared.postgres, replicas[0]!.node);
  await thrown(replicas[0]!.journal.put(pendingRun(idOf(500)), undefined, [event(500)]));
  expect(await replicas[1]!.journal.events()).toEqual([]);
});
