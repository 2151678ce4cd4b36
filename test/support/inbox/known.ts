import type { Attributes } from "./users.ts";

/** What a client of an inbox knows of its own resources, by id. It is never changed. */
export interface Known {
  readonly users: ReadonlyMap<string, Attributes>;
  readonly groups: ReadonlyMap<string, Group>;
}

export interface Group {
  readonly displayName: string;
  readonly members: ReadonlySet<string>;
}

export function withUser(known: Known, id: string, attributes: Attributes): Known {
  return { ...known, users: new Map(known.users).set(id, attributes) };
}

export function withGroup(known: Known, id: string, group: Group): Known {
  return { ...known, groups: new Map(known.groups).set(id, group) };
}

export function without({ users, groups }: Known, id: string): Known {
  const left = [...groups].filter(([group]) => group !== id);
  return {
    users: new Map([...users].filter(([user]) => user !== id)),
    groups: new Map(
      left.map(([group, { displayName, members }]) => [
        group,
        { displayName, members: members.difference(new Set([id])) },
      ]),
    ),
  };
}
