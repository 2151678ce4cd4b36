import type { Change } from "#plan/change.ts";
import type { Principal } from "#principals/principal.ts";
import { byCodePoint, keyOf } from "./directories.ts";

/** What becomes of a directory by changes, one after the other, and nothing else. */
export function applyOf(actual: readonly Principal[], changes: readonly Change[]): Principal[] {
  const principals = new Map(actual.map((each) => [keyOf(each), each]));
  for (const { kind, name, action, attributes, groupsAdded, groupsRemoved } of changes) {
    const key = `${kind}:${name}`;
    if (action === "delete") {
      principals.delete(key);
      continue;
    }
    const before = principals.get(key) ?? { kind, name, displayName: "", groupNames: [] };
    const kept = before.groupNames.filter((group) => !groupsRemoved.includes(group));
    const values = { ...before, groupNames: [...kept, ...groupsAdded].sort(byCodePoint) };
    const entries = attributes.map(({ attribute, to }) => [attribute, to] as const);
    const becomes = Object.entries({ ...values, ...Object.fromEntries(entries) });
    principals.set(key, Object.fromEntries(becomes.filter(([, value]) => value !== undefined)) as unknown as Principal);
  }
  return [...principals.values()];
}
