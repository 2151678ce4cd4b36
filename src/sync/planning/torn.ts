import type { ReadContext, RecordId } from "#connector.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { IncompleteReadError } from "#errors.ts";
import { isUpdateInSql } from "#plan/change.ts";
import type { Kind } from "#principals/principal.ts";
import type { SyncSource } from "#sync/sync.ts";
import { scopeKind } from "#principals/scope.ts";
import { nfc, quote } from "#text.ts";

/** How many records are looked up at a time. */
const batch = 1_000;

/** A record that the plan takes something from because it was not found. */
interface Suspect {
  readonly source: string;
  readonly kind: Kind;
  readonly id: string;
  readonly name: string;
}

/**
 * Looks up in the sources, by their ids, those who leave the target because the read did not find their records, and those
 * who lose a membership that somebody refers to by a key which nobody had. Whoever moves or is renamed while a source is
 * read may be missed like that. Runs after `createPlan`.
 * @param sources those that were read
 * @throws {IncompleteReadError} one of them is there: the read was torn
 */
export async function refuseTorn(
  connection: Connection,
  sources: readonly SyncSource[],
  context: ReadContext,
): Promise<void> {
  const able = sources.filter(({ source }) => source.find !== undefined);
  if (able.length === 0) return;
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE suspect AS
    ${suspects} WHERE source IN (${able.map(({ name }) => literal(nfc(name))).join(", ")})`);
  for (const { name, source } of able) {
    for (let from = 0; ; from += batch) {
      const some = await connection.rows<Suspect>(`
        SELECT source, kind, source_id AS id, any_value(name) AS name FROM suspect WHERE source = ${literal(nfc(name))}
        GROUP BY ALL ORDER BY kind, id LIMIT ${batch} OFFSET ${from}`);
      if (some.length > 0) await refuseFound(connection, { name, source }, some, context);
      if (some.length < batch) break;
    }
  }
}

/**
 * The records of those who leave or lose a membership, where the read can have missed something; `leaves` tells which. Who
 * leaves because no group names them any more may have been named by a key which nobody had.
 */
const suspects = `
  FROM (
    WITH owner AS (SELECT kind, name, source, source_id FROM ledger UNION FROM assembled_origin),
    seen AS (
      SELECT kind, source, source_id FROM assembled_origin
      UNION ALL SELECT kind, source, source_id FROM quarantined
      UNION ALL SELECT kind, source, source_id FROM record WHERE scope IN ('excluded', 'unlisted')),
    lost AS (
      SELECT c.kind, c.name, g FROM (
        SELECT kind, name, unnest(a.group_names) AS g FROM changes c JOIN actual a USING (kind, name) WHERE ${isUpdateInSql}) c
      ANTI JOIN (
        SELECT kind, name, unnest(d.group_names) AS g FROM changes JOIN desired d USING (kind, name) WHERE ${isUpdateInSql}) d
        USING (kind, name, g)),
    leaver AS (
      SELECT kind, name FROM changes WHERE action = 'delete'
      UNION SELECT kind, name FROM changes SEMI JOIN suspended USING (kind, name) WHERE action = 'suspend'),
    missed AS (
      SELECT lost.kind, lost.name FROM lost SEMI JOIN lost_reference r ON r.kind = 'group' AND r.name = lost.g
      UNION
      SELECT 'group', lost.g FROM lost SEMI JOIN lost_reference r ON r.kind = lost.kind AND r.name = lost.name)
    SELECT l.source, l.kind, l.source_id, l.name, true AS leaves
    FROM ledger l SEMI JOIN leaver USING (kind, name)
    ANTI JOIN seen USING (kind, source, source_id)
    UNION ALL
    SELECT l.source, l.kind, l.source_id, l.name, false
    FROM ledger l SEMI JOIN leaver USING (kind, name)
    SEMI JOIN (FROM record WHERE scope IN ('excluded', 'unlisted')) r USING (kind, source, source_id)
    WHERE l.source IN (SELECT source FROM lost_reference WHERE kind = ${literal(scopeKind)})
    UNION ALL
    SELECT o.source, o.kind, o.source_id, o.name, false FROM owner o SEMI JOIN missed USING (kind, name))`;

async function refuseFound(
  connection: Connection,
  { name, source }: SyncSource,
  some: readonly Suspect[],
  context: ReadContext,
): Promise<void> {
  const wanted: RecordId[] = some.map(({ kind, id }) => ({ kind, id }));
  for await (const entries of source.find?.(wanted, context) ?? []) {
    if (entries.length === 0) continue;
    const records = entries.map(({ kind, id }) => `(${literal(kind)}, ${literal(nfc(id))})`);
    const keys = entries.flatMap(({ kind, id, keys }) =>
      keys.map((key) => `(${literal(kind)}, ${literal(nfc(id))}, ${literal(nfc(key))})`),
    );
    const [torn] = await connection.rows<{ kind: Kind; name: string; leaves: boolean }>(`
      SELECT kind, name, leaves FROM suspect s
      WHERE source = ${literal(nfc(name))} AND (kind, source_id) IN (VALUES ${records.join(", ")}) AND (leaves OR EXISTS (
        FROM lost_reference r JOIN (VALUES ${keys.join(", ") || "(NULL, NULL, NULL)"}) found(kind, id, key) USING (key)
        WHERE r.source = s.source AND found.kind = s.kind AND found.id = s.source_id))
      ORDER BY ALL LIMIT 1`);
    if (torn === undefined) continue;
    const place = entries.find(({ kind }) => kind === torn.kind)?.origin;
    throw new IncompleteReadError(
      `source ${name}: the ${torn.kind} ${quote(torn.name)} ${
        torn.leaves ? "was not read but is there" : "moved or was renamed while it was read"
      }${entries.length === 1 && place !== undefined ? ` (${place})` : ""}: the source changed meanwhile`,
      { torn: true },
    );
  }
}
