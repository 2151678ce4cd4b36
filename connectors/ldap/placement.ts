import type { Entry, MemberReference, Membership, SourceRecord } from "#connector.ts";
import type { Nesting } from "./nesting.ts";
import type { Warnings } from "./warnings.ts";

/** What memberships become: as the directory has them, or with groups in groups resolved. */
export interface Placement {
  /** An entry with (some of) its members, and what else follows from it. */
  place(entry: Entry): readonly SourceRecord[];
  /** More members of a group that was placed. */
  add(group: Entry, references: readonly MemberReference[]): readonly Membership[];
}

/** @param nesting users are to be directly in every group that they are in through others; undefined: as they are */
export function placementOf(nesting: Nesting | undefined, warnings: Warnings): Placement {
  if (nesting === undefined) {
    const others = (group: Entry, references: readonly MemberReference[]): readonly MemberReference[] => {
      const isSelf = ({ kind, key }: MemberReference): boolean => kind !== "user" && key === group.keys[0];
      if (!references.some(isSelf)) return references;
      warnings.add("groups have themselves as a member", `${group.origin} has itself as a member; that is ignored`);
      return references.filter((reference) => !isSelf(reference));
    };
    return {
      place: (entry) => [entry.members.length === 0 ? entry : { ...entry, members: others(entry, entry.members) }],
      add: (group, references) =>
        others(group, references).map((member) => membership(group, group.keys[0] ?? "", member)),
    };
  }
  const users = (references: readonly MemberReference[]): readonly MemberReference[] =>
    references.filter(({ kind, key }) => kind === "user" || !nesting.isGroup(key));
  return {
    place: (entry) => {
      if (entry.kind === "user") {
        const all = new Set(entry.memberOf.flatMap((key) => [key, ...nesting.above(key)]));
        return [{ ...entry, memberOf: [...all] }];
      }
      const members = users(entry.members);
      return [{ ...entry, memberOf: [], members }, ...memberships(entry, members, nesting.above(entry.keys[0] ?? ""))];
    },
    add: (group, references) => {
      const own = group.keys[0] ?? "";
      return memberships(group, users(references), [own, ...nesting.above(own)]);
    },
  };
}

function membership(group: Entry, key: string, member: MemberReference): Membership {
  return { kind: "membership", group: key, member, origin: group.origin };
}

function memberships(group: Entry, references: readonly MemberReference[], groups: readonly string[]): Membership[] {
  return groups.flatMap((key) => references.map((member) => membership(group, key, member)));
}
