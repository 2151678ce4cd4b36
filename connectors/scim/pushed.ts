import { setTimeout as delay } from "node:timers/promises";
import type { Entry, InboxSettings, MemberReference, OpenContext, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { InboxReader } from "#state/inbox/reader.ts";
import type { InboxKind, Member, StoredResource } from "#state/inbox/resources.ts";
import { brakeLine, firstCycleUntil, inboxStatus, pushedSince, readyAt } from "#state/inbox/status.ts";
import type { Pushed, SeenPushes } from "#state/inbox/status.ts";
import { pluralize } from "#text.ts";
import { durationAsWritten } from "#values.ts";
import { entryOf, membersOf, objectOf } from "./resource.ts";
import type { EntryOptions } from "./resource.ts";

/** How many resources, or members of a group, are read at a time. */
const page = 1_000;

/** How often a waiting read looks again at least, in milliseconds. */
const longestNap = 30_000;

/** What was pushed to one source. */
export class Pushing {
  readonly #source: string;
  readonly #settings: InboxSettings;
  readonly #inboxes: OpenContext["inboxes"];

  constructor({ name, inboxes }: OpenContext, settings: InboxSettings) {
    this.#source = name;
    this.#settings = settings;
    this.#inboxes = inboxes;
  }

  /**
   * Users and groups as of one moment, once no push has come for `settle`.
   * @throws {IncompleteReadError} nothing was ever pushed
   */
  async *read(context: ReadContext, options: EntryOptions): AsyncGenerator<readonly SourceRecord[]> {
    const { signal, warn } = context;
    signal.throwIfAborted();
    if (context.waiting !== undefined) await this.#settled(signal, context.waiting);
    // A transaction is a call, and a read a sequence: one batch at a time goes from the one to the other.
    const { readable, writable } = new TransformStream<readonly SourceRecord[], readonly SourceRecord[]>();
    const writer = writable.getWriter();
    const done = this.#read(async (inbox) => {
      const { last } = await inbox.activity();
      if (last === undefined) throw this.#never();
      for (const kind of ["user", "group"] as const) {
        for await (const records of this.#records(inbox, kind, options)) {
          signal.throwIfAborted();
          await writer.ready;
          await writer.write(records);
        }
      }
      const strays = await inbox.strayMembers();
      if (strays > 0)
        warn(
          `source ${this.#source}: ${pluralize(strays, "membership")} of ids that were never pushed, which put nobody into a group`,
        );
    }).then(
      () => writer.close(),
      (error: unknown) => writer.abort(error),
    );
    // A reader that stopped early need not hear of the failure.
    done.catch(() => undefined);
    yield* readable;
    await done;
  }

  /** Differs whenever a read may deliver something else, or absence begins to count. */
  version(): Promise<string> {
    return this.#read(async (inbox) => {
      const { revision } = await inbox.activity();
      const end = await firstCycleUntil(inbox, this.#settings, await inbox.now());
      return `${revision} ${end === undefined ? "whole" : "first cycle"}`;
    });
  }

  pushed(seen: SeenPushes, now: number): Promise<Pushed> {
    return this.#read((inbox) => pushedSince(inbox, this.#settings, seen, now));
  }

  /** Lines for a person: what arrived when, and what it waits for. */
  describe(): Promise<readonly string[]> {
    const { settle, firstCycle } = this.#settings;
    return this.#read(async (inbox) => {
      const status = await inboxStatus(inbox, this.#source, this.#settings, await inbox.now());
      const { last, tokens, losses, waitsUntil: ready, firstCycleUntil: end } = status;
      if (last === undefined) throw this.#never();
      return [
        `an inbox, pushed to last at ${last}`,
        ...tokens.flatMap(({ name, used }) => (used === undefined ? [] : [`token ${name}: last used at ${used}`])),
        ...losses.map(brakeLine),
        ...(ready === undefined
          ? []
          : [`a run waits until ${ready}: it reads the inbox once no push has come for ${durationAsWritten(settle)}`]),
        ...(end === undefined
          ? []
          : [
              `first cycle: nobody is deleted for being absent before ${end}; it ends when no new user has come for ${durationAsWritten(firstCycle)}`,
            ]),
      ];
    });
  }

  /** Waits until it may be read. */
  async #settled(signal: AbortSignal, waiting: (message: string) => void): Promise<void> {
    for (let isTold = false; ;) {
      const { last, now, until } = await this.#read(async (inbox) => {
        const now = await inbox.now();
        return { last: (await inbox.activity()).last ?? 0, now, until: await readyAt(inbox, this.#settings, now) };
      });
      if (until <= now) return;
      if (!isTold)
        waiting(
          `source ${this.#source}: waits until no push has come for ${durationAsWritten(this.#settings.settle)}; the last came at ${iso(last)}`,
        );
      isTold = true;
      await delay(Math.min(until - now, longestNap), undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }

  async *#records(inbox: InboxReader, kind: InboxKind, options: EntryOptions): AsyncGenerator<readonly SourceRecord[]> {
    for (let after = 0; ;) {
      const stored = await inbox.page(kind, { after, limit: page });
      const entries = stored.map((each) => this.#entryOf(each, options));
      if (entries.length > 0) yield entries;
      if (kind === "group" && options.memberships !== "groups")
        for (const entry of entries) yield* membershipsOf(inbox, entry);
      if (stored.length < page) return;
      after = stored.at(-1)?.number ?? after;
    }
  }

  #entryOf({ kind, id, document }: StoredResource, options: EntryOptions): Entry {
    const resource = objectOf({ ...document, id, groups: undefined, members: undefined }) ?? {};
    return entryOf(kind, resource, `${kind} ${id} pushed to ${this.#source}`, options);
  }

  #never(): IncompleteReadError {
    return new IncompleteReadError(
      `source ${this.#source}: nothing was pushed to it yet; give the provider the address /scim/v2/${encodeURIComponent(this.#source)} of this Rollcall, and a token (\`rollcall inbox token add ${this.#source}\`)`,
    );
  }

  #read<Result>(work: (inbox: InboxReader) => Promise<Result>): Promise<Result> {
    if (this.#inboxes === undefined)
      throw new InputError(`source ${this.#source}: there is no state here that has what was pushed`);
    return this.#inboxes.read(this.#source, work);
  }
}

async function* membershipsOf(inbox: InboxReader, { id, origin }: Entry): AsyncGenerator<readonly SourceRecord[]> {
  for (let after = ""; ;) {
    const members = await inbox.members(id, { after, limit: page });
    if (members.length > 0)
      yield members.map((each) => ({ kind: "membership", group: id, member: referenceOf(each, origin), origin }));
    if (members.length < page) return;
    after = members.at(-1)?.id ?? after;
  }
}

function referenceOf({ id, document }: Member, origin: string): MemberReference {
  const [member] = membersOf({ members: [{ ...document, value: id }] }, origin);
  return member as MemberReference;
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
