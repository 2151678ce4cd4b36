import type { Registry as Registered } from "prom-client";
import prometheus from "prom-client";
import { countRequests } from "./requests.ts";
import type { Requests } from "./requests.ts";
import { addProcessMetrics } from "./process.ts";
import { countRuns } from "./runs.ts";
import { countServing } from "./serving.ts";
import type { Serving } from "./serving.ts";
import type { Followed } from "./standing.ts";

/** Everything that this process counts. Names, units and labels are those of the README, "Metrics". */
export interface Metrics extends Serving, Requests {
  readonly registry: Registered;
  /** A notification has been delivered to a channel, or has not. */
  notified(channel: string, delivered: boolean): void;
  /** Counts what happens to the coordinator's runs, and shows how its syncs stand. Returns what ends that. */
  follow(coordinator: Followed): () => void;
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
    help: "Notifications, by channel and by whether they were delivered in the end.",
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
