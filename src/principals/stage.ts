import { setImmediate as nextTurn } from "node:timers/promises";
import type { DuckDBConnection } from "@duckdb/node-api";
import type { CompiledRules } from "./compile.ts";
import type { Entry, SourceRecord } from "./entry.ts";
import { keepBits, ownSource } from "./relation.ts";
import { openRows } from "./rows.ts";
import type { Rows } from "./rows.ts";
import { normal, quoted } from "./text.ts";

/** What staging needs of a DuckDB connection. */
export interface StageConnection {
  run(sql: string): Promise<void>;
  transaction<Result>(work: () => Promise<Result>): Promise<Result>;
  /** The library's own connection, for appenders. */
  readonly raw: DuckDBConnection;
}

/** A source that is being read. */
export interface OpenSource {
  readonly name: string;
  readonly records: AsyncIterable<readonly SourceRecord[]>;
}

/** How many users and groups a source delivered. */
export interface SourceCount {
  readonly name: string;
  users: number;
  groups: number;
}

/**
 * What was read, in the order of the sources. `excluded`: entries that the rules leave out. `neverSet`: attributes that
 * rules ask for and no entry has, which may be misspelled.
 */
export interface Staged {
  readonly sources: readonly Readonly<SourceCount>[];
  readonly excluded: number;
  readonly neverSet: readonly string[];
}

/**
 * The tables that records become. An entry is known by its `seq`, a source by its place in the list. Excluded entries
 * are no rows; their keys are, without `seq`, so that a reference to them is told from one to nobody. What an entry
 * refers to is one value, in JSON: a row for each reference takes several times as long.
 */
const columns = {
  staged_source: "source INTEGER, name VARCHAR",
  staged_entry: `seq INTEGER, source INTEGER, kind VARCHAR, source_id VARCHAR, origin VARCHAR, name VARCHAR,
    display_name VARCHAR, description VARCHAR, mail VARCHAR, kept INTEGER, reason VARCHAR`,
  staged_group_name: "member INTEGER, name VARCHAR",
  staged_key: "source INTEGER, kind VARCHAR, key VARCHAR, seq INTEGER",
  staged_member_of: "source INTEGER, member INTEGER, group_keys VARCHAR",
  staged_members: "source INTEGER, grp INTEGER, members VARCHAR",
  staged_pair: "source INTEGER, group_key VARCHAR, member_kind VARCHAR, member_key VARCHAR, origin VARCHAR",
} as const;
export type StageTable = keyof typeof columns;
export const stageTables = Object.keys(columns) as StageTable[];

/** How long records are worked on before others have their turn, in milliseconds. */
const turn = 4;

/**
 * Reads the sources one after the other, judges every entry, and writes what comes of it to the `staged_…` tables.
 * @throws the error of a source, or the signal's reason
 */
export async function stage(
  connection: StageConnection,
  sources: readonly OpenSource[],
  rules: CompiledRules,
  options: { readonly signal: AbortSignal; readonly progress?: (records: number) => void },
): Promise<Staged> {
  const { signal, progress } = options;
  for (const table of stageTables) await connection.run(`CREATE OR REPLACE TEMP TABLE ${table} (${columns[table]})`);
  // In one transaction: outside of it, an appender stops for long at every full row group.
  return connection.transaction(async () => {
    const rows = await openRows(connection.raw, stageTables);
    try {
      const stager = createStager(rows, rules);
      let read = 0;
      let turnEnds = performance.now() + turn;
      for (const { name, records } of sources) {
        stager.begin(name);
        for await (const batch of records) {
          for (const record of batch) {
            stager.add(record);
            if (performance.now() < turnEnds) continue;
            await nextTurn();
            signal.throwIfAborted();
            turnEnds = performance.now() + turn;
          }
          signal.throwIfAborted();
          read += batch.length;
          progress?.(read);
        }
      }
      stager.addStaticGroups();
      rows.flush();
      return stager.staged();
    } finally {
      rows.close();
    }
  });
}

interface Stager {
  /** What is added from here on comes from this source. */
  begin(name: string): void;
  add(record: SourceRecord): void;
  /** The groups of the configuration, as if they came from a source of their own; the last. */
  addStaticGroups(): void;
  staged(): Staged;
}

function createStager(rows: Rows<StageTable>, rules: CompiledRules): Stager {
  const sources: SourceCount[] = [];
  let current: SourceCount;
  let source = -1;
  let seq = 0;
  let excluded = 0;

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

  const addEntry = (entry: Entry): void => {
    const verdict = rules.judge(entry);
    const isExcluded = verdict.verdict === "excluded";
    seq += 1;
    if (rules.makesGroups) {
      for (const key of new Set(entry.keys.map(normalKey))) {
        rows.append("staged_key", source, entry.kind, key, isExcluded ? null : seq);
      }
    }
    if (isExcluded) {
      excluded += 1;
      return;
    }
    const id = normal(entry.id);
    const origin = normal(entry.origin);
    if (verdict.verdict === "quarantined") {
      const { name = null, reason } = verdict;
      rows.append("staged_entry", seq, source, entry.kind, id, origin, name, null, null, null, 0, reason);
      return;
    }
    const { name, displayName, description = null, mail = null, groups, kept = [] } = verdict;
    const bits = kept.reduce((sum, attribute) => sum + keepBits[attribute], 0);
    rows.append("staged_entry", seq, source, entry.kind, id, origin, name, displayName, description, mail, bits, null);
    for (const group of groups) rows.append("staged_group_name", seq, group);
    if (rules.makesGroups) addReferences(entry);
  };

  return {
    begin: (name) => {
      current = { name, users: 0, groups: 0 };
      source = sources.push(current) - 1;
      rows.append("staged_source", source, normal(name));
    },
    add: (record) => {
      if (record.kind !== "membership") {
        current[record.kind === "user" ? "users" : "groups"] += 1;
        addEntry(record);
      } else if (rules.makesGroups) {
        const { group, member, origin } = record;
        rows.append(
          "staged_pair",
          source,
          normalKey(group),
          member.kind ?? null,
          normalKey(member.key),
          normal(origin),
        );
      }
    },
    addStaticGroups: () => {
      if (rules.staticGroups.length === 0) return;
      source += 1;
      rows.append("staged_source", source, ownSource);
      for (const { name, displayName, description = null, groups } of rules.staticGroups) {
        seq += 1;
        const origin = `the configuration, staticGroups ${quoted(name)}`;
        rows.append("staged_entry", seq, source, "group", name, origin, name, displayName, description, null, 0, null);
        for (const group of groups) rows.append("staged_group_name", seq, group);
      }
    },
    staged: () => ({ sources, excluded, neverSet: rules.neverSet() }),
  };
}

/** Half a character would be no JSON. */
function normalKey(key: string): string {
  return normal(key).toWellFormed();
}

function* chunksOf<Item>(items: readonly Item[]): Iterable<readonly Item[]> {
  for (let from = 0; from < items.length; from += 1000) yield items.slice(from, from + 1000);
}
