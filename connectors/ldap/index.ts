import { inBatches } from "#completeness.ts";
import type { Connector, OpenContext, ReadContext, Source, SourceRecord } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { describe, places, version } from "./describe.ts";
import { inFilter, selectionOf } from "./attributes.ts";
import { Checks, refuseEmptied } from "./counts.ts";
import type { CountsOptions } from "./counts.ts";
import { dnKeys, isWithin } from "#principals/dn.ts";
import { lookUp, openDirectory, search } from "./directory.ts";
import type { Directory } from "./directory.ts";
import { recordOf } from "./entries.ts";
import type { ParsedEntry, Reader } from "./entries.ts";
import { assertEmpty } from "./hidden.ts";
import { connectionError, Warnings } from "./errors.ts";
import { find, isGivenByServer } from "./find.ts";
import { placementOf, PrimaryGroups, readNesting, recordsOfPartialEntry } from "./groups.ts";
import type { Nesting } from "./groups.ts";
import { filterProblems, placeOf, version as versionOfFiles } from "./ldif-files.ts";
import { MalformedError } from "./message.ts";
import { options, partOptions, placesOf } from "./options.ts";
import type { Options } from "./options.ts";
import { anyAttribute, queryOf } from "./search.ts";
import { addProblem } from "#values.ts";
import { Yielder } from "#principals/yield.ts";

/** Users, groups and memberships from LDAP servers, including Active Directory, and from LDIF files. Its options: `README.md` in this folder. */
const ldap: Connector<Options> = {
  name: "ldap",
  options: options.superRefine((value, context) => {
    for (const { path, message } of value.file !== undefined ? filterProblems(value) : [])
      addProblem(context, path, message);
  }),
  open: (options, place) => {
    const isFile = options.file !== undefined;
    const where = isFile ? placeOf(place.name, options) : `source ${place.name}`;
    const source: Source = {
      // A person may have given two entries one value of an attribute of their own choice.
      uniqueIds: isGivenByServer(options) ? true : undefined,
      read: (context) => read(options, place, context),
      recheck: ({ records }, context) => recheck(records, options, { place: where, context }),
    };
    return isFile
      ? { ...source, version: (context) => versionOfFiles(options, place, context), versionIsDigest: true }
      : { ...source, ...serverMethods(options, place) };
  },
};

/** What only a server can do. */
function serverMethods(options: Options, place: OpenContext): Partial<Source> {
  return {
    paged: true,
    find: (records, context) => find(records, options, place, context),
    describe: (context) => describe(options, place, context),
    places: (context) => places(options, place, context),
    version: (context) => version(options, place, context),
  };
}

export default ldap;

/** What reading users and reading groups share. */
interface Reading extends CountsOptions {
  readonly directory: Directory;
  readonly warnings: Warnings;
  readonly nesting: Nesting | undefined;
  readonly groups: PrimaryGroups;
  readonly dnKey: (dn: string) => string;
}

/**
 * Every user, then every group.
 * @throws {IncompleteReadError} the servers do not prove that this is all
 * @throws {InputError} an entry is malformed, or a file of the options cannot be read
 * @throws {RefusedError} the bind, the certificate or a search is refused
 * @throws {UnavailableError} no server answers, or one stops
 */
export async function* read(
  options: Options,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  await using directory = await openDirectory(options, open, context);
  const warnings = new Warnings(context.warn);
  const { place } = directory;
  try {
    const nesting =
      options.flatten && options.groups !== undefined ? await readNesting(directory, context.warn) : undefined;
    const groups = new PrimaryGroups(options, context.warn);
    const reading: Reading = { directory, options, place, context, warnings, nesting, groups, dnKey: dnKeys() };
    let memberships = 0;
    for (const kind of kindsOf(options)) {
      for await (const batch of inBatches(readKind(kind, reading))) {
        for (const record of batch) memberships += membershipsIn(record);
        yield batch;
      }
    }
    context.signal.throwIfAborted();
    checkMemberships(memberships, reading);
    warnings.close();
  } catch (error) {
    context.signal.throwIfAborted();
    throw error instanceof MalformedError && "url" in directory ? connectionError(place, error, directory.url) : error;
  }
}

function kindsOf({ groups }: Options): readonly Kind[] {
  return groups === undefined ? ["user"] : ["user", "group"];
}

/** @throws {IncompleteReadError} nobody is in a group, and somebody was at the last good read */
function checkMemberships(memberships: number, reading: CountsOptions): void {
  const { lastCounts, count } = reading.context;
  if (memberships === 0) refuseEmptied([["memberships", lastCounts?.["memberships"] ?? 0]], reading);
  count?.("memberships", memberships);
}

/** The checks of `read`, of records that could come: each counts below the innermost base that it is in. */
async function* recheck(
  records: AsyncIterable<readonly SourceRecord[]>,
  options: Options,
  reading: Omit<CountsOptions, "options">,
): AsyncGenerator<readonly SourceRecord[]> {
  const kinds = kindsOf(options).map((kind) => {
    const part = partOptions(kind, options);
    const checks = new Checks(kind, { ...reading, options });
    const key = dnKeys();
    const bases = placesOf(part)
      .map(({ dn, minEntries }) => ({ key: key(dn), below: checks.below(dn, minEntries) }))
      .sort((a, b) => b.key.length - a.key.length);
    return { kind, checks, bases };
  });
  let memberships = 0;
  for await (const batch of records) {
    for (const record of batch) {
      memberships += membershipsIn(record);
      if (record.kind === "membership") continue;
      const [own = ""] = record.keys;
      const bases = kinds.find(({ kind }) => kind === record.kind)?.bases ?? [];
      (bases.find(({ key }) => isWithin(own, key)) ?? bases.at(-1))?.below.add(record);
    }
    yield batch;
  }
  for (const { checks, bases } of kinds) {
    for (const { below } of bases) below.end();
    await checks.end();
  }
  checkMemberships(memberships, { ...reading, options });
}

function membershipsIn(record: SourceRecord): number {
  return record.kind === "membership" ? 1 : record.memberOf.length + record.members.length;
}

async function* readKind(kind: Kind, reading: Reading): AsyncGenerator<readonly SourceRecord[]> {
  const { options, context, warnings, dnKey, place, groups } = reading;
  const selection = selectionOf(kind, options, context.attributes);
  const reader: Reader = { kind, selection, dnKey, options, warn: (about, message) => warnings.add(about, message) };
  const part = partOptions(kind, options);
  const placement = placementOf(reading.nesting, warnings);
  const yielder = new Yielder();
  const checks = new Checks(kind, reading);
  const followed = new Set<string>();
  const mayBeEmpty = new Set<string>();
  for (const { dn, minEntries, inner } of placesOf(part)) {
    const query = queryOf(kind, options, dn, selection.request);
    const below = checks.below(dn, minEntries);
    for await (const { directory, entries } of search(reading.directory, query, { inner, followed })) {
      let records: SourceRecord[] = [];
      for (const message of entries) {
        const found = recordOf(message, reader);
        const key = found.entry.keys[0] ?? "";
        if (inner.some((base) => isWithin(key, base))) continue;
        below.add(found.entry);
        if (kind === "group" && groups.isMissing(directory, found.sid ?? "")) {
          throw new IncompleteReadError(
            `${place}: the primary group ${found.entry.origin} appeared after its users were read; try again`,
            { torn: true },
          );
        }
        const { memberless } = found;
        if (memberless !== undefined && "connection" in directory && !mayBeEmpty.has(memberless.className)) {
          await assertEmpty(directory, memberless);
          mayBeEmpty.add(memberless.className);
        }
        if (isWhole(found)) for (const record of placement.place(found.entry)) records.push(record);
        else yield* recordsOfPartialEntry(message, found, { directory, reader, primaryGroups: groups, placement });
        if (!yielder.isDue()) continue;
        yield records;
        records = [];
        await yielder.yield();
      }
      yield records;
    }
    below.end();
  }
  await checks.end((dn) => isThere(reading.directory, dn));
}

/**
 * Whether a search from above finds the container of this name, as it would its entries: that of a database apart, or offline,
 * is not found. A file says it of none.
 */
async function isThere(directory: Directory, dn: string): Promise<boolean> {
  const [, type, value, base] = /^([a-z][a-z0-9-]*)=([^\\,+]+),(.+)$/i.exec(dn) ?? [];
  if (!("connection" in directory) || type === undefined || value === undefined || base === undefined) return false;
  const filter = `(${type}=${inFilter(value, "text")})`;
  const query = { base, scope: "one", filter, attributes: [anyAttribute], what: `the container ${dn}` } as const;
  return (await lookUp(directory, query)).length > 0;
}

/** Whether the message holds the whole entry. */
function isWhole({ lists, rest, primaryGroup }: ParsedEntry): boolean {
  return lists.length === 0 && rest.length === 0 && primaryGroup === undefined;
}
