import type { Items, OktaDirectory, OktaGroup, OktaUser } from "./okta-directory.ts";

const updated = "2026-11-01T08:00:00.000Z";

/** An organization of any size, whose records are made when they are asked for. Everybody is in two groups and in Everyone. */
export function largeOkta(users: number, groups: number): OktaDirectory {
  const user = (index: number): OktaUser => ({
    id: `00u${String(index).padStart(17, "0")}`,
    status: "ACTIVE",
    lastUpdated: updated,
    profile: {
      login: `user${index}@example.com`,
      email: `user${index}@example.com`,
      firstName: "Jörg",
      lastName: `Number ${index}`,
      department: `Department ${index % 50}`,
      mobilePhone: null,
    },
  });
  const group = (index: number, type: OktaGroup["type"], name: string, members: Items<number>): OktaGroup => ({
    id: `00g${String(index).padStart(17, "0")}`,
    type,
    profile: { name, description: null },
    lastUpdated: updated,
    lastMembershipUpdated: updated,
    members,
  });
  // A group has every user whose number leaves its own rest, or the rest before it.
  const membersOf = (rest: number): Items<number> => {
    const own = Math.ceil((users - rest) / groups);
    const before = (rest + groups - 1) % groups;
    return {
      length: own + Math.ceil((users - before) / groups),
      at: (index) => (index < own ? rest + index * groups : before + (index - own) * groups),
    };
  };
  return {
    users: { length: users, at: (index) => (index >= 0 && index < users ? user(index) : undefined) },
    groups: {
      length: groups + 1,
      at: (index) =>
        index === 0
          ? group(0, "BUILT_IN", "Everyone", { length: users, at: (place) => place })
          : group(index, "OKTA_GROUP", `group${index}`, membersOf(index - 1)),
    },
  };
}
