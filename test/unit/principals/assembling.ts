import type { Connection } from "#duckdb/database.ts";
import { assemble } from "#principals/assembly.ts";
import type { Assembly } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import type { Entry, Membership, SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";

/** The display name of a user is `cn`, or else the name: `{ cn: "" }` makes a rule fail and leaves the name known. */
export const plainRules: Rules = {
  users: {
    include: 'entry.status != "left"',
    name: "entry.name",
    displayName: "coalesce(entry.cn, entry.name)",
    mail: "entry.mail",
    groups: "values(entry.extra)",
  },
  groups: {
    include: 'entry.status != "left"',
    name: "entry.name",
    displayName: "coalesce(entry.cn, entry.name)",
    description: "entry.note",
  },
};

/** A user whose id, only key and name are `id`, unless it is said otherwise. */
export function user(id: string, rest: Partial<Entry> = {}): Entry {
  return entry("user", id, rest);
}

/** A group, likewise. */
export function group(id: string, rest: Partial<Entry> = {}): Entry {
  return entry("group", id, rest);
}

export function membership(key: string, member: Membership["member"], origin = "pairs"): Membership {
  return { kind: "membership", group: key, member, origin };
}

function entry(kind: Entry["kind"], id: string, { attributes, ...rest }: Partial<Entry>): Entry {
  return {
    kind,
    id,
    origin: `${kind}:${id}`,
    attributes: { name: id, ...attributes },
    keys: [id],
    memberOf: [],
    members: [],
    ...rest,
  };
}

export interface Row {
  readonly kind: string;
  readonly name: string;
  readonly display_name: string;
  readonly description: string | null;
  readonly mail: string | null;
  readonly group_names: readonly string[];
  readonly source: string;
  readonly source_id: string;
  readonly origin: string;
}

export interface QuarantinedRow {
  readonly kind: string;
  readonly name: string | null;
  readonly source: string;
  readonly source_id: string;
  readonly origin: string;
  readonly reason: string;
}

export interface Assembled {
  readonly assembly: Assembly;
  readonly rows: readonly Row[];
  readonly quarantined: readonly QuarantinedRow[];
}

/** Assembles the records of sources by their names, and reads both tables. */
export async function assembleAll(
  connection: Connection,
  sources: Readonly<Record<string, readonly SourceRecord[]>>,
  rules: Rules = plainRules,
  ignoresCase = false,
): Promise<Assembled> {
  const assembly = await assemble(
    connection,
    Object.entries(sources).map(([name, records]) => ({ name, records: inBatches(records) })),
    compileRules(rules),
    { signal: new AbortController().signal, ignoresCase },
  );
  return {
    assembly,
    rows: await connection.rows<Row>("SELECT * EXCLUDE kept FROM assembled ORDER BY kind, name"),
    quarantined: await connection.rows<QuarantinedRow>("SELECT * FROM quarantined"),
  };
}

/** The groups of each principal, by kind and name. */
export function groupsOf({ rows }: Assembled): Record<string, readonly string[]> {
  return Object.fromEntries(rows.map(({ kind, name, group_names }) => [`${kind} ${name}`, group_names]));
}

async function* inBatches(records: readonly SourceRecord[]): AsyncIterable<readonly SourceRecord[]> {
  for (let from = 0; from < records.length; from += 3) yield records.slice(from, from + 3);
}
