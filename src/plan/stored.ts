import { identifier, literal, openDatabase, textList } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { attributeOfColumn, columnOfAttribute } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import { quote } from "#text.ts";
import { actions } from "./change.ts";
import type { Action, Change, Counts, KindCounts, Part, Plan } from "./change.ts";
import { changeOfRow, countMemberships, readChanges } from "./diff.ts";
import type { ChangeRow } from "./diff.ts";
import { findSome } from "./found.ts";
import type { Found } from "./found.ts";
import { matches } from "./patterns.ts";
import { selectedBy } from "./selection.ts";
import type { Selection, Subject } from "./selection.ts";

/** Selects changes of a plan: those that meet every condition. */
export interface Filter {
  readonly kind?: Kind | undefined;
  readonly actions?: readonly Action[] | undefined;
  /** `*` stands for any characters. */
  readonly names?: readonly string[] | undefined;
  /** A record of one of these sources makes the principal, or made it. */
  readonly sources?: readonly string[] | undefined;
  /** At least one of these causes explains a part of it. */
  readonly causes?: readonly string[] | undefined;
  /** At least one of these attributes changes, or `groups`. A creation changes everything that it sets. */
  readonly aspects?: readonly string[] | undefined;
  /** One of these groups itself, or somebody whose membership in one of them changes. */
  readonly groups?: readonly string[] | undefined;
  /** What a part of the plan has of it, before groups are spared for their members. */
  readonly selection?: Selection | undefined;
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
  const which = conditionOf(await readFrom(connection, file, filter));
  return {
    ...whole,
    shown: which === "true" ? undefined : await countShown(connection, which, whole.counts),
    changes: (only, most) => readChanges(connection, { only, most, which }),
  };
}

/**
 * Makes the view `change_sides` of a file of changes; `place` is the row there.
 * @returns the filter, with the attributes as the plan spells them
 * @throws {InputError} when the filter asks for sources, and the plan was stored before they were; or for an attribute that
 *   the principals of this plan do not have
 */
async function readFrom(connection: Connection, file: string, filter: Filter): Promise<Filter> {
  const { sources, aspects } = filter;
  if (sources !== undefined && !(await hasSources(connection, file)))
    throw new InputError(
      "this plan was stored without the sources of its changes, by an older version of Rollcall: leave out the filter by source, or plan again",
    );
  await connection.run(`
    CREATE OR REPLACE TEMP VIEW change_sides AS
    SELECT action::VARCHAR AS action, kind::VARCHAR AS kind, name, before, after, causes, sources, file_row_number AS place
    FROM ${changesIn([file])}`);
  if (aspects === undefined) return filter;
  const known = await aspectsIn(connection);
  // A plan without changes has nothing to select.
  if (known.length === 0) return { ...filter, aspects: undefined };
  const spelled = aspects.map((aspect) => {
    const found = known.find((each) => each.toLowerCase() === aspect.toLowerCase());
    if (found !== undefined) return found;
    throw new InputError(`this plan has no attribute ${quote(aspect)}: expected one of ${known.join(", ")}`);
  });
  return { ...filter, aspects: spelled };
}

/** What a filter can name: the attributes of the principals in `change_sides`, and `groups`. None where it is empty. */
async function aspectsIn(connection: Connection): Promise<string[]> {
  const [row] = await connection.rows<{ columns: string[] }>(
    "SELECT json_keys(to_json(coalesce(after, before))) AS columns FROM change_sides LIMIT 1",
  );
  return (row?.columns ?? []).flatMap((column) =>
    column === "name" ? [] : column === "group_names" ? ["groups"] : [attributeOfColumn(column)],
  );
}

/** Some changes of a part, by name. */
interface Page {
  readonly offset: number;
  readonly limit: number;
}

async function hasSources(connection: Connection, file: string): Promise<boolean> {
  const rows = await connection.rows(`SELECT true FROM parquet_schema(${literal(file)}) WHERE name = 'sources'`);
  return rows.length > 0;
}

/** Changes of a stored plan, to be read page by page. */
export class Excerpts {
  readonly #connection: Connection;
  /** How many there are. The parts without any are left out. */
  readonly parts: readonly PartCount[];

  private constructor(connection: Connection, parts: readonly PartCount[]) {
    this.#connection = connection;
    this.parts = parts;
  }

  /** Finds the changes of a file that match a filter. What they change is read only of those on a page. */
  static async open(connection: Connection, file: string, filter: Filter): Promise<Excerpts> {
    const spelled = await readFrom(connection, file, filter);
    await connection.run(`
      CREATE OR REPLACE TEMP TABLE shown AS SELECT kind, action, name, place FROM change_sides WHERE ${conditionOf(spelled)}`);
    return new Excerpts(connection, await countParts(connection, "shown"));
  }

  /** Some changes of each part, in one read. */
  async pages(wanted: readonly (Part & Page)[]): Promise<Change[][]> {
    const places = await this.#connection.rows<{ nth: number; place: bigint }>(
      wanted
        .map(
          ({ kind, action, limit, offset }, nth) =>
            `(SELECT ${nth} AS nth, place FROM shown WHERE kind = '${kind}' AND action = '${action}'
              ORDER BY name LIMIT ${limit} OFFSET ${offset})`,
        )
        .join(" UNION ALL "),
    );
    if (places.length === 0) return wanted.map(() => []);
    const rows = await this.#connection.rows<ChangeRow & { place: bigint }>(`
      SELECT action, kind, before, after, causes, place FROM change_sides
      WHERE place IN (${places.map(({ place }) => place).join(", ")})`);
    const found = new Map(rows.map(({ place, ...row }) => [place, changeOfRow(row)]));
    return wanted.map((_, nth) =>
      places.flatMap((each) => {
        const change = each.nth === nth ? found.get(each.place) : undefined;
        return change === undefined ? [] : [change];
      }),
    );
  }

  /** The attributes that the filter can name, and `groups`. */
  aspects(): Promise<string[]> {
    return aspectsIn(this.#connection);
  }

  /** The sources that the filter can name, by name; none in plans of 0.1.0. */
  async sources(): Promise<string[]> {
    const rows = await this.#connection.rows<{ source: string }>(
      "SELECT DISTINCT unnest(sources) AS source FROM change_sides ORDER BY source",
    );
    return rows.map(({ source }) => source);
  }

  /** Principals of this filter that a further one leaves out: how many, and the first. */
  async others(
    further: Filter,
    most: number,
  ): Promise<{ readonly count: number; readonly subjects: readonly Subject[] }> {
    const others = `
      FROM shown ANTI JOIN (SELECT place FROM change_sides WHERE ${conditionOf(further)}) m ON m.place = shown.place`;
    const [row] = await this.#connection.rows<{ count: number }>(`SELECT count(*)::INTEGER AS count ${others}`);
    const subjects = await this.#connection.rows<Subject>(
      `SELECT kind, name ${others} ORDER BY kind, name LIMIT ${most}`,
    );
    return { count: row?.count ?? 0, subjects };
  }

  /** Those of some parts: how many, and the first. */
  async subjects(
    parts: readonly Part[],
    most: number,
  ): Promise<{ readonly count: number; readonly subjects: readonly Subject[] }> {
    const wanted = parts.map(({ kind, action }) => `(${literal(kind)}, ${literal(action)})`).join(", ");
    const count = this.parts
      .filter((part) => parts.some(({ kind, action }) => part.kind === kind && part.action === action))
      .reduce((sum, part) => sum + part.count, 0);
    if (count === 0 || count > most) return { count, subjects: [] };
    return {
      count,
      subjects: await this.#connection.rows<Subject>(
        `SELECT kind, name FROM shown WHERE (kind, action) IN (${wanted}) ORDER BY kind, name`,
      ),
    };
  }

  /** The name that is most like another one, if any is like it at all. */
  async likest(name: string): Promise<string | undefined> {
    const [found] = await this.#connection.rows<{ name: string }>(`
      SELECT name FROM shown WHERE levenshtein(lower(name), lower(${literal(name)})) <= greatest(2, ${Math.floor(name.length / 3)})
      ORDER BY levenshtein(lower(name), lower(${literal(name)})), name LIMIT 1`);
    return found?.name;
  }

  /** Those with one of these names. */
  called(names: readonly string[]): Promise<Subject[]> {
    return this.#connection.rows<Subject>(
      `SELECT kind, name FROM shown WHERE list_contains(${textList(names)}, name) ORDER BY kind, name`,
    );
  }
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
  await using opened = await openReader(spill);
  const plan = await openStored(opened.connection, file, { digest, counts }, filter);
  yield* plan.changes();
}

/** Opens a stored plan for as long as `read` takes. */
export async function withStoredPlan<Result>(
  whole: Pick<Plan, "digest" | "counts">,
  { file, spill }: StoredChangesOptions,
  filter: Filter,
  read: (plan: Plan) => Promise<Result>,
): Promise<Result> {
  await using opened = await openReader(spill);
  return await read(await openStored(opened.connection, file, whole, filter));
}

/** Opens parts of a stored plan for as long as `read` takes. */
export async function withExcerpts<Result>(
  { file, spill }: StoredChangesOptions,
  filter: Filter,
  read: (excerpts: Excerpts) => Promise<Result>,
): Promise<Result> {
  await using opened = await openReader(spill);
  return await read(await Excerpts.open(opened.connection, file, filter));
}

/** How a plan differs from one that was shown before. */
export interface PlanDifferences {
  /** How many principals there are of each kind of difference, and some of them. */
  readonly gone: NamedChanges;
  readonly added: NamedChanges;
  readonly other: NamedChanges;
  /** How many changes are the same. */
  readonly same: number;
}

type NamedChanges = Found<Part & { readonly name: string }>;

/** The most examples of each. */
const mostExamples = 50;

/** Compares the stored changes of two plans. */
export async function comparePlans(shown: string, now: string, spill: string): Promise<PlanDifferences> {
  await using opened = await openReader(spill);
  const { connection } = opened;
  await connection.run(`
    CREATE TEMP TABLE compared AS
    SELECT coalesce(n.kind, s.kind)::VARCHAR AS kind, coalesce(n.name, s.name) AS name,
      coalesce(n.action, s.action)::VARCHAR AS action,
      CASE WHEN n.name IS NULL THEN 'gone' WHEN s.name IS NULL THEN 'added'
        WHEN s.action::VARCHAR <> n.action::VARCHAR OR to_json(s.before)::VARCHAR IS DISTINCT FROM to_json(n.before)::VARCHAR
          OR to_json(s.after)::VARCHAR IS DISTINCT FROM to_json(n.after)::VARCHAR THEN 'other' ELSE 'same' END AS what
    FROM ${changesIn([shown])} s FULL JOIN ${changesIn([now])} n ON n.kind = s.kind AND n.name = s.name`);
  const found = (what: string): Promise<NamedChanges> =>
    findSome(connection, `SELECT action, kind, name FROM compared WHERE what = '${what}'`, "kind, name", mostExamples);
  const [row] = await connection.rows<{ same: number }>(
    "SELECT count(*)::INTEGER AS same FROM compared WHERE what = 'same'",
  );
  return { gone: await found("gone"), added: await found("added"), other: await found("other"), same: row?.same ?? 0 };
}

/** A database for reading what is stored of runs. @param spill a folder for what does not fit into memory */
export async function openReader(spill: string): Promise<{ readonly connection: Connection } & AsyncDisposable> {
  const database = await openDatabase({ path: ":memory:", memory, spill });
  try {
    const connection = await database.connect();
    return {
      connection,
      [Symbol.asyncDispose]: async () => {
        connection.close();
        database.close();
      },
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * Files of changes, as SQL reads them: the columns of `change_sides`, `filename` and `file_row_number`. Those of 0.1.0 have no
 * causes, no `fields` and no `sources`.
 */
export function changesIn(files: readonly string[]): string {
  return `(SELECT NULL::VARCHAR[] AS causes, NULL::VARCHAR AS fields, NULL::VARCHAR[] AS sources WHERE false UNION ALL BY NAME FROM read_parquet([${files.map(literal).join(", ")}], filename = true, file_row_number = true, hive_partitioning = false, union_by_name = true))`;
}

function conditionOf({ kind, actions, names, sources, causes, aspects, groups, selection = {} }: Filter): string {
  const conditions = [
    ...(kind === undefined ? [] : [`kind = '${kind}'`]),
    ...(actions === undefined ? [] : [`action IN (${actions.map(literal).join(", ")})`]),
    ...(names === undefined ? [] : [matches("name", names)]),
    ...(sources === undefined ? [] : [`list_has_any(sources, ${textList(sources)})`]),
    ...(causes === undefined ? [] : [`list_has_any(causes, ${textList(causes)})`]),
    ...(groups === undefined ? [] : [touches(groups)]),
    ...selectedBy(selection),
    ...(aspects === undefined ? [] : [`(${aspects.map(differs).join(" OR ")})`]),
  ];
  return conditions.length === 0 ? "true" : conditions.join(" AND ");
}

/** An SQL condition: one side of a change is in a group. */
function isIn(side: "before" | "after", group: string): string {
  return `coalesce(list_contains(${side}.group_names, ${literal(group)}), false)`;
}

/** An SQL condition: one of these groups, or somebody whose membership in one of them changes. */
function touches(groups: readonly string[]): string {
  const changes = groups.map((group) => `${isIn("before", group)} <> ${isIn("after", group)}`);
  return `((kind = 'group' AND list_contains(${textList(groups)}, name)) OR ${["false", ...changes].join(" OR ")})`;
}

/** An SQL condition: the two sides differ. Groups are sorted, and no groups count as much as no principal. */
function differs(aspect: string): string {
  if (aspect === "groups") return "coalesce(before.group_names, []) <> coalesce(after.group_names, [])";
  const column = identifier(columnOfAttribute(aspect));
  return `before.${column} IS DISTINCT FROM after.${column}`;
}

async function countShown(connection: Connection, which: string, whole: Counts): Promise<Counts> {
  const parts = await countParts(connection, `change_sides WHERE ${which}`);
  return { ...withParts(whole, parts), ...(await countMemberships(connection, which)) };
}

/** How many changes of a part there are. */
type PartCount = Part & { readonly count: number };

function countParts(connection: Connection, from: string): Promise<PartCount[]> {
  return connection.rows(`SELECT kind, action, count(*)::INTEGER AS count FROM ${from} GROUP BY kind, action`);
}

/** The counts of a plan of which only some changes are shown; its memberships are all of them. */
export function withParts(whole: Counts, parts: readonly PartCount[]): Counts {
  const of = (kind: Kind): KindCounts => {
    const count = (action: Action): number =>
      parts.find((part) => part.kind === kind && part.action === action)?.count ?? 0;
    const counted = actions.filter((action) => whole[`${kind}s`][action] !== undefined);
    const { before, after, create, delete: gone, ...others } = whole[`${kind}s`];
    const left = create - count("create") - (gone - count("delete"));
    return {
      ...others,
      before,
      after: after - left,
      ...Object.fromEntries(counted.map((action) => [action, count(action)])),
    } as KindCounts;
  };
  return { ...whole, users: of("user"), groups: of("group") };
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
