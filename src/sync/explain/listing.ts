import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { openWorkbench } from "#duckdb/workbench.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import { UnavailableError } from "#errors.ts";
import { readPrincipals } from "#plan/lists.ts";
import type { Kind } from "#principals/principal.ts";
import { createQueue } from "#queue.ts";
import { pathsToGroups } from "#sync/explain/outcome.ts";
import { openLedger } from "#state/ledger/ledger.ts";
import { folded } from "#sync/planning/people.ts";
import type { Target } from "#sync/ports.ts";

/** A user or group of a target, as a list shows it. */
export interface ListedPrincipal {
  readonly kind: Kind;
  readonly name: string;
  readonly displayName: string | null;
  readonly mail: string | null;
  /** Of how many groups it is a direct member. */
  readonly groups: number;
}

/** One of them, whole. */
export interface ListedDetails extends Omit<ListedPrincipal, "groups"> {
  readonly description: string | null;
  /** For each group that it is in: the shortest path, beginning with a direct membership. */
  readonly groups: readonly (readonly string[])[];
  /** The records that the syncs have made it of. */
  readonly records: readonly { readonly sync: string; readonly source: string; readonly id: string }[];
}

/** A part of a list. */
export interface Excerpt {
  readonly rows: readonly (ListedPrincipal & { readonly isDirect?: boolean })[];
  /** How many there are in all. */
  readonly count: number;
}

/** Which part of a list. */
export interface Window {
  readonly offset: number;
  readonly limit: number;
}

/** The users and groups of a target, as it listed them. */
export interface Listing {
  /** ISO 8601. */
  readonly listedAt: string;
  /** Who has a text in the name, display name, mail, or the id of a record; case does not matter. Whole names come first. */
  search(text: string, kind: Kind | undefined, window: Window): Promise<Excerpt>;
  find(kind: Kind, name: string): Promise<ListedDetails | undefined>;
  /** @param options.nested also those who are in it through other groups */
  members(group: string, options: Window & { readonly nested: boolean }): Promise<Excerpt>;
}

/** A target that can be listed. */
export interface Listable {
  readonly target: Target;
  readonly place: string;
  /** The syncs whose ledgers say who is made of which records. */
  readonly syncs: readonly string[];
}

export interface ListingsOptions {
  /** The daemon's folder for workbenches. */
  readonly folder: string;
  /** Where the ledgers are, as they are now. Default: in the same folder. */
  readonly state?: (() => Promise<string>) | undefined;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  /** Opens a target. It is closed after use. */
  readonly open: (target: string) => Promise<Listable>;
  /** Reads the ledger of a place while nobody writes it. */
  readonly inTurn: (place: string, work: () => Promise<void>, signal: AbortSignal) => Promise<void>;
  /** How long to wait for a list before saying that it is under way, in milliseconds. */
  readonly patience?: number;
}

/** Lists of targets, each stored on disk while somebody looks at it. */
export interface Listings {
  /**
   * Reads the list of a target; lists it first if there is none, or an old one.
   * @param options.since a list from before that is old, in epoch milliseconds
   * @param options.instead so is the one of that moment, ISO 8601
   * @returns undefined while the target is being listed: ask again
   * @throws what the target's `list` throws
   */
  read<Result>(
    target: string,
    options: { readonly since: number; readonly instead?: string | undefined },
    work: (listing: Listing) => Promise<Result>,
  ): Promise<Result | undefined>;
  close(): Promise<void>;
}

/** How long a list is good for, and how long an unused one stays on disk, in milliseconds. */
const lifetimes = { fresh: 5 * 60_000, unused: 5 * 60_000 } as const;

interface Stored {
  readonly at: number;
  readonly listing: Listing;
  readers: number;
  isOld: boolean;
  timer?: NodeJS.Timeout;
  close(): Promise<void>;
}

interface Slot {
  stored?: Stored | undefined;
  /** The list under way, or one that failed, until somebody was told. */
  coming?: Promise<Stored> | undefined;
}

/** One target is listed at a time. Nothing is held in memory: a list is a Parquet file in a workbench. */
export function createListings(options: ListingsOptions): Listings {
  const { patience = 1500 } = options;
  const slots = new Map<string, Slot>();
  const listing = createQueue();
  const stop = new AbortController();

  const begin = async (target: string, slot: Slot): Promise<Stored> => {
    const made = await listing(() => store(target, options, stop.signal), stop.signal);
    if (slot.stored !== undefined) retire(slot.stored);
    slot.stored = made;
    slot.coming = undefined;
    return made;
  };
  return {
    read: async (target, { since, instead }, work) => {
      const slot = slots.get(target) ?? {};
      slots.set(target, slot);
      let { stored } = slot;
      if (
        stored === undefined ||
        stored.at < Math.max(since, Date.now() - lifetimes.fresh) ||
        stored.listing.listedAt === instead
      ) {
        slot.coming ??= begin(target, slot);
        slot.coming.catch(() => undefined);
        try {
          stored = await Promise.race([slot.coming, delay(patience, undefined, { ref: false })]);
        } catch (error) {
          slot.coming = undefined;
          throw error;
        }
        if (stored === undefined) return undefined;
      }
      const used = stored;
      clearTimeout(used.timer);
      used.readers++;
      try {
        return await work(used.listing);
      } finally {
        used.readers--;
        if (used.isOld) retire(used);
        else {
          clearTimeout(used.timer);
          used.timer = setTimeout(() => {
            if (slot.stored === used) slot.stored = undefined;
            retire(used);
          }, lifetimes.unused).unref();
        }
      }
    },
    close: async () => {
      stop.abort(new UnavailableError("the daemon is stopping"));
      for (const { stored, coming } of slots.values()) {
        await coming?.catch(() => undefined);
        clearTimeout(stored?.timer);
        await stored?.close();
      }
      slots.clear();
    },
  };
}

/** Removes a list once nobody reads it. */
function retire(stored: Stored): void {
  stored.isOld = true;
  clearTimeout(stored.timer);
  if (stored.readers === 0) void stored.close();
}

async function store(name: string, options: ListingsOptions, signal: AbortSignal): Promise<Stored> {
  const { folder, memory, open, inTurn, state = async () => folder } = options;
  const workbench = await openWorkbench({ folder: join(folder, "work"), memory });
  const { connection } = workbench;
  let target: Target | undefined;
  try {
    const { place, syncs, ...opened } = await open(name);
    ({ target } = opened);
    const at = Date.now();
    const file = workbench.file("list.json");
    await target.list(file, signal);
    await readPrincipals(connection, file, "principals");
    await rm(file);
    await connection.run("CREATE TABLE record (sync VARCHAR, kind VARCHAR, name VARCHAR, source VARCHAR, id VARCHAR)");
    const readLedger = async (): Promise<void> => {
      const ledgers = join(await state(), "ledgers");
      for (const sync of syncs) {
        await openLedger(connection, { folder: ledgers, place, sync, mode: "read", signal });
        await connection.run(`INSERT INTO record SELECT ${literal(sync)}, kind, name, source, source_id FROM ledger`);
      }
    };
    await inTurn(place, readLedger, signal);
    await storeList(workbench);
    await connection.run("DROP TABLE principals; DROP TABLE record; DROP TABLE IF EXISTS ledger");
    const listing = listingOf(connection, new Date(at).toISOString());
    return { at, listing, readers: 0, isOld: false, close: () => workbench.close() };
  } catch (error) {
    await workbench.close();
    throw error;
  } finally {
    await target?.close();
  }
}

/**
 * Writes what is listed (`principals`, `record`) to files, and makes the relations that a listing is read from. `place` is where
 * a principal stands: groups first, each kind by name. It is its row in the file.
 *
 * - `principal`: all of them, with `folded_name` and `sought`, the text that is searched. In small row groups: a page reads few.
 * - `listed_group`: the groups by name, for the ways through them.
 * - `made_of (kind, name, sync, source, id)`: their records.
 * - `grp (id, name)`, `nesting (child, parent)`: a number for each group that somebody is in, and which is in which.
 * - `membership (grp, place)`: the direct ones, by group.
 */
async function storeList({ connection, file }: Workbench): Promise<void> {
  const sought = folded("concat_ws(chr(10), name, display_name, mail, ids)");
  const write = async (view: string, query: string): Promise<void> => {
    const stored = literal(file(`${view}.parquet`));
    await connection.run(`COPY (${query}) TO ${stored} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480)`);
    await connection.run(
      `CREATE VIEW ${view} AS SELECT *, file_row_number AS place FROM read_parquet(${stored}, file_row_number = true)`,
    );
  };
  await write(
    "principal",
    `SELECT p.*, ${sought} AS sought, ${folded("name")} AS folded_name FROM principals p
     LEFT JOIN (SELECT kind, name, string_agg(DISTINCT id, chr(10)) AS ids FROM record GROUP BY ALL) USING (kind, name)
     ORDER BY kind, folded_name, name`,
  );
  await write("listed_group", "SELECT kind, name, group_names FROM principals WHERE kind = 'group' ORDER BY name");
  await write("made_of", "SELECT * FROM record ORDER BY kind, name");
  await connection.run(`
    CREATE TABLE grp AS
    SELECT row_number() OVER (ORDER BY name)::INTEGER AS id, name FROM (SELECT DISTINCT unnest(group_names) AS name FROM principals);
    CREATE TABLE nesting AS
    SELECT c.id AS child, p.id AS parent
    FROM (SELECT name, unnest(group_names) AS parent FROM listed_group) g JOIN grp c USING (name) JOIN grp p ON p.name = g.parent`);
  await write(
    "membership",
    `SELECT id AS grp, m.place::INTEGER AS place
     FROM (SELECT place, unnest(group_names) AS name FROM principal) m JOIN grp USING (name) ORDER BY ALL`,
  );
  await useThreads(connection, await countOf(connection, "principal"));
}

async function countOf(connection: Connection, from: string): Promise<number> {
  const [row] = await connection.rows<{ count: bigint }>(`SELECT count(*) AS count FROM ${from}`);
  return Number(row?.count ?? 0);
}

type Row = Excerpt["rows"][number];

function listingOf(connection: Connection, listedAt: string): Listing {
  const inTurn = createQueue();
  /** The group whose members are in the table `member`. */
  let listed: string | undefined;

  /** The principals of some places, in their order. @param more further columns */
  const principalsAt = async (places: readonly bigint[], more = ""): Promise<Row[]> => {
    if (places.length === 0) return [];
    const rows = await connection.rows<Row & { place: bigint }>(`
      SELECT kind, name, display_name AS "displayName", mail, len(group_names)::INTEGER AS groups, place${more}
      FROM principal WHERE place IN (${places.join(", ")})`);
    const found = new Map(rows.map(({ place, ...row }) => [place, row]));
    return places.flatMap((place) => found.get(place) ?? []);
  };
  /** A part of a relation with places. @param order what they are sorted by first */
  const placesIn = async (
    found: string,
    order: string,
    { offset, limit }: Window,
  ): Promise<{ readonly places: readonly bigint[]; readonly count: number }> => {
    const [row] = await connection.rows<{ places: bigint[]; count: bigint }>(`
      WITH found AS MATERIALIZED (${found})
      SELECT count(*) AS count, ARRAY(SELECT place::BIGINT FROM found ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}) AS places
      FROM found`);
    return { places: row?.places ?? [], count: Number(row?.count ?? 0) };
  };
  /** Makes `member (place)`, which is kept for the next page. */
  const listMembers = async (group: string): Promise<void> => {
    if (listed === group) return;
    listed = undefined;
    await connection.run(`
      CREATE OR REPLACE TEMP TABLE inside AS
      WITH RECURSIVE within(grp) AS (
        SELECT id FROM grp WHERE name = ${literal(group)} UNION SELECT child FROM nesting JOIN within ON parent = grp)
      FROM within;
      CREATE OR REPLACE TEMP TABLE member AS SELECT DISTINCT place FROM membership SEMI JOIN inside USING (grp)`);
    listed = group;
  };
  return {
    listedAt,
    search: async (text, kind, window) => {
      const sought = folded(literal(text));
      const isMeant = [
        ...(kind === undefined ? [] : [`kind = '${kind}'`]),
        ...(text === "" ? [] : [`contains(sought, ${sought})`]),
      ];
      const rank =
        text === ""
          ? "0"
          : `CASE WHEN folded_name = ${sought} THEN 0 WHEN starts_with(folded_name, ${sought}) THEN 1 ELSE 2 END`;
      const found = `SELECT place, ${rank} AS rank FROM principal WHERE ${["true", ...isMeant].join(" AND ")}`;
      const { places, count } = await placesIn(found, "rank, place", window);
      return { rows: await principalsAt(places), count };
    },
    find: async (kind, name) => {
      const [row] = await connection.rows<Omit<ListedDetails, "groups" | "records"> & { direct: string[] }>(
        `SELECT kind, name, display_name AS "displayName", mail, description, group_names AS direct FROM principal
         WHERE folded_name = ${folded(literal(name))} AND kind = '${kind}' AND name = ${literal(name)}`,
      );
      if (row === undefined) return undefined;
      const { direct, ...rest } = row;
      const groups = await pathsToGroups(connection, "listed_group", direct);
      const records = await connection.rows<ListedDetails["records"][number]>(
        `SELECT sync, source, id FROM made_of WHERE kind = '${kind}' AND name = ${literal(name)} ORDER BY ALL`,
      );
      return { ...rest, groups, records };
    },
    members: (group, { nested, ...window }) =>
      inTurn(async () => {
        if (nested) await listMembers(group);
        const [grp] = await connection.rows<{ id: number }>(`SELECT id FROM grp WHERE name = ${literal(group)}`);
        const direct = `SELECT place FROM membership WHERE grp = ${grp?.id ?? "NULL"}`;
        const { places, count } = await placesIn(nested ? "FROM member" : direct, "place", window);
        const isDirect = `, list_contains(group_names, ${literal(group)}) AS "isDirect"`;
        return { rows: await principalsAt(places, isDirect), count };
      }),
  };
}
