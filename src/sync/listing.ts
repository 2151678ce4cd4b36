import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { openWorkbench } from "#duckdb/workbench.ts";
import { UnavailableError } from "#errors.ts";
import { readPrincipals } from "#plan/lists.ts";
import type { Kind } from "#principals/principal.ts";
import { createQueue } from "#queue.ts";
import { pathsToGroups } from "#sync/explain/outcome.ts";
import { openLedger } from "#sync/ledger/ledger.ts";
import { folded } from "#sync/planning/people.ts";
import type { Target } from "./ports.ts";

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
  /** The daemon's folder for workbenches and ledgers. */
  readonly folder: string;
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
  const { folder, memory, open, inTurn } = options;
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
      for (const sync of syncs) {
        await openLedger(connection, { folder: join(folder, "ledgers"), place, sync, mode: "read", signal });
        await connection.run(`INSERT INTO record SELECT ${literal(sync)}, kind, name, source, source_id FROM ledger`);
      }
    };
    await inTurn(place, readLedger, signal);
    const sought = folded("concat_ws(chr(10), name, display_name, mail)");
    const parts = {
      principal: `SELECT *, ${sought} AS sought, ${folded("name")} AS folded_name FROM principals ORDER BY folded_name, kind`,
      made_of: `SELECT *, ${folded("id")} AS sought FROM record ORDER BY kind, name`,
    };
    for (const [view, query] of Object.entries(parts)) {
      const stored = literal(workbench.file(`${view}.parquet`));
      await connection.run(
        `COPY (${query}) TO ${stored} (FORMAT parquet); CREATE VIEW ${view} AS FROM read_parquet(${stored})`,
      );
    }
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

const columns = `p.kind, p.name, p.display_name AS "displayName", p.mail, len(p.group_names)::INTEGER AS groups`;

function listingOf(connection: Connection, listedAt: string): Listing {
  const excerpt = async (
    from: string,
    more: string,
    order: string | undefined,
    { offset, limit }: Window,
  ): Promise<Excerpt> => {
    const rows = await connection.rows<Excerpt["rows"][number]>(
      `SELECT ${columns}${more} ${from} ${order === undefined ? "" : `ORDER BY ${order}`} LIMIT ${limit} OFFSET ${offset}`,
    );
    const [row] = await connection.rows<{ count: bigint }>(`SELECT count(*) AS count ${from}`);
    return { rows, count: Number(row?.count ?? 0) };
  };
  return {
    listedAt,
    search: (text, kind, window) => {
      const sought = folded(literal(text));
      const ofKind = kind === undefined ? "true" : `p.kind = '${kind}'`;
      // The file is in this order.
      if (text === "") return excerpt(`FROM principal p WHERE ${ofKind}`, "", undefined, window);
      const from = `
        FROM principal p WHERE ${ofKind} AND (contains(p.sought, ${sought})
          OR (p.kind, p.name) IN (SELECT (kind, name) FROM made_of WHERE contains(sought, ${sought})))`;
      const order = `p.folded_name = ${sought} DESC, starts_with(p.folded_name, ${sought}) DESC, p.folded_name, p.kind`;
      return excerpt(from, "", order, window);
    },
    find: async (kind, name) => {
      const [row] = await connection.rows<Omit<ListedDetails, "groups" | "records"> & { direct: string[] }>(
        `SELECT kind, name, display_name AS "displayName", mail, description, group_names AS direct FROM principal
         WHERE folded_name = ${folded("$2")} AND kind = $1 AND name = $2`,
        [kind, name],
      );
      if (row === undefined) return undefined;
      const { direct, ...rest } = row;
      const groups = await pathsToGroups(connection, "principal", direct);
      const records = await connection.rows<ListedDetails["records"][number]>(
        "SELECT sync, source, id FROM made_of WHERE kind = ? AND name = ? ORDER BY ALL",
        [kind, name],
      );
      return { ...rest, groups, records };
    },
    members: (group, { nested, ...window }) => {
      const of = literal(group);
      const isDirect = `list_contains(p.group_names, ${of})`;
      const within = `
        WITH RECURSIVE edge AS MATERIALIZED (
          SELECT kind, name, unnest(group_names) AS grp FROM principal),
        inside(name) AS (
          SELECT ${of} UNION SELECT e.name FROM edge e JOIN inside i ON e.grp = i.name WHERE e.kind = 'group')
        SELECT (kind, name) FROM edge SEMI JOIN inside ON grp = inside.name`;
      const isIn = nested ? `(p.kind, p.name) IN (${within})` : isDirect;
      return excerpt(`FROM principal p WHERE ${isIn}`, `, ${isDirect} AS "isDirect"`, "p.kind, p.folded_name", window);
    },
  };
}
