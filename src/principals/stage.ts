import { createHash } from "node:crypto";
import { openRows } from "#duckdb/insert.ts";
import type { Rows } from "#duckdb/insert.ts";
import { messageOf, RollcallError } from "#errors.ts";
import { nfc, objectionToKey, quote, visible } from "#text.ts";
import type { CompiledRules, JoinKey, Verdict } from "./compile.ts";
import type { Entry, MembershipLines, SourceGroups, SourceRecord } from "./entry.ts";
import type { Kind } from "./principal.ts";
import { judgeRaw } from "./join.ts";
import type { AddVerdict } from "./join.ts";
import type { Connection } from "#duckdb/database.ts";
import { keptBits, ownSource, stagedTables } from "./tables.ts";
import type { StagedTable } from "./tables.ts";
import { createYielder } from "./yield.ts";

/** A source that is being read. */
export interface OpenSource {
  readonly name: string;
  /** True: when it fails, it counts as empty and is listed in `Staged.unread`. */
  readonly optional?: boolean | undefined;
  /** True: an id that comes twice proves that the read is incomplete. Otherwise both records are quarantined. */
  readonly uniqueIds?: boolean | undefined;
  /** The records; or what opens them, where the source may deliver memberships as lines. */
  readonly records: Records | ((takeLines: (lines: MembershipLines) => Promise<void>) => Records);
}

type Records = AsyncIterable<readonly SourceRecord[]>;

/** How many users and groups a source delivered. */
export interface SourceCount {
  readonly name: string;
  users: number;
  groups: number;
}

/**
 * What was read, in the order of the sources. `excluded`: entries that the rules leave out. `neverSet`: attributes that
 * rules read and no entry has, perhaps misspelled. `unread`: optional sources that failed, and why.
 */
export interface Staged {
  readonly sources: readonly Readonly<SourceCount>[];
  readonly excluded: number;
  readonly neverSet: readonly string[];
  readonly unread: readonly { readonly name: string; readonly error: RollcallError }[];
}

export interface StageOptions {
  readonly signal: AbortSignal;
  /** Called now and then with the number of records read so far. */
  readonly progress?: ((records: number) => void) | undefined;
  readonly observer?: Observer | undefined;
  /** True: keeps what the rules read of each record, in `record`. */
  readonly keepAttributes?: boolean | undefined;
}

const stagedNames = Object.keys(stagedTables) as StagedTable[];

/**
 * Reads the sources one after the other, judges every entry, and writes the results to `stagedTables`.
 * @throws the error of a source that is not optional, or of an optional one when none is left; the signal's reason
 */
export async function stage(
  connection: Connection,
  sources: readonly OpenSource[],
  rules: CompiledRules,
  options: StageOptions,
): Promise<Staged> {
  const { signal, progress } = options;
  const tables = { ...stagedTables, staged_attributes: stagedTables.staged_attributes + rules.kept.ddl };
  for (const table of stagedNames) await connection.run(`CREATE OR REPLACE TEMP TABLE ${table} (${tables[table]})`);
  // In one transaction; otherwise every insert would be one.
  return connection.transaction(async () => {
    const rows = await openRows(connection.raw, tables);
    try {
      const yielder = createYielder(signal);
      const stager = createStager(rows, rules, options);
      let read = 0;
      const added = async (count: number): Promise<void> => {
        await rows.room();
        signal.throwIfAborted();
        read += count;
        progress?.(read);
      };
      const takeLines = async (lines: MembershipLines): Promise<void> => {
        stager.addLines(lines);
        await added(lines.count);
      };
      const readSource = async (source: OpenSource): Promise<void> => {
        for await (const batch of delivered(source, takeLines, signal)) {
          for (const record of batch) {
            stager.add(record);
            if (yielder.isDue()) await yielder.yield();
          }
          await added(batch.length);
        }
      };
      const unread: { name: string; error: RollcallError }[] = [];
      for (const each of sources) {
        stager.begin(each.name);
        try {
          await readSource(each);
        } catch (error) {
          // Any other error is a bug of Rollcall's own: do not go on.
          if (each.optional !== true || signal.aborted || !(error instanceof RollcallError)) throw error;
          unread.push({ name: each.name, error });
          if (unread.length === sources.length) throw error;
          await rows.flush();
          await connection.run(stager.forget());
        }
      }
      stager.addStaticGroups();
      await rows.flush();
      const { addVerdict } = stager;
      const isObserved = options.observer !== undefined;
      const leftOut = rules.judgesLate
        ? await judgeRaw(connection, rows, rules, { addVerdict, yielder, isObserved, unread })
        : 0;
      await rows.flush();
      const staged = stager.staged();
      return { ...staged, excluded: staged.excluded + leftOut, unread };
    } finally {
      await rows.close();
    }
  });
}

/**
 * A digest of what `stage` made: of its rows in any order, which have the places of records in them, and of what it counted.
 * It finds out what has changed by itself, not who makes values for which DuckDB's hash is the same.
 */
export async function digestOfStaged(connection: Connection, staged: Staged): Promise<string> {
  const sums = stagedNames.map(
    (table) => `(SELECT [count(*)::VARCHAR, sum(hash(${table}))::VARCHAR] FROM ${table}) AS ${table}`,
  );
  const [row] = await connection.rows<object>(`SELECT ${sums.join(", ")}`);
  return createHash("sha256")
    .update(JSON.stringify([row, staged]))
    .digest("hex");
}

/** The batches of a source. An unexpected error of its connector gets the name of the source. */
async function* delivered(
  { name, records }: OpenSource,
  takeLines: (lines: MembershipLines) => Promise<void>,
  signal: AbortSignal,
): Records {
  try {
    for await (const batch of typeof records === "function" ? records(takeLines) : records) {
      if (!Array.isArray(batch)) throw new TypeError("it delivered something else than a list of records");
      yield batch;
    }
  } catch (error) {
    if (signal.aborted || error instanceof RollcallError) throw error;
    throw new Error(`source ${name}: its connector has failed: ${messageOf(error)}`, { cause: error });
  }
}

/** Sees the verdict on every entry, and the tables of assembly before they are dropped. */
export interface Observer {
  judged(judged: Judged): void;
  assembled(connection: Connection): Promise<void>;
}

/** An entry that was judged. The keys of a joined entry are the ids of its records. */
export interface Judged {
  readonly seq: number;
  /** The name of its source. */
  readonly source: string;
  readonly entry: Entry;
  readonly verdict: Verdict;
  /** The groups that it is in, if rules ask. */
  readonly groups?: SourceGroups | undefined;
}

/** Turns records into rows. */
export interface Stager {
  /** Everything added from now on comes from this source. */
  begin(name: string): void;
  add(record: SourceRecord): void;
  addLines(lines: MembershipLines): void;
  /** SQL that removes everything since `begin`. Flush the rows first. */
  forget(): string;
  /** Adds the groups of the configuration, as if from a last source of their own. */
  addStaticGroups(): void;
  addVerdict: AddVerdict;
  staged(): Omit<Staged, "unread">;
}

function createStager(
  rows: Rows<StagedTable>,
  rules: CompiledRules,
  { observer, keepAttributes }: StageOptions,
): Stager {
  const sources: SourceCount[] = [];
  let current: SourceCount;
  let source = -1;
  let seq = 0;
  let excluded = 0;
  let begun = { seq, excluded };

  const asksGroups = rules.groupQuestions !== undefined;
  const takesReferences = rules.makesGroups || asksGroups;

  const addReferences = (entry: Entry): void => {
    for (const keys of chunksOf(entry.memberOf)) {
      rows.append("staged_member_of", source, seq, JSON.stringify(keys.map(normalKey)));
    }
    if (entry.kind === "user") return;
    for (const members of chunksOf(entry.members)) {
      const references = members.map(({ kind, key }) => ({ kind, key: normalKey(key) }));
      rows.append("staged_members", source, seq, JSON.stringify(references));
    }
  };

  const addVerdict: AddVerdict = (seq, source, entry, verdict, groups) => {
    observer?.judged({ seq, source: sources[source]?.name ?? "", entry, verdict, groups });
    if (verdict.verdict === "excluded") {
      excluded += 1;
      return false;
    }
    const id = nfc(entry.id);
    const idIsKey = keyIsId(entry);
    const origin = nfc(entry.origin);
    if (verdict.verdict === "quarantined") {
      const { name = null, reason } = verdict;
      rows.append("staged_entry", seq, source, entry.kind, id, idIsKey, origin, name, null, null, null, 0, reason);
      return true;
    }
    const { name, displayName, description = null, mail = null, kept = [] } = verdict;
    const bits = kept.reduce((sum, attribute) => sum + keptBits[attribute], 0);
    const values = [name, displayName, description, mail, bits, null] as const;
    rows.append("staged_entry", seq, source, entry.kind, id, idIsKey, origin, ...values);
    for (const group of verdict.groups) rows.append("staged_group_name", seq, group);
    return true;
  };

  /** The numbers of the files of this source, by what their lines have in common. */
  const files = new Map<string, number>();
  let lastFile = 0;
  const numberOf = (file: string, kind: Kind | null): number => {
    const title = JSON.stringify([file, kind]);
    const known = files.get(title);
    if (known !== undefined) return known;
    lastFile += 1;
    files.set(title, lastFile);
    rows.append("staged_file", lastFile, nfc(file), source, kind);
    return lastFile;
  };

  /** Entries that may be joined are judged after everything has been read. */
  const addRaw = (entry: Entry, { key, reason }: JoinKey): void => {
    const [id, origin] = [nfc(entry.id), nfc(entry.origin)];
    const attributes = JSON.stringify(entry.attributes);
    rows.append("staged_raw", seq, source, entry.kind, id, origin, key ?? null, reason ?? null, attributes);
  };

  const addEntry = (entry: Entry): void => {
    seq += 1;
    const joinKey = doubted(entry, rules.joinKey(entry));
    const verdict = joinKey === undefined ? doubtedVerdict(entry, rules.judge(entry)) : undefined;
    const isExcluded = verdict?.verdict === "excluded";
    if (asksGroups && entry.kind === "group") rows.append("staged_group", seq, rules.sourceName(entry) ?? null);
    if (takesReferences && (joinKey !== undefined || keyIsId(entry) === 0)) {
      const keys = entry.keys.map(normalKey);
      for (const key of keys.length > 1 ? new Set(keys) : keys) {
        rows.append("staged_key", source, entry.kind, key, isExcluded ? null : seq);
      }
    }
    if (joinKey !== undefined) addRaw(entry, joinKey);
    if (verdict !== undefined) addVerdict(seq, source, entry, verdict);
    if (isExcluded) rows.append("staged_excluded", seq, source, entry.kind, nfc(entry.id), keyIsId(entry));
    if (keepAttributes) rows.append("staged_attributes", seq, ...rules.kept.valuesOf(entry, isExcluded));
    if (takesReferences && (verdict ?? { verdict: "included" }).verdict === "included") addReferences(entry);
  };

  return {
    begin: (name) => {
      current = { name, users: 0, groups: 0 };
      source = sources.push(current) - 1;
      begun = { seq, excluded };
      files.clear();
      rows.append("staged_source", source, nfc(name));
    },
    add: (record) => {
      if (record.kind !== "membership") {
        current[record.kind === "user" ? "users" : "groups"] += 1;
        addEntry(record);
      } else if (takesReferences) {
        const { group, member, origin } = record;
        rows.append("staged_pair", source, nfc(group), member.kind ?? null, nfc(member.key), nfc(origin));
      }
    },
    addLines: ({ text, delimiter, group, member, kind = null, file, line }) => {
      if (!takesReferences) return;
      rows.execute(pairsOfLines, text, delimiter, numberOf(file, kind), line - 1, group + 1, member + 1);
    },
    forget: () => {
      ({ excluded } = begun);
      Object.assign(current, { users: 0, groups: 0 });
      const tables = stagedNames.filter(
        (table) => table !== "staged_source" && stagedTables[table].includes("source INTEGER"),
      );
      return [
        `DELETE FROM staged_line WHERE file IN (SELECT file FROM staged_file WHERE source = ${source});`,
        ...tables.map((table) => `DELETE FROM ${table} WHERE source = ${source};`),
        `DELETE FROM staged_group_name WHERE member > ${begun.seq};`,
        `DELETE FROM staged_attributes WHERE seq > ${begun.seq};`,
        `DELETE FROM staged_group WHERE seq > ${begun.seq}`,
      ].join(" ");
    },
    addStaticGroups: () => {
      if (rules.staticGroups.length === 0) return;
      source += 1;
      rows.append("staged_source", source, ownSource);
      for (const { name, displayName, description = null, groups } of rules.staticGroups) {
        seq += 1;
        const origin = `the configuration, staticGroups ${quote(name)}`;
        const values = [name, displayName, description, null, 0, null] as const;
        rows.append("staged_entry", seq, source, "group", name, 0, origin, ...values);
        for (const group of groups) rows.append("staged_group_name", seq, group);
      }
    },
    addVerdict,
    staged: () => ({ sources, excluded, neverSet: rules.neverSet() }),
  };
}

/** Splitting is faster in columns of lines than in one expression over the text, where all is a constant. */
const pairsOfLines = `
  INSERT INTO staged_line
  SELECT $3::INTEGER, $4::INTEGER + place, fields[$5::INTEGER], fields[$6::INTEGER]
  FROM (
    SELECT string_split(line, $2) AS fields, place
    FROM (
      SELECT unnest(lines) AS line, generate_subscripts(lines, 1) AS place
      FROM (SELECT string_split(text, chr(10)) AS lines FROM (VALUES ($1)) t(text))))`;

/** 1 where an entry has one key, its id; otherwise 0. */
function keyIsId({ id, keys }: Entry): 0 | 1 {
  return keys.length === 1 && keys[0] === id ? 1 : 0;
}

/** What cannot be seen in the id of an entry; undefined: nothing. */
function hiddenInId({ id }: Entry): string | undefined {
  const objection = objectionToKey(id);
  return objection === undefined ? undefined : `the id ${visible(quote(id))} ${objection}; correct the source`;
}

/** An entry is in doubt where its id looks like another one. */
function doubtedVerdict(entry: Entry, verdict: Verdict): Verdict {
  if (verdict.verdict === "excluded") return verdict;
  const reason = hiddenInId(entry);
  if (reason === undefined) return verdict;
  return {
    verdict: "quarantined",
    ...(verdict.name === undefined ? {} : { name: verdict.name }),
    reason: verdict.verdict === "quarantined" ? `${reason}; ${verdict.reason}` : reason,
  };
}

function doubted(entry: Entry, joinKey: JoinKey | undefined): JoinKey | undefined {
  if (joinKey === undefined) return undefined;
  const reason = joinKey.reason ?? hiddenInId(entry);
  return reason === undefined ? joinKey : { reason };
}

/** A lone surrogate is not valid JSON. */
function normalKey(key: string): string {
  return nfc(key).toWellFormed();
}

/** Most have none, or few. */
function chunksOf<Item>(items: readonly Item[]): Iterable<readonly Item[]> {
  if (items.length === 0) return none;
  return Array.from({ length: Math.ceil(items.length / 1000) }, (_, chunk) =>
    items.slice(chunk * 1000, chunk * 1000 + 1000),
  );
}
const none: readonly never[] = [];
