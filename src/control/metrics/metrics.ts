import { performance } from "node:perf_hooks";
import prometheus from "prom-client";
import type { Registry } from "prom-client";
import type { Attempt } from "#client/request.ts";
import { countRuns } from "./runs.ts";
import type { EndedRequest } from "#http/server.ts";
import type { EndedLoad, Figures } from "#service/host.ts";

/** Everything that this process counts. */
export type Metrics = ReturnType<typeof createMetrics>;

/**
 * Counts everything. Names, units and labels are those of docs/operations/monitoring.md.
 * @param version Rollcall's
 */
export function createMetrics(version: string) {
  const registry = new prometheus.Registry();
  const registers = [registry];
  new prometheus.Gauge({
    name: "rollcall_build_info",
    help: "Always 1; the labels say what is running.",
    labelNames: ["version", "node"],
    registers,
  }).set({ version, node: process.versions.node }, 1);
  addProcessMetrics(registry);
  const notifications = new prometheus.Counter({
    name: "rollcall_notifications_total",
    help: "Notifications by channel, and whether they were delivered in the end.",
    labelNames: ["channel", "outcome"],
    registers,
  });
  return {
    registry,
    ...countRequests(registry),
    ...countServing(registry),
    /** Counts a notification that was delivered to a channel, or was given up. */
    notified: (channel: string, delivered: boolean): void => {
      notifications.inc({ channel, outcome: delivered ? "delivered" : "failed" });
    },
    /** Counts the coordinator's runs and reports the status of its syncs. Returns a function that stops it. */
    follow: countRuns(registry),
  };
}

/** In seconds. */
const buckets = [0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 600];

/** Counts requests, sent and served. No label holds anything a client chose. */
function countRequests(registry: Registry) {
  const registers = [registry];
  const served = new prometheus.Counter({
    name: "rollcall_http_requests_total",
    help: "Requests to this process, by path template. Status none: the client left before the answer.",
    labelNames: ["route", "method", "status"],
    registers,
  });
  const serving = new prometheus.Histogram({
    name: "rollcall_http_request_duration_seconds",
    help: "From a request's headers to the end of its answer.",
    labelNames: ["route", "method"],
    buckets,
    registers,
  });
  const made = new prometheus.Counter({
    name: "rollcall_client_requests_total",
    help: "Requests to targets, counting each attempt. Status: 2xx, 3xx, 4xx, 5xx, or none without an answer.",
    labelNames: ["target", "operation", "status"],
    registers,
  });
  const asking = new prometheus.Histogram({
    name: "rollcall_client_request_duration_seconds",
    help: "From the start of a request to a target to the end of its answer.",
    labelNames: ["target", "operation"],
    buckets,
    registers,
  });
  return {
    request: ({ method, route = "none", status, seconds }: EndedRequest): void => {
      served.inc({ route, method, status: status ?? "none" });
      serving.observe({ route, method }, seconds);
    },
    client: ({ target, operation, status, seconds }: Attempt): void => {
      made.inc({ target, operation, status: status === undefined ? "none" : `${Math.floor(status / 100)}xx` });
      asking.observe({ target, operation }, seconds);
    },
  };
}

const outcomes = { OK: "loaded", LOAD_FAILED: "failed", CANCELLED: "cancelled", EXPIRED: "expired" } as const;

/** Counts what the service does besides answering requests. */
function countServing(registry: Registry) {
  const registers = [registry];
  const loads = new prometheus.Counter({
    name: "rollcall_loads_total",
    help: "Load cycles that have ended.",
    labelNames: ["outcome"],
    registers,
  });
  const rows = new prometheus.Counter({
    name: "rollcall_load_rows_total",
    help: "Rows of ended loads: written to a table, or ignored as bad records.",
    labelNames: ["database", "outcome"],
    registers,
  });
  const bytes = new prometheus.Counter({
    name: "rollcall_load_bytes_total",
    help: "Bytes uploaded for ended loads.",
    registers,
  });
  const durations = new prometheus.Histogram({
    name: "rollcall_load_duration_seconds",
    help: "From the start of a load cycle to its end, including the uploads.",
    labelNames: ["outcome"],
    buckets: [0.1, 0.5, 2, 10, 30, 120, 600, 3600],
    registers,
  });
  for (const outcome of Object.values(outcomes)) loads.inc({ outcome }, 0);
  return {
    load: (ended: EndedLoad): void => {
      const { database, rowsWritten, ignoredRows } = ended;
      const outcome = outcomes[ended.code];
      loads.inc({ outcome });
      durations.observe({ outcome }, ended.seconds);
      bytes.inc(ended.bytes);
      // A name with which nothing was parsed may be that of no database at all: it does not become a label.
      if (rowsWritten > 0) rows.inc({ database, outcome: "written" }, rowsWritten);
      if (ignoredRows > 0) rows.inc({ database, outcome: "ignored" }, ignoredRows);
    },
    /** Reads the service's current figures whenever the metrics are read. */
    watch: (figures: () => Figures): void => {
      const gauge = (name: string, help: string, read: keyof Figures): void => {
        const shown = new prometheus.Gauge({
          name,
          help,
          registers,
          collect: () => {
            shown.set(figures()[read]);
          },
        });
      };
      gauge("rollcall_sessions", "Open sessions, including those of commands on this machine.", "sessions");
      gauge("rollcall_load_cycles", "Load cycles that accept data or are loading.", "cycles");
    },
  };
}

/** The library measures the lag of the event loop with a timer that cannot be left out; in milliseconds. */
const hardlyEver = 7 * 24 * 3600 * 1000;

/** What that timer would have measured. */
const unmeasured = ["", "min_", "max_", "mean_", "stddev_", "p50_", "p90_", "p99_"];

/**
 * Metrics of every Node process: processor time, memory, file descriptors, garbage collection. The event loop's lag would cost
 * a hundred wake-ups a second; its busy time stands in for it.
 */
function addProcessMetrics(registry: Registry): void {
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
