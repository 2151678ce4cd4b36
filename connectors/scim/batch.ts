import type { SourceRecord } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Options } from "./options.ts";

/** A batch ends at so many records, or references: groups may have thousands of members each. */
const longestBatch = { records: 1_000, references: 10_000 };

/** How many there were. */
export type Counts = Record<SourceRecord["kind"], number>;

/** The records in batches; counts them. */
export function* batched(records: Iterable<SourceRecord>, counts: Counts): Generator<readonly SourceRecord[]> {
  let batch: SourceRecord[] = [];
  let references = 0;
  for (const record of records) {
    counts[record.kind]++;
    batch.push(record);
    references += record.kind === "membership" ? 1 : record.memberOf.length + record.members.length;
    if (batch.length < longestBatch.records && references < longestBatch.references) continue;
    yield batch;
    batch = [];
    references = 0;
  }
  if (batch.length > 0) yield batch;
}

/** @throws {IncompleteReadError} when there are fewer users or groups than configured */
export function assertEnough(counts: Counts, { minUsers, minGroups }: Options, subject: string): void {
  for (const [kind, least, setting] of [
    ["user", minUsers, "minUsers"],
    ["group", minGroups, "minGroups"],
  ] as const) {
    if (counts[kind] >= least) continue;
    throw new IncompleteReadError(`${subject}: ${counts[kind]} ${kind}s, expected at least ${least} (${setting})`);
  }
}
