import { clockTolerance } from "#times.ts";
import { columns, keyOf, storedOf } from "./resources.ts";
import type { Database, Document, InboxKind, Integer, Key, Member, Row, StoredResource } from "./resources.ts";
import { sumOf } from "./events.ts";
import type { Activity, EventKind, Lost, Pushes, StoredEvent } from "./events.ts";
import type { InboxToken } from "./tokens.ts";

const columnOf = { userName: "name", displayName: "display", externalId: "external" } as const;

/** How far back the beginning of restless times is looked for, in milliseconds. */
const longestStretch = 30 * 86_400_000;

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

  /** Epoch milliseconds, by the clock that pushes are noted by: those of several machines may differ. */
  now(): Promise<number> {
    return this.database.now();
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

  /**
   * Since when no pause was as long as this, in epoch milliseconds. Undefined: there is one right now, or nothing was pushed. What was
   * pushed in the future was before the clock was set back.
   */
  async restlessSince(pause: number, now: number): Promise<number | undefined> {
    const { last } = await this.activity();
    if (last === undefined || last <= now - pause || last > now + clockTolerance) return undefined;
    const [row] = await this.#rows<{ since: Integer | null }>(
      `SELECT max(at) AS since FROM (
         SELECT at, lag(at) OVER (ORDER BY at) AS before FROM rollcall.inbox_events WHERE source = $1 AND at > $2 AND at <= $4) times
       WHERE before IS NULL OR at - before >= $3`,
      [now - longestStretch, pause, last],
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
