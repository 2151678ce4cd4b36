import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { UnavailableError } from "#errors.ts";
import { readPrincipals, writePrincipals } from "#plan/lists.ts";
import { isUnreadable } from "#principals/entry.ts";
import type { AttributeValue, Entry } from "#principals/entry.ts";
import { formatNumber, formatName, formatSizes, pluralize } from "#text.ts";
import { wrongFilter } from "./filters.ts";
import type { IncidentName } from "./names.ts";
import { count, only } from "./world.ts";
import type { Inject, Injection, World } from "./world.ts";

/** What has hurt others, and how it happens to a sync. */
export const incidents: Readonly<Record<IncidentName, Inject>> = {
  "half-ou": halfOfAnOu,
  "column-renamed": renamedColumns,
  "breaks-off": breakOff,
  "empty-page": emptyPage,
  "empty-source": emptySource,
  "stale-export": staleExport,
  "swapped-ids": swapIds,
  "group-emptied": emptyGroup,
  "memberships-hidden": hideMemberships,
  "everybody-renamed": renameEverybody,
  "wrong-tenant": wrongTenant,
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

async function breakOff({ connection }: World): Promise<readonly Injection[] | string> {
  const largest = await largestSource(connection);
  if (largest === undefined) return noUsers;
  const { source, users } = largest;
  const half = Math.floor(users / 2);
  const what = `after ${formatNumber(half)} of ${pluralize(users, "user")}`;
  return [
    {
      injected: `${source} stops answering ${what}`,
      stillThere: true,
      records: only(source, () => {
        let seen = 0;
        return (record) => {
          if (record.kind === "user" && ++seen > half)
            throw new UnavailableError(`source ${source}: the connection broke off ${what}`);
          return record;
        };
      }),
    },
  ];
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
      records: only(source, () => {
        let seen = 0;
        return (record) => {
          if (record.kind !== "user") return record;
          const place = seen++;
          return place >= from && place < from + size ? undefined : record;
        };
      }),
    },
  ];
}

async function emptySource({ connection }: World): Promise<readonly Injection[] | string> {
  const largest = await largestSource(connection);
  if (largest === undefined) return noUsers;
  const { source, users } = largest;
  const groups = await count(connection, `kind = 'group' AND source = ${literal(source)}`);
  return [
    {
      injected: `${source} says that it has nothing, instead of ${formatSizes(users, groups)}`,
      records: only(source, () => () => undefined),
    },
  ];
}

async function staleExport({ connection }: World): Promise<readonly Injection[] | string> {
  const largest = await largestSource(connection);
  if (largest === undefined) return noUsers;
  const { source, users } = largest;
  const missing = Math.ceil(users / 5);
  return [
    {
      injected: `the last ${formatNumber(missing)} of ${pluralize(users, "user")} of ${source} are not in it yet`,
      records: only(source, () => {
        let seen = 0;
        return (record) => (record.kind === "user" && ++seen > users - missing ? undefined : record);
      }),
    },
  ];
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
      records: only(
        one.source,
        () => (record) =>
          record.kind === "user" ? { ...record, id: ids.get(record.id.normalize("NFC")) ?? record.id } : record,
      ),
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
      injected: `${pluralize(groups, "group")} ${groups === 1 ? "comes" : "come"} without members, and nobody says to be in one`,
      records: () => (record) => (record.kind === "membership" ? undefined : { ...record, memberOf: [], members: [] }),
    },
  ];
}

async function renameEverybody({ connection, sync }: World): Promise<readonly Injection[] | string> {
  const largest = await largestSource(connection);
  const names = sync.rules.reads().users.get("name") ?? [];
  if (largest === undefined) return noUsers;
  if (names.length === 0) return "the rule users.name names no attribute";
  const { source, users } = largest;
  return [
    {
      injected: `${names.join(" and ")} of ${pluralize(users, "user")} of ${source} ${names.length === 1 ? "starts" : "start"} with x now`,
      records: only(source, () => (record) => (record.kind === "user" ? withPrefix(record, names, "x") : record)),
    },
  ];
}

async function wrongTenant({ connection, sync }: World): Promise<readonly Injection[] | string> {
  const largest = await largestSource(connection);
  if (largest === undefined) return noUsers;
  const { source, users } = largest;
  const groups = await count(connection, `kind = 'group' AND source = ${literal(source)}`);
  const reads = sync.rules.reads();
  const of = (kind: "users" | "groups"): string[] =>
    ["name", "displayName", "mail"].flatMap((rule) => reads[kind].get(rule) ?? []);
  const names = { user: of("users"), group: of("groups") };
  return [
    {
      injected: `${formatSizes(users, groups)} of somebody else instead of those of ${source}`,
      records: only(
        source,
        () => (record) =>
          record.kind === "membership"
            ? record
            : withPrefix({ ...record, id: `other-${record.id}` }, names[record.kind], "other-"),
      ),
    },
  ];
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
async function largestSource(
  connection: Connection,
  among?: readonly string[],
): Promise<{ readonly source: string; readonly users: number } | undefined> {
  const [largest] = await connection.rows<{ source: string; users: number }>(
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
