import { literal, openDatabase } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Kind } from "#principals/principal.ts";
import type { Action, AttributeChange, Change, Counts, KindCounts, Plan } from "./change.ts";
import { changeOfRow, countMemberships, readChanges } from "./diff.ts";
import type { ChangeRow } from "./diff.ts";
import { matches } from "./patterns.ts";

/** The parts of a principal that a filter can name. */
export const aspects = ["displayName", "description", "mail", "groups"] as const satisfies readonly (
  | AttributeChange["attribute"]
  | "groups"
)[];
export type Aspect = (typeof aspects)[number];

/** Selects changes of a plan: those that meet every condition. */
export interface Filter {
  readonly kind?: Kind | undefined;
  readonly actions?: readonly Action[] | undefined;
  /** `*` stands for any characters. */
  readonly names?: readonly string[] | undefined;
  /** At least one of these causes explains a part of it. */
  readonly causes?: readonly string[] | undefined;
  /** At least one of them changes. A creation changes everything that it sets. */
  readonly aspects?: readonly Aspect[] | undefined;
}

/**
 * The plan in a file of changes, with the columns of `change_sides`. The file is read for as long as the plan is used.
 * @param whole the digest and the counts of all its changes
 * @throws the library's error when the file is missing or damaged
 */
export async function openStored(
  connection: Connection,
  file: string,
  whole: Pick<Plan, "digest" | "counts">,
  filter: Filter = {},
): Promise<Plan> {
  const which = conditionOf(filter);
  await connection.run(`
    CREATE OR REPLACE TEMP VIEW change_sides AS
    SELECT action::VARCHAR AS action, kind::VARCHAR AS kind, name, before, after, causes FROM ${changesIn([file])}`);
  return {
    ...whole,
    shown: which === "true" ? undefined : await countShown(connection, which, whole.counts),
    changes: (only) => readChanges(connection, only, which),
  };
}

interface StoredChangesOptions {
  /** The run's stored changes. */
  readonly file: string;
  /** A folder where DuckDB may spill what does not fit into memory. */
  readonly spill: string;
}

/** How much memory reading changes may take, in bytes; beyond it they are sorted on disk. */
const memory = 128 * 1024 * 1024;

/** The changes of a stored plan, read one after another. None where the run never came to a plan. */
export async function* storedChanges(
  { digest, counts }: Partial<Pick<Plan, "digest" | "counts">>,
  { file, spill }: StoredChangesOptions,
  filter: Filter,
): AsyncGenerator<Change> {
  if (digest === undefined || counts === undefined) return;
  const database = await openDatabase({ path: ":memory:", memory, spill });
  try {
    const connection = await database.connect();
    try {
      const plan = await openStored(connection, file, { digest, counts }, filter);
      yield* plan.changes();
    } finally {
      connection.close();
    }
  } finally {
    database.close();
  }
}

/** Files of changes, as SQL reads them: the columns of `change_sides`, and `filename`. Those of 0.1.0 have no causes, and no `fields`. */
export function changesIn(files: readonly string[]): string {
  return `(SELECT NULL::VARCHAR[] AS causes, NULL::VARCHAR AS fields WHERE false UNION ALL BY NAME FROM read_parquet([${files.map(literal).join(", ")}], filename = true, hive_partitioning = false, union_by_name = true))`;
}

function conditionOf({ kind, actions, names, causes, aspects }: Filter): string {
  const conditions = [
    ...(kind === undefined ? [] : [`kind = '${kind}'`]),
    ...(actions === undefined ? [] : [`action IN (${actions.map(literal).join(", ")})`]),
    ...(names === undefined ? [] : [matches("name", names)]),
    ...(causes === undefined ? [] : [`list_has_any(causes, [${causes.map(literal).join(", ")}])`]),
    ...(aspects === undefined ? [] : [`(${aspects.map((aspect) => differs[aspect]).join(" OR ")})`]),
  ];
  return conditions.length === 0 ? "true" : conditions.join(" AND ");
}

/** SQL conditions: the two sides differ. Groups are sorted, and no groups count as much as no principal. */
const differs: Record<Aspect, string> = {
  displayName: "before.display_name IS DISTINCT FROM after.display_name",
  description: "before.description IS DISTINCT FROM after.description",
  mail: "before.mail IS DISTINCT FROM after.mail",
  groups: "coalesce(before.group_names, []) <> coalesce(after.group_names, [])",
};

async function countShown(connection: Connection, which: string, whole: Counts): Promise<Counts> {
  const rows = await connection.rows<{ kind: Kind; action: Action; count: bigint }>(
    `SELECT kind, action, count(*) AS count FROM change_sides WHERE ${which} GROUP BY kind, action`,
  );
  const of = (kind: Kind): KindCounts => {
    const count = (action: Action): number =>
      Number(rows.find((row) => row.kind === kind && row.action === action)?.count ?? 0);
    return { ...whole[`${kind}s`], create: count("create"), update: count("update"), delete: count("delete") };
  };
  return { users: of("user"), groups: of("group"), ...(await countMemberships(connection, which)) };
}

/** A change of a principal, and the file that has it. */
export interface PastChange {
  readonly file: string;
  readonly change: Change;
}

/**
 * The changes of users and groups of a name, from files with the columns of `change_sides`, by file name, latest first.
 * @param name `*` stands for any characters
 * @throws the library's error when a file is missing or damaged
 */
export async function* readPastChanges(
  connection: Connection,
  files: readonly string[],
  name: string,
): AsyncIterable<PastChange> {
  if (files.length === 0) return;
  const batches = connection.batches<ChangeRow & { filename: string }>(`
    SELECT filename, action::VARCHAR AS action, kind::VARCHAR AS kind, before, after, causes FROM ${changesIn(files)}
    WHERE ${matches("name", [name])} ORDER BY filename DESC, name, kind`);
  for await (const rows of batches)
    for (const { filename, ...row } of rows) yield { file: filename, change: changeOfRow(row) };
}
