import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { useCrashes } from "./crashes.ts";
import { by } from "./premises.ts";

const { premises, next, settle } = useCrashes({ staff: {} });

describe("a journal that is damaged", () => {
  beforeAll(() => settle("staff"));
  const daemon = (): string => join(premises().folder, "data", "daemon");
  const journal = (): string => join(daemon(), "journal.json");

  test.each([
    ["is cut off", (text: string) => text.slice(0, text.length / 2)],
    ["is empty", () => ""],
    ["is all zeros, as after a power failure", (text: string) => "\0".repeat(text.length)],
    ["has no version that there is", (text: string) => text.replace('"version": 1', '"version": 0')],
    ["has a run that is none", (text: string) => text.replace('"state": "applied"', '"state": "well"')],
  ])("%s: it is kept aside with its lists, told of, and the runs go on", async (_, damage) => {
    const { after } = await next("staff");
    await premises().converge("staff");
    const lists = await readdir(join(daemon(), "runs"));
    expect(lists).not.toEqual([]);
    const damaged = damage(await readFile(journal(), "utf8"));
    await writeFile(journal(), damaged);
    const sides = await next("staff");
    const run = await premises().work(async (coordinator, told) => {
      expect(told).toMatchObject([expect.stringContaining("the journal was damaged")]);
      await coordinator.recover();
      return (await coordinator.begin({ sync: "staff", cause: "schedule", by })).ended;
    });
    expect(run).toMatchObject({ state: "applied", counts: { users: { create: 1, delete: 1 } } });
    expect(sides.before).toEqual(after);
    expect(await premises().directory("staff")).toEqual(sides.after);
    const { keptAs = "" } = JSON.parse(await readFile(journal(), "utf8")).damaged;
    expect(await readFile(join(daemon(), keptAs), "utf8")).toBe(damaged);
    const keptLists = keptAs.replace("journal", "runs").replace(/\.json$/, "");
    expect(await readdir(join(daemon(), keptLists))).toEqual(lists);
    const events = (await readFile(join(daemon(), "audit.jsonl"), "utf8")).split("\n");
    expect(events.findLast((line) => line.includes('"event":"journal damaged"'))).toContain(keptAs);
    // The history counts what the journal has forgotten: what follows begins anew.
    await rm(daemon(), { recursive: true });
    await premises().work(
      async (coordinator) => (await coordinator.begin({ sync: "staff", cause: "schedule", by })).ended,
    );
  });

  test("was written by a newer Rollcall: nothing is done, and it stays as it is", async () => {
    const newer = (await readFile(journal(), "utf8")).replace('"version": 1', '"version": 2');
    await writeFile(journal(), newer);
    await expect(premises().work((coordinator) => coordinator.recover())).rejects.toThrow("newer Rollcall (version 2");
    expect(await readFile(journal(), "utf8")).toBe(newer);
  });
});
