import type { Attributes } from "#principals/attributes.ts";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openConfiguredTarget } from "#daemon/targets.ts";
import { openParts, openSource, syncOf } from "#daemon/wiring.ts";
import type { Configuration } from "#config/configuration.ts";
import type { Entry, ReadContext, SourceRecord } from "#connector.ts";
import type { Connection } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { InputError } from "#errors.ts";
import { progressOf } from "#daemon/context.ts";
import { evaluateExpectations } from "#plan/expectations.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import type { Note } from "#plan/note.ts";
import { expectationLines } from "#plan/render/expectations.ts";
import { readSources } from "#sync/planning/desired.ts";
import { quarantineNotes } from "#sync/planning/notes.ts";
import type { SyncSource } from "#sync/sync.ts";
import { formatNumber, formatSizes } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { daemonFolder, workFolder } from "#daemon/data-folder.ts";

/** What checking needs. */
export interface Checking extends Pick<Context, "configuration" | "embedded" | "log"> {
  readonly signal: AbortSignal;
  /** Called with warnings of sources. */
  readonly warn: (message: string) => void;
  /** Called with what is being done; without a message it is over. */
  readonly progress: (message?: string) => void;
}

/** The result for one name of the configuration. */
export interface Finding extends Partial<SyncCheck> {
  readonly what: "pinboards" | "state" | "source" | "sync" | "target" | "channel";
  readonly name: string;
  /** What was reached, how the connection is protected, and the account; absent if a connector does not say. */
  readonly reached?: readonly string[] | undefined;
  /** It is this configuration's own service, which does not run: only what it needs was tried. */
  readonly isStopped?: boolean | undefined;
  /** The first records of a source, as they are. */
  readonly samples?: readonly string[];
  readonly error?: unknown;
}

/** What a source delivers. */
interface SourceCheck {
  reached?: readonly string[] | undefined;
  users: number;
  groups: number;
  /** The first records, as they are. */
  readonly samples: string[];
  isRead: boolean;
  error?: unknown;
}

/** What a sync makes of its sources. */
interface SyncCheck {
  readonly users: number;
  readonly groups: number;
  readonly excluded: number;
  readonly quarantined: number;
  /** The first principals. */
  readonly principals: readonly Readonly<Record<string, unknown>>[];
  /** For a person to look at. */
  readonly problems: readonly Note[];
  /** What it expects, of what the sources make alone. Absent: nothing. */
  readonly expectations?: readonly ExpectationCheck[];
}

/** How many records and principals are shown. */
const shown = 3;

/** Which sources and syncs to check. A source that no sync reads to its end is read by itself, if it is among them. */
interface Wanted {
  readonly sources: readonly string[];
  readonly syncs: readonly string[];
}

/**
 * Assembles syncs as a run does, and counts what their sources deliver meanwhile. Errors are in the results.
 * @param wanted absent: everything in the configuration
 */
export async function checkSourcesAndSyncs(
  context: Checking,
  wanted: Wanted = {
    sources: Object.keys(context.configuration.sources),
    syncs: Object.keys(context.configuration.syncs),
  },
): Promise<{ readonly sources: Finding[]; readonly syncs: Finding[] }> {
  const { configuration, signal } = context;
  const sources = new Map<string, SourceCheck>();
  const syncs: Finding[] = [];
  for (const name of wanted.syncs) {
    const { from } = syncOf(configuration, name);
    const failed = (): string | undefined => from.find((source) => sources.get(source)?.error !== undefined);
    const before = failed();
    try {
      if (before !== undefined) throw new InputError("");
      syncs.push({ what: "sync", name, ...(await checkSync(context, name, sources)) });
    } catch (error) {
      const source = failed();
      const unread = new InputError(`not checked: source ${source} could not be read`);
      syncs.push({ what: "sync", name, error: source === undefined ? error : unread });
    }
    if (signal.aborted) break;
  }
  const findings: Finding[] = [];
  for (const name of wanted.sources) {
    if (sources.get(name)?.isRead !== true && sources.get(name)?.error === undefined) {
      const alone = { name, source: openSource(configuration, name) };
      const read = observed(context, alone, { signal, warn: warnOf(context, name) }, sources);
      // What it delivers is counted on the way; its error is in the result.
      await drain(read).catch(() => undefined);
    }
    const { isRead: _, ...found } = sources.get(name) ?? { isRead: false };
    findings.push({ what: "source", name, ...found });
  }
  context.progress();
  return { sources: findings, syncs };
}

async function checkSync(context: Checking, name: string, found: Map<string, SourceCheck>): Promise<SyncCheck> {
  const { configuration, log, signal, progress } = context;
  const { sources, rules, protection, expectations = [] } = await openParts(configuration, name);
  const { memory } = configuration;
  const place = await placeToWork(configuration);
  const workbench = await Workbench.open({ folder: place.folder, memory });
  const { connection } = workbench;
  const counted = sources.map((each): SyncSource => {
    const read = (reading: ReadContext) =>
      observed(context, each, { ...reading, warn: warnOf(context, each.name) }, found);
    return Object.assign({}, each, { source: { uniqueIds: each.source.uniqueIds, read } });
  });
  try {
    const assembly = await readSources({ sources: counted, rules, protection }, workbench, {
      signal,
      warn: () => {},
      progress: progressOf({ log, output: { progress } }, name),
      keepAttributes: expectations.some(({ readsSource }) => readsSource),
    });
    const expected = await evaluateExpectations(connection, expectations, {
      attributes: rules.declared,
      result: "assembled",
      sources: sources.map((each) => each.name),
      signal,
    });
    const doubts = quarantineNotes(assembly.quarantined).flatMap(({ details = [] }) => details);
    return {
      users: assembly.users,
      groups: assembly.groups,
      excluded: assembly.excluded,
      quarantined: assembly.quarantined.count,
      principals: await firstPrincipals(connection, rules.declared),
      problems: [
        ...doubts,
        ...assembly.neverSet.map((each) => ({
          text: `rule ${each} is set in no record: is that the attribute's name?`,
        })),
        ...expectationLines(expected, { isPlan: false })
          .filter(({ tone }) => tone !== "quiet")
          .map(({ text, details }) => ({
            text: `expectation ${text}`,
            details: details.map((each) => ({ text: each })),
          })),
      ],
      ...(expected.length > 0 && { expectations: expected }),
    };
  } finally {
    progress();
    await workbench.close();
    await place.remove();
  }
}

/** The folder of workbenches; one for this check alone where the data folder has none, so that a check makes no data folder. */
async function placeToWork(
  configuration: Configuration,
): Promise<{ readonly folder: string; readonly remove: () => Promise<void> }> {
  if (existsSync(join(daemonFolder(configuration), "work")))
    return { folder: await workFolder(configuration), remove: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), "rollcall-check-"));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

function warnOf({ warn }: Checking, name: string): (message: string) => void {
  return (message) => {
    // Most connectors name the source themselves.
    warn(message.startsWith(`source ${name}: `) ? message : `source ${name}: ${message}`);
  };
}

/** Reads a source and counts what it delivers, into `found`. */
async function* observed(
  { progress }: Checking,
  { name, source }: Pick<SyncSource, "name" | "source">,
  context: ReadContext,
  found: Map<string, SourceCheck>,
): AsyncIterable<readonly SourceRecord[]> {
  const result: SourceCheck = { users: 0, groups: 0, samples: [], isRead: false };
  found.set(name, result);
  try {
    result.reached = await source.describe?.(context);
    for await (const batch of source.read(context)) {
      for (const record of batch) {
        if (record.kind === "membership") continue;
        result[`${record.kind}s`] += 1;
        if (result.samples.length < shown) result.samples.push(sampleOf(record));
      }
      yield batch;
      progress(`source ${name}: ${formatNumber(result.users + result.groups)} records …`);
    }
    result.isRead = true;
  } catch (error) {
    result.error = error;
    throw error;
  }
}

async function drain(batches: AsyncIterable<unknown>): Promise<void> {
  const iterator = batches[Symbol.asyncIterator]();
  while ((await iterator.next()).done !== true);
}

async function firstPrincipals(connection: Connection, attributes: Attributes): Promise<SyncCheck["principals"]> {
  const rows = await connection.rows<{ kind: string; name: string; values: object; groups: readonly string[] }>(`
    SELECT kind, name, ${attributes.values()} AS "values", group_names AS groups FROM assembled ORDER BY rowid LIMIT ${shown}`);
  return rows.map(({ kind, name, values, groups }) => {
    const set = Object.entries(values).filter(([, value]) => value !== null);
    return Object.assign({ kind, name }, Object.fromEntries(set), { groups });
  });
}

function sampleOf(entry: Entry): string {
  return `${entry.kind} ${entry.id} (${entry.origin}): ${JSON.stringify(entry.attributes)}`;
}

/** Tries a target. An error is in the result. */
export async function checkTarget({ configuration, embedded, signal }: Checking, name: string): Promise<Finding> {
  try {
    const target = await openConfiguredTarget(configuration, name, embedded);
    try {
      return { what: "target", name, reached: await target.check(signal) };
    } finally {
      await target.close();
    }
  } catch (error) {
    return { what: "target", name, error };
  }
}

/** Reaches the database that daemons share their state in. */
export async function checkState({ postgres, lease }: NonNullable<Configuration["shared"]>): Promise<Finding> {
  const what = { what: "state", name: "of the daemon" } as const;
  try {
    // Only loaded where it is used, with its driver.
    const { describeShared } = await import("#state/postgres/store.ts");
    return { ...what, reached: await describeShared(postgres, lease) };
  } catch (error) {
    return { ...what, error };
  }
}

/** What a check found, in short: `5 users, 2 groups`, `reached`. @param emphasize what is in doubt */
export function headlineOf(
  { what, users = 0, groups = 0, excluded = 0, quarantined = 0, isStopped = false }: Finding,
  emphasize = (doubt: string): string => doubt,
): string {
  if (what === "source") return formatSizes(users, groups);
  if (what !== "sync") return isStopped ? "not running" : "reached";
  const doubt = emphasize(`${formatNumber(quarantined)} quarantined`);
  return `${formatSizes(users, groups)}, ${formatNumber(excluded)} excluded, ${doubt}`;
}
