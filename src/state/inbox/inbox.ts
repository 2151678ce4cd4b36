import { createHash } from "node:crypto";
import { RefusedError } from "#errors.ts";

/*
 * What providers have pushed, a source each: users, groups and their members, and what happened when. Statements are the same
 * for SQLite and PostgreSQL, and held to one suite, `test/contract/state/inbox.test.ts`.
 */

/** Where what was pushed is stored. */
export interface Inboxes {
  /** Reads as of one moment, however long that takes. */
  read<Result>(source: string, work: (inbox: InboxReader) => Promise<Result>): Promise<Result>;
  /**
   * Changes it: all of it or nothing, one change at a time over all processes. When it resolves, that survives a power failure.
   * @param push who changes it, and when
   * @throws what `work` throws; {UnavailableError} when the store does not answer, or the disk is full
   */
  change<Result>(source: string, push: Push, work: (inbox: InboxWriter) => Promise<Result>): Promise<Result>;
  /** Changes who may push, as `change` does; what was pushed stays as it is. */
  changeTokens<Result>(source: string, work: (tokens: InboxTokens) => Promise<Result>): Promise<Result>;
}

/** What a provider proves itself with. There may be several at a time. Times are epoch milliseconds. */
export interface InboxToken {
  readonly id: string;
  /** SHA-256 of it, in hexadecimal: nobody can read the token itself any more. */
  readonly digest: string;
  /** What people call it. */
  readonly name: string;
  readonly created: number;
  /** Absent: never. */
  readonly used?: number | undefined;
}

/** A request of a provider. */
export interface Push {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The id of its token. */
  readonly token: string;
}

export type InboxKind = "user" | "group";

/** A JSON object, of a group without its members. */
export type Document = Readonly<Record<string, unknown>>;

export interface StoredResource {
  readonly id: string;
  readonly kind: InboxKind;
  /** Ascending in the order of creation, never used again: lists are in this order. */
  readonly number: number;
  /** 1, and one more with each change of it or its members. */
  readonly version: number;
  /** Epoch milliseconds. */
  readonly created: number;
  readonly changed: number;
  readonly document: Document;
}

export interface Member {
  /** The id of a user or a group. */
  readonly id: string;
  /** What else the provider said of it. */
  readonly document?: Document | undefined;
}

/** What counts for brakes, and what people are shown. */
export type EventKind = "created" | "changed" | "deactivated" | "reactivated" | "deleted" | "joined" | "left";

/** What providers can take away, by the keys of the brakes. */
export type Loss = "deletions" | "deactivations" | "membershipsLost";

/** How much of something was pushed with a token. */
export interface Pushes {
  readonly token: string;
  readonly amount: number;
}

/** What was lost since a time and is still lost. */
export interface Lost {
  readonly loss: Loss;
  readonly of: "users" | "groups" | "memberships";
  /** The most first. */
  readonly by: readonly Pushes[];
  /** How much there is, with what was lost. */
  readonly base: number;
}

/** Something that was pushed. */
export interface StoredEvent {
  readonly kind: EventKind;
  /** Epoch milliseconds. */
  readonly at: number;
  /** 1; of members that joined or left a group, how many. */
  readonly amount: number;
  /** The id of the token. */
  readonly token: string;
  readonly resourceKind: InboxKind;
  readonly resource: string;
  /** As it is now. Absent: it was deleted. */
  readonly document?: Document | undefined;
}

/** How a source stands. */
export interface Activity {
  /** One more with each change: what is equal is unchanged. */
  readonly revision: number;
  /** When something was pushed, in epoch milliseconds. Absent: nothing ever was. */
  readonly first?: number | undefined;
  readonly last?: number | undefined;
}

/** Which resources equality finds at once: by a name, or by one of their addresses. */
export type Key = "userName" | "displayName" | "externalId" | "emails";

/** Another user of the source has this userName. */
export class TakenError extends RefusedError {}

/** The database that an inbox is in. */
export interface Database {
  rows<Row extends object>(sql: string, parameters: readonly (string | number | null)[]): Promise<Row[]>;
  /** The items of a JSON list of objects, as `item.value`. @param parameter `$3` */
  readonly each: (parameter: string) => string;
}

/** As SQLite and PostgreSQL have it. */
type Integer = number | bigint;

interface Row {
  readonly id: string;
  readonly kind: InboxKind;
  readonly number: Integer;
  readonly version: Integer;
  readonly created: Integer;
  readonly changed: Integer;
  readonly document: string;
}

const columns = "id, kind, number, version, created, changed, document";
const columnOf = { userName: "name", displayName: "display", externalId: "external" } as const;

/** Reads what was pushed to a source. */
export class InboxReader {
  protected readonly source: string;
  protected readonly database: Database;

  constructor(source: string, database: Database) {
    this.source = source;
    this.database = database;
  }

  async find(kind: InboxKind, id: string): Promise<StoredResource | undefined> {
    const [found] = await this.#resources("kind = $2 AND id = $3", [kind, id]);
    return found;
  }

  /** Those whose attribute is a value, without case. One may differ in case: who asks compares. In order. */
  findBy(kind: InboxKind, key: Key, value: string): Promise<StoredResource[]> {
    if (key === "emails")
      return this.#withIds(
        kind,
        "SELECT id FROM rollcall.inbox_addresses WHERE source = $1 AND address = $3",
        keyOf(value),
      );
    return this.#resources(`kind = $2 AND ${columnOf[key]} = $3 ORDER BY number`, [kind, keyOf(value)]);
  }

  /** Some of a kind, in order. @param after the number of the last one of the page before */
  page(
    kind: InboxKind,
    { after = 0, skip = 0, limit }: { after?: number; skip?: number; limit: number },
  ): Promise<StoredResource[]> {
    return this.#resources("kind = $2 AND number > $3 ORDER BY number LIMIT $4 OFFSET $5", [kind, after, limit, skip]);
  }

  async count(kind: InboxKind): Promise<number> {
    const sql = "SELECT count(*) AS count FROM rollcall.inbox_resources WHERE source = $1 AND kind = $2";
    const [row] = await this.#rows<{ count: Integer }>(sql, [kind]);
    return Number(row?.count);
  }

  /** Some members of a group, by id. @param after the id of the last one of the page before */
  async members(group: string, { after = "", limit }: { after?: string; limit: number }): Promise<Member[]> {
    const rows = await this.#rows<{ member: string; document: string | null }>(
      `SELECT member, document FROM rollcall.inbox_members
       WHERE source = $1 AND group_id = $2 AND member > $3 ORDER BY member LIMIT $4`,
      [group, after, limit],
    );
    return rows.map(({ member: id, document }) =>
      document === null ? { id } : { id, document: JSON.parse(document) as Document },
    );
  }

  async hasMember(group: string, member: string): Promise<boolean> {
    const sql = "SELECT 1 FROM rollcall.inbox_members WHERE source = $1 AND group_id = $2 AND member = $3";
    return (await this.#rows(sql, [group, member])).length > 0;
  }

  /** The groups that somebody is in directly, in order. */
  groupsOf(member: string): Promise<StoredResource[]> {
    return this.#withIds(
      "group",
      "SELECT group_id FROM rollcall.inbox_members WHERE source = $1 AND member = $3",
      member,
    );
  }

  /** The groups that each of them is in directly. */
  async groupsOfAll(members: readonly string[]): Promise<ReadonlyMap<string, readonly StoredResource[]>> {
    const itemsOf = (parameter: string): string => `SELECT item.value ->> 'id' FROM ${this.database.each(parameter)}`;
    const memberships = await this.#rows<{ member: string; group_id: string }>(
      `SELECT member, group_id FROM rollcall.inbox_members WHERE source = $1 AND member IN (${itemsOf("$2")})`,
      [JSON.stringify(members.map((id) => ({ id })))],
    );
    const ids = [...new Set(memberships.map(({ group_id: id }) => id))];
    const groups = await this.#withIds("group", itemsOf("$3"), JSON.stringify(ids.map((id) => ({ id }))));
    const byGroup = Map.groupBy(memberships, ({ group_id: id }) => id);
    const pairs = groups.flatMap((group) => (byGroup.get(group.id) ?? []).map(({ member }) => ({ member, group })));
    const byMember = Map.groupBy(pairs, ({ member }) => member);
    return new Map([...byMember].map(([member, found]) => [member, found.map(({ group }) => group)]));
  }

  async activity(): Promise<Activity> {
    const [row] = await this.#rows<{ revision: Integer; first: Integer; last: Integer }>(
      "SELECT revision, first, last FROM rollcall.inbox_sources WHERE source = $1",
      [],
    );
    return row === undefined
      ? { revision: 0 }
      : { revision: Number(row.revision), first: Number(row.first), last: Number(row.last) };
  }

  /** How many principals and memberships each kind of event had since a time, that included, in epoch milliseconds. */
  async counts(since: number): Promise<Partial<Record<EventKind, number>>> {
    const rows = await this.#rows<{ kind: EventKind; amount: Integer }>(
      `SELECT kind, sum(amount) AS amount FROM rollcall.inbox_events WHERE source = $1 AND at >= $2 GROUP BY kind`,
      [since],
    );
    return Object.fromEntries(rows.map(({ kind, amount }) => [kind, Number(amount)]));
  }

  /** What was pushed last, the newest first. */
  async events(limit: number): Promise<StoredEvent[]> {
    const rows = await this.#rows<{
      kind: EventKind;
      at: Integer;
      amount: Integer;
      token: string;
      resource_kind: InboxKind;
      resource: string;
      document: string | null;
    }>(
      `SELECT e.kind, e.at, e.amount, e.token, e.resource_kind, e.resource, r.document
       FROM rollcall.inbox_events e LEFT JOIN rollcall.inbox_resources r ON r.source = e.source AND r.id = e.resource
       WHERE e.source = $1 ORDER BY e.revision DESC, e.kind DESC, e.resource DESC LIMIT $2`,
      [limit],
    );
    return rows.map(({ kind, at, amount, token, resource_kind: resourceKind, resource, document }) => ({
      kind,
      at: Number(at),
      amount: Number(amount),
      token,
      resourceKind,
      resource,
      document: document === null ? undefined : (JSON.parse(document) as Document),
    }));
  }

  /** What was lost since a time, that excluded, and is still lost. Nothing is in it that nothing was lost of. */
  async lost(since: number): Promise<Lost[]> {
    const [users, groups] = [await this.count("user"), await this.count("group")];
    const [deletedUsers, deletedGroups] = [await this.#deleted("user", since), await this.#deleted("group", since)];
    const deactivated = await this.#net("deactivated", "reactivated", since);
    const left = await this.#net("left", "joined", since);
    const all: Lost[] = [
      { loss: "deletions", of: "users", by: deletedUsers, base: users + sumOf(deletedUsers) },
      { loss: "deletions", of: "groups", by: deletedGroups, base: groups + sumOf(deletedGroups) },
      { loss: "deactivations", of: "users", by: deactivated, base: users },
      {
        loss: "membershipsLost",
        of: "memberships",
        by: left,
        base: left.length === 0 ? 0 : (await this.#countMembers()) + sumOf(left),
      },
    ];
    return all.filter(({ by }) => by.length > 0);
  }

  /** How many users came back since a time, that excluded, and have stayed. */
  async restored(since: number): Promise<number> {
    return sumOf(await this.#net("reactivated", "deactivated", since));
  }

  /** Since when no pause was as long as this, in epoch milliseconds. Undefined: there is one right now, or nothing was pushed. */
  async restlessSince(pause: number, now: number): Promise<number | undefined> {
    const { last } = await this.activity();
    if (last === undefined || last <= now - pause) return undefined;
    const [row] = await this.#rows<{ since: Integer | null }>(
      `SELECT max(at) AS since FROM (
         SELECT at, lag(at) OVER (ORDER BY at) AS before FROM rollcall.inbox_events WHERE source = $1 AND at > $2) times
       WHERE before IS NULL OR at - before >= $3`,
      [now - longestStretch, pause],
    );
    return Number(row?.since ?? last);
  }

  /**
   * The first time, in epoch milliseconds, when no new user had come for so long.
   * @returns in the future: that is when it will be, unless another one comes. Undefined: there are no users
   */
  async firstCycleEnd(pause: number): Promise<number | undefined> {
    const [row] = await this.#rows<{ at: Integer | null }>(
      `SELECT min(created) AS at FROM (
         SELECT created, lead(created) OVER (ORDER BY number) AS following
         FROM rollcall.inbox_resources WHERE source = $1 AND kind = 'user') users
       WHERE following IS NULL OR following - created >= $2`,
      [pause],
    );
    return row?.at === null || row === undefined ? undefined : Number(row.at) + pause;
  }

  /** How many memberships are of ids that no user and no group has. */
  async strayMembers(): Promise<number> {
    const [row] = await this.#rows<{ count: Integer }>(
      `SELECT count(*) AS count FROM rollcall.inbox_members m WHERE source = $1 AND NOT EXISTS (
         SELECT 1 FROM rollcall.inbox_resources r WHERE r.source = m.source AND r.id = m.member)`,
      [],
    );
    return Number(row?.count);
  }

  /** The tokens, the oldest first. */
  async tokens(): Promise<InboxToken[]> {
    const rows = await this.#rows<{ id: string; digest: string; name: string; created: Integer; used: Integer | null }>(
      "SELECT id, digest, name, created, used FROM rollcall.inbox_tokens WHERE source = $1 ORDER BY created, id",
      [],
    );
    return rows.map(({ id, digest, name, created, used }) => {
      const token = { id, digest, name, created: Number(created) };
      return used === null ? token : Object.assign(token, { used: Number(used) });
    });
  }

  async #countMembers(): Promise<number> {
    const sql = "SELECT count(*) AS count FROM rollcall.inbox_members WHERE source = $1";
    return Number((await this.#rows<{ count: Integer }>(sql, []))[0]?.count);
  }

  #deleted(kind: InboxKind, since: number): Promise<Pushes[]> {
    return this.#pushes(
      `SELECT token, amount FROM rollcall.inbox_events
       WHERE source = $1 AND at > $2 AND kind = 'deleted' AND resource_kind = $3`,
      [since, kind],
    );
  }

  /** What one kind of event did and another did not take back, of each resource. */
  #net(kind: EventKind, opposite: EventKind, since: number): Promise<Pushes[]> {
    return this.#pushes(
      `SELECT max(CASE WHEN kind = $3 THEN token END) AS token, sum(CASE WHEN kind = $3 THEN amount ELSE -amount END) AS amount
       FROM rollcall.inbox_events WHERE source = $1 AND at > $2 AND kind IN ($3, $4)
       GROUP BY resource HAVING sum(CASE WHEN kind = $3 THEN amount ELSE -amount END) > 0`,
      [since, kind, opposite],
    );
  }

  async #pushes(sql: string, parameters: readonly (string | number)[]): Promise<Pushes[]> {
    const rows = await this.#rows<{ token: string; amount: Integer }>(
      `SELECT token, sum(amount) AS amount FROM (${sql}) pushed GROUP BY token ORDER BY 2 DESC, 1`,
      parameters,
    );
    return rows.map(({ token, amount }) => ({ token, amount: Number(amount) }));
  }

  /**
   * Few resources of a kind, in order.
   * @param select their ids, by `$3`. SQLite would rather read all of a kind than look them up, so that an expression hides the kind from it
   */
  #withIds(kind: InboxKind, select: string, parameter: string): Promise<StoredResource[]> {
    return this.#resources(`kind || '' = $2 AND id IN (${select}) ORDER BY number`, [kind, parameter]);
  }

  async #resources(where: string, parameters: readonly (string | number)[]): Promise<StoredResource[]> {
    const sql = `SELECT ${columns} FROM rollcall.inbox_resources WHERE source = $1 AND ${where}`;
    return (await this.#rows<Row>(sql, parameters)).map(storedOf);
  }

  #rows<Found extends object>(sql: string, parameters: readonly (string | number)[]): Promise<Found[]> {
    return this.database.rows<Found>(sql, [this.source, ...parameters]);
  }
}

/** Changes what was pushed to a source, in a transaction that no other change of it overlaps. */
export class InboxWriter extends InboxReader {
  readonly #push: Push;
  readonly #revision: number;
  #takes = false;

  private constructor(source: string, database: Database, push: Push, revision: number) {
    super(source, database);
    this.#push = push;
    this.#revision = revision;
  }

  /** Begins a change: from now on no other process changes this source, until the transaction ends. */
  static async begin(source: string, database: Database, push: Push): Promise<InboxWriter> {
    const [begun] = await database.rows<{ revision: Integer }>(
      `INSERT INTO rollcall.inbox_sources (source, revision, numbers, first, last) VALUES ($1, 1, 0, $2, $2)
       ON CONFLICT (source) DO UPDATE SET revision = inbox_sources.revision + 1, last = excluded.last
       RETURNING revision`,
      [source, push.at],
    );
    const revision = Number(begun?.revision);
    if (revision % pruneEvery === 0) await pruneEvents(source, database, push.at);
    return new InboxWriter(source, database, push, revision);
  }

  /** @throws {TakenError} another user has this userName */
  async create(kind: InboxKind, id: string, document: Document): Promise<StoredResource> {
    const [numbered] = await this.database.rows<{ numbers: Integer }>(
      "UPDATE rollcall.inbox_sources SET numbers = numbers + 1 WHERE source = $1 RETURNING numbers",
      [this.source],
    );
    const { at } = this.#push;
    const [row] = await this.database.rows<Row>(
      `INSERT INTO rollcall.inbox_resources
         (source, id, kind, number, version, created, changed, document, name, display, external)
       VALUES ($1, $2, $3, $4, 1, $5, $5, $6, $7, $8, $9)
       ON CONFLICT (source, kind, name) DO NOTHING RETURNING ${columns}`,
      [this.source, id, kind, Number(numbered?.numbers), at, JSON.stringify(document), ...keysOf(kind, document)],
    );
    if (row === undefined) throw takenError(document);
    await this.#address(id, document);
    await this.#note("created", kind, id);
    return storedOf(row);
  }

  /** Replaces the document. What is equal is not changed. @throws {TakenError} another user has this userName */
  async replace(stored: StoredResource, document: Document): Promise<StoredResource> {
    const { kind, id } = stored;
    const text = JSON.stringify(document);
    if (text === JSON.stringify(stored.document)) return stored;
    const [name] = keysOf(kind, document);
    if (name !== keysOf(kind, stored.document)[0] && (await this.#hasName(kind, name))) throw takenError(document);
    const [row] = await this.database.rows<Row>(
      `UPDATE rollcall.inbox_resources SET document = $3, name = $4, display = $5, external = $6, changed = $7,
         version = version + 1 WHERE source = $1 AND id = $2 RETURNING ${columns}`,
      [this.source, id, text, ...keysOf(kind, document), this.#push.at],
    );
    if (JSON.stringify(stored.document["emails"]) !== JSON.stringify(document["emails"])) {
      await this.#unaddress(id);
      await this.#address(id, document);
    }
    const [wasOff, isOff] = [stored.document["active"] === false, document["active"] === false];
    const switched = isOff ? "deactivated" : "reactivated";
    await this.#note(kind === "user" && wasOff !== isOff ? switched : "changed", kind, id);
    return storedOf(row as Row);
  }

  /** Removes a resource, its members and its memberships. @returns whether it was there */
  async remove(kind: InboxKind, id: string): Promise<boolean> {
    const found = await this.database.rows(
      "DELETE FROM rollcall.inbox_resources WHERE source = $1 AND kind = $2 AND id = $3 RETURNING id",
      [this.source, kind, id],
    );
    if (found.length === 0) return false;
    await this.#unaddress(id);
    const parameters = [this.source, id];
    await this.database.rows("DELETE FROM rollcall.inbox_members WHERE source = $1 AND group_id = $2", parameters);
    const groups = await this.database.rows<{ group_id: string }>(
      "DELETE FROM rollcall.inbox_members WHERE source = $1 AND member = $2 RETURNING group_id",
      parameters,
    );
    for (const { group_id } of groups) await this.#touch(group_id);
    await this.#note("deleted", kind, id);
    return true;
  }

  /** @returns how many were not in it before */
  async addMembers(group: string, members: readonly Member[]): Promise<number> {
    if (members.length === 0) return 0;
    const items = members.map(({ id, document }) => ({ id, ...(document && { document: JSON.stringify(document) }) }));
    const added = await this.database.rows(
      `INSERT INTO rollcall.inbox_members (source, group_id, member, document)
       SELECT $1, $2, item.value ->> 'id', item.value ->> 'document' FROM ${this.database.each("$3")} WHERE true
       ON CONFLICT (source, group_id, member) DO NOTHING RETURNING member`,
      [this.source, group, JSON.stringify(items)],
    );
    return this.#membersChanged("joined", group, added.length);
  }

  /** @returns how many were in it before */
  async removeMembers(group: string, ids: readonly string[]): Promise<number> {
    const items = ids.map((id) => ({ id }));
    const removed = await this.database.rows(
      `DELETE FROM rollcall.inbox_members WHERE source = $1 AND group_id = $2
         AND member IN (SELECT item.value ->> 'id' FROM ${this.database.each("$3")}) RETURNING member`,
      [this.source, group, JSON.stringify(items)],
    );
    return this.#membersChanged("left", group, removed.length);
  }

  /** Makes these the members. Only who is not among them leaves. */
  async setMembers(group: string, members: readonly Member[]): Promise<void> {
    const removed = await this.database.rows(
      `DELETE FROM rollcall.inbox_members WHERE source = $1 AND group_id = $2
         AND member NOT IN (SELECT item.value ->> 'id' FROM ${this.database.each("$3")}) RETURNING member`,
      [this.source, group, JSON.stringify(members.map(({ id }) => ({ id })))],
    );
    await this.#membersChanged("left", group, removed.length);
    await this.addMembers(group, members);
  }

  /** Whether this change takes something away. */
  get takes(): boolean {
    return this.#takes;
  }

  async #membersChanged(event: EventKind, group: string, amount: number): Promise<number> {
    if (amount === 0) return 0;
    await this.#touch(group);
    await this.#note(event, "group", group, amount);
    return amount;
  }

  async #touch(id: string): Promise<void> {
    await this.database.rows(
      "UPDATE rollcall.inbox_resources SET version = version + 1, changed = $3 WHERE source = $1 AND id = $2",
      [this.source, id, this.#push.at],
    );
  }

  async #address(id: string, document: Document): Promise<void> {
    const addresses = addressesOf(document);
    if (addresses.length === 0) return;
    await this.database.rows(
      `INSERT INTO rollcall.inbox_addresses (source, address, id)
       SELECT $1, item.value ->> 'address', $2 FROM ${this.database.each("$3")}`,
      [this.source, id, JSON.stringify(addresses.map((address) => ({ address })))],
    );
  }

  async #unaddress(id: string): Promise<void> {
    await this.database.rows("DELETE FROM rollcall.inbox_addresses WHERE source = $1 AND id = $2", [this.source, id]);
  }

  async #hasName(kind: InboxKind, name: string | null): Promise<boolean> {
    const sql = "SELECT 1 FROM rollcall.inbox_resources WHERE source = $1 AND kind = $2 AND name = $3";
    return (await this.database.rows(sql, [this.source, kind, name])).length > 0;
  }

  async #note(event: EventKind, kind: InboxKind, id: string, amount = 1): Promise<void> {
    this.#takes ||= event === "deleted" || event === "deactivated" || event === "left";
    await this.database.rows(
      `INSERT INTO rollcall.inbox_events (source, revision, kind, resource, resource_kind, at, amount, token)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
       ON CONFLICT (source, revision, kind, resource) DO UPDATE SET amount = inbox_events.amount + excluded.amount`,
      [this.source, this.#revision, event, id, kind, this.#push.at, amount, this.#push.token],
    );
  }
}

const day = 86_400_000;

/** How long events are stored, in milliseconds: those that brakes count for as long as a sync may be held. */
const eventsKept: Readonly<Record<EventKind, number>> = {
  created: 30 * day,
  changed: 30 * day,
  deactivated: 400 * day,
  reactivated: 400 * day,
  deleted: 400 * day,
  joined: 400 * day,
  left: 400 * day,
};

/** After how many changes old events are removed, and how many of a kind: more than may have come meanwhile. */
const pruneEvery = 100;
const prunedAtOnce = 1_000;

async function pruneEvents(source: string, database: Database, now: number): Promise<void> {
  for (const [kind, kept] of Object.entries(eventsKept))
    await database.rows(
      `DELETE FROM rollcall.inbox_events WHERE source = $1 AND kind = $2 AND (revision, resource) IN
         (SELECT revision, resource FROM rollcall.inbox_events WHERE source = $1 AND kind = $2 AND at < $3
            ORDER BY at LIMIT $4)`,
      [source, kind, now - kept, prunedAtOnce],
    );
}

/** Changes the tokens of a source. */
export class InboxTokens {
  readonly #source: string;
  readonly #database: Database;

  constructor(source: string, database: Database) {
    this.#source = source;
    this.#database = database;
  }

  async add({ id, digest, name, created }: Omit<InboxToken, "used">): Promise<void> {
    await this.#database.rows(
      "INSERT INTO rollcall.inbox_tokens (source, id, digest, name, created) VALUES ($1, $2, $3, $4, $5)",
      [this.#source, id, digest, name, created],
    );
  }

  /** @returns whether it was there */
  async remove(id: string): Promise<boolean> {
    const sql = "DELETE FROM rollcall.inbox_tokens WHERE source = $1 AND id = $2 RETURNING id";
    return (await this.#database.rows(sql, [this.#source, id])).length > 0;
  }

  /** Notes that one was used. @param at epoch milliseconds */
  async use(id: string, at: number): Promise<void> {
    await this.#database.rows("UPDATE rollcall.inbox_tokens SET used = $3 WHERE source = $1 AND id = $2", [
      this.#source,
      id,
      at,
    ]);
  }
}

function takenError({ userName }: Document): TakenError {
  return new TakenError(`another user has the userName ${JSON.stringify(userName)}`);
}

/** How far back the beginning of restless times is looked for, in milliseconds. */
const longestStretch = 30 * 86_400_000;

/** How much was pushed with all tokens. */
export function sumOf(pushes: readonly Pushes[]): number {
  return pushes.reduce((sum, { amount }) => sum + amount, 0);
}

function storedOf({ id, kind, number, version, created, changed, document }: Row): StoredResource {
  return {
    id,
    kind,
    number: Number(number),
    version: Number(version),
    created: Number(created),
    changed: Number(changed),
    document: JSON.parse(document) as Document,
  };
}

function keysOf(kind: InboxKind, document: Document): [string | null, string | null, string | null] {
  const key = (name: string): string | null => (typeof document[name] === "string" ? keyOf(document[name]) : null);
  return [kind === "user" ? key("userName") : null, key("displayName"), key("externalId")];
}

/** What is looked up of the addresses of a user, each once. */
function addressesOf({ emails }: Document): string[] {
  const values = (Array.isArray(emails) ? emails : []).map((each: unknown) =>
    typeof each === "object" && each !== null && "value" in each ? each.value : each,
  );
  return [...new Set(values.filter((value) => typeof value === "string").map(keyOf))];
}

/** What indexes have of a value: without case, and of any length and content. */
function keyOf(value: string): string {
  const lower = value.toLowerCase();
  const isPlain = lower.length <= 200 && !lower.startsWith("#") && !lower.includes("\0") && lower.isWellFormed();
  return isPlain ? lower : `#${createHash("sha256").update(lower, "utf16le").digest("hex")}`;
}
