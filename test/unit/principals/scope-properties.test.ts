import fc from "fast-check";
import { expect, test } from "vitest";
import { InputError } from "#errors.ts";
import type { Entry, Membership, SourceRecord } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import { useConnection } from "../../support/duckdb.ts";
import { cases } from "../../support/random.ts";
import { assembleAll } from "./assembling.ts";
import { model } from "./model.ts";
import { knownGroups } from "./scope-model.ts";

const connection = useConnection();

const some = <T>(arbitrary: fc.Arbitrary<T>, maxLength: number): fc.Arbitrary<T[]> =>
  fc.array(arbitrary, { maxLength });
/** Few keys, so that groups form chains, diamonds and cycles, and some share one. */
const key = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 1, max: 14 }).map((n) => `k${n}`) },
  fc.constantFrom("\u00e9", "e\u0301"),
);
const reference = fc.record(
  { key, kind: fc.constantFrom("user" as const, "group" as const) },
  { requiredKeys: ["key"] },
);
const status = fc.constantFrom("here", "here", "here", "left");

const entries = (kind: Entry["kind"]): fc.Arbitrary<Entry[]> =>
  some(
    fc.record({
      key: fc.oneof({ weight: 9, arbitrary: key }, fc.constant("k1")),
      status,
      unnamed: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
      memberOf: some(key, 2),
      members: some(reference, 3),
    }),
    12,
  ).map((found) =>
    found.map(({ key, status, unnamed, memberOf, members }, place) => ({
      kind,
      id: `${kind}${place}`,
      origin: `${kind}${place}`,
      attributes: {
        ...(unnamed && kind === "group" ? {} : { name: `${kind === "group" ? "app" : "u"}-${place}` }),
        status,
      },
      keys: [key],
      memberOf,
      members: kind === "group" ? members : [],
    })),
  );
const membership: fc.Arbitrary<Membership> = fc.record({
  kind: fc.constant("membership" as const),
  group: key,
  member: reference,
  origin: fc.constant("pairs.csv:1"),
});
const records: fc.Arbitrary<SourceRecord[]> = fc
  .tuple(entries("user"), entries("group"), some(membership, 4))
  .chain((parts) => fc.shuffledSubarray(parts.flat(), { minLength: parts.flat().length }));

const pattern = fc.oneof(
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 3 }).map((n) => `app-${n}`) },
  fc.constantFrom("app-*", "app-1*", "*2", "k3"),
);
const patterns = fc.array(pattern, { minLength: 1, maxLength: 2 });
const plain = { name: "entry.name", displayName: "entry.name" };
const include = fc.constantFrom(
  'entry.status == "here"',
  '!("app-2" in memberOf(entry))',
  '"app-1" in nestedMemberOf(entry)',
);
const rules: fc.Arbitrary<Rules> = fc.record({
  users: fc.record(
    {
      name: fc.constant(plain.name),
      displayName: fc.constant(plain.displayName),
      include,
      description: fc.constantFrom('join(memberOf(entry), ",")', 'join(nestedMemberOf(entry), ",")'),
      onlyMembersOf: patterns,
      notMembersOf: patterns,
      nested: fc.boolean(),
    },
    { requiredKeys: ["name", "displayName"] },
  ),
  groups: fc.option(
    fc.record(
      {
        name: fc.constant(plain.name),
        displayName: fc.constant(plain.displayName),
        include,
        onlyBelow: patterns,
        notBelow: patterns,
      },
      { requiredKeys: ["name", "displayName"] },
    ),
    { nil: undefined },
  ),
});

test("who is in scope, and in which groups, is what the plain model says", async () => {
  const seen = { in: 0, out: 0, unknown: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(fc.record({ one: records, two: records }), rules, async (sources, rules) => {
      const known = knownGroups(sources, rules);
      if (known.unmatched.length > 0) {
        seen.refused++;
        const failure = await assembleAll(connection(), sources, rules).catch((error: unknown) => error);
        expect(failure).toBeInstanceOf(InputError);
        for (const each of known.unmatched) expect(String((failure as InputError).problems)).toContain(`"${each}"`);
        return;
      }
      for (const says of known.says.values()) seen[says]++;
      const expected = model(sources, rules, known);
      const { assembly, rows, quarantined } = await assembleAll(connection(), sources, rules);
      const label = (row: { kind: string; name: string | null; source: string; source_id: string }): string =>
        `${row.kind} ${row.name ?? "?"} ${row.source} ${row.source_id}`;
      expect({
        principals: Object.fromEntries(rows.map((row) => [label(row), row.group_names])),
        quarantined: quarantined.map(label).sort(),
        excluded: assembly.excluded,
      }).toEqual({ principals: expected.principals, quarantined: expected.quarantined, excluded: expected.excluded });
      expect(Object.fromEntries(rows.map((row) => [label(row), row.description]))).toEqual(expected.descriptions);
    }),
    { numRuns: cases(20), endOnFailure: true },
  );
  // Each side of the question was asked.
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(0);
});
