import type { Stages } from "#plan/stages.ts";
import { isDeepStrictEqual } from "node:util";
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { relative } from "node:path";
import { Client } from "#client/client.ts";
import type { ClientOptions } from "#client/client.ts";
import { Loads } from "#client/loads.ts";
import type { LoadsOptions } from "#client/loads.ts";
import { openTarget } from "#client/target.ts";
import type { Configuration, RemoteTarget, SyncConfiguration } from "#config/configuration.ts";
import { attributesOf, isConnected } from "#config/targets.ts";
import { ConfigurationDocument } from "#config/document.ts";
import { renderPath } from "#config/problems.ts";
import type { Path } from "#config/problems.ts";
import { InputError, messageOf, RefusedError } from "#errors.ts";
import { redactor } from "#redact.ts";
import type { Attributes } from "#principals/attributes.ts";
import { compileRules, tablesOf } from "#principals/compile.ts";
import { compileExpectations, readersOf, tablesOfExpectations } from "#principals/expectations.ts";
import { readTables } from "#principals/lookup.ts";
import type { LookupTable } from "#principals/lookup.ts";
import type { InboxSettings, OpenContext, Target } from "#connector.ts";
import type { Sync, SyncSource } from "#sync/sync.ts";
import type { Embedded } from "./embedded.ts";
import { readState } from "./data-folder.ts";
import { listOf } from "./output.ts";

/** Raise it when the same records and rules make other principals than before: then nothing stored is reused. */
const edition = 2;

/** What every service has from its first start, and no sync may change (0.7). */
const builtIn = { users: ["admin"], groups: ["Administrator", "All"] };

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
  return sha256(
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

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
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
  return sha256(redacted(configuration, [folder, sources[name]?.connector.name, sources[name]?.options]));
}

/** When those who leave the sources of a sync are suspended and deleted. */
export async function stagesOf(configuration: Configuration, { deletions, to }: SyncConfiguration): Promise<Stages> {
  const { targets, folder } = configuration;
  const target = targets[to];
  if (!isConnected(target)) return deletions;
  const opened = target.connector.open(target.options, { name: to, folder });
  try {
    return { ...deletions, ...neverDeleted(deletions, opened) };
  } finally {
    await opened.close();
  }
}

/** What a target cannot delete is never deleted. */
function neverDeleted({ never = [] }: Stages, target: Target): Pick<Stages, "never"> {
  if (target.takes === "list") return {};
  const { deletes } = target.abilities;
  return { never: [...new Set([...never, ...(["user", "group"] as const).filter((kind) => !deletes[kind])])] };
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

export async function openConfiguredTarget(
  configuration: Configuration,
  name: string,
  embedded: Embedded,
  observe?: ClientOptions["observe"],
): Promise<Target> {
  const target = configuration.targets[name];
  if (isConnected(target)) return target.connector.open(target.options, { name, folder: configuration.folder });
  return openTarget(await clientOptionsOf(configuration, name, embedded, observe));
}

/** What the users and groups of a target have. @throws {InputError} no target has the name */
export function declaredBy({ targets }: Configuration, name: string): Attributes {
  if (targets[name] === undefined) throw unknownTarget(targets, name);
  return attributesOf(targets[name]);
}

function unknownTarget(targets: Configuration["targets"], name: string): InputError {
  return new InputError(`no target is called ${name}: ${listOf(Object.keys(targets))}`);
}

/** What identifies a target: `embedded` for the service of this data folder, otherwise its URL. */
export function placeOf(configuration: Configuration, name: string): string {
  const target = configuration.targets[name];
  if (isConnected(target)) return target.connector.place(target.options);
  return target === undefined || target === "embedded" ? "embedded" : `${new URL(target.url).origin}${target.prefix}`;
}

/** The account that a sync logs in with, and the groups and users of every service: its own sync never deletes them (0.7). */
function ownOf(configuration: Configuration, name: string): SyncConfiguration["protect"] {
  if (isConnected(configuration.targets[name])) return { users: [], groups: [] };
  return { users: [...builtIn.users, callerOf(configuration, name)], groups: builtIn.groups };
}

function callerOf(configuration: Configuration, name: string): string {
  const target = configuration.targets[name];
  if (target === undefined || isConnected(target) || target === "embedded")
    return configuration.service?.administrator.name ?? "admin";
  return target.username;
}

/** The groups whose members are administrators (0.6); for a remote service, the one that every service has. */
function administratorsOf({ targets, service }: Configuration, name: string): readonly string[] {
  if (isConnected(targets[name])) return [];
  const own = targets[name] === "embedded" ? (service?.privileges.administration ?? []) : [];
  return [...new Set(["Administrator", ...own])];
}

/** The client options for a target of the configuration. @throws {InputError} when there is no such target */
async function clientOptionsOf(
  configuration: Configuration,
  name: string,
  embedded: Pick<Embedded, "access">,
  observe?: ClientOptions["observe"],
): Promise<ClientOptions> {
  const target = configuration.targets[name];
  if (target === undefined) throw unknownTarget(configuration.targets, name);
  if (isConnected(target)) throw new InputError(`the target ${name} is no service: it has users and groups alone`);
  if (target === "embedded") return { ...(await embeddedOptions(name, embedded)), observe };
  const { url, username, password, prefix, ca, proxy } = target;
  return {
    name,
    url,
    prefix,
    credentials: { username, password },
    ca: ca === undefined ? undefined : await readCertificate(ca, name),
    proxy,
    observe,
  };
}

/** How long a target may take to check an account, in milliseconds. */
const verifying = 20_000;

/**
 * Logs in to a target with a person's account, and out again.
 * @throws {RollcallError} when the target does not answer, or as it should not
 */
export async function verifyAccount(
  configuration: Configuration,
  { target, username, password }: { readonly target: string; readonly username: string; readonly password: string },
  embedded: Pick<Embedded, "access">,
): Promise<"administrator" | "user" | "wrong"> {
  const options = await clientOptionsOf(configuration, target, embedded);
  const client = new Client({ ...options, credentials: { username, password }, retries: { attempts: 1 } });
  const signal = AbortSignal.timeout(verifying);
  try {
    await client.login(signal);
    await client.reach(signal);
    return "administrator";
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    if (error.status === 401) return "wrong";
    if (error.status === 403) return "user";
    throw error;
  } finally {
    await client.logout(signal).catch(() => undefined);
  }
}

/** The client options for the service of the data folder. */
export async function embeddedOptions(name: string, embedded: Pick<Embedded, "access">): Promise<ClientOptions> {
  const { url, session, administrator, certificate } = await embedded.access();
  return {
    name,
    url,
    prefix: "",
    // This program's own service understands it.
    form: "multipart",
    credentials: {
      session,
      username: administrator,
      // A restarted service has a new session.
      renew: async () => {
        const access = await embedded.access();
        return access.session;
      },
    },
    ca: certificate,
    pinned: certificate !== undefined,
    proxy: false,
  };
}

/** Reads the file of a `ca` option. @throws {InputError} when it cannot be read */
export async function readCertificate(file: string, target: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new InputError(`target ${target}: the file of \`ca\` cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** The loads of a target, with its name. */
export interface ConfiguredLoads {
  readonly loads: Loads;
  readonly target: string;
  /** The service of the data folder. */
  readonly isEmbedded: boolean;
}

/**
 * Opens the loads of a target of the configuration; without a name, of the only target or the embedded service. Close
 * them after use.
 * @param settings.nodes hosts that a load may be sent to, in addition to those of the configuration
 * @throws {InputError}
 */
export async function openConfiguredLoads(
  configuration: Configuration,
  name: string | undefined,
  embedded: Embedded,
  settings: Pick<LoadsOptions, "fileChunk"> & {
    readonly log: (message: string) => void;
    readonly nodes?: readonly string[] | undefined;
  },
): Promise<ConfiguredLoads> {
  const target = name ?? usualTarget(configuration);
  const isEmbedded = target === undefined || configuration.targets[target] === "embedded";
  const title = target ?? "embedded";
  const configured = configuration.targets[title];
  const listed = isRemote(configured) ? configured.nodes : [];
  const options = isEmbedded
    ? await embeddedOptions(title, embedded)
    : await clientOptionsOf(configuration, title, embedded);
  const loads = new Loads({
    ...options,
    log: settings.log,
    fileChunk: settings.fileChunk,
    // The embedded service is a single node, whatever address it announces.
    nodes: isEmbedded ? "stay" : [...listed, ...(settings.nodes ?? [])],
  });
  return { loads, target: title, isEmbedded };
}

function isRemote(target: Configuration["targets"][string] | undefined): target is RemoteTarget {
  return typeof target === "object" && !isConnected(target);
}

/** The targets of the configuration that are services: people have accounts there. */
export function servicesOf({ targets }: Pick<Configuration, "targets">): readonly string[] {
  return Object.keys(targets).filter((name) => !isConnected(targets[name]));
}

/** The target to use when none is named; undefined: the embedded service, which no target names. */
function usualTarget({ file, service, targets }: Configuration): string | undefined {
  const names = servicesOf({ targets });
  const embedded = names.filter((name) => targets[name] === "embedded");
  const [only, ...more] = embedded.length > 0 ? embedded : names;
  if (only !== undefined && (more.length === 0 || embedded.length > 0)) return only;
  if (names.length > 0) throw new InputError(`which target? Name one with --target: ${names.join(", ")}`);
  if (service === undefined) throw new InputError(`${file} has no target, and no \`service:\` either`);
  return undefined;
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
