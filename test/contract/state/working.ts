import { setTimeout as delay } from "node:timers/promises";
import { pendingRun } from "../../support/runs.ts";
import { openedStore } from "./opened.ts";
import type { Opening } from "./opened.ts";
import { ownInLedger, savePlan } from "./planned.ts";

/** What a process does until it is killed. `run`: begins a run, and waits. `runs`: one run after the other. */
export interface Working {
  readonly opening: Opening;
  readonly what: "run" | "runs";
  /** The number of the first run. */
  readonly first: number;
}

export const idOf = (number: number): string => `20261121-100000-${String(number).padStart(6, "0")}`;

if (import.meta.main) {
  const { opening, what, first } = JSON.parse(process.argv[2] ?? "") as Working;
  const store = await openedStore(opening);
  const { journal, audit } = store;
  const by = { name: "kim", from: "command line" };
  for (let number = first; ; number++) {
    const id = idOf(number);
    const run = pendingRun(id, { state: "running", kept: false });
    await journal.put(run);
    if (what === "run") {
      journal.note({ ...run, stages: [{ stage: "read", startedAt: "2026-11-21T10:00:00.000Z" }] });
      process.stdout.write("begun\n");
      for (;;) await delay(1_000);
    }
    await audit.append({ event: "asked", by, sync: "staff", run: id, cause: "demand" });
    const users = Array.from({ length: number + 1 }, (_, at) => `user ${String(at).padStart(6, "0")}`);
    const seal = await savePlan(store, id, users);
    await ownInLedger(store, "staff", users, id);
    const ended = { ...run, state: "applied", kept: true, seal, endedAt: "2026-11-21T10:00:00.000Z" } as const;
    await journal.put(ended, { sync: "staff", change: (state) => ({ ...state, lastSuccessAt: id }) });
    process.stdout.write(`${number}\n`);
  }
}
