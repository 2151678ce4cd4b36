import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { useCrashes } from "./crash/crashes.ts";
import { by } from "../support/rollcall/installation.ts";

const { installation, next, settle } = useCrashes({ staff: {}, partners: {} });

describe("a journal that is damaged", () => {
  beforeAll(() => settle("staff"));
  const daemon = (): string => join(installation().folder, "data", "daemon");
  const journal = (): string => join(daemon(), "journal.json");

  test.each([
    ["is cut off", (text: string) => text.slice(0, text.length / 2)],
    ["is empty", () => ""],
    ["is all zeros, as after a power failure", (text: string) => "\0".repeat(text.length)],
    ["has no version that there is", (text: string) => text.replace('"version": 1', '"version": 0')],
    ["has a run that is none", (text: string) => text.replace('"state": "applied"', '"state": "well"')],
  ])(
    "%s: it is kept aside with its lists, told of, and nothing is applied by itself before somebody approves",
    async (_, damage) => {
      const { after } = await next("staff");
      await installation().converge("staff");
      const lists = await readdir(join(daemon(), "runs"));
      expect(lists).not.toEqual([]);
      const damaged = damage(await readFile(journal(), "utf8"));
      await writeFile(journal(), damaged);
      const sides = await next("staff");
      const begin = { cause: "schedule", by } as const;
      const run = await installation().work(async (coordinator, told) => {
        expect(told).toMatchObject([expect.stringContaining("the journal was damaged")]);
        await coordinator.recover();
        return (await coordinator.begin({ sync: "staff", ...begin })).ended;
      });
      const reason = expect.stringMatching(/^the journal was damaged \(it is stored as journal\.damaged-/);
      expect(run).toMatchObject({
        state: "pending",
        caution: reason,
        notes: expect.arrayContaining([
          { text: expect.stringContaining("every run needs approval until one is approved") },
        ]),
        counts: { users: { create: 1, delete: 1 } },
      });
      expect(sides.before).toEqual(after);
      expect(await installation().directory("staff")).toEqual(after);
      // It outlives the process, and concerns no sync that has never applied anything.
      await installation().work(async (coordinator) => {
        expect(coordinator.syncs().map(({ sync, caution }) => [sync, caution?.reason])).toEqual([
          ["staff", reason],
          ["partners", undefined],
        ]);
        expect(await (await coordinator.approve(run.id, { by })).ended).toMatchObject({ state: "applied" });
      });
      expect(await installation().directory("staff")).toEqual(sides.after);
      await next("staff");
      const further = await installation().work(
        async (coordinator) => (await coordinator.begin({ sync: "staff", ...begin })).ended,
      );
      expect(further.state).toBe("applied");
      const { keptAs = "" } = JSON.parse(await readFile(journal(), "utf8")).damaged;
      expect(await readFile(join(daemon(), keptAs), "utf8")).toBe(damaged);
      const keptLists = keptAs.replace("journal", "runs").replace(/\.json$/, "");
      expect(await readdir(join(daemon(), keptLists))).toEqual(lists);
      const events = (await readFile(join(daemon(), "audit.jsonl"), "utf8")).split("\n");
      expect(events.findLast((line) => line.includes('"event":"journal damaged"'))).toContain(keptAs);
      // The history counts what the journal has forgotten: what follows begins anew.
      await rm(daemon(), { recursive: true });
      await installation().work(
        async (coordinator) => (await coordinator.begin({ sync: "staff", cause: "schedule", by })).ended,
      );
    },
  );

  test("and so is the ledger: it may have been any sync that has applied something", async () => {
    await writeFile(journal(), "");
    const ledgers = join(daemon(), "ledgers");
    const ledger = (await readdir(ledgers)).find((name) => name.endsWith(".duckdb")) ?? "";
    const content = await readFile(join(ledgers, ledger));
    await writeFile(join(ledgers, ledger), "not a ledger");
    await installation().work(async (coordinator) => {
      for (const { caution } of coordinator.syncs()) expect(caution?.reason).toMatch(/^the journal was damaged/);
    });
    await writeFile(join(ledgers, ledger), content);
    const applied = await installation().converge("staff");
    expect(applied).toHaveLength(0);
  });

  test("was written by a newer Rollcall: nothing is done, and it stays as it is", async () => {
    const newer = (await readFile(journal(), "utf8")).replace('"version": 1', '"version": 2');
    await writeFile(journal(), newer);
    await expect(installation().work((coordinator) => coordinator.recover())).rejects.toThrow(
      "newer Rollcall (version 2",
    );
    expect(await readFile(journal(), "utf8")).toBe(newer);
  });
});
