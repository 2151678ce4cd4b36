import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { columnOf } from "#principals/attributes.ts";
import type { Attribute, Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import { findSome, nothing } from "./found.ts";
import type { Found } from "./found.ts";

/** What a plan would write, and what is probably a mistake in the sources. It is said, and written all the same. */
export interface Suspicious {
  /** Values with white space at an end, or with characters that nobody sees. */
  readonly unseen: Found<SuspiciousValue>;
  /** Values of `mail` and the like that are not one address. */
  readonly addresses: Found<SuspiciousValue>;
  /** New principals whose name differs from another one's in case alone, where the target tells them apart. */
  readonly alike: Found<{ readonly kind: Kind; readonly name: string; readonly other: string }>;
}

export interface SuspiciousValue {
  readonly kind: Kind;
  readonly name: string;
  readonly attribute: string;
  readonly value: string;
}

/**
 * For RE2: white space at an end; controls other than tabs and line breaks, soft hyphens, zero-width spaces and byte order marks
 * anywhere. Joiners and marks of direction belong to some languages.
 */
const unseen = String.raw`'^[\s\x{a0}\x{3000}]|[\s\x{a0}\x{3000}]$|[\x{00}-\x{08}\x{0b}\x{0c}\x{0e}-\x{1f}\x{7f}-\x{9f}\x{ad}\x{200b}\x{2060}\x{feff}]'`;
const oneAddress = String.raw`'[^\s@,;<>]+@[^\s@,;<>]+'`;

/** Attributes that hold addresses in every directory: `mail`, `email`, `otherMails`. */
const holdsAddresses = /mails?$/i;

/**
 * Looks at what `change_sides` would write. Values that the target has already say nothing new.
 * @param options.ignoresCase the target takes names that differ in case alone for the same
 */
export async function findSuspicious(
  connection: Connection,
  { all }: Attributes,
  { ignoresCase = false }: { readonly ignoresCase?: boolean | undefined },
): Promise<Suspicious> {
  const texts = all.filter(({ type }) => type !== "boolean");
  const addresses = texts.filter(({ name }) => holdsAddresses.test(name));
  const alike = `
    SELECT c.kind, c.name, min(d.name) AS other
    FROM (SELECT kind, name FROM changes WHERE action = 'create') c
    JOIN desired d ON d.kind = c.kind AND lower(d.name) = lower(c.name) AND d.name <> c.name
    GROUP BY ALL`;
  return {
    unseen: await findValues(connection, texts, `regexp_matches(value, ${unseen})`),
    addresses: await findValues(
      connection,
      addresses,
      `NOT regexp_full_match(value, ${oneAddress}) AND NOT regexp_matches(value, ${unseen})`,
    ),
    alike: ignoresCase ? nothing : await findSome(connection, alike, "kind DESC, name"),
  };
}

async function findValues(
  connection: Connection,
  attributes: readonly Attribute[],
  condition: string,
): Promise<Found<SuspiciousValue>> {
  if (attributes.length === 0) return nothing;
  const values = attributes.map((attribute) => {
    const column = columnOf(attribute);
    const added = `list_filter(after.${column}, lambda each: NOT list_contains(coalesce(before.${column}, []), each))`;
    const value = attribute.type === "texts" ? `unnest(${added})` : `after.${column}`;
    return `
      SELECT kind, name, ${literal(attribute.name)} AS attribute, ${value} AS value
      FROM change_sides WHERE after.${column} IS DISTINCT FROM before.${column}`;
  });
  return findSome(
    connection,
    `FROM (${values.join(" UNION ALL ")}) WHERE ${condition}`,
    "kind DESC, name, attribute, value",
  );
}
