import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { literal, useThreads } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { Workbench } from "#duckdb/workbench.ts";
import { UnavailableError } from "#errors.ts";
import { readTarget } from "#sync/planning/target.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Kind } from "#principals/principal.ts";
import { createQueue } from "#queue.ts";
import { pathsToGroups } from "#sync/explain/outcome.ts";
import { Ledger } from "#state/ledger/ledger.ts";
import type { Reader } from "#state/store.ts";
import { anySpelling } from "#principals/principal.ts";
import type { Target } from "#connector.ts";

/** Attributes as texts, by name; null: unset. */
export type Known = Readonly<Record<string, string | null>>;

/** A user or group of a target, as a list shows it. */
export interface ListedPrincipal {
  readonly kind: Kind;
  readonly name: string;
  /** What people know it by, by attribute. */
  readonly known: Known;
  /** Of how many groups it is a direct member. */
  readonly groups: number;
  /** Of a group: how many direct members it has. */
  readonly members?: number | undefined;
}

/** One of them, whole. */
export interface ListedDetails extends Omit<ListedPrincipal, "groups" | "members"> {
  /** All its attributes. */
  readonly attributes: Known;
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

/** A target that can be listed. */
export interface Listable {
  readonly target: Target;
  readonly declared: Attributes;
  readonly place: string;
  /** The syncs whose ledgers say who is made of which records. */
  readonly syncs: readonly string[];
}

export interface ListingsOptions {
  /** The daemon's folder for workbenches. */
  readonly folder: string;
  /** Opens the state, for its ledgers. It is closed after use. */
  readonly state: () => Promise<Pick<Reader, "files" | typeof Symbol.asyncDispose>>;
  /** DuckDB's memory limit in bytes. */
  readonly memory: number;
  /** Opens a target. It is closed after use. */
  readonly open: (target: string) => Promise<Listable>;
  /** Reads the ledger of a place while nobody writes it. */
  readonly inTurn: (place: string, work: () => Promise<void>, signal: AbortSignal) => Promise<void>;
  /** How long to wait for a list before saying that it is under way, in milliseconds. */
  readonly patience?: number;
}

/** How long a list is good for, and how long an unused one stays on disk, in milliseconds. */
const lifetimes = { fresh: 5 * 60_000, unused: 5 * 60_000 } as const;

interface Stored {
  readonly at: number;
  /** The same as `performance.now()`: the clock may be set. */
  readonly began: number;
  readonly listing: Listing;
  readers: number;
  isOld: boolean;
  timer?: NodeJS.Timeout;
  close(): Promise<void>;
}

interface Wanted {
  readonly since: number;
  readonly instead?: string | undefined;
  readonly patience?: number | undefined;
}

interface Slot {
  stored?: Stored | undefined;
  /** The list under way, or one that failed, until somebody was told. */
  coming?: Promise<Stored> | undefined;
}

/**
 * Lists of targets, each stored on disk while somebody looks at it. Four targets are listed at a time: one that does not answer
 * leaves room for others. Nothing is held in memory: a list is a Parquet file in a workbench.
 */
export class Listings {
  readonly #options: ListingsOptions;
  readonly #slots = new Map<string, Slot>();
  readonly #listing = createQueue(4);
  readonly #stop = new AbortController();

  constructor(options: ListingsOptions) {
    this.#options = options;
  }

  /**
   * Reads the list of a target; lists it first if there is none, or an old one.
   * @param options.since a list from before that is old, in epoch milliseconds
   * @param options.instead so is the one of that moment, ISO 8601
   * @param options.patience how long a list that is being made is waited for, in milliseconds
   * @returns undefined while the target is being listed: ask again
   * @throws what the target's `list` throws
   */
  async read<Result>(
    target: string,
    options: Wanted,
    work: (listing: Listing) => Promise<Result>,
  ): Promise<Result | undefined> {
    const slot = this.#slots.get(target) ?? {};
    this.#slots.set(target, slot);
    const stored = await this.#current(target, slot, options);
    if (stored === undefined) return undefined;
    clearTimeout(stored.timer);
    stored.readers++;
    try {
      return await work(stored.listing);
    } finally {
      stored.readers--;
      clearTimeout(stored.timer);
      if (stored.isOld) retire(stored);
      else
        stored.timer = setTimeout(() => {
          if (slot.stored === stored) slot.stored = undefined;
          retire(stored);
        }, lifetimes.unused).unref();
    }
  }

  /** The list of a slot; undefined while it is being made. */
  async #current(
    target: string,
    slot: Slot,
    { since, instead, patience = this.#options.patience ?? 1500 }: Wanted,
  ): Promise<Stored | undefined> {
    const { stored } = slot;
    const isFresh = stored !== undefined && performance.now() - stored.began < lifetimes.fresh && stored.at >= since;
    if (isFresh && stored.listing.listedAt !== instead) return stored;
    slot.coming ??= this.#list(target, slot);
    slot.coming.catch(() => undefined);
    try {
      return await Promise.race([slot.coming, delay(patience, undefined, { ref: false })]);
    } catch (error) {
      slot.coming = undefined;
      throw error;
    }
  }

  async #list(target: string, slot: Slot): Promise<Stored> {
    const { signal } = this.#stop;
    const made = await this.#listing(() => store(target, this.#options, signal), signal);
    if (slot.stored !== undefined) retire(slot.stored);
    slot.stored = made;
    slot.coming = undefined;
    return made;
  }

  async close(): Promise<void> {
    this.#stop.abort(new UnavailableError("the daemon is stopping"));
    for (const { stored, coming } of this.#slots.values()) {
      await coming?.catch(() => undefined);
      clearTimeout(stored?.timer);
      await stored?.close();
    }
    this.#slots.clear();
  }
}

/** Removes a list once nobody reads it. */
function retire(stored: Stored): void {
  stored.isOld = true;
  clearTimeout(stored.timer);
  if (stored.readers === 0) stored.close().catch(() => undefined);
}

async function store(name: string, options: ListingsOptions, signal: AbortSignal): Promise<Stored> {
  const { folder, memory, open, inTurn } = options;
  const workbench = await Workbench.open({ folder: join(folder, "work"), memory });
  const { connection } = workbench;
  let target: Target | undefined;
  try {
    const { place, syncs, declared, ...opened } = await open(name);
    ({ target } = opened);
    const [at, began] = [Date.now(), performance.now()];
    await readTarget(target, workbench, "principals", { declared, isListing: true, signal, warn: () => {} });
    await connection.run("CREATE TABLE record (sync VARCHAR, kind VARCHAR, name VARCHAR, source VARCHAR, id VARCHAR)");
    const readLedger = async (): Promise<void> => {
      await using state = await options.state();
      for (const sync of syncs) {
        await Ledger.open(connection, { files: state.files, place, sync, mode: "read", signal });
        await connection.run(`INSERT INTO record SELECT ${literal(sync)}, kind, name, source, source_id FROM ledger`);
      }
    };
    await inTurn(place, readLedger, signal);
    await storeList(workbench, declared);
    await connection.run("DROP TABLE principals; DROP TABLE record; DROP TABLE IF EXISTS ledger");
    const listing = new Listing(connection, declared, new Date(at).toISOString());
    return { at, began, listing, readers: 0, isOld: false, close: () => workbench.close() };
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
async function storeList(workbench: Workbench, attributes: Attributes): Promise<void> {
  const { connection } = workbench;
  const sought = anySpelling(`concat_ws(chr(10), ${["name", ...attributes.identifying(), "ids"].join(", ")})`);
  const write = async (view: string, query: string): Promise<void> => {
    const stored = literal(workbench.file(`${view}.parquet`));
    await connection.run(`COPY (${query}) TO ${stored} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480)`);
    await connection.run(
      `CREATE VIEW ${view} AS SELECT *, file_row_number AS place FROM read_parquet(${stored}, file_row_number = true)`,
    );
  };
  await write(
    "principal",
    `SELECT p.*, ${sought} AS sought, ${anySpelling("name")} AS folded_name FROM principals p
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

/** The users and groups of a target, as it listed them. */
export class Listing {
  /** ISO 8601. */
  readonly listedAt: string;
  readonly #connection: Connection;
  readonly #attributes: Attributes;
  readonly #inTurn = createQueue();
  /** The group whose members are in the table `member`. */
  #listed: string | undefined;

  constructor(connection: Connection, attributes: Attributes, listedAt: string) {
    this.#connection = connection;
    this.#attributes = attributes;
    this.listedAt = listedAt;
  }

  /** Who has a text in the name, what people know it by, or the id of a record; case does not matter. Whole names come first. */
  async search(text: string, kind: Kind | undefined, window: Window): Promise<Excerpt> {
    const sought = anySpelling(literal(text));
    const isMeant = [...(kind === undefined ? [] : [`kind = '${kind}'`]), ...has(text)];
    const rank =
      text === ""
        ? "0"
        : `CASE WHEN folded_name = ${sought} THEN 0 WHEN starts_with(folded_name, ${sought}) THEN 1 ELSE 2 END`;
    const found = `SELECT place, ${rank} AS rank FROM principal WHERE ${["true", ...isMeant].join(" AND ")}`;
    return this.#excerpt(found, "rank, place", window);
  }

  /** How many users and groups `search` finds. */
  async counts(text: string): Promise<Readonly<Record<Kind, number>>> {
    const rows = await this.#connection.rows<{ kind: Kind; count: bigint }>(
      `SELECT kind, count(*) AS count FROM principal WHERE ${["true", ...has(text)].join(" AND ")} GROUP BY kind`,
    );
    const of = (kind: Kind): number => Number(rows.find((row) => row.kind === kind)?.count ?? 0);
    return { user: of("user"), group: of("group") };
  }

  async find(kind: Kind, name: string): Promise<ListedDetails | undefined> {
    const [row] = await this.#connection.rows<Omit<ListedDetails, "groups" | "records"> & { direct: string[] }>(
      `SELECT kind, name, ${this.#attributes.known()} AS known, ${this.#attributes.values()} AS attributes, group_names AS direct FROM principal
       WHERE folded_name = ${anySpelling(literal(name))} AND kind = '${kind}' AND name = ${literal(name)}`,
    );
    if (row === undefined) return undefined;
    const { direct, ...rest } = row;
    const groups = await pathsToGroups(this.#connection, "listed_group", direct);
    const records = await this.#connection.rows<ListedDetails["records"][number]>(
      `SELECT sync, source, id FROM made_of WHERE kind = '${kind}' AND name = ${literal(name)} ORDER BY ALL`,
    );
    return { ...rest, groups, records };
  }

  /** @param options.nested also those who are in it through other groups */
  members(group: string, { nested, ...window }: Window & { readonly nested: boolean }): Promise<Excerpt> {
    return this.#inTurn(async () => {
      if (nested) await this.#listMembers(group);
      const [grp] = await this.#connection.rows<{ id: number }>(`SELECT id FROM grp WHERE name = ${literal(group)}`);
      const direct = `SELECT place FROM membership WHERE grp = ${grp?.id ?? "NULL"}`;
      const isDirect = `, list_contains(group_names, ${literal(group)}) AS "isDirect"`;
      return this.#excerpt(nested ? "FROM member" : direct, "place", window, isDirect);
    });
  }

  /** Makes `member (place)`, which is kept for the next page. */
  async #listMembers(group: string): Promise<void> {
    if (this.#listed === group) return;
    this.#listed = undefined;
    await this.#connection.run(`
      CREATE OR REPLACE TEMP TABLE inside AS
      WITH RECURSIVE within(grp) AS (
        SELECT id FROM grp WHERE name = ${literal(group)} UNION SELECT child FROM nesting JOIN within ON parent = grp)
      FROM within;
      CREATE OR REPLACE TEMP TABLE member AS SELECT DISTINCT place FROM membership SEMI JOIN inside USING (grp)`);
    this.#listed = group;
  }

  /**
   * The principals of a part of a relation with places.
   * @param order what they are sorted by
   * @param more further columns
   */
  async #excerpt(found: string, order: string, { offset, limit }: Window, more = ""): Promise<Excerpt> {
    const [part] = await this.#connection.rows<{ places: bigint[]; count: bigint }>(`
      WITH found AS MATERIALIZED (${found})
      SELECT count(*) AS count, ARRAY(SELECT place::BIGINT FROM found ORDER BY ${order} LIMIT ${limit} OFFSET ${offset}) AS places
      FROM found`);
    const { places = [], count = 0n } = part ?? {};
    if (places.length === 0) return { rows: [], count: Number(count) };
    const rows = await this.#connection.rows<Excerpt["rows"][number] & { place: bigint }>(`
      SELECT kind, name, ${this.#attributes.known()} AS known, len(group_names)::INTEGER AS groups, place${more}
      FROM principal WHERE place IN (${places.join(", ")})`);
    const members = await this.#sizes(rows.filter(({ kind }) => kind === "group").map((row) => row.name));
    // A user may have the name of a group.
    const byPlace = new Map(
      rows.map(({ place, ...row }) => [
        place,
        { ...row, members: row.kind === "group" ? members.get(row.name) : undefined },
      ]),
    );
    return { rows: places.flatMap((place) => byPlace.get(place) ?? []), count: Number(count) };
  }

  /** How many direct members groups have. */
  async #sizes(groups: readonly string[]): Promise<ReadonlyMap<string, number>> {
    if (groups.length === 0) return new Map();
    const rows = await this.#connection.rows<{ name: string; count: number }>(`
      SELECT g.name, count(m.place)::INTEGER AS count
      FROM grp g LEFT JOIN membership m ON m.grp = g.id WHERE g.name IN (${groups.map(literal).join(", ")}) GROUP BY g.name`);
    return new Map([
      ...groups.map((group) => [group, 0] as const),
      ...rows.map(({ name, count }) => [name, count] as const),
    ]);
  }
}

/** The condition that a principal has a text; none for an empty one. */
function has(text: string): string[] {
  return text === "" ? [] : [`contains(sought, ${anySpelling(literal(text))})`];
}
