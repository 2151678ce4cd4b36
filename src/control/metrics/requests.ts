import prometheus from "prom-client";
import type { Registry } from "prom-client";
import type { Attempt } from "#client/ask.ts";

/** A request to this process that is over. */
interface Served {
  readonly method: string;
  /** The template of its path; absent where no route has the path. */
  readonly route?: string;
  readonly status?: number;
  readonly seconds: number;
}

/** What is told of requests, made and served. No label holds anything that a client chose. */
export interface Requests {
  client(attempt: Attempt): void;
  request(served: Served): void;
}

/** In seconds. */
const buckets = [0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 600];

export function countRequests(registry: Registry): Requests {
  const registers = [registry];
  const served = new prometheus.Counter({
    name: "rollcall_http_requests_total",
    help: "Requests to this process, by the template of their path. Status: none, when the client went before the answer.",
    labelNames: ["route", "method", "status"],
    registers,
  });
  const serving = new prometheus.Histogram({
    name: "rollcall_http_request_duration_seconds",
    help: "From the header of a request to the end of its answer.",
    labelNames: ["route", "method"],
    buckets,
    registers,
  });
  const made = new prometheus.Counter({
    name: "rollcall_client_requests_total",
    help: "Requests to targets, each attempt by itself. Status: 2xx, 3xx, 4xx, 5xx; none, when there was no answer.",
    labelNames: ["target", "operation", "status"],
    registers,
  });
  const asking = new prometheus.Histogram({
    name: "rollcall_client_request_duration_seconds",
    help: "From the beginning of a request to a target to the end of its answer.",
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
