import fc from "fast-check";
import { expect, test } from "vitest";
import { assemble } from "#principals/assembly.ts";
import { compileRules } from "#principals/compile.ts";
import type { AttributeValue, SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import { useConnection } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";
import { group, user } from "./assembling.ts";

const connection = useConnection();

/** What is kept of each record, by its id. */
async function keptOf(rules: Rules, records: readonly SourceRecord[]): Promise<Record<string, unknown>> {
  const sources = [
    {
      name: "hr",
      records: (async function* () {
        yield records;
      })(),
    },
  ];
  const { signal } = new AbortController();
  await assemble(connection(), sources, compileRules(rules), { signal, keepAttributes: true });
  const rows = await connection().rows<{ source_id: string; attributes: string }>(
    "SELECT source_id, attributes FROM record",
  );
  return Object.fromEntries(rows.map(({ source_id: id, attributes }) => [id, JSON.parse(attributes)]));
}

const named: Rules = {
  users: { exclude: 'entry.status == "left"', name: "entry.name", displayName: "entry.name", mail: 'entry["e\'mail"]' },
  groups: { name: "entry.name", displayName: "coalesce(entry.title, entry.name)" },
};
/** A rule that takes `entry` as a whole may read any attribute. */
const any: Rules = { users: { name: "entry.name", displayName: 'entry[entry.which == null ? "name" : entry.which]' } };

test("of each record what the rules for its kind read is kept, of an excluded one what decides that", async () => {
  const found = await keptOf(named, [
    user("ada", { attributes: { "e'mail": "ada@example.com", title: "not read", room: 5 } }),
    user("bob", { attributes: { status: "left", "e'mail": "bob@example.com" } }),
    group("staff", { attributes: { title: "Staff", status: "not read" } }),
  ]);
  expect(found).toEqual({
    ada: { name: "ada", "e'mail": "ada@example.com" },
    bob: { status: "left" },
    staff: { name: "staff", title: "Staff" },
  });
});

test("where a rule may read any attribute all are kept", async () => {
  const attributes = { name: "ada", room: 5, languages: ["en", "de"] };
  expect(await keptOf(any, [user("ada", { attributes })])).toEqual({ ada: attributes });
});

const texts = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.string({ unit: fc.constantFrom("\u0001", "\u0000", '"', "\\", "\n", "\uD83D", "e", "\u0301", "5") }),
  fc.constantFrom("5", "true", "[]", "\u00015", ""),
);
const values: fc.Arbitrary<AttributeValue> = fc.oneof(
  texts,
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.array(texts),
);

/** In Unicode form NFC, and valid. */
function normal(value: AttributeValue): unknown {
  if (typeof value === "string") return value.normalize("NFC").toWellFormed();
  return Array.isArray(value) ? value.map(normal) : Object.is(value, -0) ? 0 : value;
}

test.each([
  ["by name", named],
  ["any", any],
])("whatever value an attribute has is kept as it is: %s", async (_, rules) => {
  await fc.assert(
    fc.asyncProperty(fc.array(values, { minLength: 1, maxLength: 30 }), async (all) => {
      const found = await keptOf(
        rules,
        all.map((value, i) => user(`u${i}`, { attributes: { "e'mail": value } })),
      );
      expect(found).toEqual(
        Object.fromEntries(all.map((value, i) => [`u${i}`, { name: `u${i}`, "e'mail": normal(value) }])),
      );
    }),
    { numRuns: cases(20) },
  );
});
