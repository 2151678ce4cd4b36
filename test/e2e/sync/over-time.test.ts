import { expect, test } from "vitest";
import type { Departures } from "#plan/departures.ts";
import type { RunOptions } from "#sync/context.ts";
import type { Sync } from "#sync/sync.ts";
import { coordinated } from "./coordinated.ts";
import { useObjects } from "./objects.ts";

const objects = useObjects();
const { people, runIt, store, syncOf } = objects;
const day = 86_400_000;

/** Runs the sync on a day, and says who is within their grace period then, and when they leave. */
async function leaving(sync: Sync, on: number, options: Partial<RunOptions>): Promise<Record<string, number>> {
  let found: Departures | undefined;
  const report: RunOptions["report"] = async ({ departures }) => {
    found = departures;
  };
  await runIt(sync, { now: on * day, report, ...options });
  const examples = found?.leaving.examples ?? [];
  return Object.fromEntries(examples.map((each) => [each.name, Date.parse(each.on) / day]));
}

test("a grace period begins with the first run that misses somebody, also where its plan waits", async () => {
  const departures = { after: 7 * day, renames: "apply", reusedNames: "hold", administrators: [] } as const;
  const sync = syncOf({}, { departures });
  const waiting = { approval: "required" } as const;
  await people("ada,,,", "grace,,,");
  await runIt(sync, { now: 0 });
  await people("grace,Admiral,,");
  expect(await leaving(sync, 1, waiting)).toEqual({ ada: 8 });
  await people("grace,Rear Admiral,,");
  expect(await leaving(sync, 3, waiting)).toEqual({ ada: 8 });
  // Who returns meanwhile, and leaves again, has a new one.
  await people("ada,,,", "grace,Admiral,,");
  expect(await leaving(sync, 4, waiting)).toEqual({});
  await people("grace,Rear Admiral,,");
  expect(await leaving(sync, 5, waiting)).toEqual({ ada: 12 });
  expect(await leaving(sync, 6, { ...waiting, apply: false })).toEqual({ ada: 12 });
  expect(await leaving(sync, 7, {})).toEqual({ ada: 12 });
  expect(store().people()).toHaveProperty("ada");
});

test("a grace period that began with an interrupted run, while the clock was behind, is whole once the clock is right", async () => {
  const departures = { after: 7 * day, renames: "apply", reusedNames: "hold", administrators: [] } as const;
  const settings = { approval: "automatic" } as const;
  const { ahead, run, find } = await coordinated(objects, settings, () => ({ departures }));
  await people("ada,,,", "grace,,,");
  expect(await run()).toMatchObject({ state: "applied" });
  ahead(-365 * day);
  await people("grace,Admiral,,");
  store().faults = {
    meanwhile: () => {
      store().faults = { unreadable: true };
    },
  };
  const interrupted = await run();
  expect(interrupted).toMatchObject({ state: "failed", endUnknown: true });
  store().faults = {};
  ahead(day);
  expect(await run()).toMatchObject({ state: "no change" });
  expect(find(interrupted.id)).toMatchObject({ state: "applied", recovery: expect.stringContaining("has arrived") });
  expect(store().people()).toHaveProperty("ada");
  ahead(8 * day);
  expect(await run()).toMatchObject({ state: "applied" });
  expect(store().people()).not.toHaveProperty("ada");
});

const limits = { sources: {}, floor: 0, action: "hold", updates: { count: 1, per: "run" } } as const;

test("people whom an interrupted run has created count against limits once all of it has arrived", async () => {
  const { run, find } = await coordinated(objects, { approval: "automatic" }, () => ({ limits }));
  store().faults = {
    meanwhile: () => {
      store().faults = { unreadable: true };
    },
  };
  await people("ada,,,", "grace,,,");
  const interrupted = await run();
  expect(interrupted).toMatchObject({ state: "failed", endUnknown: true });
  store().faults = {};
  await people("ada,Countess,,", "grace,Admiral,,");
  expect(await run()).toMatchObject({ state: "held", heldBy: "limits" });
  expect(find(interrupted.id)).toMatchObject({ state: "applied" });
});

test.each([
  ["leaves the other one of its name to whoever made it", "before"],
  ["does not own what somebody makes with its name", "after"],
])("an interrupted run that deleted an object %s", async (_, when) => {
  const { run } = await coordinated(objects, { approval: "automatic" });
  await people("ada,,,maths", "grace,,,");
  expect(await run()).toMatchObject({ state: "applied" });
  const twin = store().add("group", "twin");
  if (when === "before") store().change("group", "twin", { displayName: "maths" });
  store().faults = {
    taken: ({ action }) => {
      if (action === "delete") store().faults = { unreadable: true };
    },
  };
  await people("ada,,,", "grace,,,");
  expect(await run()).toMatchObject({ state: "failed", endUnknown: true });
  store().faults = {};
  if (when === "after") store().change("group", "twin", { displayName: "maths" });
  expect(await run()).toMatchObject({ state: "no change" });
  expect(store().get(twin)).toBeDefined();
});

test("people whom an interrupted run has created also count where the next run finds nothing to do", async () => {
  const sync = syncOf({}, { limits });
  await people("ada,,,", "grace,,,");
  const progress = (stage: string): void => {
    if (stage === "verify") store().faults = { unreadable: true };
  };
  await expect(runIt(sync, { progress })).rejects.toThrow("does not answer");
  store().faults = {};
  expect(await runIt(sync)).toMatchObject({ outcome: "no change" });
  await people("ada,Countess,,", "grace,Admiral,,");
  await expect(runIt(sync)).rejects.toThrow("held by the limit on updates");
});

test("drift that is left is so only until the sources change, also to what the target has already", async () => {
  const sync = syncOf({}, { drift: { policy: "leave", ignore: [] } });
  await people("ada,,,", "grace,Admiral,,");
  await runIt(sync);
  store().remove("user", "ada");
  store().change("user", "grace", { title: "Countess" });
  expect(await runIt(sync)).toMatchObject({ outcome: "no change" });
  await people("grace,Countess,,");
  expect(await runIt(sync)).toMatchObject({ outcome: "no change" });
  await people("ada,,,", "grace,Admiral,,");
  expect(await runIt(sync)).toMatchObject({ outcome: "applied" });
  expect(store().people()).toMatchObject({ ada: { active: true }, grace: { title: "Admiral" } });
});
