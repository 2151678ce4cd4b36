import { createReadStream, createWriteStream } from "node:fs";
import { once } from "node:events";
import { finished } from "node:stream/promises";
import type {
  ReadContext,
  Source,
  SourceRecord,
  ObjectTarget,
  RemoteRecord,
  Target,
  WantedAttributes,
} from "#connector.ts";
import type { Plan } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { linesOf } from "#files/lines.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { loadBaseline } from "#sync/planning/baseline.ts";
import type { Kind } from "#principals/principal.ts";
import { makeDesired } from "#sync/planning/desired.ts";
import { listToFile } from "#sync/planning/target.ts";
import type { Desired } from "#sync/planning/desired.ts";
import { inWorkbench } from "#sync/interruption.ts";
import type { Interruption } from "#sync/interruption.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import type { StateFiles } from "#state/store.ts";
import { ledgerOf } from "#sync/sync.ts";
import type { Sync } from "#sync/sync.ts";
import type { Stage } from "#state/record.ts";

export interface CompareOptions {
  readonly files: StateFiles;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  readonly interruption: Interruption;
  readonly progress?: (stage: Stage, records?: number) => void;
  readonly warn: (message: string) => void;
  /** Called with the differences. `plan` can be read only while it runs. */
  readonly report: (comparison: Comparison) => Promise<void>;
}

/** The difference between what two syncs want of a target. */
export interface Comparison {
  readonly plan: Plan;
  /** What the second one wants. */
  readonly desired: Desired;
}

/**
 * Compares what two syncs want of one target, from the same live data: a source that both have (the same `Source`) is read
 * once, and the target is listed once. Changes nothing.
 * @throws what `run` throws before it applies
 */
export async function compare(before: Sync, after: Sync, options: CompareOptions): Promise<void> {
  return inWorkbench(options, async (workbench, watching) => {
    const { connection } = workbench;
    const signal = watching.signal();
    await Ledger.open(connection, { files: options.files, ...ledgerOf(after), mode: "read", signal });
    const baseline = after.causes
      ? await loadBaseline(connection, options.files, after, after.rules.declared)
      : undefined;
    const [first, second] = readOnce(before, after, workbench);
    await makeDesired(first, workbench, { ...options, baseline, signal });
    await connection.run("ALTER TABLE desired RENAME TO desired_before");
    const desired = await makeDesired(second, workbench, { ...options, baseline, signal });
    await connection.run("DROP TABLE actual; ALTER TABLE desired_before RENAME TO actual");
    await options.report({ plan: await createPlan(connection, after.rules.declared), desired });
  });
}

/**
 * Two syncs to one target that see the same: a source that both have (the same `Source`) is read once, and the target is
 * listed once.
 * @param workbench has the files with what was read
 * @param leavesOut says which attributes are not read, whatever the rules want
 */
export function readOnce(
  before: Sync,
  after: Sync,
  workbench: Workbench,
  leavesOut?: LeavesOut,
): readonly [before: Sync, after: Sync] {
  const target = listedOnce(after.target, workbench);
  const required = after.sources.length === 1 ? after.rules.required() : undefined;
  const attributes = wantedByBoth(before, after, leavesOut);
  const remember = rememberingSources({ attributes, required }, workbench, leavesOut);
  const share = (sync: Sync): Sync => {
    const sources = sync.sources.map(({ source, ...rest }) => ({ ...rest, source: remember(source) }));
    return { ...sync, sources, target };
  };
  return [share(before), share(after)];
}

/** The target, read once: later reads are copies of the first. */
function listedOnce(target: Target, workbench: Workbench): Target {
  if (target.takes === "changes") return readFromFile(target, workbench.file("objects.jsonl"));
  const file = workbench.file("listed.json");
  let listed: Promise<string | undefined> | undefined;
  return {
    ...target,
    list: async (read, signal) => {
      listed ??= listToFile(target, file, signal);
      const tag = await listed;
      await read(createReadStream(file));
      return tag;
    },
  };
}

function readFromFile(target: ObjectTarget, file: string): Target {
  const { takes, name, abilities } = target;
  const batches = remembered<RemoteRecord>(file);
  return {
    takes,
    name,
    abilities,
    current: (...all) => target.current(...all),
    write: (...all) => target.write(...all),
    check: (signal) => target.check(signal),
    close: () => target.close(),
    read: (context) => batches(() => target.read(context), context.signal),
  };
}

/** Whether an attribute of records of a kind is not read. */
type LeavesOut = (kind: Kind, attribute: string) => boolean;

function wantedByBoth(before: Sync, after: Sync, leavesOut?: LeavesOut): WantedAttributes | undefined {
  const [one, other] = [before.rules.attributes(), after.rules.attributes()];
  if (one === undefined || other === undefined) return undefined;
  const wanted = (kind: Kind): string[] =>
    [...one[`${kind}s`], ...other[`${kind}s`]].filter((name) => leavesOut?.(kind, name) !== true);
  return { users: wanted("user"), groups: wanted("group") };
}

/** Batches of records without the attributes that are left out. */
async function* without(
  records: AsyncIterable<readonly SourceRecord[]>,
  leavesOut: LeavesOut,
): AsyncGenerator<readonly SourceRecord[]> {
  const lessen = (record: SourceRecord): SourceRecord => {
    if (record.kind === "membership") return record;
    const names = Object.keys(record.attributes);
    if (!names.some((name) => leavesOut(record.kind, name))) return record;
    const rest = Object.entries(record.attributes).filter(([name]) => !leavesOut(record.kind, name));
    return { ...record, attributes: Object.fromEntries(rest) };
  };
  for await (const batch of records) yield batch.map(lessen);
}

/** Makes a source that is read once: later reads yield the same records again. */
function rememberingSources(
  wanted: Pick<ReadContext, "attributes" | "required">,
  workbench: Workbench,
  leavesOut?: LeavesOut,
): (source: Source) => Source {
  const known = new Map<Source, Source>();
  return (source) => {
    const before = known.get(source);
    if (before !== undefined) return before;
    const read = (context: ReadContext): AsyncIterable<readonly SourceRecord[]> => {
      const records = source.read({ ...context, ...wanted });
      return leavesOut === undefined ? records : without(records, leavesOut);
    };
    const batches = remembered<SourceRecord>(workbench.file(`source-${known.size}.ndjson`));
    const made: Source = {
      uniqueIds: source.uniqueIds,
      read: (context) => batches(() => read(context), context.signal),
    };
    known.set(source, made);
    return made;
  };
}

/** Batches that are read once, into a file, a batch a line: later reads yield them again, and end as the first one ended. */
function remembered<Each>(
  file: string,
): (first: () => AsyncIterable<readonly Each[]>, signal: AbortSignal) => AsyncIterable<readonly Each[]> {
  let isRead = false;
  let failure: Error | undefined;
  return async function* read(first, signal) {
    if (isRead) {
      for await (const { bytes } of linesOf(createReadStream(file, { signal })))
        yield JSON.parse(bytes.toString()) as Each[];
      if (failure !== undefined) throw failure;
      return;
    }
    const copy = createWriteStream(file, { mode: 0o600 });
    const written = finished(copy);
    written.catch(() => undefined);
    try {
      for await (const batch of first()) {
        if (!copy.write(`${JSON.stringify(batch)}\n`)) await Promise.race([once(copy, "drain"), written]);
        yield batch;
      }
      copy.end();
      await written;
      isRead = true;
    } catch (error) {
      copy.end();
      await written.catch(() => undefined);
      [isRead, failure] = [true, error as Error];
      throw error;
    } finally {
      copy.destroy();
    }
  };
}
