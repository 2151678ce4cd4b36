import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";

/**
 * Loaded before the service (`node --import`): measures how late the event loop's timers are. Every message from the
 * parent is answered with what was measured since the one before. Keeps the process up no longer than it would be.
 */
export interface Delays {
  /** Milliseconds. */
  readonly p99: number;
  readonly max: number;
}

/** The monitor's timer in milliseconds; part of what it measures. */
const resolution = 1;

if (isMainThread) {
  const monitor = monitorEventLoopDelay({ resolution });
  monitor.enable();
  const late = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e6 - resolution);
  process.on("message", () => {
    const delays: Delays = { p99: late(monitor.percentile(99)), max: late(monitor.max) };
    monitor.reset();
    process.send?.(delays);
  });
  process.channel?.unref();
}
