import { monitorEventLoopDelay } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";
import type { Delays } from "./event-loop.ts";

/** What a process says of itself once its garbage has been collected. Sizes are in bytes. */
export interface Inside {
  /** What JavaScript takes, in objects and code. */
  readonly heap: number;
  /** Of it, what V8 has compiled: it optimizes functions for thousands of runs, each of them once. */
  readonly code: number;
  /** What buffers take besides, as far as JavaScript knows of them. */
  readonly external: number;
  /** What the event loop waits for: timers, sockets, requests, by kind. */
  readonly resources: Readonly<Record<string, number>>;
  /** Since the last time. */
  readonly eventLoop: Delays;
}

// Loaded before the program (`node --import`). Every message from the parent is answered with an `Inside`.
if (isMainThread && process.send !== undefined) {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as (options: NodeJS.GCOptions) => void;
  const monitor = monitorEventLoopDelay({ resolution: 1 });
  monitor.enable();
  const late = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - 1);
  const look = async (): Promise<void> => {
    const eventLoop = { p99: late(monitor.percentile(99)), max: late(monitor.max) };
    // What finalizers of the first let go of, the second collects.
    for (let times = 0; times < 2; times++) {
      // With its free pages, too: they would be most of what swings.
      collect({ type: "major", flavor: "last-resort" });
      await new Promise((done) => setImmediate(done));
    }
    const { heapUsed: heap, external } = process.memoryUsage();
    const code = getHeapSpaceStatistics()
      .filter(({ space_name: name }) => /^(?:code|trusted)_/.test(name))
      .reduce((sum, { space_used_size: size }) => sum + size, 0);
    const resources: Record<string, number> = {};
    for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
    process.send?.({ heap, code, external, resources, eventLoop } satisfies Inside);
    // Collecting held the event loop, too.
    monitor.reset();
  };
  process.on("message", () => void look());
  // Nobody looks at it any more.
  process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
  process.channel?.unref();
}
