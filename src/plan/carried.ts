import type { Connection } from "#duckdb/database.ts";
import { Rows } from "#duckdb/insert.ts";
import type { Kind } from "#principals/principal.ts";
import { findSome, nothing } from "./found.ts";
import type { Found } from "./found.ts";
import { tables } from "./tables.ts";

/*
 * What a target's list holds beyond users and groups as the interface knows them: principals of other types, and fields of
 * its own. The list that is sent replaces the whole directory, so all of it goes back as it came.
 */

/** Fields that Rollcall writes itself (2.7), never sends back (`password`), or the service keeps by itself. */
const ownOfBoth = [
  "name",
  "displayName",
  "description",
  "principalTypeEnum",
  "password",
  "groupNames",
  "created",
  "modified",
];
export const ownFields: Record<Kind, readonly string[]> = { user: [...ownOfBoth, "mail"], group: ownOfBoth };

/** The tables of what is carried through, by the table of the list that it was in. */
const carried = {
  actual: { foreign: "actual_foreign", extra: "actual_extra" },
  arrived: { foreign: "arrived_foreign", extra: "arrived_extra" },
} as const;

/** An SQL condition on the element `json`: it has a type, whatever it is. */
export const hasType = `coalesce(json_type(json, '$.principalTypeEnum') = 'VARCHAR' AND (json ->> '$.principalTypeEnum') <> '', false)`;

/** SQL: which of the two kinds a type says that it is (`LDAP_USER`, `SAML_GROUP`); NULL where it says neither. */
const kindOfType = `CASE WHEN upper(type) LIKE '%USER' THEN 'user' WHEN upper(type) LIKE '%GROUP' THEN 'group' END`;

/** SQL: the element `json` without the fields that are not carried through. */
function without(kind: Kind): string {
  const none = Object.fromEntries(ownFields[kind].map((field) => [field, null]));
  return `json_merge_patch(json, '${JSON.stringify(none)}')::VARCHAR`;
}

/** SQL: the names of what may be a group of another type. Memberships in them stay. */
export const foreignGroups = `(
  SELECT name FROM actual_foreign WHERE coalesce(kind, 'group') = 'group' EXCEPT SELECT name FROM actual WHERE kind = 'group')`;

/** SQL: the principals of the sources whose name the target has as another type alone. */
export const takenNames = `(
  SELECT s.kind, s.name, min(f.type) AS type FROM assembled s
  JOIN actual_foreign f ON f.name = s.name AND coalesce(f.kind, s.kind) = s.kind
  ANTI JOIN actual a ON a.kind = s.kind AND a.name = s.name
  GROUP BY s.kind, s.name)`;

/**
 * Keeps what is carried through of a list: makes `actual_foreign` and `actual_extra`, or `arrived_foreign` and `arrived_extra`.
 * @param principals the table that `readList` has made of the list
 */
export async function keepCarried(
  connection: Connection,
  table: keyof typeof carried,
  principals: string,
): Promise<void> {
  const { foreign, extra } = carried[table];
  await connection.run(`
    CREATE OR REPLACE TABLE ${foreign} AS
    SELECT ${kindOfType} AS kind, name, type, group_names, json FROM (
      SELECT json ->> '$.principalTypeEnum' AS type, name, group_names, translate(json::VARCHAR, chr(10) || chr(13), '  ') AS json
      FROM ${principals} WHERE kind = '')
    ORDER BY type, name, json`);
  // Taking fields out of a JSON value keeps everything but how fractions, exponents and -0 are written. Few texts have a
  // -0, which is found faster than by the pattern.
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE extra_field AS
    SELECT index, kind, name, fields,
      regexp_matches(fields, '[0-9][.eE]')
        OR CASE WHEN contains(json::VARCHAR, '-0') THEN regexp_matches(json::VARCHAR, '[:,\\[]\\s*-0') ELSE false END AS is_inexact
    FROM (
      SELECT index, kind, name, json,
        CASE kind WHEN 'user' THEN ${without("user")} ELSE ${without("group")} END AS fields
      FROM ${principals} WHERE kind <> '' AND json IS NOT NULL)
    WHERE fields <> '{}';
    CREATE OR REPLACE TABLE ${extra} AS
    SELECT kind, name, '"visibility":' || visibility AS fields FROM ${principals} WHERE json IS NULL AND visibility IS NOT NULL
    UNION ALL
    SELECT kind, name, fields[2:-2] FROM extra_field WHERE NOT is_inexact`);
  await keepExactly(connection, principals, extra);
  await connection.run("DROP TABLE extra_field");
}

/** How many elements are taken apart at a time. */
const batch = 2_000;

/** Adds those fields to the table `extra` that only their own text has exactly. */
async function keepExactly(
  connection: Connection,
  principals: string,
  extra: "actual_extra" | "arrived_extra",
): Promise<void> {
  const rows = new Rows(connection.raw, { [extra]: tables[extra] });
  try {
    for (let from = -1n; ;) {
      const inexact = await connection.rows<{ index: bigint; kind: Kind; name: string; json: string }>(`
        SELECT index, e.kind, e.name, p.json::VARCHAR AS json
        FROM (FROM extra_field WHERE is_inexact AND index > ${from} ORDER BY index LIMIT ${batch}) e
        JOIN ${principals} p USING (index) ORDER BY index`);
      for (const { kind, name, json } of inexact) rows.append(extra, kind, name, membersWithout(json, ownFields[kind]));
      await rows.flush();
      if (inexact.length < batch) break;
      from = inexact.at(-1)?.index ?? from;
    }
  } finally {
    await rows.close();
  }
}

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/**
 * The members of a JSON object as they are written there, without some.
 * @param json valid JSON
 */
export function membersWithout(json: string, left: readonly string[]): string {
  const kept: string[] = [];
  let depth = 0;
  let start = -1;
  let end = 0;
  const endMember = (): void => {
    const member = json.slice(start, end);
    const [key = '""'] = member.match(token) ?? [];
    if (start >= 0 && !left.includes(JSON.parse(key) as string)) kept.push(member.replaceAll(/[\r\n]/g, " "));
    start = -1;
  };
  for (const { 0: text, index } of json.matchAll(token)) {
    if (text === "}" || text === "]") depth--;
    if (depth === 0 || (depth === 1 && text === ",")) endMember();
    else if (start < 0) start = index;
    end = index + text.length;
    if (text === "{" || text === "[") depth++;
  }
  return kept.join(",");
}

/** Principals of other types in the target, and the names that they take. */
export interface Foreign {
  /** How many, by type, the most frequent first. */
  readonly types: readonly { readonly type: string; readonly count: number }[];
  /** The principals of the sources that are not created because of their name. */
  readonly taken: Found<{ readonly kind: Kind; readonly name: string; readonly type: string }>;
}

/** Runs after `freeze`. */
export async function describeForeign(connection: Connection): Promise<Foreign> {
  const types = await connection.rows<{ type: string; count: number }>(
    "SELECT type, count(*)::INTEGER AS count FROM actual_foreign GROUP BY type ORDER BY count DESC, type",
  );
  if (types.length === 0) return { types, taken: nothing };
  return { types, taken: await findSome(connection, `SELECT kind, name, type FROM ${takenNames}`, "kind DESC, name") };
}
