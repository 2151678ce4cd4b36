import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { filesIn } from "#state/folder/store.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import { withPlan } from "./planned.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-ledger-"));
});
afterEach(() => rm(folder, { recursive: true }));

interface Given {
  /** Users of the sources. */
  readonly users?: readonly string[];
  /** SQL of what else the plan knows. */
  readonly but?: string;
  readonly sync?: string;
  readonly others?: readonly string[];
}

interface Found {
  readonly owned: readonly string[];
  readonly ofOthers: readonly string[];
  readonly byHand: readonly string[];
  readonly settled: string | undefined;
  readonly kept: string | undefined;
}

/** What a run finds in the ledger, which then does `work`. */
function inRun(
  { users = [], but = "", sync = "staff", others }: Given,
  work: (ledger: Ledger) => Promise<void> = async () => {},
): Promise<Found> {
  return withPlan(folder, users, async (connection) => {
    const { signal } = new AbortController();
    await connection.run(but);
    const ledger = await Ledger.open(connection, {
      files: filesIn(folder),
      place: "p",
      sync,
      others,
      mode: "write",
      signal,
    });
    try {
      const names = async (table: string): Promise<string[]> =>
        (await connection.rows<{ name: string }>(`SELECT name FROM ${table} ORDER BY name`)).map(({ name }) => name);
      const { settled, kept } = ledger;
      const found = {
        owned: await names("ledger"),
        ofOthers: await names("owned_by_others"),
        byHand: await names("by_hand"),
        settled,
        kept,
      };
      await work(ledger);
      return found;
    } finally {
      await ledger.close();
    }
  });
}

const addition = { now: 0, declared: serviceAttributes, amounts: [], scope: { sizes: [] }, checks: [] };

/** A run that applied its plan. */
function settle(given: Given, run: string): Promise<Found> {
  return inRun(given, async (ledger) => {
    await ledger.claim();
    await ledger.settle({ ...addition, run, keep: `after ${run}` });
  });
}

test("a run that is killed while it applies owns whom it manages, and what the one before kept is out of date", async () => {
  await settle({ users: ["ada"] }, "1");
  const but = "DELETE FROM managed WHERE name = 'protected'";
  await inRun({ users: ["ada", "grace", "protected"], but }, (ledger) => ledger.claim());
  expect(await inRun({})).toMatchObject({ owned: ["ada", "grace"], settled: "1", kept: undefined });
});

test("a run that applied owns whom it manages and who stays, and nobody whom it deleted", async () => {
  await settle({ users: ["ada", "frozen", "gone"] }, "1");
  const but = `
    DELETE FROM managed WHERE name = 'frozen'; DELETE FROM assembled WHERE name = 'frozen';
    UPDATE desired SET group_names = ['chess'] WHERE name = 'ada';
    INSERT INTO kept_by_hand VALUES ('user', 'ada', 'chess'), ('user', 'frozen', 'withheld')`;
  await settle({ users: ["ada", "frozen"], but }, "2");
  expect(await inRun({})).toMatchObject({ owned: ["ada", "frozen"], byHand: ["ada"], settled: "2", kept: "after 2" });
});

test("another sync is kept off whom this one owns, until its sources have lost them", async () => {
  await settle({ users: ["ada", "leaving"], but: "INSERT INTO gone VALUES ('user', 'leaving', 0)" }, "1");
  expect(await inRun({ sync: "guests", others: ["staff"] })).toMatchObject({ owned: [], ofOthers: ["ada"] });
});
