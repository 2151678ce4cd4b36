import type { LoadStatus } from "#wire/loads.ts";
import type { CycleRecord, Received } from "./record.ts";

/** The status of a cycle (A.10, A.11). `buffered`: bytes of chunks that are kept. */
export function statusOf(record: CycleRecord, received: Received, buffered: number): LoadStatus {
  const { id, stage, started, outcome } = record;
  return {
    cycle_id: id,
    internal_stage: stage,
    status: {
      code: outcome?.code ?? "OK",
      ...(outcome?.message === undefined ? {} : { message: outcome.message }),
    },
    rows_written: String(outcome?.rowsWritten ?? 0),
    ignored_row_count: String(outcome?.ignoredRows ?? 0),
    bytes_written: String(received.bytes),
    buffered_bytes_size: String(buffered),
    ingested_network_bw: String(bandwidth(started, received)),
    start_time: microseconds(started),
    ...(outcome === undefined ? {} : { end_time: microseconds(outcome.ended) }),
    ...(outcome === undefined || outcome.errors.length === 0 ? {} : { parsing_errors: [...outcome.errors] }),
  };
}

/** Bytes a second, from the start of the cycle to its last chunk. */
function bandwidth(started: number, { bytes, until }: Received): number {
  return Math.round((bytes * 1000) / Math.max(1, until - started));
}

function microseconds(milliseconds: number): string {
  return `${Math.round(milliseconds)}000`;
}
