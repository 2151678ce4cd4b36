import fc from "fast-check";
import { expect, test } from "vitest";
import type { Entry, Membership, SourceRecord } from "#principals/entry.ts";
import { useConnection } from "../../support/duckdb.ts";
import { assembleAll, plainRules } from "./assembling.ts";
import { model } from "./model.ts";
import { cases } from "../../support/random.ts";

const connection = useConnection();

/** One of so many texts, some of which only look the same: few enough for collisions, and enough to get along without. */
const oneOf = (count: number): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: count, arbitrary: fc.integer({ min: 1, max: count }).map(String) },
    fc.constantFrom("\u00e9", "e\u0301"),
  );
const key = oneOf(30);
const name = oneOf(80);
const kind = fc.constantFrom("user" as const, "group" as const);
const reference = fc.record({ key, kind }, { requiredKeys: ["key"] });
const few = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(arbitrary, { maxLength: 3 });

const anyEntry: fc.Arbitrary<Entry> = fc.record({
  kind,
  id: oneOf(300),
  origin: fc.constantFrom("a.csv:1", "b.csv:2"),
  attributes: fc.record(
    {
      name: fc.oneof({ weight: 20, arbitrary: name }, fc.constant("")),
      cn: fc.oneof({ weight: 20, arbitrary: fc.constant("Someone") }, fc.constant("")),
      status: fc.constantFrom("here", "here", "here", "left"),
      extra: few(name),
    },
    { requiredKeys: ["name"] },
  ),
  keys: few(key),
  memberOf: few(key),
  members: few(reference),
});
/** As from a connector whose records are known by their ids alone. */
const plainEntry = fc.tuple(anyEntry, oneOf(60)).map(([entry, id]): Entry => ({ ...entry, id, keys: [id] }));
const entry = fc.oneof(anyEntry, plainEntry);
const membership: fc.Arbitrary<Membership> = fc.record({
  kind: fc.constant("membership" as const),
  group: key,
  member: reference,
  origin: fc.constant("pairs.csv:1"),
});
const records: fc.Arbitrary<SourceRecord[]> = fc.array(fc.oneof({ weight: 4, arbitrary: entry }, membership), {
  maxLength: 60,
  size: "max",
});

test.each([
  ["with groups", plainRules],
  ["without groups", { users: plainRules.users }],
])("assembly of any sources is what the plain model says, %s", async (_, rules) => {
  await fc.assert(
    fc.asyncProperty(fc.record({ one: records, two: records }), async (sources) => {
      const { descriptions: _, ...expected } = model(sources, rules);
      const { assembly, rows, quarantined } = await assembleAll(connection(), sources, rules);
      const label = (row: { kind: string; name: string | null; source: string; source_id: string }): string =>
        `${row.kind} ${row.name ?? "?"} ${row.source} ${row.source_id}`;
      expect({
        principals: Object.fromEntries(rows.map((row) => [label(row), row.group_names])),
        quarantined: quarantined.map(label).sort(),
        excluded: assembly.excluded,
        unresolved: assembly.unresolved.count,
      }).toEqual(expected);
      const entries = Object.values(sources)
        .flat()
        .filter((record) => record.kind !== "membership").length;
      expect(assembly.users + assembly.groups + assembly.excluded + assembly.quarantined.count).toBe(entries);
      expect(new Set(rows.map((row) => JSON.stringify([row.kind, row.name]))).size).toBe(rows.length);
    }),
    { numRuns: cases(rules === plainRules ? 15 : 5) },
  );
});
