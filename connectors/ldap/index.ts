import { inBatches } from "#connector.ts";
import type { Connector, OpenContext, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { describe, places, version } from "./describe.ts";
import { selectionOf } from "./attributes.ts";
import { dnKeys } from "#principals/dn.ts";
import { recordOf } from "./entries.ts";
import type { ParsedEntry, Reader } from "./entries.ts";
import { connectionError, warningsTo } from "./errors.ts";
import type { Warnings } from "./errors.ts";
import { placementOf, primaryGroups, readNesting, recordsOfPartialEntry } from "./groups.ts";
import type { Nesting } from "./groups.ts";
import { MalformedError } from "./message.ts";
import { options, partOptions } from "./options.ts";
import type { Options } from "./options.ts";
import { queryOf, searchWithReferrals } from "./search.ts";
import { openSession } from "./session.ts";
import type { Session } from "./session.ts";
import { createYielder } from "#principals/yield.ts";

/** Users, groups and memberships from LDAP servers, including Active Directory. Its options: `README.md` in this folder. */
const ldap: Connector<Options> = {
  name: "ldap",
  options,
  open: (options, place) => ({
    read: (context) => read(options, place, context),
    describe: (context) => describe(options, place, context),
    places: (context) => places(options, place, context),
    version: (context) => version(options, place, context),
  }),
};

export default ldap;

/** What reading users and reading groups share. */
interface Reading {
  readonly session: Session;
  readonly options: Options;
  readonly context: ReadContext;
  readonly warnings: Warnings;
  readonly nesting: Nesting | undefined;
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
  const session = await openSession(options, open, context);
  const warnings = warningsTo(context.warn);
  try {
    const nesting =
      options.flatten && options.groups !== undefined ? await readNesting(session, context.warn) : undefined;
    const reading: Reading = { session, options, context, warnings, nesting, dnKey: dnKeys() };
    yield* inBatches(readKind("user", reading));
    if (options.groups !== undefined) yield* inBatches(readKind("group", reading));
    context.signal.throwIfAborted();
    warnings.close();
  } catch (error) {
    context.signal.throwIfAborted();
    throw error instanceof MalformedError ? connectionError(session.place, error, session.url) : error;
  } finally {
    await session.close();
  }
}

async function* readKind(kind: Kind, reading: Reading): AsyncGenerator<readonly SourceRecord[]> {
  const { options, context, warnings, dnKey } = reading;
  const selection = selectionOf(kind, options, context.attributes);
  const warn = (message: string): void => warnings.add("values are not UTF-8", message);
  const reader: Reader = { kind, selection, dnKey, options, warn };
  const groups = primaryGroups(options, context.warn);
  const { base: bases, minEntries } = partOptions(kind, options);
  const placement = placementOf(reading.nesting, warnings);
  const yielder = createYielder();
  let count = 0;
  for (const base of bases) {
    const query = queryOf(kind, options, base, selection.request);
    for await (const { session, entries } of searchWithReferrals(reading.session, query)) {
      count += entries.length;
      let records: SourceRecord[] = [];
      for (const message of entries) {
        const found = recordOf(message, reader);
        if (isWhole(found)) for (const record of placement.place(found.entry)) records.push(record);
        else yield* recordsOfPartialEntry(message, found, { session, reader, primaryGroups: groups, placement });
        if (!yielder.isDue()) continue;
        yield records;
        records = [];
        await yielder.yield();
      }
      yield records;
    }
  }
  if (count >= minEntries) return;
  throw new IncompleteReadError(
    `${reading.session.place}: ${bases.join(" and ")}: ${count} ${kind}s found, expected at least ${minEntries} (${kind}s.minEntries); check the filter, and what the login may see`,
  );
}

/** Whether the message holds the whole entry. */
function isWhole({ lists, rest, primaryGroup }: ParsedEntry): boolean {
  return lists.length === 0 && rest.length === 0 && primaryGroup === undefined;
}
