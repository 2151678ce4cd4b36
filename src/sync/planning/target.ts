import { createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import type { ListTarget, ObjectTarget, ReadContext, Target } from "#connector.ts";
import { Rows } from "#duckdb/insert.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { InputError } from "#errors.ts";
import { receivePrincipals } from "#plan/lists.ts";
import { attributesText, makeFromRemote, missingRemote, remoteTables } from "#plan/remote.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";

export interface TargetReading extends Pick<ReadContext, "signal" | "warn"> {
  readonly declared: Attributes;
  /** All that the target has is wanted, whether rules give it or not, and what it does not have is missed by nobody. */
  readonly isListing?: true;
  /** Somebody who has the name of an object that is gone stands for it: the plan finds out who that is (`disownReplaced`). */
  readonly takesReplaced?: true;
}

/**
 * Reads a target into a table; an object target into `remote_object` and `remote_member`, too.
 * @returns the entity tag of the list; undefined where the target gives none
 * @throws {InputError} what the target delivers is no list of principals: nothing may be concluded from it
 */
export async function readTarget(
  target: Target,
  workbench: Pick<Workbench, "connection" | "file">,
  table: "actual" | "arrived" | "principals",
  reading: TargetReading,
): Promise<string | undefined> {
  const { connection } = workbench;
  if (target.takes === "changes") {
    await connection.run(missingRemote);
    await readObjects(target, workbench, reading);
    await makeFromRemote(connection, reading.declared, table, reading);
    return undefined;
  }
  const to = { table, folder: workbench.file(".") };
  return target.list((bytes) => receivePrincipals(connection, bytes, to), reading.signal);
}

/** Writes the list of a target to a file. @returns its entity tag */
export function listToFile(target: ListTarget, file: string, signal: AbortSignal): Promise<string | undefined> {
  return target.list((bytes) => pipeline(bytes, createWriteStream(file)), signal);
}

/** What rules give. The state is there without a rule. */
function givenBy(declared: Attributes): ReadContext["attributes"] {
  const names = (kind: Kind): string[] =>
    declared.of(kind).flatMap((attribute) => (attribute === declared.state ? [] : [attribute.name]));
  return { users: names("user"), groups: names("group") };
}

/** Reads the objects of a target, without making principals of them. */
export async function readObjects(
  target: ObjectTarget,
  { connection }: Pick<Workbench, "connection">,
  { declared, isListing, signal, warn }: TargetReading,
): Promise<void> {
  const tables = Object.entries(remoteTables);
  await connection.run(tables.map(([table, ddl]) => `CREATE OR REPLACE TABLE ${table} (${ddl});`).join("\n"));
  const rows = new Rows(connection.raw, remoteTables);
  try {
    for await (const batch of target.read({
      signal,
      warn,
      attributes: isListing === true ? undefined : givenBy(declared),
    })) {
      for (const record of batch) {
        if (record.kind === "membership") {
          const { group, member } = record;
          rows.append("remote_member", group, member.kind ?? null, member.id);
          continue;
        }
        const { kind, id, name, version = null, attributes } = record;
        if (id === "" || name === "")
          throw new InputError(`target ${target.name}: a ${kind} has no ${id === "" ? "id" : "name"}`);
        rows.append("remote_object", kind, id, name, version, attributesText(declared, kind, attributes));
      }
      await rows.room();
    }
    await rows.flush();
  } finally {
    await rows.close();
  }
  if (!target.abilities.readsMembers)
    await connection.run("INSERT INTO remote_member SELECT grp, kind, member FROM remote_member_known");
  const [twice] = await connection.rows<{ kind: string; id: string }>(
    "SELECT kind, id FROM remote_object GROUP BY kind, id HAVING count(*) > 1 LIMIT 1",
  );
  if (twice !== undefined)
    throw new InputError(`target ${target.name}: the ${twice.kind} with the id ${twice.id} came twice; read it again`);
}
