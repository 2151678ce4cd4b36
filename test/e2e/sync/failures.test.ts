import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { finish } from "#sync/coordinator/finish.ts";
import { createQueue } from "#queue.ts";
import type { FinishContext } from "#sync/coordinator/finish.ts";
import { FolderStore } from "#state/folder/store.ts";
import { Plans } from "#state/plans.ts";
import { appliedRun } from "../../support/runs.ts";
import type { SyncEvent } from "#state/record.ts";

let folder: string;
let store: FolderStore;
let context: FinishContext;
let events: SyncEvent[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-failures-"));
  events = [];
  const retention = { keep: 86_400_000, runs: 100, lists: 10 };
  store = await FolderStore.open({ folder, retention, warn: () => {} });
  context = {
    store,
    plans: new Plans(store.files),
    emit: (event) => events.push(event),
    now: () => Date.parse("2026-11-21T12:00:00.000Z"),
    isStopping: () => false,
    decisions: createQueue(),
  };
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

const isRecovered = (): unknown => events.at(-1)?.type === "run" && (events.at(-1) as { recovered?: true }).recovered;

test.each(["pending", "held", "expired", "rejected"] as const)(
  "a run that is %s ends no failures: only a success does",
  async (state) => {
    const error = { message: "no answer", problems: [], advice: "retry" };
    await finish(context, appliedRun({ id: "20261121-110000-000000", state: "failed", error, kept: false }));
    await finish(context, appliedRun({ id: "20261121-111000-000000", state, kept: false }));
    expect(isRecovered()).toBeUndefined();
    expect(context.store.journal.state("staff").failures).toEqual({ count: 1, since: "2026-11-21T12:00:00.000Z" });
    await finish(context, appliedRun({ id: "20261121-112000-000000", state: "no change", kept: false }));
    expect(isRecovered()).toBe(true);
    expect(context.store.journal.state("staff").failures).toBeUndefined();
  },
);

test.each(["no change", "pending"] as const)(
  "a held run is superseded by one that finds the same and is %s",
  async (state) => {
    await finish(context, appliedRun({ id: "20261121-110000-000000", state: "held", heldBy: "limits", kept: true }));
    await finish(context, appliedRun({ id: "20261121-111000-000000", state, kept: false }));
    expect(context.store.journal.find("20261121-110000-000000")).toMatchObject({ state: "superseded" });
  },
);
