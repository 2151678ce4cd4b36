import { performance } from "node:perf_hooks";
import prometheus from "prom-client";
import type { Registry, Registry as Registered } from "prom-client";
import type { Attempt } from "#client/request.ts";
import { countRuns } from "./runs.ts";
import type { Observed } from "./runs.ts";

/** Everything that this process counts. Names, units and labels are those of docs/operations/monitoring.md. */
export interface Metrics extends Serving, Requests {
  readonly registry: Registered;
  /** Counts a notification that was delivered to a channel, or was given up. */
  readonly notified: (channel: string, delivered: boolean) => void;
  /** Counts the coordinator's runs and reports the status of its syncs. Returns a function that stops it. */
  readonly follow: (coordinator: Observed) => () => void;
}

/** @param version Rollcall's */
export function createMetrics(version: string): Metrics {
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
    notified: (channel, delivered) => {
      notifications.inc({ channel, outcome: delivered ? "delivered" : "failed" });
    },
    follow: countRuns(registry),
  };
}

/** A request to this process that is over. */
interface Served {
  readonly method: string;
  /** The template of its path; absent where no route has the path. */
  readonly route?: string;
  readonly status?: number;
  readonly seconds: number;
}

/** Counts requests, sent and served. No label holds anything a client chose. */
export interface Requests {
  readonly client: (attempt: Attempt) => void;
  readonly request: (served: Served) => void;
}

/** In seconds. */
const buckets = [0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 600];

function countRequests(registry: Registry): Requests {
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
    request: ({ method, route = "none", status = "none", seconds }) => {
      served.inc({ route, method, status });
      serving.observe({ route, method }, seconds);
    },
    client: ({ target, operation, status, seconds }) => {
      made.inc({ target, operation, status: status === undefined ? "none" : `${Math.floor(status / 100)}xx` });
      asking.observe({ target, operation }, seconds);
    },
  };
}

/** A load cycle that is over. */
interface EndedLoad {
  readonly database: string;
  readonly code: "OK" | "LOAD_FAILED" | "CANCELLED" | "EXPIRED";
  readonly rowsWritten: number;
  readonly ignoredRows: number;
  readonly bytes: number;
  readonly seconds: number;
}

/** What the service reports besides its requests. */
export interface Serving {
  load(ended: EndedLoad): void;
  /** Reads the service's current figures whenever the metrics are read. */
  watch(figures: () => { readonly sessions: number; readonly cycles: number }): void;
}

const outcomes = { OK: "loaded", LOAD_FAILED: "failed", CANCELLED: "cancelled", EXPIRED: "expired" } as const;

function countServing(registry: Registry): Serving {
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
    load: (ended) => {
      const { database, rowsWritten, ignoredRows } = ended;
      const outcome = outcomes[ended.code];
      loads.inc({ outcome });
      durations.observe({ outcome }, ended.seconds);
      bytes.inc(ended.bytes);
      // A name with which nothing was parsed may be that of no database at all: it does not become a label.
      if (rowsWritten > 0) rows.inc({ database, outcome: "written" }, rowsWritten);
      if (ignoredRows > 0) rows.inc({ database, outcome: "ignored" }, ignoredRows);
    },
    watch: (figures) => {
      const gauge = (name: string, help: string, read: keyof ReturnType<typeof figures>): void => {
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
