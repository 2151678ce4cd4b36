import { EventEmitter } from "node:events";
import { InputError } from "#errors.ts";
import type { Approval, Begun, Coordinator, RunRequest } from "#sync/coordinator/coordinator.ts";
import type { Actor, RunRecord, Stage, SyncEvent } from "#state/record.ts";
import { pendingRun } from "./runs.ts";

/** A coordinator whose runs end only when the test ends them. */
export interface ManualCoordinator extends Coordinator {
  /** The calls so far, `runs` and `syncs` aside. */
  readonly calls: { readonly what: string; readonly request: unknown }[];
  emit(event: SyncEvent): void;
  /** Ends a run and resolves its promise. */
  end(id: string, change: Partial<RunRecord>): RunRecord;
  /** Ends a run in the list only: its promise stays pending. */
  almostEnd(id: string, change: Partial<RunRecord>): RunRecord;
}

export function openManualCoordinator(given: readonly RunRecord[] = []): ManualCoordinator {
  const runs = new Map(given.map((run) => [run.id, run]));
  const ends = new Map<string, (run: RunRecord) => void>();
  const events = new EventEmitter();
  const calls: ManualCoordinator["calls"] = [];
  let count = 0;
  const emit = (event: SyncEvent): void => {
    events.emit("event", event);
  };
  const put = (run: RunRecord): RunRecord => {
    runs.set(run.id, run);
    emit({ type: "run", run });
    return run;
  };
  const begin = (run: RunRecord): Begun => {
    const { promise, resolve } = Promise.withResolvers<RunRecord>();
    ends.set(run.id, resolve);
    return { run: put(run), ended: promise };
  };
  const find = (id: string): RunRecord => {
    const run = runs.get(id);
    if (run === undefined) throw new InputError(`there is no run ${id}`);
    return run;
  };
  const fresh = (sync: string, change: Partial<RunRecord>): RunRecord => {
    const { digest: _, ...run } = pendingRun(`20261121-12000${++count}-000000`, { sync, state: "running", ...change });
    return run;
  };
  const undecided = (id: string): RunRecord => {
    const run = find(id);
    if (run.state === "pending" || run.state === "held") return run;
    throw new InputError(`run ${id} cannot be decided about: it is ${run.state}`, {
      problems: [`state: ${run.state}`],
    });
  };
  return {
    calls,
    emit,
    begin: async (request: RunRequest, watcher?: { progress?: (stage: Stage, records?: number) => void }) => {
      calls.push({ what: "begin", request });
      if (request.sync === "broken") throw new Error("a secret in an unforeseen error: hunter2");
      if (request.sync !== "staff") throw new InputError(`no sync is called ${request.sync}`);
      const begun = begin(fresh(request.sync, { cause: request.cause, by: request.by }));
      events.on("event", (event: SyncEvent) => {
        if (event.type === "stage" && event.id === begun.run.id) watcher?.progress?.(event.stage, event.records);
      });
      return begun;
    },
    approve: async (id, approval: Approval) => {
      calls.push({ what: "approve", request: approval });
      const run = undecided(id);
      if (approval.digest !== undefined && approval.digest !== run.digest)
        throw new InputError(`run ${id} has another plan`, { problems: [`digest: expected ${run.digest ?? "none"}`] });
      return begin({ ...run, state: "running" });
    },
    reject: async (id, rejection: { readonly by: Actor; readonly reason?: string }) => {
      calls.push({ what: "reject", request: rejection });
      return put({ ...undecided(id), state: "rejected" });
    },
    undo: async (id, request: { readonly by: Actor }) => {
      calls.push({ what: "undo", request });
      if (find(id).state !== "applied") throw new InputError(`run ${id} applied nothing`);
      return begin(fresh("staff", { cause: "undo", undoes: id, by: request.by }));
    },
    runs: () => [...runs.values()].sort((a, b) => (a.id < b.id ? 1 : -1)),
    syncs: () => ["staff", "broken"].map((sync) => ({ sync, target: "analytics", overdue: false, skipped: [] })),
    subscribe: (listener) => {
      events.on("event", listener);
      return () => {
        events.off("event", listener);
      };
    },
    end: (id, change) => {
      const run = put({ ...find(id), ...change });
      ends.get(id)?.(run);
      return run;
    },
    almostEnd: (id, change) => put({ ...find(id), ...change }),
  };
}
