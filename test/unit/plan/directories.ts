import fc from "fast-check";
import { identifier } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Change } from "#plan/change.ts";
import { tablesOf } from "#plan/tables.ts";
import type { Principal, PrincipalValue } from "#principals/principal.ts";

const tables = tablesOf(serviceAttributes);

/** Few names, so that two directories share some; awkward ones among them. */
const names = fc.constantFrom(
  "ada",
  "Ada",
  "bob",
  "chloé",
  "\uFEFFbom",
  "o'neil",
  '"quoted"',
  "日本",
  "a,b",
  "__proto__",
  "7",
);
const text = fc.option(fc.string({ minLength: 1, unit: "grapheme" }), { nil: undefined });

/** A principal of the interface: what the service declares. */
export interface ServicePrincipal extends Principal {
  readonly displayName: string;
  readonly description?: string | undefined;
  readonly mail?: string | undefined;
}

const principal: fc.Arbitrary<ServicePrincipal> = fc
  .record({
    kind: fc.constantFrom("user" as const, "group" as const),
    name: names,
    displayName: fc.string({ minLength: 1, unit: "grapheme" }),
    description: text,
    mail: text,
    groupNames: fc.uniqueArray(names).map((groups) => groups.sort(byCodePoint)),
  })
  .map(({ kind, name, displayName, description, mail, groupNames }) => ({
    kind,
    name,
    displayName,
    groupNames,
    ...(description === undefined ? {} : { description }),
    ...(mail === undefined || kind === "group" ? {} : { mail }),
  }));

/** A directory: principals, each kind and name once. */
export const directory = fc.uniqueArray(principal, { selector: keyOf, maxLength: 16 });

export function keyOf({ kind, name }: Principal): string {
  return `${kind}:${name}`;
}

/** UTF-8's order, which is that of code points; not JavaScript's, which is that of UTF-16 units. */
export function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** Makes a table of principals in the order given, with the attributes that a target declares. */
export async function fill(
  connection: Connection,
  table: string,
  principals: readonly Principal[],
  attributes = serviceAttributes,
): Promise<void> {
  await connection.run(`
    CREATE OR REPLACE TABLE ${identifier(table)} (${attributes.ddl});
    CREATE TABLE IF NOT EXISTS actual_foreign (${tables.actual_foreign});
    CREATE TEMP TABLE IF NOT EXISTS lost_recently (${tables.lost_recently})`);
  if (principals.length === 0) return;
  // One statement for all: properties fill thousands of tables.
  const list = `from_json(?::JSON, '["VARCHAR"]')`;
  const row = ["?", "?", ...attributes.all.map(({ type }) => (type === "texts" ? list : "?")), list].join(", ");
  const given = (value: PrincipalValue | undefined): string | boolean | null =>
    typeof value === "object" ? JSON.stringify(value) : (value ?? null);
  await connection.run(
    `INSERT INTO ${identifier(table)} VALUES ${principals.map(() => `(${row})`).join(", ")}`,
    principals.flatMap((principal) => [
      principal.kind,
      principal.name,
      ...attributes.all.map(({ name }) => given(principal[name])),
      JSON.stringify(principal.groupNames),
    ]),
  );
}

/** What becomes of a directory by changes, one after the other, and nothing else. */
export function applyOf(actual: readonly Principal[], changes: readonly Change[]): Principal[] {
  const principals = new Map(actual.map((each) => [keyOf(each), each]));
  for (const { kind, name, action, attributes, groupsAdded, groupsRemoved } of changes) {
    const key = `${kind}:${name}`;
    if (action === "delete") {
      principals.delete(key);
      continue;
    }
    const before = principals.get(key) ?? { kind, name, displayName: "", groupNames: [] };
    const kept = before.groupNames.filter((group) => !groupsRemoved.includes(group));
    const values = { ...before, groupNames: [...kept, ...groupsAdded].sort(byCodePoint) };
    const entries = attributes.map(({ attribute, to }) => [attribute, to] as const);
    const becomes = Object.entries({ ...values, ...Object.fromEntries(entries) });
    principals.set(key, Object.fromEntries(becomes.filter(([, value]) => value !== undefined)) as unknown as Principal);
  }
  return [...principals.values()];
}
