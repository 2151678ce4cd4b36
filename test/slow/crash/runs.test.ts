import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { useCrashes } from "./crashes.ts";
import { versionOf } from "../../support/rollcall/installation.ts";
import { everyThird, random } from "../../support/random.ts";

/** Processes that are killed at every third point of a run, as the seed chooses; after each, everything must be as before or as after. */

const { anew, servicePid, restartService, next, settle, crash, goOn } = useCrashes({ staff: {} });

describe("a run that is applied by itself", () => {
  beforeAll(() => settle("staff"));
  test.each(
    everyThird([
      "journal running:before",
      "journal running:after",
      "stage read:before",
      "stage list:before",
      "list:before",
      "list:after",
      "stage plan:before",
      "stage preview:before",
      "preview:before",
      "preview:after",
      "file:^work/.*/desired.json",
      "file:^runs/.*.partial/changes.parquet",
      "file:^runs/.*.partial/managed.parquet",
      "file:^runs/.*.partial/plan.json",
      "file:^runs/[^./]+$",
      "file:^ledgers/.*.wal$",
      "journal running sent:before",
      "journal running sent:after",
      "stage apply:before",
      "apply:before",
      "request sendHeaders",
      "request bodyChunkSent",
      "request bodySent",
      "request headers",
      "request trailers",
      "apply:after",
      "stage verify:before",
      "export:before",
      "audit ended:before",
      "audit ended:after",
      "journal applied:before",
      "file:^journal.json.new$",
      "journal applied:after",
      "told applied",
    ]),
  )("%s", async (point) => {
    const sides = await next("staff");
    const run = await crash("staff", { action: { do: "begin", sync: "staff" }, point }, sides);
    expect(await goOn("staff", run)).toEqual(sides.after);
  });
});

describe("at a moment that nobody has chosen", () => {
  beforeAll(() => settle("staff"));
  test.each([1, 2])("%i", async () => {
    const sides = await next("staff");
    const point = String(Math.floor(random() * 1000));
    // On an idle machine it may have come to its end.
    const run = await crash("staff", { action: { do: "begin", sync: "staff" }, point }, sides, async () => {});
    expect(await goOn("staff", run), `after ${point} ms`).toEqual(sides.after);
  });
});

describe("the service", () => {
  beforeAll(() => settle("staff"));
  const begin = { do: "begin", sync: "staff" } as const;
  test.each([
    ["kill alone", "request bodySent"],
    ["kill alone", "request headers"],
    ["kill both", "request bodyChunkSent"],
    ["kill both", "request bodySent"],
  ] as const)("%s: %s", async (and, point) => {
    const sides = await next("staff");
    const run = await crash(
      "staff",
      { action: begin, point, service: { pid: servicePid(), and } },
      sides,
      restartService,
    );
    expect(await goOn("staff", run)).toEqual(sides.after);
  });

  test("has the list, and has not come to it when it is asked what became of it", async () => {
    const sides = await next("staff");
    const killing = {
      action: begin,
      point: "request bodySent",
      service: { pid: servicePid(), and: "halt it before" },
    } as const;
    const run = await crash("staff", killing, sides, async () => {
      const halted = servicePid();
      void delay(1000).then(() => process.kill(halted, "SIGCONT"));
    });
    expect(await goOn("staff", run)).toEqual(sides.after);
  });
});

describe("the first run ever", () => {
  test.each(
    everyThird([
      "start:^lock",
      "start:^audit.jsonl$",
      "start:^configuration.json.new$",
      "file:^journal.json.new$",
      "file:^ledgers/.*.new$",
      "file:^ledgers/.*.duckdb$",
      "file:^ledgers/.*.wal$",
      "journal running sent:after",
      "request bodySent",
      "apply:after",
    ]),
  )("%s", async (point) => {
    const sync = `first${++firsts}`;
    await anew({ [sync]: {} }, async () => {
      const sides = await next(sync);
      const run = await crash(sync, { action: { do: "begin", sync }, point }, sides);
      expect(await goOn(sync, run)).toEqual(sides.after);
      // Some come, somebody leaves, and the group changes.
      for (let version = 2; version <= 4; version++) await next(sync);
      expect(await goOn(sync, undefined)).toEqual(versionOf(sync, 4));
    });
  });
  let firsts = 0;
});
