import { resolve } from "node:path";
import type {
  Configuration,
  ConnectedTarget,
  RemoteTarget,
  Setting,
  SourceConfiguration,
  SyncConfiguration,
  TargetConfiguration,
} from "./configuration.ts";
import type { Attributes } from "#principals/attributes.ts";
import { buildLimits } from "#plan/limit-options.ts";
import type { TableReader } from "#principals/lookup.ts";
import type { File } from "./schema.ts";
import { buildState, withAuthorities } from "./state.ts";
import type { RulesOfSync, Sync } from "./syncs.ts";
import { attributesOf } from "./targets.ts";

/** Makes the configuration from a validated file: absolute paths, empty passwords absent. */
export function build(
  { service, daemon, control, targets, syncs, notifications, metrics, console, journal }: File,
  place: {
    readonly file: string;
    readonly text: string;
    readonly folder: string;
    readonly sources: Readonly<Record<string, SourceConfiguration>>;
    /** The targets that are no services. */
    readonly connected: Readonly<Record<string, ConnectedTarget>>;
    /** The names of all targets and syncs, in the order of the file. */
    readonly names: { readonly targets: readonly string[]; readonly syncs: readonly string[] };
    readonly readTable?: TableReader | undefined;
    readonly secrets: readonly string[];
    readonly warnings: readonly string[];
    readonly settings: readonly Setting[];
  },
): Configuration {
  const { connected, names, ...rest } = place;
  const { folder } = place;
  const services = mapValues(targets, (target) => buildTarget(target, folder));
  const all = inOrder<TargetConfiguration>({ ...services, ...connected }, names.targets);
  const configuration = {
    ...rest,
    ...buildState({ service, daemon }, folder),
    control,
    targets: all,
    syncs: inOrder(
      mapValues(syncs, (sync) => buildSync(sync, attributesOf(all[sync.to]))),
      names.syncs,
    ),
    journal,
    notifications: mapValues(notifications, (channel) => withCa(channel, folder)),
    metrics,
    console:
      console === false || console.oidc === undefined ? console : { ...console, oidc: withCa(console.oidc, folder) },
  };
  if (service === undefined) return configuration;
  const { data: _data, memory: _memory, administrator, engine, tls, tables, pinboards, ...others } = service;
  const inFolder = (path: string | undefined) => (path === undefined ? undefined : resolve(folder, path));
  return {
    ...configuration,
    service: {
      ...others,
      engine: engine === "duckdb" ? engine : withAuthorities(engine, folder),
      administrator: { ...administrator, password: administrator.password || undefined },
      tls: tls && { cert: resolve(folder, tls.cert), key: resolve(folder, tls.key) },
      tables: inFolder(tables),
      pinboards: inFolder(pinboards),
    },
  };
}

function buildTarget(target: File["targets"][string], folder: string): "embedded" | RemoteTarget {
  if (target === "embedded") return target;
  const { connector: _connector, ...remote } = target;
  return withCa(remote, folder);
}

function inOrder<Value>(record: Readonly<Record<string, Value>>, names: readonly string[]): Record<string, Value> {
  return Object.fromEntries(names.flatMap((name) => (name in record ? [[name, record[name] as Value]] : [])));
}

function withCa<Server extends { readonly ca?: string }>(server: Server, folder: string): Server {
  return server.ca === undefined ? server : { ...server, ca: resolve(folder, server.ca) };
}

/** What every group has that says nothing else: its name. */
function named(name: string, declared: Attributes): Record<string, string> {
  const required = declared.of("group").filter((each) => each.required === true);
  return Object.fromEntries(required.map((each) => [each.name, name]));
}

/** The rules as they are used. */
export function buildRules(
  { join, users, groups, staticGroups, defaultGroups, groupsFromRules }: RulesOfSync,
  declared: Attributes,
): SyncConfiguration["rules"] {
  return {
    join,
    users,
    groups,
    staticGroups: Object.entries(staticGroups).map(([name, rest]) =>
      Object.assign(named(name, declared), rest, { name }),
    ),
    defaultGroups,
    groupsFromRules: groupsFromRules === "refuse" ? undefined : groupsFromRules === "create" ? {} : groupsFromRules,
  };
}

/** One person approves, unless it says more. */
function buildApproval(approval: Sync["approval"]): Pick<SyncConfiguration, "approval" | "approvers"> {
  if (typeof approval === "string")
    return { approval, approvers: { people: 1, beyondLimits: 1, notTheRequester: false } };
  const { required, people, beyondLimits = people, notTheRequester } = approval;
  return {
    approval: required ? "required" : "automatic-within-limits",
    approvers: { people, beyondLimits, notTheRequester },
  };
}

function buildSync(sync: Sync, declared: Attributes): SyncConfiguration {
  const { join, users, groups, staticGroups, defaultGroups, groupsFromRules, ...others } = sync;
  const { from, memberships, defaultPassword, limits, approval, ...rest } = others;
  const { keepManual } = memberships;
  return {
    ...rest,
    ...buildApproval(approval),
    from: from.map((each) => (typeof each === "string" ? each : each.source)),
    optional: from.flatMap((each) => (typeof each === "object" && each.optional ? [each.source] : [])),
    rules: buildRules({ join, users, groups, staticGroups, defaultGroups, groupsFromRules }, declared),
    keepManual: keepManual === true ? ["*"] : keepManual === false ? [] : keepManual,
    limits: buildLimits(limits, from),
    defaultPassword: defaultPassword || undefined,
  };
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, map: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
