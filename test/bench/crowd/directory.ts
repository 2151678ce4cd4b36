import { createHash } from "node:crypto";
import { times } from "../company.ts";
import type { Company } from "../company.ts";

/** A user or a group, as the service lists it. */
export interface Principal {
  readonly name: string;
  readonly displayName: string;
  /** Undefined: a group. */
  readonly mail: string | undefined;
  /** Sorted. */
  readonly groups: readonly string[];
  /** The versions in which it appeared, and in which anything of it changed last. */
  readonly created: number;
  readonly modified: number;
  /** Its JSON in `user/list`, without the times. */
  readonly text: string;
}

/** What the service has after the apply of a version of the source. */
export interface State {
  readonly version: number;
  /** Users, then groups, each sorted by name. */
  readonly principals: readonly Principal[];
  readonly users: ReadonlyMap<string, Principal>;
  readonly groups: ReadonlyMap<string, Principal>;
  /** That of `user/list`, as `withoutTimes` leaves it. */
  readonly digest: string;
}

/** In each version one user in so many has a new mail address. */
const cohorts = 100;
/** For so many versions a joiner stays, and a group of a release. */
const stay = { joiner: 5, release: 3 } as const;
/** So many users are in the group of a release. */
const releaseSize = 10;
/** What is there before the first sync. */
const builtIn = -1;

/**
 * A company whose every version is known: from one to the next a hundredth of the users have another mail address, one user
 * comes and one leaves, a group with ten members comes and one goes. So every version differs from every other, and an answer that mixes
 * two is none of them.
 */
export interface Directory {
  /** The source at a version, which begins with 0. */
  source(version: number): Company;
  state(version: number): State;
  /** The name of a user who is in every version. */
  userName(index: number): string;
  readonly users: number;
}

export function createDirectory(users: number): Directory {
  const teams = Math.max(10, Math.floor(users / 50));
  const userName = (index: number): string => `u${String(index).padStart(7, "0")}`;
  const teamsOf = (index: number): readonly number[] => [
    ...new Set([0, 1, 2].map((nth) => (index * 7 + nth * 13 * (1 + (index % 11))) % teams)),
  ];
  const membersOf = (release: number): readonly number[] => [
    ...new Set(Array.from({ length: releaseSize }, (_, nth) => (release * 17 + nth * 101) % users)),
  ];
  /** The last version that has changed a user's mail address; 0: none has. */
  const mailVersion = (index: number, version: number): number =>
    Math.max(0, version - ((((version - index) % cohorts) + cohorts) % cohorts));
  const mailOf = (index: number, version: number): string => {
    const last = mailVersion(index, version);
    return `${userName(index)}@${last === 0 ? "" : `v${last}.`}example.com`;
  };
  /** Those of the last versions that are still there. */
  const recent = (version: number, count: number): readonly number[] =>
    Array.from({ length: count }, (_, back) => version - back).filter((each) => each >= 1);

  const source = (version: number): Company => ({
    users: (function* () {
      for (let index = 0; index < users; index++)
        yield [`e${index}`, userName(index), `Ada Lovelace ${index}`, mailOf(index, version)] as const;
      for (const each of recent(version, stay.joiner))
        yield [`n${each}`, joinerName(each), `Joiner ${each}`, `joiner${each}@example.com`] as const;
    })(),
    groups: (function* () {
      yield* times(teams, (index) => [`g${index}`, teamName(index)] as const);
      for (const each of recent(version, stay.release)) yield [`r${each}`, releaseName(each)] as const;
    })(),
    memberships: (function* () {
      for (let index = 1; index < teams; index++)
        yield [`g${Math.floor((index - 1) / 10)}`, `g${index}`, "group"] as const;
      for (let index = 0; index < users; index++)
        for (const team of teamsOf(index)) yield [`g${team}`, `e${index}`, "user"] as const;
      for (const each of recent(version, stay.joiner)) yield ["g0", `n${each}`, "user"] as const;
      for (const each of recent(version, stay.release))
        for (const index of membersOf(each)) yield [`r${each}`, `e${index}`, "user"] as const;
    })(),
  });

  const sortedTeams = [
    ...times(teams, (index) =>
      principal(teamName(index), undefined, index === 0 ? [] : [teamName(Math.floor((index - 1) / 10))], 0),
    ),
  ].toSorted(byName);
  const kept = ["Administrator", "All"].map((name) => principal(name, undefined, [], builtIn));
  const administrator = principal("admin", "", [], builtIn, { displayName: "Administrator" });

  /** @param like whatever has not changed since is taken from there */
  const build = (version: number, like: State | undefined): State => {
    const modified = Array.from({ length: users }, (_, index) => mailVersion(index, version));
    const releases = new Map<number, number[]>();
    for (let release = 1; release <= version; release++) {
      const gone = release + stay.release;
      for (const index of membersOf(release)) {
        modified[index] = Math.max(modified[index] ?? 0, gone <= version ? gone : release);
        if (gone > version) releases.set(index, [...(releases.get(index) ?? []), release]);
      }
    }
    const joiners = recent(version, stay.joiner).map((each) =>
      principal(joinerName(each), `joiner${each}@example.com`, [teamName(0)], each, { displayName: `Joiner ${each}` }),
    );
    const others = modified.map((last, index) => {
      const name = userName(index);
      const before = like?.users.get(name);
      if (before?.modified === last) return before;
      const groups = teamsOf(index)
        .map(teamName)
        .concat((releases.get(index) ?? []).map(releaseName));
      const displayName = `Ada Lovelace ${index}`;
      return principal(name, mailOf(index, version), groups, 0, { displayName, modified: last });
    });
    const newGroups = recent(version, stay.release).map((each) => principal(releaseName(each), undefined, [], each));
    const ofUsers = [administrator, ...joiners.toSorted(byName), ...others];
    const ofGroups = [...kept, ...newGroups.toSorted(byName), ...sortedTeams];
    const principals = [...ofUsers, ...ofGroups];
    return {
      version,
      principals,
      users: new Map(ofUsers.map((each) => [each.name, each])),
      groups: new Map(ofGroups.map((each) => [each.name, each])),
      digest: digestOf(`[${principals.map(({ text }) => text).join(",")}]`),
    };
  };

  const states = new Map<number, State>();
  return {
    source,
    userName,
    users,
    state: (version) => {
      const known = states.get(version) ?? build(version, [...states.values()].at(-1));
      states.delete(version);
      states.set(version, known);
      for (const oldest of states.keys()) {
        if (states.size <= 12) break;
        states.delete(oldest);
      }
      return known;
    },
  };
}

function principal(
  name: string,
  mail: string | undefined,
  memberOf: readonly string[],
  created: number,
  { displayName = name, modified = created }: { readonly displayName?: string; readonly modified?: number } = {},
): Principal {
  const groups = memberOf.toSorted();
  return { name, displayName, mail, groups, created, modified, text: textOf(name, displayName, mail, groups) };
}

/** Somebody who is nowhere. */
export const guest = principal("guest", "guest@example.com", ["Team 0"], 0, { displayName: "Guest" });

/** The same user without the memberships that a later version may not have. */
export function lasting({ name, mail, groups, created, displayName, modified }: Principal): Principal {
  const teams = groups.filter((group) => group.startsWith("Team "));
  return principal(name, mail, teams, created, { displayName, modified });
}

const byName = (one: Principal, other: Principal): number => (one.name < other.name ? -1 : 1);

const teamName = (index: number): string => `Team ${index}`;
const releaseName = (version: number): string => `Release ${version}`;

/** The user who joined in a version. */
export function joinerName(version: number): string {
  return `new-${version}`;
}

/** Whether the user who joined in a version is there in another one. */
export function isThere(joined: number, version: number): boolean {
  return version >= joined && version < joined + stay.joiner;
}

/** The version of a list, as its newest group says. */
export function versionOf(list: string): number {
  let newest = 0;
  for (const [, version] of list.matchAll(/"name":"Release (\d+)"/g)) newest = Math.max(newest, Number(version));
  return newest;
}

/** As `user/list` has it (B.9), without the times; `user/sync` takes it, too (B.5). */
function textOf(name: string, displayName: string, mail: string | undefined, groupNames: readonly string[]): string {
  const principalTypeEnum = mail === undefined ? "LOCAL_GROUP" : "LOCAL_USER";
  return JSON.stringify({ name, displayName, mail, principalTypeEnum, groupNames, visibility: "DEFAULT" });
}

/** An answer of `user/list` without its times, which are handed to `visit` in their order. */
export function withoutTimes(list: string, visit: (created: number, modified: number) => void): string {
  return list
    .replaceAll(/,"created":(\d+),"modified":(\d+)\}/g, (_, created: string, modified: string) => {
      visit(Number(created), Number(modified));
      return "}";
    })
    .replaceAll("\n", "");
}

export function digestOf(text: string): string {
  return createHash("sha1").update(text).digest("base64");
}

/** The answer of `user/sync` (specification 2.8) to a list of users and groups. */
export type Difference = Readonly<Record<`${"users" | "groups"}${"Added" | "Deleted" | "Updated"}`, readonly string[]>>;

/** What a list changes in a state. @param removes whether what is not listed is deleted (B.4, 0.7) */
export function differenceOf(list: readonly Principal[], { users, groups }: State, removes: boolean): Difference {
  const compare = (there: ReadonlyMap<string, Principal>, wanted: readonly Principal[]) => {
    const names = new Set(wanted.map(({ name }) => name));
    const added = wanted.filter(({ name }) => !there.has(name));
    const updated = wanted.filter((each) => {
      const before = there.get(each.name);
      return before !== undefined && before.text !== each.text;
    });
    const deleted = [...there.values()].filter(({ name, created }) => created !== builtIn && !names.has(name));
    return [added, removes ? deleted : [], updated].map((all) => all.map(({ name }) => name).toSorted());
  };
  const [usersAdded = [], usersDeleted = [], usersUpdated = []] = compare(
    users,
    list.filter(({ mail }) => mail !== undefined),
  );
  const [groupsAdded = [], groupsDeleted = [], groupsUpdated = []] = compare(
    groups,
    list.filter(({ mail }) => mail === undefined),
  );
  return { usersAdded, usersDeleted, usersUpdated, groupsAdded, groupsDeleted, groupsUpdated };
}
