import type { ReadContext, Source, SourceRecord, WantedAttributes } from "#connector.ts";
import { RollcallError } from "#errors.ts";
import ldap from "#connectors/ldap/index.ts";
import type { Entry } from "#principals/entry.ts";
import { onTestFinished } from "vitest";
import { type Directory, type DirectoryEntry, startDirectory, unit } from "../../support/ldap/directory.ts";

/** What a read of everything gave. */
export interface Reading {
  readonly records: readonly SourceRecord[];
  readonly users: readonly Entry[];
  readonly groups: readonly Entry[];
  readonly warnings: readonly string[];
}

export interface ReadOptions {
  readonly signal?: AbortSignal;
  readonly attributes?: WantedAttributes;
  readonly folder?: string;
  readonly lastCounts?: ReadContext["lastCounts"];
  readonly count?: ReadContext["count"];
}

export function openSource(options: object, folder = "/"): Source {
  return ldap.open(ldap.options.parse(options), { name: "corp", folder });
}

export async function readAll(options: object, { folder, ...context }: ReadOptions = {}): Promise<Reading> {
  const warnings: string[] = [];
  const warn = (message: string): void => void warnings.push(message);
  const signal = new AbortController().signal;
  const records = (await Array.fromAsync(openSource(options, folder).read({ signal, warn, ...context }))).flat();
  const entries = records.filter((record) => record.kind !== "membership");
  return {
    records,
    users: entries.filter(({ kind }) => kind === "user"),
    groups: entries.filter(({ kind }) => kind === "group"),
    warnings,
  };
}

/** The error of ours that a read ends with. */
export async function failureOf(reading: Promise<unknown>): Promise<RollcallError> {
  const failure: unknown = await reading.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (failure instanceof RollcallError) return failure;
  throw new Error("the read did not fail with an error of ours", { cause: failure });
}

/** Who is in which group directly, as `GROUP: MEMBER`, by attributes; what no entry has as a key is `?KEY`. */
export function memberships({ users, groups, records }: Reading, user = "uid", group = "cn"): string[] {
  const names = (entries: readonly Entry[], attribute: string): Map<string, string> =>
    new Map(entries.flatMap(({ keys, attributes }) => keys.map((key) => [key, String(attributes[attribute])])));
  const [userNames, groupNames] = [names(users, user), names(groups, group)];
  const groupName = (key: string): string => groupNames.get(key) ?? `?${key}`;
  const memberName = (key: string, kind?: string): string =>
    (kind === "group" ? undefined : userNames.get(key)) ??
    (kind === "user" ? undefined : groupNames.get(key)) ??
    `?${key}`;
  const lines = records.flatMap((record) => {
    if (record.kind === "membership")
      return [`${groupName(record.group)}: ${memberName(record.member.key, record.member.kind)}`];
    const own = String(record.attributes[record.kind === "user" ? user : group]);
    return [
      ...record.memberOf.map((key) => `${groupName(key)}: ${own}`),
      ...record.members.map(({ key, kind }) => `${own}: ${memberName(key, kind)}`),
    ];
  });
  return [...new Set(lines)].sort();
}

/** A directory with people in two branches, and groups in a third. */
export const base = "dc=example,dc=com";
export const [north, south, groups] = [`ou=north,${base}`, `ou=south,${base}`, `ou=groups,${base}`];

/** Serves the branches with these entries until the test ends. */
export async function serveBranches(entries: readonly DirectoryEntry[]): Promise<Directory> {
  const directory = await startDirectory([unit(base), unit(north), unit(south), unit(groups), ...entries]);
  onTestFinished(() => directory[Symbol.asyncDispose]());
  return directory;
}

/** The options of a source that reads all of them. */
export const optionsOfBranches = ({ url }: Directory, more: object = {}): object => ({
  url,
  users: { base: [north, south] },
  groups: { base: groups },
  ...more,
});
