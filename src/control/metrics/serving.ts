import prometheus from "prom-client";
import type { Registry } from "prom-client";

/** A load cycle that is over. */
interface EndedLoad {
  readonly database: string;
  readonly code: "OK" | "LOAD_FAILED" | "CANCELLED" | "EXPIRED";
  readonly rowsWritten: number;
  readonly ignoredRows: number;
  readonly bytes: number;
  readonly seconds: number;
}

/** What the service tells beside its requests. */
export interface Serving {
  load(ended: EndedLoad): void;
  /** Asks for what the service has right now whenever somebody reads the metrics. */
  watch(figures: () => { readonly sessions: number; readonly cycles: number }): void;
}

const outcomes = { OK: "loaded", LOAD_FAILED: "failed", CANCELLED: "cancelled", EXPIRED: "expired" } as const;

export function countServing(registry: Registry): Serving {
  const registers = [registry];
  const loads = new prometheus.Counter({
    name: "rollcall_loads_total",
    help: "Load cycles that are over.",
    labelNames: ["outcome"],
    registers,
  });
  const rows = new prometheus.Counter({
    name: "rollcall_load_rows_total",
    help: "Rows of loads that are over: written to a table, or ignored because something was wrong with them.",
    labelNames: ["database", "outcome"],
    registers,
  });
  const bytes = new prometheus.Counter({
    name: "rollcall_load_bytes_total",
    help: "Bytes that were uploaded for loads that are over.",
    registers,
  });
  const durations = new prometheus.Histogram({
    name: "rollcall_load_duration_seconds",
    help: "From the start of a load cycle to its end, the uploads included.",
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
      gauge("rollcall_sessions", "Open sessions, those for commands on this machine included.", "sessions");
      gauge("rollcall_load_cycles", "Load cycles that take data or are being loaded.", "cycles");
    },
  };
}
