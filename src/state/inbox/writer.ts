import { clockTolerance } from "#times.ts";
import { pruneEvents, pruneEvery } from "./events.ts";
import type { EventKind, Push } from "./events.ts";
import { InboxReader } from "./reader.ts";
import { addressesOf, columns, keysOf, storedOf, TakenError } from "./resources.ts";
import type { Database, Document, InboxKind, Integer, Member, Row, StoredResource } from "./resources.ts";

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

  /**
   * Begins a change: from now on no other process changes this source, until the transaction ends. Of requests at the same time, one
   * that came earlier may begin later: then it has the time of the one before, because runs ask what was pushed since the last push
   * they have read. Only a clock that was set back makes a later change earlier.
   */
  static async begin(source: string, database: Database, push: Push): Promise<InboxWriter> {
    const [begun] = await database.rows<{ revision: Integer; last: Integer }>(
      `INSERT INTO rollcall.inbox_sources (source, revision, numbers, first, last) VALUES ($1, 1, 0, $2, $2)
       ON CONFLICT (source) DO UPDATE SET revision = inbox_sources.revision + 1, last = CASE
         WHEN inbox_sources.last - excluded.last BETWEEN 0 AND ${clockTolerance} THEN inbox_sources.last ELSE excluded.last END
       RETURNING revision, last`,
      [source, push.at],
    );
    const [revision, at] = [Number(begun?.revision), Number(begun?.last)];
    if (revision % pruneEvery === 0) await pruneEvents(source, database, at);
    return new InboxWriter(source, database, { ...push, at }, revision);
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

function takenError({ userName }: Document): TakenError {
  return new TakenError(`another user has the userName ${JSON.stringify(userName)}`);
}
