import type { Company } from "./company.ts";

/** A user or a group as the service lists it. */
export interface Principal {
  readonly kind: "user" | "group";
  readonly name: string;
  readonly displayName: string;
  readonly description?: string | undefined;
  readonly mail?: string | undefined;
  readonly groups: readonly string[];
}

/** Principals by `user NAME` and `group NAME`. */
export type Principals = ReadonlyMap<string, Principal>;

/** What there is to know of the target, after everything that has happened so far. */
export interface Known {
  readonly target: Principals;
  /** What the sync has made or adopted, and the number of the record that each is made of. */
  readonly owned: ReadonlyMap<string, string>;
  /** Since when somebody is gone from the directory, in epoch milliseconds. */
  readonly gone: ReadonlyMap<string, number>;
}

export interface OracleOptions {
  /** In epoch milliseconds. */
  readonly now: number;
  /** How long one stays who is gone, in milliseconds. */
  readonly grace: number;
  /** Names that a person has said may be taken over by somebody else. */
  readonly reusedNames?: boolean;
}

interface Wanted extends Principal {
  readonly record: string;
}

const keyOf = ({ kind, name }: Pick<Principal, "kind" | "name">): string => `${kind} ${name}`;

/** What no sync may touch: what the service has from the start, and what the configuration protects. */
const isProtected = (key: string): boolean => /^user (?:admin|svc-.*)$|^group (?:Administrator|All)$/.test(key);

/**
 * What the target must be when the directory is what it is, in plain steps, one principal after the other: written from
 * the rules of the company alone.
 */
export function foresee(company: Company, { target, owned, gone }: Known, options: OracleOptions): Known {
  const { now, grace, reusedNames = false } = options;
  const wanted = new Map(wantedBy(company).map((each) => [keyOf(each), each]));
  for (const key of wanted.keys()) if (isProtected(key)) wanted.delete(key);
  const nameOfRecord = new Map([...wanted].map(([key, { record }]) => [record, key]));
  const heldNames = new Set(
    [...wanted].flatMap(([key, { record }]) =>
      target.has(key) && owned.has(key) && owned.get(key) !== record && !reusedNames ? [key] : [],
    ),
  );
  for (const key of heldNames) wanted.delete(key);

  const stays = new Set(heldNames);
  const leaving = new Map<string, number>();
  const renamed = new Map<string, string>();
  for (const key of target.keys()) {
    const record = owned.get(key);
    if (wanted.has(key) || heldNames.has(key)) continue;
    const becomes = record === undefined ? undefined : nameOfRecord.get(record);
    if (record === undefined || isProtected(key) || isAdministrator(key, target)) stays.add(key);
    else if (becomes !== undefined) renamed.set(becomes, key);
    else {
      const since = gone.get(key) ?? now;
      if (since + grace > now) {
        stays.add(key);
        leaving.set(key, since);
      }
    }
  }

  const groupsThere = new Set([...wanted.keys(), ...stays]);
  const next = new Map<string, Principal>();
  for (const key of stays) {
    const principal = target.get(key);
    if (principal === undefined) continue;
    next.set(key, { ...principal, groups: principal.groups.filter((name) => groupsThere.has(`group ${name}`)) });
  }
  for (const [key, { record: _, ...principal }] of wanted) {
    const before = target.get(key) ?? target.get(renamed.get(key) ?? "");
    const kept = before?.groups.filter((name) => stays.has(`group ${name}`)) ?? [];
    const own = principal.groups.filter((name) => wanted.has(`group ${name}`));
    next.set(key, { ...principal, groups: [...new Set([...own, ...kept])].toSorted() });
  }
  const stillOwned = [...owned].filter(([key]) => next.has(key) && !wanted.has(key));
  return {
    target: next,
    owned: new Map([...stillOwned, ...[...wanted].map(([key, { record }]) => [key, record] as const)]),
    gone: leaving,
  };
}

function wantedBy({ people, teams }: Company): Wanted[] {
  const within = (which: "people" | "teams", number: number): string[] =>
    [...teams.values()]
      .filter((team) => team[which].has(number))
      .map(({ name }) => name)
      .toSorted();
  const users = [...people]
    .filter(([, { type }]) => type === "employee")
    .map(([number, { uid, name, mail, title }]): Wanted => ({
      kind: "user",
      name: uid.toLowerCase(),
      displayName: name,
      description: title,
      mail,
      groups: within("people", number),
      record: `person ${number}`,
    }));
  const groups = [...teams].map(([number, { name, description }]): Wanted => ({
    kind: "group",
    name,
    displayName: name,
    description,
    groups: within("teams", number),
    record: `team ${number}`,
  }));
  return [...users, ...groups];
}

function isAdministrator(key: string, target: Principals): boolean {
  const seen = new Set<string>();
  const look = (name: string): boolean => {
    if (name === "Administrator") return true;
    if (seen.has(name)) return false;
    seen.add(name);
    return target.get(`group ${name}`)?.groups.some(look) ?? false;
  };
  return target.get(key)?.groups.some(look) ?? false;
}
