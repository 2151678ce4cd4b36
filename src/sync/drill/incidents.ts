import type { SourceRecord } from "#connector.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { UnavailableError } from "#errors.ts";
import { readPrincipals, writePrincipals } from "#plan/lists.ts";
import { isUnreadable } from "#principals/entry.ts";
import type { CompiledRules } from "#principals/compile.ts";
import type { AttributeValue, Entry } from "#principals/entry.ts";
import type { Rules } from "#principals/rules.ts";
import type { Sync } from "#sync/sync.ts";
import { formatNumber, formatName, formatSizes, pluralize, quote } from "#text.ts";
import type { IncidentName } from "./names.ts";
import type { RehearsalTargetOptions } from "./target.ts";

/** What incidents are made of: one read of the sources, and the target as the plan of it leaves it. */
export interface World {
  /** Has the table `record` of the spool, and `principal (kind, name, source, source_id, members)` made of it. */
  readonly connection: Connection;
  /** The same table, for other databases. */
  readonly principals: string;
  readonly sync: Sync;
  readonly rules: Rules;
  /** Compiles others. @throws {InputError} they are not valid */
  readonly compile: (rules: Rules) => CompiledRules;
  readonly workbench: Workbench;
  /** The file with the target's list. */
  readonly state: string;
}

/** What has gone wrong in one incident. */
export interface Injection {
  /** In one line, with numbers: `600 of 1,200 users below ou=Sales,dc=example,dc=com left out`. */
  readonly injected: string;
  /** What becomes of the records of a source; called for each read. Absent: they come as they were read. */
  readonly records?: ((source: string) => Change | undefined) | undefined;
  /** True: whoever looks a record up by its id still finds it. Otherwise the source knows no more than it delivers. */
  readonly stillThere?: boolean | undefined;
  readonly renamed?: { readonly kind: Entry["kind"]; readonly attribute: string } | undefined;
  readonly rules?: CompiledRules | undefined;
  readonly target?: Pick<RehearsalTargetOptions, "lists" | "forgets"> & { readonly state?: string };
}

/** A record as it comes now; undefined: it does not. May throw what ends the read. */
type Change = (record: SourceRecord) => SourceRecord | undefined;

/** The ways in which an incident can happen here; or why it cannot. */
type Inject = (world: World) => Promise<readonly Injection[] | string>;

/** What has hurt others, and how it happens to a sync. */
export const incidents: Readonly<Record<IncidentName, Inject>> = {
  "half-ou": halfOfAnOu,
  "column-renamed": renamedColumns,
  "breaks-off": ofLargest(breakOff),
  "empty-page": emptyPage,
  "empty-source": ofLargest(emptySource),
  "stale-export": ofLargest(staleExport),
  "swapped-ids": swapIds,
  "group-emptied": emptyGroup,
  "memberships-hidden": hideMemberships,
  "everybody-renamed": ofLargest(renameEverybody),
  "wrong-tenant": ofLargest(wrongTenant),
  "wrong-filter": wrongFilter,
  "old-list": oldList,
  "lost-write": lostWrite,
};

async function halfOfAnOu({ connection }: World): Promise<readonly Injection[] | string> {
  const [largest] = await connection.rows<{ source: string; place: string }>(`
    SELECT r.source, place FROM record r SEMI JOIN principal p
      ON p.kind = r.kind AND p.source = r.source AND p.source_id = r.id
    WHERE r.kind = 'user' AND place <> '' GROUP BY ALL HAVING count(*) > 1 ORDER BY count(*) DESC, place LIMIT 1`);
  if (largest === undefined) return "no two users have a distinguished name below the same entry";
  const { source, place } = largest;
  const all = await count(connection, `kind = 'user' AND source = ${literal(source)} AND place = ${literal(place)}`);
  const isBelow = (record: Entry): boolean => record.origin.replace(/^(?:\\.|[^\\,])*,/s, "").trim() === place;
  return [
    {
      injected: `${formatNumber(Math.ceil(all / 2))} of ${pluralize(all, "user")} below ${place} left out`,
      records: only(source, () => {
        let seen = 0;
        return (record) =>
          record.kind === "user" && record.origin !== "" && isBelow(record) && seen++ % 2 === 0 ? undefined : record;
      }),
    },
  ];
}

/** Every attribute costs a run: of many, the first ones. */
const mostColumns = 8;

async function renamedColumns({ connection, sync }: World): Promise<readonly Injection[] | string> {
  const reads = sync.rules.reads();
  const found: Injection[] = [];
  for (const kind of ["user", "group"] as const) {
    const names = new Set(Array.from(reads[`${kind}s`].values()).flatMap((each) => each ?? []));
    for (const attribute of names) {
      const has = `kind = '${kind}' AND json_exists(body, ${literal(`$.attributes.${JSON.stringify(attribute)}`)})`;
      const amount = await count(connection, has);
      if (amount === 0) continue;
      found.push({
        injected: `${attribute} of ${pluralize(amount, kind)} has another name now`,
        renamed: { kind, attribute },
        records: () => (record) => (record.kind === kind ? withAttributes(record, { [attribute]: undefined }) : record),
      });
    }
  }
  return found.length === 0 ? "no rule names an attribute that a record has" : found.slice(0, mostColumns);
}

/** An incident of the source that has most users. */
function ofLargest(inject: (world: World, largest: Largest) => Injection | string | Promise<Injection>): Inject {
  return async (world) => {
    const largest = await largestSource(world.connection);
    if (largest === undefined) return noUsers;
    const injection = await inject(world, largest);
    return typeof injection === "string" ? injection : [injection];
  };
}

function breakOff(_: World, { source, users }: Largest): Injection {
  const half = Math.floor(users / 2);
  const what = `after ${formatNumber(half)} of ${pluralize(users, "user")}`;
  return {
    injected: `${source} stops answering ${what}`,
    stillThere: true,
    records: usersOf(source, (user, place) => {
      if (place >= half) throw new UnavailableError(`source ${source}: the connection broke off ${what}`);
      return user;
    }),
  };
}

async function emptyPage({ connection, sync }: World): Promise<readonly Injection[] | string> {
  const paged = sync.sources.filter(({ source }) => source.paged === true).map(({ name }) => name);
  if (paged.length === 0) return "no source is read piece by piece from a server";
  const largest = await largestSource(connection, paged);
  if (largest === undefined) return noUsers;
  const { source, users } = largest;
  const size = Math.min(1_000, Math.max(1, Math.floor(users / 4)));
  const from = Math.floor(users / 2);
  return [
    {
      injected: `${formatNumber(size)} of ${pluralize(users, "user")} of ${source} missing in the middle of a read that ends as if it were whole`,
      stillThere: true,
      records: usersOf(source, (user, place) => (place >= from && place < from + size ? undefined : user)),
    },
  ];
}

async function emptySource({ connection }: World, { source, users }: Largest): Promise<Injection> {
  const groups = await count(connection, `kind = 'group' AND source = ${literal(source)}`);
  return {
    injected: `${source} says that it has nothing, instead of ${formatSizes(users, groups)}`,
    records: only(source, () => () => undefined),
  };
}

function staleExport(_: World, { source, users }: Largest): Injection {
  const missing = Math.ceil(users / 5);
  return {
    injected: `the last ${formatNumber(missing)} of ${pluralize(users, "user")} of ${source} are not in it yet`,
    records: usersOf(source, (user, place) => (place >= users - missing ? undefined : user)),
  };
}

async function swapIds({ connection }: World): Promise<readonly Injection[] | string> {
  const two = await connection.rows<{ source: string; id: string; name: string }>(`
    SELECT source, source_id AS id, name FROM principal WHERE kind = 'user' AND source IN (
      SELECT source FROM principal WHERE kind = 'user' GROUP BY source HAVING count(*) > 1 ORDER BY count(*) DESC LIMIT 1)
    ORDER BY name LIMIT 2`);
  const [one, other] = two;
  if (one === undefined || other === undefined) return "no source has two users";
  const ids = new Map([
    [one.id, other.id],
    [other.id, one.id],
  ]);
  return [
    {
      injected: `${formatName(one.name)} and ${formatName(other.name)} of ${one.source} have each other's id`,
      records: usersOf(one.source, (user) => ({ ...user, id: ids.get(user.id.normalize("NFC")) ?? user.id })),
    },
  ];
}

/** The largest group, and one of middling size: what bounds the sum of a plan may let that pass. */
async function emptyGroup({ connection }: World): Promise<readonly Injection[] | string> {
  const groups = await connection.rows<{ source: string; id: string; name: string; members: number; body: string }>(`
    SELECT source, id, name, members, body FROM (
      SELECT p.source, p.source_id AS id, p.name, p.members::INTEGER AS members, r.body,
        row_number() OVER (ORDER BY p.members DESC, p.name) AS place, count(*) OVER () AS groups
      FROM principal p JOIN record r ON r.kind = p.kind AND r.source = p.source AND r.id = p.source_id
      WHERE p.kind = 'group' AND p.members > 0)
    WHERE place IN (1, groups // 2 + 1) ORDER BY place`);
  if (groups.length === 0) return "no group of the sources has members";
  return groups.map(({ source, id, name, members, body }) => {
    const keys = new Set((JSON.parse(body) as Entry).keys);
    return {
      injected: `the group ${formatName(name)} of ${source} has no members, instead of ${formatNumber(members)}`,
      records: only(source, () => (record) => {
        if (record.kind === "membership") return keys.has(record.group) ? undefined : record;
        const memberOf = record.memberOf.filter((key) => !keys.has(key));
        const isIt = record.kind === "group" && record.id.normalize("NFC") === id;
        return { ...record, memberOf, members: isIt ? [] : record.members };
      }),
    };
  });
}

async function hideMemberships({ connection }: World): Promise<readonly Injection[] | string> {
  const [of] = await connection.rows<{ groups: bigint }>(
    "SELECT count(*) AS groups FROM principal WHERE kind = 'group' AND members > 0",
  );
  const groups = Number(of?.groups ?? 0);
  if (groups === 0) return "no group of the sources has members";
  return [
    {
      injected: `${pluralize(groups, "group")} ${groups === 1 ? "comes" : "come"} without members, and no user lists a group`,
      records: () => (record) => (record.kind === "membership" ? undefined : { ...record, memberOf: [], members: [] }),
    },
  ];
}

function renameEverybody({ sync }: World, { source, users }: Largest): Injection | string {
  const names = sync.rules.reads().users.get("name") ?? [];
  if (names.length === 0) return "the rule users.name names no attribute";
  return {
    injected: `${names.join(" and ")} of ${pluralize(users, "user")} of ${source} ${names.length === 1 ? "starts" : "start"} with x now`,
    records: usersOf(source, (user) => withPrefix(user, names, "x")),
  };
}

async function wrongTenant({ connection, sync }: World, { source, users }: Largest): Promise<Injection> {
  const groups = await count(connection, `kind = 'group' AND source = ${literal(source)}`);
  const reads = sync.rules.reads();
  const known = sync.rules.declared.all.flatMap(({ name, identifies }) => (identifies === true ? [name] : []));
  const of = (kind: "users" | "groups"): string[] => ["name", ...known].flatMap((rule) => reads[kind].get(rule) ?? []);
  const names = { user: of("users"), group: of("groups") };
  return {
    injected: `${formatSizes(users, groups)} of another source instead of those of ${source}`,
    records: only(
      source,
      () => (record) =>
        record.kind === "membership"
          ? record
          : withPrefix({ ...record, id: `other-${record.id}` }, names[record.kind], "other-"),
    ),
  };
}

async function oldList(world: World): Promise<readonly Injection[] | string> {
  const { workbench, state, principals } = world;
  const { connection } = workbench;
  const lists = workbench.file("old-list.json");
  const missing = await withoutUsers(world, "ceil(count(*) / 10)::BIGINT", lists);
  if (missing === 0) return noOwnUsers;
  await readPrincipals(connection, state, "actual");
  const [all] = await connection.rows<{ users: bigint }>(
    `SELECT count(*) AS users FROM actual SEMI JOIN read_parquet(${literal(principals)}) USING (kind, name) WHERE kind = 'user'`,
  );
  return [
    {
      injected: `its list lacks ${formatNumber(missing)} of ${pluralize(Number(all?.users ?? 0), "user")} that it has`,
      target: { lists },
    },
  ];
}

async function lostWrite(world: World): Promise<readonly Injection[] | string> {
  const state = world.workbench.file("before-write.json");
  const missing = await withoutUsers(world, "least(1, count(*))", state);
  if (missing === 0) return noOwnUsers;
  return [{ injected: "one user is to be created, and is not listed afterwards", target: { state, forgets: true } }];
}

const noUsers = "the sources have no users";
const noOwnUsers = "the sync has no users in the target";

/** Writes the target's list without some of the sync's users: so many, the last ones by name. @returns how many */
async function withoutUsers({ workbench, state, principals }: World, amount: string, file: string): Promise<number> {
  const { connection } = workbench;
  await readPrincipals(connection, state, "actual");
  await connection.run(`
    CREATE OR REPLACE TEMP TABLE own_user AS
    SELECT name FROM actual SEMI JOIN read_parquet(${literal(principals)}) USING (kind, name) WHERE kind = 'user';
    CREATE OR REPLACE TEMP TABLE absent AS
    SELECT name FROM own_user QUALIFY row_number() OVER (ORDER BY name DESC) <= (SELECT ${amount} FROM own_user);
    CREATE OR REPLACE TABLE desired AS
    SELECT * FROM actual WHERE kind <> 'user' OR name NOT IN (FROM absent)`);
  await writePrincipals(connection, file);
  const [of] = await connection.rows<{ absent: bigint }>("SELECT count(*) AS absent FROM absent");
  return Number(of?.absent ?? 0);
}

/** The source with most users, and how many it has. */
interface Largest {
  readonly source: string;
  readonly users: number;
}

async function largestSource(connection: Connection, among?: readonly string[]): Promise<Largest | undefined> {
  const [largest] = await connection.rows<Largest>(
    `SELECT source, count(*)::INTEGER AS users FROM record WHERE kind = 'user'
     ${among === undefined ? "" : `AND source IN (${among.map(literal).join(", ")})`}
     GROUP BY source ORDER BY users DESC, source LIMIT 1`,
  );
  return largest;
}

function withAttributes(entry: Entry, changed: Readonly<Record<string, AttributeValue | undefined>>): Entry {
  const all = { ...entry.attributes, ...changed };
  const set = Object.entries(all).filter((each): each is [string, AttributeValue] => each[1] !== undefined);
  return { ...entry, attributes: Object.fromEntries(set) };
}

function withPrefix(entry: Entry, names: readonly string[], prefix: string): Entry {
  const changed = names.map((name) => {
    const value = entry.attributes[name];
    return [name, value === undefined ? undefined : prefixed(value, prefix)] as const;
  });
  return withAttributes(entry, Object.fromEntries(changed));
}

function prefixed(value: AttributeValue, prefix: string): AttributeValue {
  if (typeof value === "string") return prefix + value;
  if (typeof value === "number") return 1_000_000_000 + value;
  if (typeof value === "boolean" || isUnreadable(value)) return value;
  return value.map((each) => prefix + each);
}

/** Filters with one wrong letter: in the rules, in the names of groups that say who is in scope, in the sources. */
async function wrongFilter({ connection, sync, rules, compile }: World): Promise<readonly Injection[] | string> {
  const found: Injection[] = [];
  for (const [kind, rule] of [
    ["users", "include"],
    ["users", "exclude"],
    ["groups", "include"],
    ["groups", "exclude"],
  ] as const) {
    for (const { expression, from, to } of mistyped(rules[kind]?.[rule])) {
      try {
        const changed = { ...rules, [kind]: { ...rules[kind], [rule]: expression } } as Rules;
        found.push({
          injected: `${kind}.${rule} says ${quote(to)} instead of ${quote(from)}`,
          rules: compile(changed),
        });
        break;
      } catch {
        // The name of a table, or of a function: then nothing runs at all.
      }
    }
  }
  const lists = {
    users: { onlyMembersOf: rules.users.onlyMembersOf, notMembersOf: rules.users.notMembersOf },
    groups: { onlyBelow: rules.groups?.onlyBelow, notBelow: rules.groups?.notBelow },
  };
  for (const [kind, keys] of Object.entries(lists)) {
    for (const [key, names] of Object.entries(keys)) {
      const from = names?.at(-1);
      const to = from?.replace(/[a-z](?=[^a-z]*$)/i, (letter) => (letter === "x" ? "y" : "x"));
      if (from === undefined || to === undefined || from === to) continue;
      const changed = structuredClone(rules);
      Object.assign(changed[kind as keyof typeof lists] ?? {}, { [key]: [...(names ?? []).slice(0, -1), to] });
      found.push({
        injected: `${kind}.${key} says ${quote(to)} instead of ${quote(from)}`,
        rules: compile(changed),
      });
    }
  }
  for (const { name } of sync.sources) {
    const options = (sync.settings["sources"] as Record<string, Filtered | undefined> | undefined)?.[name];
    if (typeof options?.users?.filter !== "string") continue;
    const users = await count(connection, `kind = 'user' AND source = ${literal(name)}`);
    found.push({
      injected: `users.filter of ${name} matches no one, instead of ${pluralize(users, "user")}`,
      records: usersOf(name, () => undefined),
    });
  }
  return found.length === 0 ? "neither the rules nor the sources have a filter with a text" : found;
}

interface Filtered {
  readonly users?: { readonly filter?: unknown };
}

/** The expression with another last letter in one of its texts that is no key of `entry`: the last text first. */
export function* mistyped(
  expression = "",
): Generator<{ readonly expression: string; readonly from: string; readonly to: string }> {
  const texts = Array.from(expression.matchAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g));
  for (const { 0: whole, index } of texts.reverse()) {
    const from = whole.slice(1, -1);
    const place = from.search(/(?<!\\)[a-z](?=[^a-z]*$)/i);
    if (place === -1 || /[\w)\]]\[\s*$/.test(expression.slice(0, index))) continue;
    const to = `${from.slice(0, place)}${from[place] === "x" ? "y" : "x"}${from.slice(place + 1)}`;
    const [before, after] = [expression.slice(0, index), expression.slice(index + whole.length)];
    yield { expression: before + whole.charAt(0) + to + whole.charAt(0) + after, from, to };
  }
}

/** How many rows of `record` there are of a condition. */
async function count(connection: Connection, where: string): Promise<number> {
  const [row] = await connection.rows<{ n: number }>(`SELECT count(*)::INTEGER AS n FROM record WHERE ${where}`);
  return row?.n ?? 0;
}

/** The records of one source change. */
function only(source: string, change: () => Change): NonNullable<Injection["records"]> {
  return (name) => (name === source ? change() : undefined);
}

/** The users of one source change. @param change of each, with its place among them, from 0 */
function usersOf(
  source: string,
  change: (user: Entry, place: number) => Entry | undefined,
): NonNullable<Injection["records"]> {
  return only(source, () => {
    let place = 0;
    return (record) => (record.kind === "user" ? change(record, place++) : record);
  });
}
