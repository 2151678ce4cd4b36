import type { Yielder } from "./yield.ts";

/** A group that is a member of another one, by their numbers. */
export interface GroupMembership {
  readonly member: number;
  readonly grp: number;
}

/**
 * The groups that are in each other, with the number of one of them: the strongly connected components of more than one
 * group, by Tarjan's algorithm.
 */
export async function componentsOf(
  memberships: AsyncIterable<readonly GroupMembership[]>,
  yielder: Yielder,
): Promise<ReadonlyMap<number, number>> {
  const above = new Map<number, number[]>();
  for await (const batch of memberships)
    for (const { member, grp } of batch) {
      const groups = above.get(member);
      if (groups === undefined) above.set(member, [grp]);
      else groups.push(grp);
    }
  const components = new Map<number, number>();
  /** By group: when it was found, and the first one found that can be reached from it. */
  const found = new Map<number, { readonly place: number; first: number }>();
  /** The groups whose component is not known yet. */
  const open: number[] = [];
  const isOpen = new Set<number>();
  const enter = (group: number): { readonly group: number; next: number; state: { first: number } } => {
    const state = { place: found.size, first: found.size };
    found.set(group, state);
    open.push(group);
    isOpen.add(group);
    return { group, next: 0, state };
  };
  const close = (group: number): void => {
    const members = open.splice(open.lastIndexOf(group));
    for (const member of members) {
      isOpen.delete(member);
      if (members.length > 1) components.set(member, group);
    }
  };
  for (const start of above.keys()) {
    const path = found.has(start) ? [] : [enter(start)];
    for (let step = path.at(-1); step !== undefined; step = path.at(-1)) {
      if (yielder.isDue()) await yielder.yield();
      const next = above.get(step.group)?.[step.next++];
      if (next === undefined) {
        path.pop();
        if (step.state.first === found.get(step.group)?.place) close(step.group);
        const before = path.at(-1);
        if (before !== undefined) before.state.first = Math.min(before.state.first, step.state.first);
      } else {
        const known = found.get(next);
        if (known === undefined) path.push(enter(next));
        else if (isOpen.has(next)) step.state.first = Math.min(step.state.first, known.place);
      }
    }
  }
  return components;
}
