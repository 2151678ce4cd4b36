import { InputError } from "#errors.ts";
import { identifier } from "#postgres/database.ts";
import type { Transaction } from "#postgres/database.ts";
import { defaultSchema, schemaOf } from "#service/engine/engine.ts";

/*
 * What the interface calls `database.schema.table` is in PostgreSQL a table of one schema, all of them in the one database
 * that the URL names: the schema `database` for the default schema, `"database.schema"` for any other. So `sales.orders`
 * means the same in an interface call, in `tables.sql` and in psql; one transaction reaches all tables and their ledger;
 * and whoever already has schemas with tables can load into them.
 */

/** The interface's name of a PostgreSQL schema. */
export interface Place {
  readonly database: string;
  /** The interface's. */
  readonly schema: string;
  /** PostgreSQL's. */
  readonly namespace: string;
}

/** Schemas that are nobody's tables: PostgreSQL's, Citus' and Rollcall's. */
const internal = /^(?:pg_.*|information_schema|rollcall|citus|citus_internal|columnar|columnar_internal)$/;

/** In bytes: PostgreSQL cuts longer names. */
const longestName = 63;

export function isInternal(namespace: string): boolean {
  return internal.test(fold(namespace));
}

export function fold(name: string): string {
  return name.toLowerCase();
}

/** The schema that holds what the interface calls so. Whether there is one, or can be, is not checked. */
export function soughtPlace(database: string, schema: string | undefined): Place {
  const known = schemaOf(schema);
  const isDefault = fold(known) === fold(defaultSchema);
  const namespace = isDefault ? database : `${database}.${known}`;
  return { database, schema: isDefault ? defaultSchema : known, namespace };
}

/**
 * The same, as it would be created.
 * @throws {InputError} when PostgreSQL cannot have it
 */
export function placeOf(database: string, schema: string | undefined): Place {
  const place = soughtPlace(database, schema);
  const { namespace } = place;
  if (isInternal(namespace)) throw new InputError(`a database cannot be called "${database}": that name is reserved`);
  if (Buffer.byteLength(namespace) > longestName)
    throw new InputError(`PostgreSQL's names have at most ${longestName} bytes: "${namespace}" is too long`);
  return place;
}

/** All schemas that can hold tables of the interface. They are few. */
export async function readNamespaces(transaction: Pick<Transaction, "rows">): Promise<string[]> {
  const rows = await transaction.rows<{ name: string }>("SELECT nspname::text AS name FROM pg_namespace ORDER BY 1");
  return rows.map(({ name }) => name).filter((name) => !isInternal(name));
}

/** The one of the names that is meant: case does not matter, unless several differ in nothing else. */
export function meant(name: string, names: readonly string[]): string | undefined {
  return names.includes(name) ? name : names.find((other) => fold(other) === fold(name));
}

/** The schemas of a database; none where there is no such database. */
export function schemasOf(database: string, namespaces: readonly string[]): string[] {
  const [own, below] = [fold(database), `${fold(database)}.`];
  return namespaces.filter((name) => fold(name) === own || fold(name).startsWith(below));
}

/** A table as SQL names it. */
export function qualified(namespace: string, table: string): string {
  return `${identifier(namespace)}.${identifier(table)}`;
}
