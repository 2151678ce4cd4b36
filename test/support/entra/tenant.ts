/** Users and groups by their place: an array, or something that makes them when they are asked for. */
export interface Rows<T> {
  readonly length: number;
  at(index: number): T | undefined;
}

/** An object as Graph shows it. Its id ends in its place (`idOf`). */
export type GraphObject = { readonly id: string } & Readonly<Record<string, unknown>>;
export type MemberType = "user" | "group" | "device" | "servicePrincipal" | "orgContact";

export interface Member {
  readonly type: MemberType;
  readonly id: string;
}

/** Who is in a tenant. Can be replaced while the server runs. */
export interface Tenant {
  users: Rows<GraphObject>;
  groups: Rows<GraphObject>;
  /** Direct members. */
  members: (groupId: string) => Rows<Member>;
}

/** The app that is registered in the tenant. */
export const app = {
  tenant: "0f5e3a8c-6f0e-4b51-9d3e-5a5b0f1c2d3e",
  domain: "contoso.onmicrosoft.com",
  clientId: "1b6d2f0a-58c1-4a5e-8f39-c1d2e3f4a5b6",
  clientSecret: "s3cret~of-the.app-that_nobody-may-see",
} as const;

export const everyPermission = ["User.Read.All", "GroupMember.Read.All", "Member.Read.Hidden"] as const;

const prefixes = { user: "5d1c1d3e", group: "9a7b3c11", other: "e0e0e0e0" } as const;

/** The id of the object at a place. */
export function idOf(kind: keyof typeof prefixes, place: number): string {
  return `${prefixes[kind]}-0000-4000-8000-${place.toString(16).padStart(12, "0")}`;
}

function placeOf(id: string): number {
  return Number.parseInt(id.slice(-12), 16);
}

/** The object with this id. */
export function byId(rows: Rows<GraphObject>, id: string): GraphObject | undefined {
  const there = rows.at(placeOf(id));
  if (there?.id === id) return there;
  return Array.isArray(rows) ? (rows as readonly GraphObject[]).find((row) => row.id === id) : undefined;
}

/** A tenant of any size, which is made while it is read: everybody is in a group of a hundred, and each tenth group holds the next one. */
export function largeTenant(users: number, groups: number): Tenant {
  const at = (length: number, make: (index: number) => GraphObject): Rows<GraphObject> => ({
    length,
    at: (index) => (index >= 0 && index < length ? make(index) : undefined),
  });
  const size = Math.ceil(users / groups);
  return {
    users: at(users, (index) => ({
      id: idOf("user", index),
      userPrincipalName: `user${index}@contoso.onmicrosoft.com`,
      displayName: `Jörg ${index}, the "${index}th"`,
      mail: `user${index}@contoso.example`,
      jobTitle: "Engineer",
      accountEnabled: true,
      userType: "Member",
    })),
    groups: at(groups, (index) => ({
      id: idOf("group", index),
      displayName: `Group ${index}`,
      groupTypes: [],
      securityEnabled: true,
    })),
    members: (groupId) => {
      const group = placeOf(groupId);
      const direct = Math.max(0, Math.min(size, users - group * size));
      const isOuter = group % 10 === 0 && group + 1 < groups;
      return {
        length: direct + (isOuter ? 1 : 0),
        at: (index) =>
          index < direct
            ? { type: "user", id: idOf("user", group * size + index) }
            : { type: "group", id: idOf("group", group + 1) },
      };
    },
  };
}
