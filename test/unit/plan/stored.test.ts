import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Change } from "#plan/change.ts";
import { literal } from "#duckdb/database.ts";
import { createPlan } from "#plan/diff.ts";
import { comparePlans, openStored, withExcerpts } from "#plan/stored.ts";
import type { Filter } from "#plan/stored.ts";
import type { Principal } from "#principals/principal.ts";
import { useConnection } from "../../support/duckdb.ts";
import { directory, fill } from "./directories.ts";
import { cases } from "../../support/random.ts";

const connection = useConnection();
const reader = useConnection();

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-stored-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const some = ["ada", "bob", "o'neil", "__proto__", "7"];
const filter: fc.Arbitrary<Filter> = fc.record(
  {
    kind: fc.constantFrom("user" as const, "group" as const),
    actions: fc.subarray(["create", "update", "delete"] as const, { minLength: 1 }),
    names: fc.subarray(["a*", "*", "?d*", "o'neil", "ADA", "__*__", "."], { minLength: 1 }),
    aspects: fc.subarray(["displayName", "description", "mail", "groups"], { minLength: 1 }),
    sources: fc.subarray(["corp", "it's"], { minLength: 1 }),
    groups: fc.subarray(some, { minLength: 1 }),
    selection: fc.record(
      {
        only: fc.subarray(["create", "update", "delete"] as const),
        except: fc.array(
          fc.record({
            kind: fc.constantFrom("user" as const, "group" as const),
            name: fc.constantFrom(...some),
          }),
          { maxLength: 2 },
        ),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: [] },
);

/** The sources that the plans here have of somebody. */
function sourcesOf(name: string): readonly string[] {
  return name < "b" ? ["corp"] : name === "bob" ? ["corp", "it's"] : [];
}

/** The changes in `change_sides`, with their sources. */
const withSources = `SELECT *, CASE WHEN name < 'b' THEN ['corp'] WHEN name = 'bob' THEN ['corp', 'it''s'] END AS sources FROM change_sides`;

/** The same, said another way. */
function passes(change: Change, { kind, actions, names, sources, aspects, groups, selection = {} }: Filter): boolean {
  const touched = new Set<string>([
    ...change.attributes.map(({ attribute }) => attribute),
    ...(change.groupsAdded.length + change.groupsRemoved.length > 0 ? ["groups"] : []),
  ]);
  return (
    (kind === undefined || change.kind === kind) &&
    (actions === undefined || actions.includes(change.action)) &&
    (names === undefined ||
      names.some((name) => {
        const [start = "", ...rest] = name.split("*");
        if (rest.length === 0) return change.name === name;
        const end = rest.at(-1) ?? "";
        return (
          change.name.length >= start.length + end.length && change.name.startsWith(start) && change.name.endsWith(end)
        );
      })) &&
    (sources === undefined || sources.some((source) => sourcesOf(change.name).includes(source))) &&
    (groups === undefined ||
      groups.some(
        (group) =>
          (change.kind === "group" && change.name === group) ||
          [...change.groupsAdded, ...change.groupsRemoved].includes(group),
      )) &&
    (selection.only === undefined || selection.only.includes(change.action)) &&
    selection.except?.some((each) => each.kind === change.kind && each.name === change.name) !== true &&
    (aspects === undefined || aspects.some((aspect) => touched.has(aspect)))
  );
}

test("a filter names an attribute that the plan has, in any case; a plan without changes has nothing to select", async () => {
  const file = join(folder, "attributes.parquet");
  const stored = async (names: readonly string[], aspects: readonly string[]) => {
    await fill(connection(), "actual", []);
    await fill(
      connection(),
      "desired",
      names.map((name) => ({ kind: "user", name, displayName: name, mail: `${name}@example.com`, groupNames: [] })),
    );
    const plan = await createPlan(connection(), serviceAttributes);
    await connection().run(`COPY (${withSources}) TO ${literal(file)} (FORMAT parquet)`);
    return Array.fromAsync((await openStored(reader(), file, plan, { aspects })).changes());
  };
  expect(await stored(["ada"], ["MAIL"])).toHaveLength(1);
  expect(await stored(["ada"], ["description", "groups"])).toHaveLength(0);
  await expect(stored(["ada"], ["kind"])).rejects.toThrow(
    'this plan has no attribute "kind": expected one of displayName, description, mail, groups',
  );
  expect(await stored([], ["shoe"])).toHaveLength(0);
});

test("a stored plan equals the original; a filter selects changes and counts them", async () => {
  await fc.assert(
    fc.asyncProperty(directory, directory, filter, async (actual, desired, filter) => {
      await fill(connection(), "actual", actual);
      await fill(connection(), "desired", desired);
      const plan = await createPlan(connection(), serviceAttributes);
      const file = join(folder, "it's changes.parquet");
      await connection().run(`COPY (${withSources}) TO ${literal(file)} (FORMAT parquet)`);
      const made = await Array.fromAsync(plan.changes());

      const kept = await openStored(reader(), file, plan);
      expect(await Array.fromAsync(kept.changes())).toEqual(made);
      expect(kept.shown).toBeUndefined();

      const chosen = await openStored(reader(), file, plan, filter);
      const expected = made.filter((change) => passes(change, filter));
      expect(await Array.fromAsync(chosen.changes())).toEqual(expected);
      expect(chosen).toMatchObject({ digest: plan.digest, counts: plan.counts });
      const part = { kind: "user", action: "update" } as const;
      expect(await Array.fromAsync(chosen.changes(part))).toEqual(
        expected.filter((change) => passes(change, { kind: part.kind, actions: [part.action] })),
      );
      const { users, membershipsAdded, membershipsRemoved } = chosen.shown ?? plan.counts;
      expect(users.delete).toBe(expected.filter(({ kind, action }) => kind === "user" && action === "delete").length);
      // What there is after a part of a plan is not what there is after all of it.
      expect(users.after).toBe(users.before + users.create - users.delete);
      expect(membershipsAdded).toBe(expected.reduce((sum, { groupsAdded }) => sum + groupsAdded.length, 0));
      expect(membershipsRemoved).toBe(expected.reduce((sum, { groupsRemoved }) => sum + groupsRemoved.length, 0));
    }),
    { numRuns: cases(20) },
  );
});

test("a stored plan is read page by page", async () => {
  await fc.assert(
    fc.asyncProperty(directory, directory, filter, async (actual, desired, filter) => {
      await fill(connection(), "actual", actual);
      await fill(connection(), "desired", desired);
      const made = await Array.fromAsync((await createPlan(connection(), serviceAttributes)).changes());
      const expected = made.filter((change) => passes(change, filter));
      const file = join(folder, "pages.parquet");
      await connection().run(`COPY (${withSources}) TO ${literal(file)} (FORMAT parquet)`);
      await withExcerpts({ file, spill: folder }, filter, async (excerpts) => {
        const created = { kind: "group", action: "create" } as const;
        const updated = { kind: "user", action: "update" } as const;
        const inPart = ({ kind, action }: typeof created | typeof updated): Change[] =>
          expected.filter((change) => change.kind === kind && change.action === action);
        const windows = [
          { ...updated, offset: 1, limit: 2 },
          { ...created, offset: 0, limit: 1 },
        ];
        expect(await excerpts.pages(windows)).toEqual([inPart(updated).slice(1, 3), inPart(created).slice(0, 1)]);
        expect(excerpts.parts.reduce((sum, { count }) => sum + count, 0)).toBe(expected.length);
        const subjectOf = ({ kind, name }: Change): object => ({ kind, name });
        const further = { names: ["a*"], groups: ["bob", "7"] };
        const others = expected.filter((change) => !passes(change, further));
        const rest = await excerpts.others(further, 3);
        expect(rest.count).toBe(others.length);
        for (const each of rest.subjects) expect(others.map(subjectOf)).toContainEqual(each);
        expect(rest.subjects).toHaveLength(Math.min(3, others.length));
        const called = expected.filter(({ name }) => name === "bob" || name === "o'neil").map(subjectOf);
        expect(new Set(await excerpts.called(["bob", "o'neil", "nobody"]))).toEqual(new Set(called));
        expect(await excerpts.sources()).toEqual([...new Set(made.flatMap(({ name }) => sourcesOf(name)))].toSorted());
      });
    }),
    { numRuns: cases(12) },
  );
});

test("a plan that was stored without sources says so when they are asked for", async () => {
  const file = join(folder, "older.parquet");
  await fill(connection(), "actual", []);
  await fill(connection(), "desired", [{ kind: "user", name: "ada", displayName: "Ada", groupNames: [] }]);
  const plan = await createPlan(connection(), serviceAttributes);
  await connection().run(`COPY (FROM change_sides) TO ${literal(file)} (FORMAT parquet)`);
  await expect(openStored(reader(), file, plan, { sources: ["corp"] })).rejects.toThrow(
    /stored without the sources of its changes.* leave out the filter by source/,
  );
  await withExcerpts({ file, spill: folder }, {}, async (excerpts) => {
    expect([await excerpts.sources(), excerpts.parts]).toEqual([[], [{ kind: "user", action: "create", count: 1 }]]);
  });
});

test("two stored plans are compared: what is planned no more, what is new, and what is planned otherwise", async () => {
  const user = (name: string, mail?: string): Principal => ({
    kind: "user",
    name,
    displayName: name,
    mail,
    groupNames: [],
  });
  const store = async (name: string, desired: readonly Principal[]): Promise<string> => {
    await fill(connection(), "actual", [user("kim"), user("lee")]);
    await fill(connection(), "desired", desired);
    await createPlan(connection(), serviceAttributes);
    const file = join(folder, `${name}.parquet`);
    await connection().run(`COPY (FROM change_sides) TO ${literal(file)} (FORMAT parquet)`);
    return file;
  };
  const shown = await store("shown", [user("kim", "kim@example.com"), user("ada"), user("zoe")]);
  const now = await store("now", [user("kim", "other@example.com"), user("ada"), user("lee")]);
  expect(await comparePlans(shown, now, folder)).toEqual({
    gone: {
      count: 2,
      examples: [
        { action: "delete", kind: "user", name: "lee" },
        { action: "create", kind: "user", name: "zoe" },
      ],
    },
    added: { count: 0, examples: [] },
    other: { count: 1, examples: [{ action: "update", kind: "user", name: "kim" }] },
    same: 1,
  });
});
