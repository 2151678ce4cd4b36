import { inBatches } from "#completeness.ts";
import type { Connector, Entry, OpenContext, ReadContext, RecordId, Rehearsed, SourceRecord } from "#connector.ts";
import { nfc, pluralize } from "#text.ts";
import { Checks } from "./checks.ts";
import { Database } from "./database.ts";
import type { Cell } from "./dialect.ts";
import { options } from "./options.ts";
import type { Options } from "./options.ts";
import { questions } from "./questions.ts";
import { Columns, entryOf, membershipOf } from "./records.ts";

/** Users, groups and memberships from queries to a database. Its options: `README.md` in this folder. */
const sql: Connector<Options> = {
  name: "sql",
  options,
  questions,
  open: (options, open) => ({
    read: (context) => read(options, open, context),
    recheck: (rehearsed, context) => recheck(options, rehearsed, context),
    find: (records, context) => find(records, options, open, context),
    describe: (context) => describe(options, open, context),
    uniqueIds: true,
    paged: true,
  }),
};

export default sql;

type Part = "users" | "groups" | "memberships";

/** The queries of the options. */
function partsOf(options: Options): readonly { readonly part: Part; readonly query: string }[] {
  return (["users", "groups", "memberships"] as const).flatMap((part) => {
    const found = options[part];
    return found === undefined ? [] : [{ part, query: found.query }];
  });
}

/**
 * The rows of all queries, as the database was at one moment.
 * @throws {IncompleteReadError} also when there is less than configured, or than the last good read makes likely
 */
async function* read(
  options: Options,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const checks = new Checks(options, context, options.url.place);
  await using database = await Database.open(options, open, context);
  for (const { part, query } of partsOf(options)) {
    for await (const records of recordsOf(database, part, query, options, checks, context)) {
      for (const record of records) checks.add(record);
      yield* inBatches([records]);
      context.signal.throwIfAborted();
    }
    const entries = part === "memberships" ? undefined : options[part];
    if (entries !== undefined) await database.assertUnique(part, query, entries.id);
  }
  checks.end();
}

async function* recordsOf(
  database: Database,
  part: Part,
  query: string,
  options: Options,
  checks: Checks,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  let record: RecordMaker | undefined;
  let number = 0;
  for await (const { columns, rows } of database.rows(part, query)) {
    record ??= makerOf(part, new Columns(columns, part, `${options.url.place}, ${part}`), options, checks, context);
    const make = record;
    yield rows.map((row) => make(row, ++number));
  }
}

type RecordMaker = (row: readonly Cell[], number: number) => SourceRecord;

/** @throws {InputError} the query lacks a column */
function makerOf(
  part: Part,
  columns: Columns,
  options: Options,
  checks: Checks,
  { attributes }: ReadContext,
): RecordMaker {
  if (part === "memberships") {
    if (options.memberships === undefined) throw new TypeError("there is no query for memberships");
    return membershipOf(options.memberships, columns);
  }
  const kind = part === "users" ? "user" : "group";
  checks.columns(kind, columns);
  const wanted = attributes === undefined ? undefined : new Set(checks.named[kind]);
  return entryOf(kind, options[part] ?? options.users, columns, wanted);
}

/**
 * The queries are asked again and the rows that are not wanted are dropped: a condition on the id would compare as the
 * database does (case, trailing spaces, zeros), not as ids are compared, and would not make a view any faster.
 */
async function* find(
  records: readonly RecordId[],
  options: Options,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly Entry[]> {
  const silent: ReadContext = { signal: context.signal, warn: context.warn, attributes: { users: [], groups: [] } };
  const checks = new Checks(options, silent, options.url.place);
  await using database = await Database.open(options, open, context);
  for (const { part, query } of partsOf(options)) {
    const wanted = new Set(records.filter(({ kind }) => `${kind}s` === part).map(({ id }) => nfc(id)));
    if (wanted.size === 0) continue;
    for await (const some of recordsOf(database, part, query, options, checks, silent)) {
      const found = some.filter((record): record is Entry => record.kind !== "membership" && wanted.has(record.id));
      if (found.length > 0) yield found;
      context.signal.throwIfAborted();
    }
  }
}

/** The server, its protection, the account, and how many rows it sees. */
async function describe(options: Options, open: OpenContext, context: ReadContext): Promise<readonly string[]> {
  await using database = await Database.open(options, open, context);
  const counts: string[] = [];
  for (const { part, query } of partsOf(options))
    counts.push(pluralize(await database.count(part, query), part.slice(0, -1)));
  return [...(await database.describe()), counts.join(", ")];
}

/** The checks of `read`, of records that could come from these queries. */
async function* recheck(
  options: Options,
  { records, renamed }: Rehearsed,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const checks = new Checks(options, context, options.url.place);
  if (renamed !== undefined) {
    const { kind, attribute } = renamed;
    const names = checks.named[kind].map((name) => (name === nfc(attribute) ? `${name}_new` : name));
    checks.columns(kind, new Columns([...new Set(names)], `${kind}s`, `${options.url.place}, ${kind}s`));
  }
  for await (const batch of records) {
    for (const record of batch) checks.add(record);
    yield batch;
  }
  checks.end();
}
