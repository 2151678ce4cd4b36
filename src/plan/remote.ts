import { identifier, literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { Rows } from "#duckdb/insert.ts";
import { columnOf } from "#principals/attributes.ts";
import type { Attribute, Attributes } from "#principals/attributes.ts";
import { anySpelling } from "#principals/principal.ts";
import type { Kind, PrincipalValue } from "#principals/principal.ts";
import { findSome } from "./found.ts";
import type { Found } from "./found.ts";
import { isRuleGroup } from "./rule-groups.ts";

/*
 * A target that is read as objects has ids of its own, and may hold a value otherwise than it was sent. Here its objects become
 * principals: by the ids that the ledger knows, else by name.
 */

/** The type in `actual_foreign` of objects that cannot be told apart by their name. */
export const sameName = "several of one name";

/** The relations of what was read. They are no temporary ones: a target is read with a connection of its own. */
export const remoteTables = {
  /** The objects as they were read; `attributes` is JSON, see `attributesText`. */
  remote_object: "kind VARCHAR, id VARCHAR, name VARCHAR, version VARCHAR, attributes VARCHAR",
  /** Memberships, by ids. `kind` of the member: NULL where the target does not say. */
  remote_member: "grp VARCHAR, kind VARCHAR, member VARCHAR",
} as const;

const known = "kind VARCHAR, id VARCHAR, name VARCHAR, sent VARCHAR, stored VARCHAR, is_new BOOLEAN";

/**
 * What the ledger knows of them. `sent` and `stored`: JSON of the attributes that the target holds otherwise than it was sent.
 * `is_new`: a run that did not finish has created it, and what else it was to get may be missing.
 */
export const knownTables = {
  remote_known: known,
  /** The same of what the run has created, and the target does not list yet. */
  remote_late: known,
  /** Memberships as the sync wrote them, for targets that do not show them. `pending`: the outcome is not known. */
  remote_member_known: "grp VARCHAR, kind VARCHAR, member VARCHAR, pending BOOLEAN",
} as const;

/** SQL of those that a run which did not finish has created. Their updates are the rest of that, and no limit's business. */
export const unfinished = "SELECT (kind, name) FROM remote_known WHERE is_new";

/** Writes down that those are finished. @param rest a relation with `kind` and `name`: who is not as planned yet */
export async function finishCreated(connection: Connection, rest: "changes" | "left_out"): Promise<void> {
  await connection.run(
    `UPDATE remote_known SET is_new = false WHERE is_new AND (kind, name) NOT IN (SELECT (kind, name) FROM ${rest})`,
  );
}

/** SQL: makes the tables that no ledger has filled. */
export const missingRemote = Object.entries(knownTables)
  .map(([table, ddl]) => `CREATE TABLE IF NOT EXISTS ${table} (${ddl})`)
  .join("; ");

/** The declared attributes of an object as JSON, in the order of the declaration: the same object gives the same text. */
export function attributesText(declared: Attributes, kind: Kind, values: Readonly<Record<string, unknown>>): string {
  const own = declared.having(kind).flatMap(({ name, type }): [string, unknown][] => {
    const value = values[name];
    if (value === undefined || value === null || value === "") return [];
    if (type !== "texts") return [[name, value]];
    const texts = [...new Set(value as readonly string[])].filter((each) => each !== "");
    return texts.length === 0 ? [] : [[name, texts.toSorted(byCodePoint)]];
  });
  return JSON.stringify(Object.fromEntries(own));
}

function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/**
 * Makes principals of what was read, in `table`, with `remote_name (kind, id, name, is_meant)`: which object stands for which
 * principal. Objects that cannot be told apart are in `actual_foreign`, or `arrived_foreign`, and keep their name from others.
 * @param options.takesReplaced who has the name of an object that is gone stands for it, see `disownReplaced`
 */
export async function makeFromRemote(
  connection: Connection,
  declared: Attributes,
  table: "actual" | "arrived" | "principals",
  { takesReplaced = false }: { readonly takesReplaced?: boolean } = {},
): Promise<void> {
  const foreign = table === "principals" ? "principals_foreign" : `${table}_foreign`;
  const extra = table === "principals" ? "principals_extra" : `${table}_extra`;
  // Who is alone with a name since the run has deleted the other one is still not whom the sync means.
  const wasMeant =
    table === "arrived" ? "(kind, id) NOT IN (SELECT (kind, id) FROM remote_name WHERE NOT is_meant)" : "true";
  await connection.run(`
    CREATE OR REPLACE TABLE remote_name AS
    WITH named AS (
      SELECT o.kind, o.id, k.id IS NOT NULL AS is_known,
        CASE WHEN k.name IS NOT NULL AND (${keepsName(declared)} OR ${anySpelling("k.name")} = ${anySpelling("o.name")}) THEN k.name ELSE o.name END AS name
      FROM remote_object o LEFT JOIN remote_known k ON k.kind = o.kind AND k.id = o.id)
    SELECT kind, id, name,
      (count(*) OVER same = 1 OR (is_known AND count(*) FILTER (is_known) OVER same = 1)) AND ${wasMeant} AS is_meant
    FROM named WINDOW same AS (PARTITION BY kind, name);
    ${takesReplaced ? "" : `UPDATE remote_name SET is_meant = false WHERE (kind, id) IN (SELECT (kind, id) FROM ${replaced});`}
    CREATE OR REPLACE TABLE ${foreign} AS
    SELECT kind, name, ${literal(sameName)} AS type, []::VARCHAR[] AS group_names, '{}' AS json
    FROM remote_name GROUP BY kind, name HAVING NOT bool_or(is_meant);
    CREATE OR REPLACE TABLE ${extra} (kind VARCHAR, name VARCHAR, fields VARCHAR);
    CREATE OR REPLACE TABLE ${table} AS
    WITH membership AS (
      SELECT p.kind, p.id, list_sort(list_distinct(list(g.name))) AS names
      FROM remote_member m
      JOIN remote_name g ON g.kind = 'group' AND g.id = m.grp AND g.is_meant
      JOIN remote_name p ON p.id = m.member AND p.kind = coalesce(m.kind, ${kindOfMember}) AND p.is_meant
      GROUP BY p.kind, p.id),
    given AS (SELECT *, from_json(attributes, ${literal(formOf(declared))}) AS given FROM remote_object)
    SELECT o.kind, n.name,
      ${declared.all.map((each) => `${valueOf(each, declared)} AS ${columnOf(each)},`).join("\n      ")}
      coalesce(m.names, []) AS group_names
    FROM given o
    JOIN remote_name n ON n.kind = o.kind AND n.id = o.id AND n.is_meant
    LEFT JOIN remote_known k ON k.kind = o.kind AND k.id = o.id
    LEFT JOIN membership m ON m.kind = o.kind AND m.id = o.id`);
}

/** A name of the target. */
export interface Named {
  readonly kind: Kind;
  readonly name: string;
}

/** SQL of the objects of `remote_name` that have the name of another one, which the sync knows, and which has it no longer. */
const replaced = `(
  WITH lost AS (
    SELECT k.kind, ${anySpelling("k.name")} AS spelled FROM remote_known k
    LEFT JOIN remote_name n ON n.kind = k.kind AND n.id = k.id AND ${anySpelling("n.name")} = ${anySpelling("k.name")}
    WHERE n.id IS NULL)
  SELECT kind, id, name FROM remote_name
  WHERE is_meant AND (kind, id) NOT IN (SELECT (kind, id) FROM remote_known) AND (kind, ${anySpelling("name")}) IN (FROM lost))`;

/**
 * Has the sync own nobody whose object in the target is gone and whose name another object has: that one may be somebody else.
 * It is adopted like any other where the sources have the name, and left alone where they don't. Runs after `makeFromRemote`.
 */
export async function disownReplaced(connection: Connection): Promise<Found<Named>> {
  const found = await findSome<Named>(connection, `SELECT kind, name FROM ${replaced}`, "kind, name");
  if (found.count > 0)
    await connection.run(
      `DELETE FROM ledger WHERE (kind, ${anySpelling("name")}) IN (SELECT (kind, ${anySpelling("name")}) FROM ${replaced})`,
    );
  return found;
}

/** An SQL condition on the object `o`: it stays the principal that it was under another name. */
function keepsName({ all }: Attributes): string {
  const kinds = all.flatMap(({ isName }) => (isName === undefined ? [] : [literal(isName)]));
  return kinds.length === 0 ? "false" : `o.kind IN (${kinds.join(", ")})`;
}

/** SQL: what a member is whose kind the target does not say. */
const kindOfMember = `CASE WHEN m.member IN (SELECT id FROM remote_object WHERE kind = 'user') THEN 'user' ELSE 'group' END`;

/** The form of `remote_object.attributes` for `from_json`. */
function formOf({ all }: Attributes): string {
  const types = { text: "VARCHAR", boolean: "BOOLEAN", texts: ["VARCHAR"] } as const;
  return JSON.stringify(Object.fromEntries(all.map(({ name, type }) => [name, types[type]])));
}

/** SQL: what the object `o` has of an attribute, or what it was sent, where the target still holds what it made of that. */
function valueOf(attribute: Attribute, { state }: Attributes): string {
  const { name, type, kind, required } = attribute;
  const path = literal(`$.${JSON.stringify(name)}`);
  const sqlType = { text: "VARCHAR", boolean: "BOOLEAN", texts: "VARCHAR[]" }[type];
  const stored = `o.given.${identifier(name)}`;
  const sent = `from_json(json_extract(k.sent, ${path}), ${literal(JSON.stringify(type === "texts" ? ["VARCHAR"] : sqlType))})`;
  const value =
    attribute === state
      ? `coalesce(${stored}, CASE WHEN ${hidesState(attribute)} THEN ${sent} END)`
      : `CASE WHEN ${isHeld(path)} THEN ${sent} ELSE ${stored} END`;
  const usual =
    required === true && type === "text" ? "''" : attribute === state ? "o.kind = 'user' OR NULL" : undefined;
  const own = usual === undefined ? value : `coalesce(${value}, ${usual})`;
  return kind === undefined ? own : `CASE WHEN o.kind = ${literal(kind)} THEN ${own} END`;
}

/** An SQL condition: the object `o` holds of an attribute what the target has made of the value that it was sent. */
function isHeld(path: string): string {
  return `coalesce(json_extract(k.stored, ${path})::VARCHAR = json_extract(o.attributes, ${path})::VARCHAR, false)`;
}

/**
 * An SQL condition: there are users, and of none the target says whether they are active. A suspension that it was sent is all
 * that is known then.
 */
function hidesState({ name }: Attribute): string {
  const path = literal(`$.${JSON.stringify(name)}`);
  return `(SELECT count(*) > 0 AND count(json_extract(attributes, ${path})) = 0 FROM remote_object WHERE kind = 'user')`;
}

/** Whether a target has users, and never says whether they are active. */
export async function isStateHidden(connection: Connection, { state }: Attributes): Promise<boolean> {
  if (state === undefined) return false;
  const [row] = await connection.rows<{ hidden: boolean }>(`SELECT ${hidesState(state)} AS hidden`);
  return row?.hidden === true;
}

const heldColumns = "kind VARCHAR, id VARCHAR, sent VARCHAR, stored VARCHAR";

/** How many objects are looked at at a time. */
const page = 1_000;

/**
 * Finds, after a target was written and read again, which values it holds otherwise than it was sent, and writes these and the
 * present names into `remote_known`. A server that trims a text, or writes a phone number its own way, has what it was sent. One
 * that forgets a value, keeps the old one, or changes another attribute beside those that it was sent, has not.
 * @param sent a relation `(kind, id, sent, changed, answered, before)`: JSON of all attributes as they are to be, of the names of
 *   those that the change had, and of the attributes that the target said it stored, and that it had before; the last two may be NULL
 */
export async function findHeld(connection: Connection, declared: Attributes, sent: string): Promise<void> {
  const hiddenState = (await isStateHidden(connection, declared)) ? declared.state?.name : undefined;
  await connection.run(`
    CREATE OR REPLACE TABLE remote_known AS
    SELECT n.kind, n.id, n.name, k.sent, k.stored,
      coalesce(k.is_new, false) OR (n.kind, n.id) IN (SELECT (kind, id) FROM ${sent} WHERE before IS NULL) AS is_new
    FROM remote_name n LEFT JOIN remote_known k ON k.kind = n.kind AND k.id = n.id WHERE n.is_meant`);
  await connection.run(`CREATE OR REPLACE TEMP TABLE remote_held (${heldColumns})`);
  const rows = new Rows(connection.raw, { remote_held: heldColumns });
  for (let from = 0; ; from += page) {
    const found = await connection.rows<SentRow>(`
      SELECT s.kind, s.id, s.sent, s.changed, s.answered, s.before, o.attributes AS stored, k.sent AS known_sent, k.stored AS known_stored
      FROM ${sent} s JOIN remote_object o ON o.kind = s.kind AND o.id = s.id
      LEFT JOIN remote_known k ON k.kind = s.kind AND k.id = s.id
      WHERE s.sent <> o.attributes OR k.sent IS NOT NULL
      ORDER BY s.kind, s.id LIMIT ${page} OFFSET ${from}`);
    for (const row of found) {
      const held = heldOf(row, hiddenState);
      const [sent, stored] =
        held === undefined ? [null, null] : [JSON.stringify(held.sent), JSON.stringify(held.stored)];
      rows.append("remote_held", row.kind, row.id, sent, stored);
    }
    await rows.flush();
    if (found.length < page) break;
  }
  await rows.close();
  await connection.run(`
    UPDATE remote_known SET sent = h.sent, stored = h.stored FROM remote_held h
    WHERE h.kind = remote_known.kind AND h.id = remote_known.id`);
}

type Values = Readonly<Record<string, PrincipalValue>>;

interface SentRow {
  readonly kind: Kind;
  readonly id: string;
  readonly sent: string;
  readonly changed: string;
  readonly answered: string | null;
  readonly before: string | null;
  readonly stored: string;
  readonly known_sent: string | null;
  readonly known_stored: string | null;
}

/** @param hiddenState the attribute of suspensions, where the target never shows it */
function heldOf(
  row: SentRow,
  hiddenState: string | undefined,
): { readonly sent: Values; readonly stored: Values } | undefined {
  const parse = (text: string | null): Values => (text === null ? {} : (JSON.parse(text) as Values));
  const [sent, stored, answered, before] = [row.sent, row.stored, row.answered, row.before].map(parse) as [
    Values,
    Values,
    Values,
    Values,
  ];
  const [knownSent, knownStored] = [parse(row.known_sent), parse(row.known_stored)];
  const changed = new Set(JSON.parse(row.changed) as readonly string[]);
  const held = Object.keys(sent).filter((name) => {
    const [is, has] = [sent[name], stored[name]];
    if (name === hiddenState) return is === false;
    if (is === undefined || has === undefined || isSame(is, has)) return false;
    const wasKnown = isSame(knownSent[name], is) && isSame(knownStored[name], has);
    const isCut = isCutTo(has, is) && isCutTo(knownStored[name], knownSent[name]) && isSame(knownStored[name], has);
    const wasHeld = isSame(knownSent[name], is) && isSame(knownStored[name], before[name]);
    const isAnswered = (changed.has(name) || wasHeld) && isSame(answered[name], has) && !isSame(before[name], has);
    return wasKnown || isCut || folded(is) === folded(has) || (typeof is !== "boolean" && isAnswered);
  });
  if (held.length === 0) return undefined;
  const some = (values: Values): Values =>
    Object.fromEntries(
      held.flatMap((name) => {
        const value = values[name];
        return value === undefined ? [] : [[name, value]];
      }),
    );
  return { sent: some(sent), stored: some(stored) };
}

/** Whether a target that stores so many characters of a text, and no more, stores this of it. */
function isCutTo(stored?: PrincipalValue, sent?: PrincipalValue): boolean {
  return typeof stored === "string" && typeof sent === "string" && stored !== sent && sent.startsWith(stored);
}

function isSame(a?: PrincipalValue, b?: PrincipalValue): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** What is left of a value that servers write their own way: letters and digits. */
function folded(value: PrincipalValue): string {
  if (typeof value === "object") return JSON.stringify(value.map(folded).toSorted());
  return String(value)
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, "");
}

/** Attributes that the target holds otherwise than they were sent, and of how many objects. */
export async function heldOtherwise(
  connection: Connection,
  { all }: Attributes,
): Promise<readonly { readonly attribute: string; readonly count: number }[]> {
  const counts = all.map(
    ({ name }, index) => `count(*) FILTER (${isHeld(literal(`$.${JSON.stringify(name)}`))})::INTEGER AS c${index}`,
  );
  const [row = {}] = await connection.rows<Record<string, number>>(`
    SELECT ${counts.join(", ")} FROM remote_object o JOIN remote_known k ON k.kind = o.kind AND k.id = o.id`);
  return all.flatMap(({ name: attribute }, index) => {
    const count = row[`c${index}`] ?? 0;
    return count === 0 ? [] : [{ attribute, count }];
  });
}

/**
 * A membership that may or may not have arrived is there where nobody wants it, and is not where somebody does: to write it
 * again changes nothing then. For targets that do not say who is in a group.
 */
export async function forgetPending(connection: Connection): Promise<void> {
  await connection.run(`
    UPDATE actual SET group_names = list_filter(actual.group_names, lambda g: NOT list_contains(p.names, g)) FROM (
      SELECT s.kind, s.name, list(g.name) AS names
      FROM remote_member_known k
      JOIN remote_name g ON g.kind = 'group' AND g.id = k.grp
      JOIN remote_name m ON m.kind = k.kind AND m.id = k.member
      JOIN assembled s ON s.kind = m.kind AND s.name = m.name AND list_contains(s.group_names, g.name)
      WHERE k.pending GROUP BY s.kind, s.name) p
    WHERE p.kind = actual.kind AND p.name = actual.name`);
}

/**
 * Names of the target that differ from those that are wanted in case alone, or in how an accent is written: the same principals. Most targets tell no case
 * apart (RFC 7643, 4.1.1), and would refuse the other. They get the wanted names in `table` and in the ledger.
 * @param wanted a relation with `kind` and `name`
 */
export async function matchCase(connection: Connection, table: "actual" | "arrived", wanted: string): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE matched AS
    SELECT a.kind, a.name AS was, s.name AS becomes
    FROM (FROM ${table} ANTI JOIN ${wanted} USING (kind, name)) a
    JOIN (FROM ${wanted} ANTI JOIN ${table} USING (kind, name)) s ON s.kind = a.kind AND ${anySpelling("s.name")} = ${anySpelling("a.name")}
    QUALIFY count(*) OVER (PARTITION BY a.kind, ${anySpelling("a.name")}) = 1`);
  const [found] = await connection.rows("FROM matched LIMIT 1");
  if (found === undefined) return;
  await rekey(connection, table, "matched");
  // A group that rules make has no id but its name.
  if (table === "actual")
    await connection.run(`UPDATE ledger SET source_id = name WHERE kind = 'group' AND ${isRuleGroup}`);
}

/** Gives principals other names in `table`, with the memberships in them, and in what the ledger knows. @param renamed `(kind, was, becomes)` */
export async function rekey(connection: Connection, table: "actual" | "arrived", renamed: string): Promise<void> {
  const owned =
    table === "actual" ? ["ledger", "owned_by_others", "owned_before", "leaving_since", "by_hand", "remote_known"] : [];
  await connection.run(`
    ${[table, "remote_name", ...owned].map((each) => `UPDATE ${each} t SET name = r.becomes FROM ${renamed} r WHERE r.kind = t.kind AND r.was = t.name;`).join("\n    ")}
    UPDATE ${table} SET group_names = m.names FROM (
      SELECT t.kind, t.name, list_sort(list(coalesce(r.becomes, g))) AS names
      FROM (SELECT kind, name, unnest(group_names) AS g FROM ${table}) t LEFT JOIN ${renamed} r ON r.kind = 'group' AND r.was = t.g
      GROUP BY t.kind, t.name HAVING bool_or(r.was IS NOT NULL)) m
    WHERE m.kind = ${table}.kind AND m.name = ${table}.name`);
}
