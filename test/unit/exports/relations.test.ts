import fc from "fast-check";
import { expect, test } from "vitest";
import { createRelations, longestPath } from "#exports/relations.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Principal } from "#principals/principal.ts";
import { useConnection } from "../../support/duckdb.ts";
import { directory, fill } from "../plan/directories.ts";
import { cases } from "../../support/random.ts";

const connection = useConnection();
const never = new AbortController().signal;

interface Effective {
  readonly user_name: string;
  readonly group_name: string;
  readonly depth: number;
  readonly path: string;
}

async function effective(principals: readonly Principal[]): Promise<Effective[]> {
  await fill(connection(), "principals", principals);
  await createRelations(connection(), "principals", serviceAttributes, never);
  return connection().rows<Effective>("FROM effective_memberships ORDER BY user_name, depth, group_name");
}

const user = (name: string, ...groupNames: string[]): Principal => ({
  kind: "user",
  name,
  displayName: name,
  groupNames,
});
const group = (name: string, ...groupNames: string[]): Principal => ({ ...user(name, ...groupNames), kind: "group" });

/** Every group a user is in, and how deep, found as a person would: from group to group until nothing new turns up. */
function model(principals: readonly Principal[]): Map<string, number> {
  const groups = new Map(principals.filter(({ kind }) => kind === "group").map((each) => [each.name, each.groupNames]));
  const found = new Map<string, number>();
  for (const { kind, name, groupNames } of principals) {
    if (kind !== "user") continue;
    const seen = new Set<string>();
    let level: readonly string[] = groupNames;
    for (let depth = 1; level.length > 0; depth += 1) {
      const fresh = [...new Set(level)].filter((each) => !seen.has(each));
      for (const each of fresh) {
        seen.add(each);
        found.set(JSON.stringify([name, each]), depth);
      }
      level = fresh.flatMap((each) => groups.get(each) ?? []);
    }
  }
  return found;
}

test("who is in which group, and how deep, is what a naive search finds; every path is a way there", async () => {
  await fc.assert(
    fc.asyncProperty(directory, async (principals) => {
      const rows = await effective(principals);
      expect(new Map(rows.map((row) => [JSON.stringify([row.user_name, row.group_name]), row.depth]))).toEqual(
        model(principals),
      );
      const groupNamesOf = new Map(principals.map((each) => [`${each.kind}:${each.name}`, each.groupNames]));
      for (const { user_name, group_name, depth, path } of rows) {
        const steps = path.split(" > ");
        expect([steps.length, steps.at(-1)]).toEqual([depth, group_name]);
        for (const [index, step] of steps.entries()) {
          const before = index === 0 ? `user:${user_name}` : `group:${steps[index - 1] ?? ""}`;
          expect(groupNamesOf.get(before)).toContain(step);
        }
      }
      const direct = await connection().rows<{ member_kind: string; member_name: string; group_name: string }>(
        "FROM memberships",
      );
      expect(new Set(direct.map((row) => JSON.stringify(Object.values(row))))).toEqual(
        new Set(
          principals.flatMap(({ kind, name, groupNames }) => groupNames.map((to) => JSON.stringify([kind, name, to]))),
        ),
      );
    }),
    { numRuns: cases(25) },
  );
});

test("a group in itself, a cycle and a diamond: each group once, by the shortest path", async () => {
  const rows = await effective([
    user("direct", "a"),
    user("both", "left", "top"),
    group("a", "a", "b"),
    group("b", "left", "right", "a"),
    group("left", "top"),
    group("right", "top"),
    group("top", "b"),
  ]);
  expect(rows.map(({ user_name, depth, path }) => `${user_name} ${depth} ${path}`)).toEqual([
    "both 1 left",
    "both 1 top",
    "both 2 top > b",
    "both 3 top > b > a",
    "both 3 top > b > right",
    "direct 1 a",
    "direct 2 a > b",
    "direct 3 a > b > left",
    "direct 3 a > b > right",
    "direct 4 a > b > left > top",
  ]);
});

test("groups that have no principal of their own are groups all the same; who is in none has no row", async () => {
  expect(await effective([user("ann", "elsewhere"), user("bob"), group("lonely")])).toEqual([
    { user_name: "ann", group_name: "elsewhere", depth: 1, path: "elsewhere" },
  ]);
});

test("of a path longer than most, the middle is left out", async () => {
  const length = longestPath + 10;
  const chain = Array.from({ length }, (_, index) => group(`g${index}`, `g${index + 1}`));
  const rows = await effective([user("ann", "g0"), ...chain]);
  expect(rows).toHaveLength(length + 1);
  const whole = (last: number): string => Array.from({ length: last + 1 }, (_, index) => `g${index}`).join(" > ");
  expect(rows[longestPath - 1]).toMatchObject({ depth: longestPath, path: whole(longestPath - 1) });
  expect(rows.at(-1)).toMatchObject({
    depth: length + 1,
    path: `${whole(longestPath - 2)} > … > g${length}`,
  });
});

test("where everything leads to everything, the work is that of the pairs and not of the ways", async () => {
  const names = Array.from({ length: 40 }, (_, index) => `g${index}`);
  const rows = await effective([user("ann", "g0"), ...names.map((name) => group(name, ...names))]);
  expect(rows.map(({ depth }) => depth)).toEqual([1, ...names.slice(1).map(() => 2)]);
});

test("what is stopped ends", async () => {
  await fill(connection(), "principals", [user("ann", "a"), group("a")]);
  const reason = new Error("stopped");
  await expect(createRelations(connection(), "principals", serviceAttributes, AbortSignal.abort(reason))).rejects.toBe(
    reason,
  );
});
