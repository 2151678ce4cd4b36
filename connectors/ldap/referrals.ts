import { IncompleteReadError, UnavailableError } from "#errors.ts";
import { dnKey, isWithin } from "#principals/dn.ts";
import { parseReference } from "./options.ts";
import type { LdapUrl, Options, Reference } from "./options.ts";
import { locate, missingBase, search } from "./search.ts";
import type { Alternatives, Query } from "./search.ts";
import { openSessionTo } from "./session.ts";
import type { Session } from "./session.ts";

/** Entries, and the session with the server that holds them. */
export interface Batch {
  readonly session: Session;
  readonly entries: readonly Buffer[];
}

/** What the searches for one kind of entries share. */
export interface Trail {
  /** Keys of bases inside that of the query, which are searched by themselves. */
  readonly inner?: readonly string[] | undefined;
  /** Servers and places that were referred to and are read: two bases may refer to one. */
  readonly followed: Set<string>;
}

/** A chain of references through more servers than this fails the read. */
const longestChain = 5;

/**
 * Everything that a query finds, following references to the servers in `referrals.follow`, with the same login. On each
 * server the base is looked at before and after.
 * @throws {IncompleteReadError} the base does not exist, or a reference to a server that is not listed
 * @throws what `search` and `openSessionTo` throw
 */
export async function* searchWithReferrals(
  session: Session,
  query: Query,
  trail: Trail = { followed: new Set() },
  chain: readonly string[] = [],
): AsyncGenerator<Batch> {
  const location = await locate(session, query);
  let isReferred = false;
  for await (const found of search(session, query)) {
    if ("entries" in found) {
      yield { session, entries: found.entries };
      continue;
    }
    isReferred = true;
    for (const urls of found.references) {
      const targets = targetsOf(urls, session, query, trail);
      const places = targets.map(({ place }) => place);
      if (targets.length === 0) continue;
      if (places.some((place) => chain.includes(place)) || chain.length >= longestChain) {
        throw new IncompleteReadError(
          `${session.place}: search for ${query.what}: the references to ${urls.join(" or ")} form a loop`,
        );
      }
      if (places.some((place) => trail.followed.has(place))) continue;
      for (const place of places) trail.followed.add(place);
      const { other, target } = await openFirst(targets, session);
      await using opened = other;
      yield* searchWithReferrals(opened, target.query, trail, [...chain, ...places.slice(0, 1)]);
    }
  }
  if (location === "elsewhere" && !isReferred) throw missingBase(session, query);
  // It may have been moved away since it was looked at.
  if (location === "here") await locate(session, query);
}

/** A server to follow a reference to, and what to search there. */
interface Target {
  readonly server: LdapUrl;
  readonly query: Query;
  /** The same for the same part of the same server. */
  readonly place: string;
}

/** @returns none where the reference is ignored, or leads into a base that is searched by itself */
function targetsOf(urls: Alternatives, session: Session, query: Query, { inner = [] }: Trail): readonly Target[] {
  const references = urls.map(parseReference);
  const others = references.filter((reference) => reference === undefined || !isIgnored(reference, session.options));
  const targets = others.flatMap((reference): Target[] => {
    const server = reference === undefined ? undefined : serverToFollow(reference, session);
    if (reference === undefined || server === undefined) return [];
    const base = reference.base === "" ? query.base : reference.base;
    const next = { ...query, base, ...scopeOf(reference) };
    return [{ server, query: next, place: `${server.text} ${next.scope} ${dnKey(base)}` }];
  });
  if (targets.length === 0 && others.length === references.length) {
    throw unknownReferral(urls.join(" or "), session, query);
  }
  return targets.filter((target) => !inner.some((base) => isWithin(dnKey(target.query.base), base)));
}

/** A session with the first of the servers that answers. */
async function openFirst(targets: readonly Target[], { origin }: Session): Promise<{ other: Session; target: Target }> {
  const failures: UnavailableError[] = [];
  for (const target of targets) {
    try {
      return { other: await openSessionTo(target.server, origin), target };
    } catch (error) {
      origin.context.signal.throwIfAborted();
      if (!(error instanceof UnavailableError)) throw error;
      failures.push(error);
      if (targets.length > 1) origin.context.warn(error.message);
    }
  }
  throw failures[0] ?? new UnavailableError("no server to follow");
}

function scopeOf({ scope }: Reference): Partial<Pick<Query, "scope">> {
  return scope === undefined ? {} : { scope };
}

/** Partitions of Active Directory that hold neither users nor groups. */
const administrative = /^(?:cn=configuration|cn=schema,cn=configuration|dc=(?:domain|forest)dnszones),dc=/;

/** Whether what a reference leads to is out of scope. */
export function isIgnored({ server, base }: Reference, options: Options): boolean {
  const host = server.host.toLowerCase();
  return administrative.test(dnKey(base)) || options.referrals.ignore.some((one) => one.toLowerCase() === host);
}

/** The URL in the options, not the reference's: it says how to protect the login. */
function serverToFollow({ server }: Reference, { options }: Session): LdapUrl | undefined {
  return options.referrals.follow.find(
    ({ scheme, host, port }) =>
      host.toLowerCase() === server.host.toLowerCase() && (scheme !== server.scheme || port === server.port),
  );
}

function unknownReferral(text: string, session: Session, query: Query): IncompleteReadError {
  return new IncompleteReadError(
    `${session.place}: search for ${query.what}: a part is at ${text}; add its server to referrals.follow (or its host to referrals.ignore, if nothing there is in scope)`,
  );
}
