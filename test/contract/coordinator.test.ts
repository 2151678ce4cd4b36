import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connectCoordinator, findDaemon } from "#control/client.ts";
import { InputError } from "#errors.ts";
import type { CommandCoordinator } from "#sync/coordinator/coordinator.ts";
import { startControl } from "../support/control.ts";
import { openManualCoordinator } from "../support/coordinator.ts";
import type { ManualCoordinator } from "../support/coordinator.ts";
import { digest, pendingRun } from "../support/runs.ts";

/** A coordinator in this process and one over HTTP: callers see no difference. */
const places: Record<
  string,
  (local: ManualCoordinator) => Promise<{ coordinator: CommandCoordinator; end: () => Promise<void> }>
> = {
  "in this process": async (local) => ({ coordinator: local, end: async () => undefined }),
  "over HTTP": async (local) => {
    const server = await startControl(local);
    const { signal } = new AbortController();
    const daemon = await findDaemon(server.data, "kim", signal);
    const remote = await connectCoordinator(daemon!, { data: server.data, account: "kim", signal });
    return {
      coordinator: remote,
      end: async () => {
        remote.close();
        await server.stop();
      },
    };
  },
};

const by = { name: "kim", from: "command line", via: "command line" } as const;

describe.each(Object.entries(places))("a coordinator %s", (_, open) => {
  let local: ManualCoordinator;
  let coordinator: CommandCoordinator;
  let end: () => Promise<void>;

  beforeEach(async () => {
    local = openManualCoordinator([
      pendingRun("20261121-100000-000001"),
      pendingRun("20261121-090000-000002", { state: "applied" }),
    ]);
    ({ coordinator, end } = await open(local));
  });
  afterEach(() => end());

  test("a run begins, and its promise resolves when it ends", async () => {
    const { run, ended } = await coordinator.begin({
      sync: "staff",
      cause: "demand",
      by,
      digest,
      overrides: ["deletes"],
    });
    expect(run).toMatchObject({ sync: "staff", state: "running", cause: "demand", by });
    expect(local.calls).toEqual([
      { what: "begin", request: { sync: "staff", cause: "demand", by, digest, overrides: ["deletes"] } },
    ]);
    expect(await Promise.race([ended, delay(100, "under way")])).toBe("under way");
    const last = local.end(run.id, { state: "applied", notes: [{ text: "ü" }] });
    expect(await ended).toEqual(last);
  });

  test("a watcher gets the progress of a run", async () => {
    const heard: unknown[] = [];
    const watcher = { progress: (...stage: unknown[]) => void heard.push(stage) };
    const { run } = await coordinator.begin({ sync: "staff", cause: "demand", by }, watcher);
    await expect
      .poll(() => {
        local.emit({ type: "stage", id: "another", sync: "staff", stage: "verify" });
        local.emit({ type: "stage", id: run.id, sync: "staff", stage: "read", records: 7 });
        return heard;
      })
      .toContainEqual(["read", 7]);
    expect(heard).not.toContainEqual(["verify"]);
  });

  test("several runs are followed at once; one that has ended at once too", async () => {
    const first = await coordinator.begin({ sync: "staff", cause: "demand", by });
    const second = await coordinator.begin({ sync: "staff", cause: "demand", by });
    local.end(second.run.id, { state: "no change" });
    local.end(first.run.id, { state: "failed" });
    expect((await second.ended).state).toBe("no change");
    expect((await first.ended).state).toBe("failed");
  });

  test("a run has ended when all of it has, not when the journal says so", async () => {
    const { run, ended } = await coordinator.begin({ sync: "staff", cause: "demand", by });
    local.almostEnd(run.id, { state: "applied" });
    expect(await Promise.race([ended, delay(1000, "under way")])).toBe("under way");
    local.end(run.id, { notes: [{ text: "exported" }] });
    expect((await ended).notes).toEqual([{ text: "exported" }]);
  });

  test("runs and syncs are known, and how a run that was begun has ended", async () => {
    expect(coordinator.runs()).toEqual(local.runs());
    expect(coordinator.syncs()).toEqual(local.syncs());
    const { run, ended } = await coordinator.begin({ sync: "staff", cause: "demand", by });
    local.end(run.id, { state: "applied" });
    await ended;
    expect(coordinator.runs()).toEqual(local.runs());
    await coordinator.reject("20261121-100000-000001", { by });
    expect(coordinator.runs()).toEqual(local.runs());
  });

  test("a sync that is not there is an InputError that names it", async () => {
    await expect(coordinator.begin({ sync: "nobody", cause: "demand", by })).rejects.toThrow(InputError);
    await expect(coordinator.begin({ sync: "nobody", cause: "demand", by })).rejects.toThrow(
      "no sync is called nobody",
    );
  });

  test("an approval says what it is for", async () => {
    const selection = { only: ["create" as const], except: [{ kind: "user" as const, name: "zoë" }] };
    const approval = { by, digest, overrides: ["deletes" as const], selection };
    const { run, ended } = await coordinator.approve("20261121-100000-000001", approval);
    expect(run).toMatchObject({ id: "20261121-100000-000001", state: "running" });
    expect(local.calls).toEqual([{ what: "approve", request: approval }]);
    local.end(run.id, { state: "applied" });
    expect((await ended).state).toBe("applied");
  });

  test("what cannot be approved is an InputError with every problem", async () => {
    const wrong = coordinator.approve("20261121-100000-000001", { by, digest: "f".repeat(64) });
    await expect(wrong).rejects.toThrow(InputError);
    await expect(wrong).rejects.toMatchObject({ problems: [`digest: expected ${digest}`] });
    await expect(coordinator.approve("nothing", { by, digest })).rejects.toThrow("there is no run nothing");
  });

  test("a rejection gives the run as it is then, and can be had once", async () => {
    const rejected = await coordinator.reject("20261121-100000-000001", { by, reason: "not now" });
    expect(rejected.state).toBe("rejected");
    expect(local.calls).toEqual([{ what: "reject", request: { by, reason: "not now" } }]);
    await expect(coordinator.reject("20261121-100000-000001", { by })).rejects.toThrow("it is rejected");
  });

  test("an undo begins a run; what applied nothing cannot be undone", async () => {
    const { run, ended } = await coordinator.undo("20261121-090000-000002", { by });
    expect(run).toMatchObject({ undoes: "20261121-090000-000002", cause: "undo" });
    local.end(run.id, { state: "pending" });
    expect((await ended).state).toBe("pending");
    await expect(coordinator.undo("20261121-100000-000001", { by })).rejects.toThrow("applied nothing");
  });
});
