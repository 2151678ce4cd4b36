import { performance } from "node:perf_hooks";
import prometheus from "prom-client";
import type { Registry } from "prom-client";

/** The library measures the lag of the event loop with a timer that cannot be left out; in milliseconds. */
const hardlyEver = 7 * 24 * 3600 * 1000;

/** What that timer would have measured. */
const unmeasured = ["", "min_", "max_", "mean_", "stddev_", "p50_", "p90_", "p99_"];

/**
 * What every Node process tells: processor time, memory, file descriptors, garbage collection; and instead of the lag of
 * the event loop, which costs a hundred wake-ups a second, how long it was busy.
 */
export function addProcessMetrics(registry: Registry): void {
  prometheus.collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: hardlyEver });
  for (const name of unmeasured) registry.removeSingleMetric(`nodejs_eventloop_lag_${name}seconds`);
  const busy = new prometheus.Counter({
    name: "nodejs_eventloop_active_seconds_total",
    help: "How long the event loop was busy, not waiting for something to happen.",
    registers: [registry],
    collect: () => {
      busy.reset();
      busy.inc(performance.eventLoopUtilization().active / 1000);
    },
  });
}
