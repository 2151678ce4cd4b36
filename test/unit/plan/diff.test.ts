import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import type { Change } from "#plan/change.ts";
import { createPlan } from "#plan/diff.ts";
import { useConnection } from "../../support/duckdb.ts";
import { byCodePoint, directory, fill, keyOf } from "./directories.ts";
import type { ServicePrincipal } from "./directories.ts";
import { cases } from "../../support/random.ts";

const connection = useConnection();

async function planOf(actual: readonly ServicePrincipal[], desired: readonly ServicePrincipal[]) {
  await fill(connection(), "actual", actual);
  await fill(connection(), "desired", desired);
  const plan = await createPlan(connection(), serviceAttributes);
  const changes: Change[] = [];
  for await (const change of plan.changes()) changes.push(change);
  return { ...plan, list: changes };
}

/** What a person would do with a list of changes. */
function applied(actual: readonly ServicePrincipal[], changes: readonly Change[]): Map<string, ServicePrincipal> {
  const result = new Map(actual.map((each) => [keyOf(each), each]));
  for (const { action, kind, name, attributes, groupsAdded, groupsRemoved } of changes) {
    const key = `${kind}:${name}`;
    const before = result.get(key);
    expect(before === undefined).toBe(action === "create");
    result.delete(key);
    if (action === "delete") continue;
    const values = new Map<string, string | undefined>(
      before === undefined
        ? []
        : [
            ["displayName", before.displayName],
            ["description", before.description],
            ["mail", before.mail],
          ],
    );
    for (const { attribute, from, to } of attributes) {
      expect(values.get(attribute)).toBe(from);
      values.set(attribute, to as string | undefined);
    }
    const groups = new Set([...(before?.groupNames ?? []), ...groupsAdded]);
    for (const group of groupsRemoved) expect(groups.delete(group)).toBe(true);
    const [description, mail] = [values.get("description"), values.get("mail")];
    result.set(key, {
      kind,
      name,
      displayName: values.get("displayName") ?? "",
      ...(description === undefined ? {} : { description }),
      ...(mail === undefined ? {} : { mail }),
      groupNames: [...groups].sort(byCodePoint),
    });
  }
  return result;
}

describe("for any two directories", () => {
  test("the changes, applied to the actual one, give the desired one", async () => {
    await fc.assert(
      fc.asyncProperty(directory, directory, async (actual, desired) => {
        const { list, counts } = await planOf(actual, desired);
        const result = applied(actual, list);
        expect(result).toEqual(new Map(desired.map((each) => [keyOf(each), each])));
        for (const [kind, count] of [["user", counts.users] as const, ["group", counts.groups] as const]) {
          const of = (action: string): number =>
            list.filter((change) => change.kind === kind && change.action === action).length;
          expect(count).toEqual({
            before: actual.filter((each) => each.kind === kind).length,
            after: desired.filter((each) => each.kind === kind).length,
            create: of("create"),
            update: of("update"),
            delete: of("delete"),
          });
        }
        expect(counts.membershipsAdded).toBe(list.reduce((sum, change) => sum + change.groupsAdded.length, 0));
        expect(counts.membershipsRemoved).toBe(list.reduce((sum, change) => sum + change.groupsRemoved.length, 0));
      }),
      { numRuns: cases(20) },
    );
  });

  test("the plan of a directory with itself is empty", async () => {
    await fc.assert(
      fc.asyncProperty(directory, fc.infiniteStream(fc.nat()), async (actual, random) => {
        const { list, counts } = await planOf(actual, shuffled(actual, random));
        expect(list).toEqual([]);
        expect(counts.users.create + counts.users.update + counts.users.delete).toBe(0);
      }),
      { numRuns: cases(20) },
    );
  });

  test("the digest does not depend on the order of either", async () => {
    await fc.assert(
      fc.asyncProperty(directory, directory, fc.infiniteStream(fc.nat()), async (actual, desired, random) => {
        const { digest } = await planOf(actual, desired);
        expect(digest).toMatch(/^[0-9a-f]{64}$/);
        expect((await planOf(shuffled(actual, random), shuffled(desired, random))).digest).toBe(digest);
      }),
      { numRuns: cases(15) },
    );
  });

  test("the digest tells different changes apart", async () => {
    const ada: ServicePrincipal = { kind: "user", name: "ada", displayName: "Ada", groupNames: [] };
    const plans = await Promise.resolve([
      await planOf([], []),
      await planOf([], [ada]),
      await planOf([ada], []),
      await planOf([ada], [{ ...ada, mail: "ada@example.com" }]),
      await planOf([ada], [{ ...ada, description: "ada@example.com" }]),
      await planOf([{ ...ada, displayName: "A." }], [{ ...ada, mail: "ada@example.com" }]),
      await planOf([], [{ ...ada, kind: "group" }]),
    ]);
    expect(new Set(plans.map(({ digest }) => digest)).size).toBe(plans.length);
  });

  test("changes come groups before users, by action and by name in code point order", async () => {
    const of = (kind: "user" | "group", name: string): ServicePrincipal => ({
      kind,
      name,
      displayName: name,
      groupNames: [],
    });
    const { list } = await planOf(
      [of("user", "gone"), of("group", "gone")],
      [of("user", "\u{1F600}"), of("user", "\uFF5E"), of("user", "b"), of("group", "z")],
    );
    expect(list.map(({ kind, action, name }) => [kind, action, name])).toEqual([
      ["group", "create", "z"],
      ["group", "delete", "gone"],
      ["user", "create", "b"],
      ["user", "create", "\uFF5E"],
      ["user", "create", "\u{1F600}"],
      ["user", "delete", "gone"],
    ]);
  });
});

function shuffled<T>(values: readonly T[], random: Iterator<number>): T[] {
  return values
    .map((value) => ({ value, key: random.next().value as number }))
    .sort((a, b) => a.key - b.key)
    .map(({ value }) => value);
}

test("the digest of a plan is the one that 0.2 gave it: stored approvals stay valid", async () => {
  const { digest } = await planOf(
    [
      { kind: "user", name: "ada", displayName: "Ada", mail: "ada@example.com", groupNames: ["staff"] },
      { kind: "user", name: "bob", displayName: "Bob", description: 'says "hi"', groupNames: [] },
      { kind: "group", name: "staff", displayName: "Staff", groupNames: [] },
    ],
    [
      { kind: "user", name: "ada", displayName: "Ada King", description: "Countess", groupNames: ["board", "staff"] },
      { kind: "user", name: "chloé", displayName: "Chloé", mail: "c@example.com", groupNames: [] },
      { kind: "group", name: "board", displayName: "Board", description: "日本", groupNames: [] },
      { kind: "group", name: "staff", displayName: "Staff", groupNames: [] },
    ],
  );
  expect(digest).toBe("4881eed04a27ba8daa9d928b9acdd5317576fd105b1872545e631c59b476f702");
});
