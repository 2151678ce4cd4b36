import fc from "fast-check";
import { expect, test } from "vitest";
import { componentsOf } from "#principals/cycles.ts";
import type { GroupMembership } from "#principals/cycles.ts";
import { Yielder } from "#principals/yield.ts";

async function* inBatches(memberships: readonly GroupMembership[]): AsyncGenerator<readonly GroupMembership[]> {
  for (let from = 0; from < memberships.length; from += 3) yield memberships.slice(from, from + 3);
}

/** What can be reached from each group, itself included. */
function reachable(memberships: readonly GroupMembership[]): ReadonlyMap<number, ReadonlySet<number>> {
  const reached = new Map<number, Set<number>>();
  for (const { member, grp } of memberships) for (const each of [member, grp]) reached.set(each, new Set([each]));
  for (let grows = true; grows;) {
    grows = false;
    for (const { member, grp } of memberships)
      for (const all of reached.values())
        if (all.has(member) && !all.has(grp)) {
          all.add(grp);
          grows = true;
        }
  }
  return reached;
}

test("groups have the same component when each can be reached from the other", async () => {
  const group = fc.integer({ min: -3, max: 9 });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.record({ member: group, grp: group }), { maxLength: 25 }), async (memberships) => {
      const components = await componentsOf(inBatches(memberships), new Yielder());
      const reached = reachable(memberships);
      for (const [one, fromOne] of reached)
        for (const [other, fromOther] of reached) {
          const areIn = fromOne.has(other) && fromOther.has(one);
          expect((components.get(one) ?? one) === (components.get(other) ?? other), `${one} and ${other}`).toBe(areIn);
        }
    }),
  );
});

test("a cycle may be of any length", async () => {
  const size = 50_000;
  const cycle = Array.from({ length: size }, (_, member) => ({ member, grp: (member + 1) % size }));
  const components = await componentsOf(inBatches([...cycle, { member: size, grp: 0 }]), new Yielder());
  expect(components.size).toBe(size);
  expect(new Set(components.values()).size).toBe(1);
});
