import { setTimeout as delay } from "node:timers/promises";
import type { Kind, ObjectChange, ObjectTarget, RemoteObject } from "#connector.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { messageOf, ObjectRefusedError, UnavailableError } from "#errors.ts";
import { attributesText } from "#plan/remote.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { Ledger } from "#state/ledger/ledger.ts";
import type { Remembered } from "#state/ledger/remote.ts";
import { formatName, formatNumber, withoutCase } from "#text.ts";
import { differingKeys } from "#values.ts";
import { pagesOf, phasesOf } from "./phases.ts";
import type { PlannedWrite } from "./phases.ts";

type Change<Action extends ObjectChange["action"]> = Extract<ObjectChange, { action: Action }>;

export interface WritingOptions {
  readonly target: ObjectTarget;
  readonly declared: Attributes;
  readonly connection: Connection;
  readonly ledger: Pick<Ledger, "remember">;
  /** Ends everything at once: what is under way may have arrived or not. */
  readonly signal: AbortSignal;
  /** Ends it between two changes. */
  readonly stop: AbortSignal;
  /** Called before each change. Throws when nothing may be written any more. */
  readonly sending?: (() => void) | undefined;
  /** Called with how many changes were written. */
  readonly progress: (written: number) => void;
}

/** What became of the changes of a plan. */
export interface Written {
  readonly written: number;
  /** Why changes were not written, one line each, those that are alike once: the first of them. */
  readonly problems: readonly string[];
  /** How many were not written. */
  readonly left: number;
  /** For how many of these `problems` has no reason. */
  readonly untold: number;
  /** Whom the target has refused to create. Somebody of that name may be there. */
  readonly notCreated: readonly { readonly kind: Kind; readonly name: string }[];
  /** Why the rest was not tried. Absent: everything was. */
  readonly stopped?: string | undefined;
}

/** How many problems are told. */
const told = 20;

/** How often in a row a target may not answer, before the rest is left to the next run. */
const patience = 5;

/** How long to wait before a change is tried again whose outcome is not known, in milliseconds. The target has tried itself. */
const pause = 500;

/** Writes the changes of a plan to a target one by one (decision 6), in phases, several at a time. */
export async function writeChanges(options: WritingOptions): Promise<Written> {
  const { target, declared, connection } = options;
  await connection.run(
    `CREATE OR REPLACE TEMP TABLE sent_value (kind VARCHAR, id VARCHAR, sent VARCHAR, changed VARCHAR, answered VARCHAR, before VARCHAR);
    CREATE OR REPLACE TEMP TABLE unlisted AS SELECT kind, id, name FROM remote_known ANTI JOIN remote_object USING (kind, id)`,
  );
  const [unlisted] = await connection.rows("FROM unlisted LIMIT 1");
  const writer = new Writer(options, unlisted !== undefined);
  for (const phase of phasesOf({ declared, membersPerChange: target.abilities.membersPerChange })) {
    for await (const page of pagesOf(connection, phase)) {
      await writer.writeAll(page);
      if (writer.isOver) return writer.result;
    }
  }
  return writer.result;
}

class Writer {
  readonly #options: WritingOptions;
  /** Whether the ledger knows objects that the target did not list. */
  readonly #hasUnlisted: boolean;
  readonly #problems = new Set<string>();
  #written = 0;
  #left = 0;
  #untold = 0;
  readonly #notCreated: { readonly kind: Kind; readonly name: string }[] = [];
  #unanswered = 0;
  #stopped: string | undefined;
  /** An error that ends the run, such as a lost lease. */
  #failure: { readonly error: unknown } | undefined;
  /** When the next change may be written, of `performance.now()`. */
  #next = 0;
  #unrecorded: Unrecorded[] = [];
  #recorded: Promise<void> = Promise.resolve();

  constructor(options: WritingOptions, hasUnlisted: boolean) {
    this.#options = options;
    this.#hasUnlisted = hasUnlisted;
  }

  get isOver(): boolean {
    return this.#stopped !== undefined || this.#failure !== undefined;
  }

  get result(): Written {
    return {
      written: this.#written,
      left: this.#left,
      untold: this.#untold,
      problems: [...this.#problems],
      notCreated: this.#notCreated,
      stopped: this.#stopped,
    };
  }

  /** Resolves once every one was written, or was not and is told. @throws what ends the run */
  async writeAll(writes: readonly PlannedWrite[]): Promise<void> {
    const { abilities } = this.#options.target;
    const waiting = writes.values();
    const workers = Array.from({ length: abilities.concurrency }, async () => {
      for (const each of waiting) {
        if (this.#isStopped()) return;
        await this.#write(each).catch((error: unknown) => {
          this.#failure ??= { error };
        });
      }
    });
    await Promise.all(workers);
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #isStopped(): boolean {
    if (this.#options.stop.aborted) this.#stopped ??= "it was stopped";
    return this.isOver;
  }

  /** Writes one change, unless it may not be. @throws when nothing may be written any more */
  async #write(write: PlannedWrite): Promise<void> {
    const { signal, sending, progress } = this.#options;
    await this.#turn();
    if (this.#isStopped()) return;
    signal.throwIfAborted();
    sending?.();
    try {
      await this.#attempt(write);
      this.#unanswered = 0;
      this.#written++;
      progress(this.#written);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ObjectRefusedError) this.#leaveRefused(write, error);
      else if (error instanceof UnavailableError) this.#leaveUnanswered(write, error);
      else throw error;
    }
  }

  #leave({ change, kind, name }: PlannedWrite, reason: string): void {
    this.#left++;
    const words = { create: "created", update: "updated", delete: "deleted", members: "given its members" };
    const problem = `${kind} ${formatName(name)}: not ${words[change.action]}: ${reason}`;
    if (this.#problems.size < told || this.#problems.has(problem)) this.#problems.add(problem);
    else this.#untold++;
  }

  #leaveRefused(write: PlannedWrite, error: ObjectRefusedError): void {
    this.#leave(write, messageOf(error));
    const { change, kind, name } = write;
    if (change.action === "create") this.#notCreated.push({ kind, name });
  }

  #leaveUnanswered(write: PlannedWrite, error: UnavailableError): void {
    this.#leave(write, messageOf(error));
    if (++this.#unanswered >= patience)
      this.#stopped ??= `the target did not answer ${formatNumber(this.#unanswered)} changes in a row: ${messageOf(error)}`;
  }

  /** Tries again what may have arrived: it is the same the second time, except that a create could be two. */
  async #attempt(write: PlannedWrite): Promise<void> {
    try {
      await this.#send(write);
    } catch (error) {
      if (write.change.action === "create" || this.#options.stop.aborted) throw error;
      // It has another version: perhaps by this very change, whose first answer was lost.
      const isStale = error instanceof ObjectRefusedError && error.status === 412;
      if (!isStale) {
        if (!(error instanceof UnavailableError) || this.#unanswered > 0) throw error;
        await delay(pause, undefined, { signal: this.#options.signal });
      }
      await this.#send(write);
    }
  }

  async #send(write: PlannedWrite): Promise<void> {
    const { target, signal } = this.#options;
    const { change } = write;
    if (change.action === "members") await this.#rememberMembers(change, true);
    if (change.action === "create" && this.#hasUnlisted && (await this.#isThere(write, change))) return;
    if (change.action === "create" || change.action === "members") {
      const stored = await target.write(change, signal);
      if (change.action === "create" && stored !== undefined) await this.#assertNew(change, stored);
      return this.#remember(write, stored);
    }
    const now = await target.current(change.kind, change.id, signal);
    if (now === undefined) {
      if (change.action === "delete") return this.#remember(write, undefined);
      throw new ObjectRefusedError("it is gone from the target since the plan was made");
    }
    const isWritten = change.action === "update" && this.#text(now) === this.#wholeText(change);
    if (isWritten) return this.#remember(write, now);
    const { name, attributes } = write.was ?? { name: "", attributes: "{}" };
    const [before, after] = [attributes, this.#text(now)].map((text): unknown => JSON.parse(text));
    const changed = differingKeys(before, after);
    if (now.name !== name || changed.length > 0)
      throw new ObjectRefusedError(
        `it has changed in the target since the plan was made: ${changed.length === 0 ? "name" : changed.join(", ")}`,
      );
    return this.#remember(write, await target.write({ ...change, version: now.version }, signal));
  }

  /**
   * Whether the sync has made the object already, and the target gives it by its id: lists may be late, and a second one would
   * be another.
   * @throws {ObjectRefusedError} it is there, and not as it is to be
   */
  async #isThere(write: PlannedWrite, change: Change<"create">): Promise<boolean> {
    const { connection, target, signal } = this.#options;
    const { kind, name } = change;
    const known = await connection.rows<{ id: string }>(
      `SELECT id FROM unlisted WHERE kind = ${literal(kind)} AND name = ${literal(name)}`,
    );
    for (const { id } of known) {
      const now = await target.current(kind, id, signal);
      if (now === undefined) continue;
      await this.#remember(write, now);
      if (this.#text(now) === this.#text(change)) return true;
      throw new ObjectRefusedError(
        `the target has it (id ${formatName(id)}), and does not list it: its lists may be late, or leave some out`,
      );
    }
    return false;
  }

  /**
   * Some targets answer a creation with an account that has the same e-mail address, say. That one is not the sync's.
   * @throws {ObjectRefusedError} the object has another name, and was there before
   */
  async #assertNew({ kind, name }: Change<"create">, stored: RemoteObject): Promise<void> {
    if (withoutCase(stored.name) === withoutCase(name)) return;
    const [was] = await this.#options.connection.rows<{ name: string }>(
      `SELECT name FROM remote_name WHERE kind = ${literal(kind)} AND id = ${literal(stored.id)}`,
    );
    if (was === undefined) return;
    throw new ObjectRefusedError(
      `the target answered with the ${kind} ${formatName(was.name)} (id ${formatName(stored.id)}), which was there before: it is left alone. If both are the same, give one the name of the other, in the target or by the rule for name`,
    );
  }

  #text({ kind, attributes }: Pick<RemoteObject, "kind" | "attributes">): string {
    return attributesText(this.#options.declared, kind, attributes);
  }

  #wholeText({ kind, whole }: Change<"update">): string {
    return this.#text({ kind, attributes: whole });
  }

  /** Writes down what the target has now: what comes later finds who was created by the id. */
  #remember(write: PlannedWrite, stored: RemoteObject | undefined): Promise<void> {
    const { change, name } = write;
    if (change.action === "members") return this.#rememberMembers(change, false);
    if (change.action === "delete") return this.#record({ gone: { kind: change.kind, id: change.id, name } });
    const id = change.action === "create" ? stored?.id : change.id;
    if (id === undefined || id === "")
      throw new UnavailableError("the target says that it was created, and gives no id for it");
    const { kind } = change;
    const sent = change.action === "create" ? this.#text(change) : this.#wholeText(change);
    const changed = JSON.stringify(Object.keys(change.attributes));
    const answered = stored === undefined ? null : this.#text(stored);
    const before = write.was?.attributes ?? null;
    const created = change.action === "create" ? { kind, id, name } : undefined;
    return this.#record({ created }, { kind, id, sent, changed, answered, before });
  }

  /** Where the target does not say who is in a group. */
  async #rememberMembers(change: Change<"members">, isPending: boolean): Promise<void> {
    if (this.#options.target.abilities.readsMembers) return;
    await this.#record({ members: { ...change, isPending } });
  }

  /** Resolves once it is written down: what comes meanwhile is written with the next. */
  #record(remembered: Remembered, sent?: Sent): Promise<void> {
    this.#unrecorded.push({ remembered, sent });
    this.#recorded = this.#recorded.then(() => this.#recordAll());
    return this.#recorded;
  }

  async #recordAll(): Promise<void> {
    const all = this.#unrecorded;
    if (all.length === 0) return;
    this.#unrecorded = [];
    await this.#options.connection.run(all.flatMap(workbenchSql).join("; "));
    const news = all
      .map(({ remembered }) => remembered)
      .filter(({ created, gone, members }) => created ?? gone ?? members);
    if (news.length > 0) await this.#options.ledger.remember(news);
  }

  /** Waits until the target takes another change. */
  async #turn(): Promise<void> {
    const { target, signal, stop } = this.#options;
    const { perMinute } = target.abilities;
    if (perMinute === undefined) return;
    const now = performance.now();
    const at = Math.max(now, this.#next);
    this.#next = at + 60_000 / perMinute;
    await delay(at - now, undefined, { signal: AbortSignal.any([signal, stop]) }).catch(() => undefined);
  }
}

/** What was written, and what is still to be written down of it. */
interface Unrecorded {
  readonly remembered: Remembered;
  readonly sent?: Sent | undefined;
}

/** The attributes of an object, as `attributesText` gives them: as they are to be, answered, and from before. */
interface Sent {
  readonly kind: Kind;
  readonly id: string;
  readonly sent: string;
  /** JSON of the names of those that the change has. */
  readonly changed: string;
  readonly answered: string | null;
  /** NULL: it is created. */
  readonly before: string | null;
}

/** SQL of what later phases and the verification read of it. */
function workbenchSql({ remembered: { created, members }, sent }: Unrecorded): string[] {
  const statements = ["SELECT 1"];
  if (created !== undefined) {
    const { kind, id, name } = created;
    statements.push(`INSERT INTO remote_name SELECT *, true FROM (VALUES ${row(kind, id, name)})`);
  }
  if (sent !== undefined) {
    const { kind, id, changed, answered, before } = sent;
    statements.push(`INSERT INTO sent_value VALUES ${row(kind, id, sent.sent, changed, answered, before)}`);
  }
  if (members === undefined) return statements;
  const { group, add, remove, isPending } = members;
  const all = [...(isPending ? [] : remove), ...add].map(({ id }) => literal(id)).join(", ");
  if (all === "") return statements;
  statements.push(`DELETE FROM remote_member_known WHERE grp = ${literal(group)} AND member IN (${all})`);
  const added = add.map(({ id, kind = "user" }) => row(group, kind, id));
  if (added.length > 0)
    statements.push(`INSERT INTO remote_member_known SELECT *, ${isPending} FROM (VALUES ${added.join(", ")})`);
  return statements;
}

function row(...values: readonly (string | null)[]): string {
  return `(${values.map((each) => (each === null ? "NULL" : literal(each))).join(", ")})`;
}
