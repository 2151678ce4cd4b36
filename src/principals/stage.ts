import { hash } from "node:crypto";
import { Rows } from "#duckdb/insert.ts";
import { messageOf, RollcallError } from "#errors.ts";
import { nfc, objectionToKey, quote, visible } from "#text.ts";
import type { CompiledRules } from "./compile.ts";
import type { JoinKey, Verdict } from "./judge.ts";
import type { Entry, MembershipLines, SourceGroups, SourceRecord } from "./entry.ts";
import type { Kind, PrincipalValues } from "./principal.ts";
import { judgeRaw } from "./join.ts";
import type { AddVerdict } from "./join.ts";
import type { Connection } from "#duckdb/database.ts";
import { ownSource, stagedTables } from "./tables.ts";
import type { StagedTable } from "./tables.ts";
import { Yielder } from "./yield.ts";

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
  const tables = {
    ...stagedTables,
    staged_entry: stagedTables.staged_entry + rules.declared.staged + rules.kept.ddl,
    staged_raw: stagedTables.staged_raw + rules.kept.ddl,
    staged_excluded: stagedTables.staged_excluded + rules.kept.ddl,
  };
  await connection.run(
    stagedNames.map((table) => `CREATE OR REPLACE TEMP TABLE ${table} (${tables[table]});`).join(" "),
  );
  // In one transaction; otherwise every insert would be one.
  return connection.transaction(async () => {
    const rows = new Rows(connection.raw, tables);
    try {
      const stager = new Stager(rows, rules, options);
      const unread = await readSources(connection, sources, stager, options);
      stager.addStaticGroups();
      await rows.flush();
      const leftOut = rules.judgesLate
        ? await judgeRaw(connection, rows, rules, {
            addVerdict: (...verdict) => stager.addVerdict(rules.kept.none, ...verdict),
            yielder: new Yielder(options.signal),
            isObserved: options.observer !== undefined,
            unread,
          })
        : 0;
      await rows.flush();
      const staged = stager.staged();
      return { ...staged, excluded: staged.excluded + leftOut, unread };
    } finally {
      await rows.close();
    }
  });
}

/** @returns the optional sources that failed, and why */
async function readSources(
  connection: Connection,
  sources: readonly OpenSource[],
  stager: Stager,
  { signal, progress }: StageOptions,
): Promise<{ name: string; error: RollcallError }[]> {
  const yielder = new Yielder(signal);
  let read = 0;
  const added = async (count: number): Promise<void> => {
    await stager.rows.room();
    signal.throwIfAborted();
    read += count;
    progress?.(read);
  };
  const takeLines = async (lines: MembershipLines): Promise<void> => {
    stager.addLines(lines);
    await added(lines.count);
  };
  const unread: { name: string; error: RollcallError }[] = [];
  for (const source of sources) {
    stager.begin(source.name);
    try {
      for await (const batch of delivered(source, takeLines, signal)) {
        for (const record of batch) {
          stager.add(record);
          if (yielder.isDue()) await yielder.yield();
        }
        await added(batch.length);
      }
    } catch (error) {
      // Any other error is a bug of Rollcall's own: do not go on.
      if (source.optional !== true || signal.aborted || !(error instanceof RollcallError)) throw error;
      unread.push({ name: source.name, error });
      if (unread.length === sources.length) throw error;
      await stager.rows.flush();
      await connection.run(stager.forget());
    }
  }
  return unread;
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
  return hash("sha256", JSON.stringify([row, staged]));
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
class Stager {
  readonly rows: Rows<StagedTable>;
  readonly #rules: CompiledRules;
  readonly #observer: Observer | undefined;
  readonly #keepAttributes: boolean;
  readonly #asksGroups: boolean;
  readonly #takesReferences: boolean;
  readonly #sources: SourceCount[] = [];
  /** The number of the source that is being read. */
  #source = -1;
  #seq = 0;
  #excluded = 0;
  /** What was there before this source. */
  #begun = { seq: 0, excluded: 0 };
  /** The numbers of the files of this source, by what their lines have in common. */
  readonly #files = new Map<string, number>();
  #lastFile = 0;
  /** The row of `staged_entry` that is being added: one array for all. */
  readonly #row: (string | number | null)[] = [];

  constructor(rows: Rows<StagedTable>, rules: CompiledRules, { observer, keepAttributes = false }: StageOptions) {
    this.rows = rows;
    this.#rules = rules;
    this.#observer = observer;
    this.#keepAttributes = keepAttributes;
    this.#asksGroups = rules.groupQuestions !== undefined;
    this.#takesReferences = rules.makesGroups || this.#asksGroups;
  }

  /** Everything added from now on comes from this source. */
  begin(name: string): void {
    this.#source = this.#sources.push({ name, users: 0, groups: 0 }) - 1;
    this.#begun = { seq: this.#seq, excluded: this.#excluded };
    this.#files.clear();
    this.rows.append("staged_source", this.#source, nfc(name));
  }

  add(record: SourceRecord): void {
    if (record.kind !== "membership") {
      const count = this.#sources[this.#source];
      if (count !== undefined) count[record.kind === "user" ? "users" : "groups"] += 1;
      this.#addEntry(record);
    } else if (this.#takesReferences) {
      const { group, member, origin } = record;
      this.rows.append("staged_pair", this.#source, nfc(group), member.kind ?? null, nfc(member.key), nfc(origin));
    }
  }

  addLines({ text, delimiter, group, member, kind, file, line }: MembershipLines): void {
    if (!this.#takesReferences) return;
    const number = this.#numberOf(file, kind ?? null);
    this.rows.execute(pairsOfLines, text, delimiter, number, line - 1, group + 1, member + 1);
  }

  /** SQL that removes everything since `begin`. Flush the rows first. */
  forget(): string {
    const { seq, excluded } = this.#begun;
    this.#excluded = excluded;
    Object.assign(this.#sources[this.#source] ?? {}, { users: 0, groups: 0 });
    const tables = stagedNames.filter(
      (table) => table !== "staged_source" && stagedTables[table].includes("source INTEGER"),
    );
    return [
      `DELETE FROM staged_line WHERE file IN (SELECT file FROM staged_file WHERE source = ${this.#source});`,
      ...tables.map((table) => `DELETE FROM ${table} WHERE source = ${this.#source};`),
      `DELETE FROM staged_group_name WHERE member > ${seq};`,
      `DELETE FROM staged_group WHERE seq > ${seq}`,
    ].join(" ");
  }

  /** Adds the groups of the configuration, as if from a last source of their own. */
  addStaticGroups(): void {
    const { staticGroups } = this.#rules;
    if (staticGroups.length === 0) return;
    this.#source += 1;
    this.rows.append("staged_source", this.#source, ownSource);
    for (const { name, groups, ...values } of staticGroups) {
      const seq = ++this.#seq;
      const origin = `the configuration, staticGroups ${quote(name)}`;
      this.#addRow(values, this.#rules.kept.none, seq, this.#source, "group", name, 0, origin, name, 0, null);
      for (const group of groups) this.rows.append("staged_group_name", seq, group);
    }
  }

  /** @param read what the rules read of the entry, as `KeptAttributes` has it */
  addVerdict(read: readonly (string | null)[], ...[seq, source, entry, verdict, groups]: Parameters<AddVerdict>): void {
    this.#observer?.judged({ seq, source: this.#sources[source]?.name ?? "", entry, verdict, groups });
    if (verdict.verdict === "excluded") {
      this.#excluded += 1;
      return;
    }
    const { kind } = entry;
    const [id, origin] = [nfc(entry.id), nfc(entry.origin)];
    if (verdict.verdict === "quarantined") {
      const { name = null, reason } = verdict;
      this.#addRow({}, read, seq, source, kind, id, keyIsId(entry), origin, name, 0, reason);
      return;
    }
    const { name, attributes, groups: fromRules, kept = none } = verdict;
    let bits = 0;
    for (const attribute of kept) bits += this.#rules.declared.bitOf(attribute);
    this.#addRow(attributes, read, seq, source, kind, id, keyIsId(entry), origin, name, bits, null);
    for (const group of fromRules) this.rows.append("staged_group_name", seq, group);
  }

  /** Adds a row of `staged_entry`. @param others what it has besides attributes and `read` */
  #addRow(
    attributes: PrincipalValues,
    read: readonly (string | null)[],
    ...others: readonly (string | number | null)[]
  ): void {
    const row = this.#row;
    let column = 0;
    for (const value of others) row[column++] = value;
    for (const { name } of this.#rules.declared.all) {
      const value = attributes[name] ?? null;
      row[column++] =
        typeof value === "object" ? value && JSON.stringify(value) : typeof value === "boolean" ? String(value) : value;
    }
    for (const value of read) row[column++] = value;
    this.rows.append("staged_entry", ...row);
  }

  staged(): Omit<Staged, "unread"> {
    return { sources: this.#sources, excluded: this.#excluded, neverSet: this.#rules.neverSet() };
  }

  #addEntry(entry: Entry): void {
    const { rows } = this;
    const rules = this.#rules;
    const source = this.#source;
    const seq = ++this.#seq;
    const joinKey = doubted(entry, rules.joinKey(entry));
    const verdict = joinKey === undefined ? doubtedVerdict(entry, rules.judge(entry)) : undefined;
    const isExcluded = verdict?.verdict === "excluded";
    if (this.#asksGroups && entry.kind === "group") rows.append("staged_group", seq, rules.sourceName(entry) ?? null);
    if (this.#takesReferences && (joinKey !== undefined || keyIsId(entry) === 0)) {
      const keys = entry.keys.map(normalKey);
      for (const key of keys.length > 1 ? new Set(keys) : keys) {
        rows.append("staged_key", source, entry.kind, key, isExcluded ? null : seq);
      }
    }
    const read = this.#keepAttributes ? rules.kept.valuesOf(entry, isExcluded) : rules.kept.none;
    if (joinKey !== undefined) this.#addRaw(entry, joinKey, read);
    if (verdict !== undefined) this.addVerdict(read, seq, source, entry, verdict);
    if (isExcluded) rows.append("staged_excluded", seq, source, entry.kind, nfc(entry.id), keyIsId(entry), ...read);
    if (this.#takesReferences && (verdict === undefined || verdict.verdict === "included")) this.#addReferences(entry);
  }

  /** Entries that may be joined are judged after everything has been read. */
  #addRaw(entry: Entry, { key, reason }: JoinKey, read: readonly (string | null)[]): void {
    const [id, origin] = [nfc(entry.id), nfc(entry.origin)];
    const attributes = JSON.stringify(entry.attributes);
    const { kind } = entry;
    const found = [kind, id, origin, key ?? null, reason ?? null, attributes];
    this.rows.append("staged_raw", this.#seq, this.#source, ...found, ...read);
  }

  #addReferences({ kind, memberOf, members }: Entry): void {
    for (const keys of chunksOf(memberOf)) {
      this.rows.append("staged_member_of", this.#source, this.#seq, JSON.stringify(keys.map(normalKey)));
    }
    if (kind === "user") return;
    for (const given of new Set(members.map((member) => member.kind))) {
      for (const some of chunksOf(members.filter((member) => member.kind === given))) {
        const keys = JSON.stringify(some.map(({ key }) => normalKey(key)));
        this.rows.append("staged_members", this.#source, this.#seq, given ?? null, keys);
      }
    }
  }

  #numberOf(file: string, kind: Kind | null): number {
    const title = JSON.stringify([file, kind]);
    const known = this.#files.get(title);
    if (known !== undefined) return known;
    this.#lastFile += 1;
    this.#files.set(title, this.#lastFile);
    this.rows.append("staged_file", this.#lastFile, nfc(file), this.#source, kind);
    return this.#lastFile;
  }
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

/** How many keys are a row: DuckDB holds the texts of 2,048 rows at a time, in each thread. */
const keysPerRow = 100;

/** Most have none, or few. */
function chunksOf<Item>(items: readonly Item[]): Iterable<readonly Item[]> {
  if (items.length === 0) return none;
  return Array.from({ length: Math.ceil(items.length / keysPerRow) }, (_, chunk) =>
    items.slice(chunk * keysPerRow, (chunk + 1) * keysPerRow),
  );
}
const none: readonly never[] = [];
