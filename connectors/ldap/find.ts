import type { Entry, OpenContext, ReadContext, RecordId } from "#connector.ts";
import { dnKeys } from "#principals/dn.ts";
import type { Kind } from "#principals/principal.ts";
import { nfc } from "#text.ts";
import { canBe, formIn, idAttributes, inFilter, selectionOf } from "./attributes.ts";
import { idsIn, recordOf } from "./entries.ts";
import type { Reader } from "./entries.ts";
import { connectionError } from "./errors.ts";
import { MalformedError } from "./message.ts";
import { partOptions, placesOf } from "./options.ts";
import type { Options } from "./options.ts";
import { searchWithReferrals } from "./referrals.ts";
import { lookUp, queryOf } from "./search.ts";
import type { Query } from "./search.ts";
import { openSession } from "./session.ts";
import type { Session } from "./session.ts";

/** So many ids are asked for at a time: servers limit how long a filter may be. */
const idsPerFilter = 100;

/**
 * The records that exist now, anywhere below the bases and with the filter of the options, wherever they were before;
 * with their keys, without other attributes.
 * @throws what `read` throws
 */
export async function* find(
  records: readonly RecordId[],
  options: Options,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly Entry[]> {
  await using session = await openSession(options, open, context);
  const said = new Set<string>();
  const warn: Reader["warn"] = (_, message) => {
    if (!said.has(message)) context.warn(message);
    said.add(message);
  };
  try {
    const kinds: readonly Kind[] = options.groups === undefined ? ["user"] : ["user", "group"];
    for (const kind of kinds) {
      const ids = records.filter((record) => record.kind === kind).map(({ id }) => id);
      for (let from = 0; from < ids.length; from += idsPerFilter) {
        yield await findSome(session, kind, ids.slice(from, from + idsPerFilter), warn);
      }
    }
    context.signal.throwIfAborted();
  } catch (error) {
    context.signal.throwIfAborted();
    throw error instanceof MalformedError ? connectionError(session.place, error, session.url) : error;
  }
}

async function findSome(
  session: Session,
  kind: Kind,
  ids: readonly string[],
  warn: Reader["warn"],
): Promise<readonly Entry[]> {
  // Keys of groups are their names; members are of no use here, and may be very many.
  const { membership, ...rest } = session.options;
  const options: Options = {
    ...rest,
    membership: kind === "user" ? membership.filter((name) => name === "memberUid") : [],
  };
  const selection = selectionOf(kind, options, { users: [], groups: [] });
  const reader: Reader = { kind, selection, dnKey: dnKeys(), options, warn };
  const wanted = new Set(ids.map(nfc));
  const found: Entry[] = [];
  const followed = new Set<string>();
  for (const { dn, inner } of placesOf(partOptions(kind, options))) {
    const query = queryOf(kind, options, dn, selection.request);
    const items = await itemsFor(session, reader, dn, ids);
    if (items.length === 0) continue;
    const filter = `(&${query.filter}(|${items.join("")}))`;
    for await (const { entries } of searchWithReferrals(session, { ...query, filter }, { inner, followed })) {
      for (const message of entries) {
        const { entry } = recordOf(message, reader);
        if (wanted.delete(nfc(entry.id))) found.push(entry);
      }
    }
  }
  return found;
}

/** The filters for the entries with these ids. */
async function itemsFor(session: Session, reader: Reader, base: string, ids: readonly string[]): Promise<string[]> {
  const { options, kind } = reader;
  const { id: own } = partOptions(kind, options);
  const names = await searchable(session, reader, base, own === undefined ? idAttributes : [own]);
  return ids.flatMap((id) =>
    names
      .filter((name) => own !== undefined || canBe(id, formIn(options, name)))
      .map((name) => `(${name}=${inFilter(id, formIn(options, name))})`),
  );
}

/**
 * Those of the id attributes that the base has, as every entry of its server does, and by which the server finds it: some
 * compute an attribute, and find nothing by it; by one without an index they find it slowly, or refuse. All, where the
 * base has none, or is at another server.
 */
async function searchable(
  session: Session,
  reader: Reader,
  base: string,
  names: readonly string[],
): Promise<readonly string[]> {
  const attributes = names.map((name) => name.toLowerCase());
  const query: Query = { base, scope: "base", filter: "(objectClass=*)", attributes, what: `the base ${base}` };
  const [message] = await lookUp(session, query);
  const values = message === undefined ? new Map<number, string>() : idsIn(message, reader);
  if (values.size === 0) return names;
  const proven: string[] = [];
  for (const [rank, value] of values) {
    const name = names[rank] ?? "";
    const filter = `(${name}=${inFilter(value, formIn(reader.options, name))})`;
    if ((await lookUp(session, { ...query, filter })).length > 0) proven.push(name);
  }
  if (proven.length === 0)
    reader.warn(
      "bases are not found by id",
      `${session.place}: ${base} is not found by its own id: records that a read misses cannot be looked up there before they are deleted`,
    );
  return proven;
}

/** Attributes that the server sets, a different value for each entry; in lower case. */
const givenByServer = new Set([
  ...idAttributes.map((name) => name.toLowerCase()),
  "ibm-entryuuid",
  "orclguid",
  "objectsid",
]);

/** Whether the server vouches for it that no two records have one id. */
export function isGivenByServer({ users, groups }: Options): boolean {
  return [users, groups].every((part) => part?.id === undefined || givenByServer.has(part.id.toLowerCase()));
}
