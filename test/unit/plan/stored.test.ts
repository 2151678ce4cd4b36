import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Change } from "#plan/change.ts";
import { literal } from "#duckdb/database.ts";
import { createPlan } from "#plan/diff.ts";
import { aspects, comparePlans, openStored } from "#plan/stored.ts";
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
    aspects: fc.subarray([...aspects], { minLength: 1 }),
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

/** The same, said another way. */
function passes(change: Change, { kind, actions, names, aspects, groups, selection = {} }: Filter): boolean {
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

test("a stored plan equals the original; a filter selects changes and counts them", async () => {
  await fc.assert(
    fc.asyncProperty(directory, directory, filter, async (actual, desired, filter) => {
      await fill(connection(), "actual", actual);
      await fill(connection(), "desired", desired);
      const plan = await createPlan(connection());
      const file = join(folder, "it's changes.parquet");
      await connection().run(`COPY (FROM change_sides) TO ${literal(file)} (FORMAT parquet)`);
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
      expect(await chosen.page(part, { offset: 1, limit: 2 })).toEqual(
        expected.filter((change) => passes(change, { kind: part.kind, actions: [part.action] })).slice(1, 3),
      );
      const { users, membershipsAdded, membershipsRemoved } = chosen.shown ?? plan.counts;
      expect(users.delete).toBe(expected.filter(({ kind, action }) => kind === "user" && action === "delete").length);
      expect(membershipsAdded).toBe(expected.reduce((sum, { groupsAdded }) => sum + groupsAdded.length, 0));
      expect(membershipsRemoved).toBe(expected.reduce((sum, { groupsRemoved }) => sum + groupsRemoved.length, 0));
    }),
    { numRuns: cases(60) },
  );
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
    await createPlan(connection());
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
