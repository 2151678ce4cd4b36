import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { ReadContext, SourceRecord } from "#connector.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { readOnce } from "#sync/explain/compare.ts";
import type { Sync } from "#sync/sync.ts";

type Batches = AsyncIterable<readonly SourceRecord[]>;

/** Reads a source that two syncs have, for one of them and then for the other. @param file of the workbench */
function readers(read: () => Batches, file: string): (() => Promise<(readonly SourceRecord[])[]>)[] {
  const rules = { attributes: () => undefined, required: () => undefined };
  const source = { uniqueIds: true, read };
  const sync = { sources: [{ name: "corp", source }], rules, target: { takes: "changes" } } as unknown as Sync;
  const context = { signal: new AbortController().signal } as ReadContext;
  const both = readOnce(sync, sync, { file: () => file } as unknown as Workbench);
  return both.flatMap(({ sources }) =>
    sources.map(
      ({ source: each }) =>
        () =>
          Array.fromAsync(each.read(context)),
    ),
  );
}

async function fileOf(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-read-once-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, name);
}

const batch: readonly SourceRecord[] = [
  { kind: "membership", group: "staff", member: { key: "ada" }, origin: "members.csv:2" },
  { kind: "membership", group: "staff", member: { key: "kim\u2028" }, origin: "members.csv:3" },
];

test.each([undefined, "the server has gone"])(
  "a source of two syncs is read once, and the second read has the same records and the same end (%s)",
  async (failure) => {
    let reads = 0;
    const read = async function* (): Batches {
      reads += 1;
      yield batch;
      yield batch.slice(1);
      if (failure !== undefined) throw new Error(failure);
    };
    for (const each of readers(read, await fileOf("records.ndjson")))
      if (failure === undefined) expect(await each()).toEqual([batch, batch.slice(1)]);
      else await expect(each()).rejects.toThrow(failure);
    expect(reads).toBe(1);
  },
);

test("a disk that is full while a source is read is an error of the read", async () => {
  const endless = async function* (): Batches {
    for (;;) yield batch;
  };
  const [first] = readers(endless, "/dev/full");
  await expect(first?.()).rejects.toThrow("ENOSPC");
});
