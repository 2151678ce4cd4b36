import { PagedResultsControl, SearchRequest } from "ldapts";
import { IncompleteReadError, RollcallError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { formatDuration } from "#text.ts";
import type { Receiver } from "./connection.ts";
import { isAlias } from "./entries.ts";
import { codes, connectionError, resultError } from "./errors.ts";
import { parseFilter } from "./filter.ts";
import { enter, MalformedError, readResult, readText, readTexts, tags } from "./message.ts";
import type { Cursor, Result } from "./message.ts";
import { partOptions } from "./options.ts";
import type { Options } from "./options.ts";
import type { Session } from "./session.ts";

/** One search (RFC 4511, 4.5). */
export interface Query {
  readonly base: string;
  readonly scope: "sub" | "one" | "base";
  readonly filter: string;
  readonly attributes: readonly string[];
  /** Entries per page; undefined: no paging. */
  readonly pageSize?: number | undefined;
  /** For messages: `users below ou=people,dc=example,dc=com`. */
  readonly what: string;
}

/** Where only names matter. Some servers answer `1.1`, which asks for no attribute, with everything or with nothing. */
export const anyAttribute = "objectclass";

/** Groups are read in smaller pages: one may have thousands of members. */
const groupsPerPage = 200;

/** The search for users or groups below one base. */
export function queryOf(kind: Kind, options: Options, base: string, attributes: readonly string[]): Query {
  const { filter, scope } = partOptions(kind, options);
  const pageSize = kind === "group" ? Math.min(groupsPerPage, options.pageSize) : options.pageSize;
  return { base, scope, filter, attributes, pageSize, what: `${kind}s below ${base}` };
}

/** Entries of a search, as the messages they came in, or the URLs of servers that hold more of them. */
export type Found = { readonly entries: readonly Buffer[] } | { readonly references: readonly Alternatives[] };

/** URLs of servers that each hold the same part. */
export type Alternatives = readonly string[];

/** Entries are handed on when there are so many bytes of them, or the page ends: a few at a time would cost more. */
const atOnce = 64 * 1024;

/** So many empty pages in a row mean that the server will never end. */
const mostEmptyPages = 100;

/**
 * Everything that a query finds on one server, page by page; the next page is requested while one is processed. Ends
 * only when the server has said that there are no more pages. References are delivered, not followed.
 * @throws {IncompleteReadError} a limit of the server, a base that does not exist, or pages that repeat
 * @throws {RefusedError} the account may not search there
 * @throws {UnavailableError} the connection is lost, or takes too long
 */
export async function* search(session: Session, query: Query): AsyncGenerator<Found> {
  const { pageSize } = query;
  const { received, paged } = yield* allPages(session, query);
  if (received === pageSize && !paged) await proveUnpaged(session, query, pageSize);
}

/** What the server sends, up to its SearchResultDone without a cookie. */
async function* allPages(session: Session, query: Query): AsyncGenerator<Found, Pick<Pages, "received" | "paged">> {
  const { signal } = session.origin.context;
  const pages = new Pages(session, query);
  const timer = setTimeout(() => {
    const { search } = session.options.limits;
    pages.fail(
      new IncompleteReadError(`${titleOf(session, query)}: not done after ${formatDuration(search)} (limits.search)`),
    );
  }, session.options.limits.search);
  try {
    for (;;) {
      signal.throwIfAborted();
      const found = await pages.next();
      if (found === undefined) return pages;
      yield found;
    }
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof RollcallError
      ? error
      : connectionError(`${titleOf(session, query)}, after ${pages.received} entries`, error, session.url);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * The answer had exactly a page of entries and no paging control. Either the server does not page and this is all, or a
 * proxy removed the control and there is more: a page that is larger by one tells.
 */
async function proveUnpaged(session: Session, query: Query, size: number): Promise<void> {
  const more = await collect(session, allPages(session, { ...query, attributes: [anyAttribute], pageSize: size + 1 }));
  if (more.length === size) return;
  throw new IncompleteReadError(
    `${titleOf(session, query)}: sent a page of ${size} entries without saying whether there are more`,
  );
}

/**
 * Looks at the base of a search. Some servers answer a paged search below a base that does not exist, or that is offline,
 * with success and no entries.
 * @returns whether it is on this server, or the server refers to another one
 * @throws {IncompleteReadError} it is neither, or stands for another entry: a search below it finds nothing
 */
export async function locate(session: Session, { base, what }: Pick<Query, "base" | "what">): Promise<Location> {
  const query: Query = { base, what, scope: "base", filter: "(objectClass=*)", attributes: [anyAttribute] };
  let location: Location | undefined;
  await session.connection.withoutBackpressure(async () => {
    for await (const found of allPages(session, query)) {
      if ("entries" in found && found.entries.some(isAlias)) throw aliasBase(session, query);
      location = "entries" in found ? "here" : (location ?? "elsewhere");
    }
  });
  if (location === undefined) throw missingBase(session, query);
  return location;
}

export type Location = "here" | "elsewhere";

function aliasBase(session: Session, { base, what }: Query): IncompleteReadError {
  return new IncompleteReadError(
    `${titleOf(session, { what })}: ${base} is an alias, and aliases aren't followed; write the name of the entry it stands for (its aliasedObjectName)`,
  );
}

/** @param upTo the part of the name that exists, where the server says so */
export function missingBase(session: Session, query: Pick<Query, "base" | "what">, upTo = ""): IncompleteReadError {
  const known = upTo === "" ? "" : `; what exists is ${upTo}`;
  return new IncompleteReadError(
    `${titleOf(session, query)}: ${query.base} does not exist, or may not be seen by this login${known}`,
  );
}

/** The few entries that a query finds, whatever other searches hold back on the connection. */
export async function lookUp(session: Session, query: Query): Promise<readonly Buffer[]> {
  return collect(session, search(session, query));
}

function collect(session: Session, pages: AsyncIterable<Found>): Promise<readonly Buffer[]> {
  return session.connection.withoutBackpressure(async () => {
    const entries: Buffer[] = [];
    for await (const found of pages) if ("entries" in found) entries.push(...found.entries);
    return entries;
  });
}

/** Requests the pages of a search, and receives them. */
class Pages implements Receiver {
  readonly #session: Session;
  readonly #query: Query;
  readonly #control: PagedResultsControl | undefined;
  readonly #request: SearchRequest;
  /** The first entry of each page. */
  readonly #firsts = new Set<string>();
  #entries: Buffer[] = [];
  #bytes = 0;
  #references: Alternatives[] = [];
  #received = 0;
  #receivedBefore = 0;
  #emptyPages = 0;
  #paged = false;
  #state: "open" | "done" | { readonly error: unknown } = "open";
  #wake: (() => void) | undefined;

  constructor(session: Session, query: Query) {
    this.#session = session;
    this.#query = query;
    const { pageSize: size } = query;
    this.#control = size === undefined ? undefined : new PagedResultsControl({ value: { size } });
    this.#request = new SearchRequest({
      messageId: 0,
      baseDN: query.base,
      scope: query.scope,
      filter: parseFilter(query.filter),
      attributes: [...query.attributes],
      timeLimit: 0,
      ...(this.#control && { controls: [this.#control] }),
    });
    session.connection.send(this.#request, this);
  }

  /** The number of entries so far. */
  get received(): number {
    return this.#received;
  }

  /** Whether the server sent a paging control. */
  get paged(): boolean {
    return this.#paged;
  }

  /** What arrived since the last call; undefined at the end. */
  async next(): Promise<Found | undefined> {
    for (;;) {
      if (typeof this.#state === "object") throw this.#state.error;
      if (this.#entries.length > 0) {
        const found = { entries: this.#entries };
        this.#entries = [];
        this.#session.connection.release(this.#bytes);
        this.#bytes = 0;
        return found;
      }
      if (this.#references.length > 0) {
        const found = { references: this.#references };
        this.#references = [];
        return found;
      }
      if (this.#state === "done") return undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  fail(error: unknown): void {
    if (this.#state === "open") this.#state = { error };
    this.#wake?.();
  }

  receive(operation: number, cursor: Cursor): boolean {
    if (this.#state !== "open") return operation === tags.searchDone;
    if (operation === tags.searchEntry) {
      this.#takeEntry(cursor);
      if (this.#bytes < atOnce) return false;
    } else if (operation === tags.searchReference) {
      this.#references.push(readTexts(cursor, tags.searchReference));
    } else if (operation === tags.searchDone) {
      try {
        this.#endPage(readResult(cursor));
      } catch (error) {
        this.fail(error);
      }
    } else throw new MalformedError("an answer of another kind than was asked for");
    this.#wake?.();
    return operation === tags.searchDone;
  }

  #takeEntry(cursor: Cursor): void {
    if (this.#received === this.#receivedBefore && this.#control !== undefined) {
      const dn = dnOf(cursor);
      if (this.#firsts.has(dn)) {
        const problem = `the server sent the page that begins with ${dn} twice; did the directory change meanwhile?`;
        this.fail(new IncompleteReadError(`${this.#title}: ${problem}`, { torn: true }));
      }
      this.#firsts.add(dn);
    }
    this.#received += 1;
    this.#entries.push(cursor.bytes);
    this.#bytes += cursor.bytes.length;
    this.#session.connection.hold(cursor.bytes.length);
  }

  /** Asks for the next page, if there is one. */
  #endPage(result: Result): void {
    if (result.code === codes.referral) this.#references.push(result.referrals);
    else if (result.code !== codes.success) throw searchError(this.#session, this.#query, result, this.#received);
    const { cookie } = result;
    if (this.#control === undefined || cookie === undefined || cookie.length === 0) {
      if (this.#paged && cookie === undefined) {
        throw new IncompleteReadError(`${this.#title}: the server stopped paging after ${this.#received} entries`);
      }
      this.#paged ||= cookie !== undefined;
      this.#state = "done";
      return;
    }
    this.#paged = true;
    this.#emptyPages = this.#received === this.#receivedBefore ? this.#emptyPages + 1 : 0;
    if (this.#emptyPages > mostEmptyPages) {
      throw new IncompleteReadError(`${this.#title}: the server sends empty pages without end`);
    }
    this.#receivedBefore = this.#received;
    this.#control.value = { size: this.#query.pageSize ?? 0, cookie };
    this.#session.connection.send(this.#request, this);
  }

  get #title(): string {
    return titleOf(this.#session, this.#query);
  }
}
/** @param cursor at the operation; not moved */
function dnOf({ bytes, at }: Cursor): string {
  const cursor = { bytes, at };
  enter(cursor, tags.searchEntry);
  return readText(cursor);
}

function titleOf({ place }: Session, { what }: Pick<Query, "what">): string {
  return `${place}: search for ${what}`;
}

function searchError(session: Session, query: Query, result: Result, received: number): RollcallError {
  if (result.code === codes.noSuchObject) return missingBase(session, query, result.matchedDn);
  const what = titleOf(session, query);
  return resultError(received === 0 ? what : `${what}, after ${received} entries`, result);
}
