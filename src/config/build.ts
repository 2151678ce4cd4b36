import { resolve } from "node:path";
import type { Configuration, SourceConfiguration, SyncConfiguration, TargetConfiguration } from "./configuration.ts";
import { buildLimits } from "./limits.ts";
import { buildChannel } from "./notifications.ts";
import type { File, Target } from "./schema.ts";
import type { Sync } from "./syncs.ts";
import type { Setting } from "./differences.ts";

/** What a validated file means: defaults of what it leaves out, absolute paths, empty passwords absent. */
export function build(
  { service, daemon, control, targets, syncs, notifications, metrics, journal }: File,
  place: {
    readonly file: string;
    readonly folder: string;
    readonly sources: Readonly<Record<string, SourceConfiguration>>;
    readonly secrets: readonly string[];
    readonly settings: readonly Setting[];
  },
): Configuration {
  const { folder } = place;
  const { data, memory } = service ?? daemon;
  const configuration = {
    ...place,
    data: resolve(folder, data),
    memory,
    control,
    targets: mapValues(targets, (target) => buildTarget(target, folder)),
    syncs: mapValues(syncs, buildSync),
    journal,
    notifications: mapValues(notifications, (channel) => buildChannel(channel, (path) => resolve(folder, path))),
    metrics,
  };
  if (service === undefined) return configuration;
  const { listen, administrator, tls, allowPlainHttp, prefixes, sessions, logins, privileges, loads } = service;
  const { tables, nodeAddress, pinboards, queries } = service;
  return {
    ...configuration,
    service: {
      listen,
      administrator: {
        name: administrator.name,
        ...(administrator.password ? { password: administrator.password } : {}),
      },
      ...(tls === undefined ? {} : { tls: { cert: resolve(folder, tls.cert), key: resolve(folder, tls.key) } }),
      allowPlainHttp,
      prefixes,
      sessions,
      logins,
      privileges,
      ...(tables === undefined ? {} : { tables: resolve(folder, tables) }),
      ...(nodeAddress === undefined ? {} : { nodeAddress }),
      loads,
      ...(pinboards === undefined ? {} : { pinboards: resolve(folder, pinboards) }),
      queries,
    },
  };
}

function buildTarget(target: Target, folder: string): TargetConfiguration {
  if (target === "embedded" || target.ca === undefined) return target;
  return { ...target, ca: resolve(folder, target.ca) };
}

function buildSync({
  from,
  join,
  users,
  groups,
  staticGroups,
  defaultGroups,
  defaultPassword,
  limits,
  ...rest
}: Sync): SyncConfiguration {
  return {
    ...rest,
    from: from.map((each) => (typeof each === "string" ? each : each.source)),
    optional: from.flatMap((each) => (typeof each === "object" && each.optional ? [each.source] : [])),
    rules: {
      ...(join === undefined ? {} : { join }),
      users,
      ...(groups === undefined ? {} : { groups }),
      staticGroups: Object.entries(staticGroups).map(([name, { displayName = name, ...rest }]) =>
        Object.assign({ name, displayName }, rest),
      ),
      defaultGroups,
    },
    limits: buildLimits(limits, from),
    ...(defaultPassword ? { defaultPassword } : {}),
  };
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, map: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]));
}
