import { isDeepStrictEqual } from "node:util";
import { hash } from "node:crypto";
import { relative } from "node:path";
import type { ClientOptions } from "#client/client.ts";
import type { Configuration, SyncConfiguration } from "#config/configuration.ts";
import { attributesOf, isConnected } from "#config/targets.ts";
import { ConfigurationDocument } from "#config/document.ts";
import { renderPath } from "#config/problems.ts";
import type { Path } from "#config/problems.ts";
import { InputError } from "#errors.ts";
import { redactor } from "#redact.ts";
import { compileRules, tablesOf } from "#principals/compile.ts";
import { compileExpectations, readersOf, tablesOfExpectations } from "#principals/expectations.ts";
import { readTables } from "#principals/lookup.ts";
import type { LookupTable } from "#principals/lookup.ts";
import type { InboxSettings, OpenContext } from "#connector.ts";
import type { Sync, SyncSource } from "#sync/sync.ts";
import type { Embedded } from "./embedded.ts";
import { readState } from "./data-folder.ts";
import { listOf } from "./output.ts";
import { administratorsOf, declaredBy, neverDeleted, openConfiguredTarget, ownOf, placeOf } from "./targets.ts";

/** Raise it when the same records and rules make other principals than before: then nothing stored is reused. */
const edition = 2;

/** Opens a sync of the configuration: its sources, its rules and its target. Close its target after use. */
export async function openSync(
  configuration: Configuration,
  name: string,
  embedded: Embedded,
  observe?: ClientOptions["observe"],
): Promise<Sync> {
  const parts = await openParts(configuration, name);
  const { to } = syncOf(configuration, name);
  const target = await openConfiguredTarget(configuration, to, embedded, observe);
  const departures = { ...parts.departures, ...neverDeleted(parts.departures, target) };
  return { ...parts, departures, target, place: placeOf(configuration, to) };
}

/** A sync of the configuration without its target. */
export async function openParts(configuration: Configuration, name: string): Promise<Omit<Sync, "target" | "place">> {
  const sync = syncOf(configuration, name);
  const tables = await tablesFor(configuration, sync);
  const declared = declaredBy(configuration, sync.to);
  const own = ownOf(configuration, sync.to);
  const now = new Date();
  const place = (path: Path): string => placeIn(configuration, ["syncs", name, ...path]);
  const expectations = compileExpectations(
    sync.expectations,
    now,
    tables,
    (index) => place(["expectations", index, "expect"]),
    declared,
  );
  const rules = compileRules(sync.rules, now, tables, readersOf(expectations), place, declared);
  const digests = Object.fromEntries([...tables].map(([file, { digest }]) => [file, digest]));
  return {
    name,
    sources: sync.from.map((source) => openSyncSource(configuration, sync, source)),
    digest: digestOf(configuration, sync, digests),
    rules,
    protection: {
      manage: sync.manage,
      makesGroups: rules.makesGroups,
      users: [...own.users, ...sync.protect.users],
      groups: [...own.groups, ...sync.protect.groups],
      ...(isConnected(configuration.targets[sync.to]) && { ignoresCase: true }),
      others: othersOf(configuration, name),
    },
    departures: {
      ...sync.deletions,
      renames: sync.renames,
      reusedNames: sync.reusedNames,
      administrators: administratorsOf(configuration, sync.to),
    },
    limits: sync.limits,
    causes: sync.causes,
    drift: sync.drift,
    expectations,
    keepManual: sync.keepManual,
    settings: settingsOf(configuration, name, sync, digests),
    defaultPassword: sync.defaultPassword,
  };
}

/** The other syncs to the target of a sync, under whatever name. */
function othersOf(configuration: Configuration, name: string): readonly string[] {
  const placeOfSync = (each: string): string => placeOf(configuration, syncOf(configuration, each).to);
  return Object.keys(configuration.syncs).filter((each) => each !== name && placeOfSync(each) === placeOfSync(name));
}

/** Compiles other rules than those of a sync, which look values up in the same tables, as they are now. */
export async function compilerOf(
  configuration: Configuration,
  sync: SyncConfiguration,
): Promise<(rules: SyncConfiguration["rules"]) => Sync["rules"]> {
  const tables = await tablesFor(configuration, sync);
  const declared = declaredBy(configuration, sync.to);
  const readers = readersOf(compileExpectations(sync.expectations, undefined, tables, undefined, declared));
  return (rules) => compileRules(rules, undefined, tables, readers, undefined, declared);
}

/** Where something is written: `rollcall.yaml:12: syncs.staff.users.name`. */
function placeIn(configuration: Configuration, path: Path): string {
  const { line } = new ConfigurationDocument(configuration.text, undefined).problem(path, "value", "");
  return `${shownFile(configuration)}:${line}: ${renderPath(path)}`;
}

function shownFile({ file }: Configuration): string {
  const near = relative("", file);
  return near === "" || near.startsWith("..") ? file : near;
}

/** The tables that the rules of a sync look values up in, as they are now. @throws {RollcallError} one cannot be read */
async function tablesFor(
  { readTable, folder, targets }: Configuration,
  { rules, expectations, to }: SyncConfiguration,
): Promise<ReadonlyMap<string, LookupTable>> {
  const tables = new Map<string, LookupTable>();
  const files = [...tablesOf(rules, attributesOf(targets[to])), ...tablesOfExpectations(expectations)];
  for (const [file, table] of readTable === undefined ? [] : await readTables(files, folder, readTable)) {
    if (table instanceof Error) throw table;
    tables.set(file, table);
  }
  return tables;
}

function openSyncSource(configuration: Configuration, { optional }: SyncConfiguration, name: string): SyncSource {
  return {
    name,
    optional: optional.includes(name),
    fullReadEvery: configuration.sources[name]?.fullReadEvery,
    digest: digestOfSource(configuration, name),
    source: openSource(configuration, name),
  };
}

/** The digest of everything in the configuration that reading the sources depends on, without secrets. */
function digestOf(
  configuration: Configuration,
  { from, to, optional, rules, causes, expectations }: SyncConfiguration,
  tables: Readonly<Record<string, string>>,
): string {
  const { sources, targets, folder } = configuration;
  const target = targets[to];
  const read = from.map((name) => [name, sources[name]?.connector.name, sources[name]?.options]);
  // Attributes are read for expectations, too.
  const expected = expectations.map(({ over, expect }) => [over, expect]);
  return hash(
    "sha256",
    redacted(configuration, [
      edition,
      folder,
      read,
      optional,
      rules,
      causes,
      tables,
      ...(expected.length > 0 ? [expected] : []),
      ...(isConnected(target) ? [target.declared.all] : []),
    ]),
  );
}

/** A part of the configuration as JSON, without secrets. */
function redacted({ secrets }: Configuration, part: unknown): string {
  return redactor(secrets, { words: true })(JSON.stringify(part));
}

/** What a sync is configured to do, without secrets. */
function settingsOf(
  configuration: Configuration,
  name: string,
  sync: SyncConfiguration,
  tables: Readonly<Record<string, string>>,
): Readonly<Record<string, unknown>> {
  const { sources } = configuration;
  const { from, rules, manage, protect, deletions, renames, reusedNames } = sync;
  const memberships = sync.keepManual.length === 0 ? undefined : { keepManual: sync.keepManual };
  const all = {
    sources: Object.fromEntries(from.map((source) => [source, sources[source]?.options])),
    syncs: { [name]: { from, ...rules, manage, protect, deletions, renames, reusedNames, memberships } },
    ...(Object.keys(tables).length === 0 ? {} : { tables }),
  };
  return JSON.parse(redacted(configuration, all)) as Record<string, unknown>;
}

/** The digest of the options of a source, without secrets. */
function digestOfSource(configuration: Configuration, name: string): string {
  const { sources, folder } = configuration;
  return hash("sha256", redacted(configuration, [folder, sources[name]?.connector.name, sources[name]?.options]));
}

/** @throws {InputError} when there is no such sync */
export function syncOf({ syncs }: Configuration, name: string): SyncConfiguration {
  const sync = syncs[name];
  if (sync === undefined) throw new InputError(`no sync is called ${name}: ${listOf(Object.keys(syncs))}`);
  return sync;
}

/** The inboxes of a configuration, by source. */
export function inboxesOf({ sources }: Pick<Configuration, "sources">): Readonly<Record<string, InboxSettings>> {
  return Object.fromEntries(
    Object.entries(sources).flatMap(([name, { connector, options }]) => {
      const settings = connector.inbox?.(options);
      return settings === undefined ? [] : [[name, settings]];
    }),
  );
}

/** What was pushed, as the state of a configuration has it. */
function inboxReader(configuration: Configuration): OpenContext["inboxes"] {
  return {
    read: async (source, work) => {
      await using state = await readState(configuration);
      return await state.inboxes.read(source, work);
    },
  };
}

export function openSource(configuration: Configuration, name: string): Sync["sources"][number]["source"] {
  const source = configuration.sources[name];
  if (source === undefined)
    throw new InputError(`no source is called ${name}: ${listOf(Object.keys(configuration.sources))}`);
  const { folder } = configuration;
  const shown = shownFile(configuration);
  const placeOf = (text: string): string | undefined => {
    const line = source.lines.get(text);
    return line === undefined ? undefined : `${shown}:${line}`;
  };
  return source.connector.open(source.options, { name, folder, placeOf, inboxes: inboxReader(configuration) });
}

/** Opens a sync as two configurations have it, for the target of the second. Close that after use. */
export async function openBoth(
  old: Configuration,
  configuration: Configuration,
  name: string,
  embedded: Embedded,
): Promise<{ readonly before: Sync; readonly after: Sync }> {
  const after = await openSync(configuration, name, embedded);
  try {
    const { target, place } = after;
    const before = { ...(await openParts(old, name)), target, place };
    const sources = before.sources.map((each) => Object.assign(each, shared(old, configuration, after, each)));
    return { before: { ...before, sources }, after };
  } catch (error) {
    await after.target.close();
    throw error;
  }
}

/** The same source of the new sync, if any: it is read once for both. */
function shared(
  old: Configuration,
  configuration: Configuration,
  after: Sync,
  { name }: Sync["sources"][number],
): Pick<Sync["sources"][number], "source"> | undefined {
  const [one, other] = [old.sources[name], configuration.sources[name]];
  const isSame =
    one?.connector.name === other?.connector.name &&
    isDeepStrictEqual(one?.options, other?.options) &&
    old.folder === configuration.folder;
  const source = isSame ? after.sources.find((each) => each.name === name)?.source : undefined;
  return source === undefined ? undefined : { source };
}
