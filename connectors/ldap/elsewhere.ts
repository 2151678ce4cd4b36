import { IncompleteReadError } from "#errors.ts";
import { dnKey } from "./dn.ts";
import { type Query, search } from "./search.ts";
import { openSessionTo, type Session } from "./session.ts";
import { type LdapUrl, parseReference, type Reference } from "./url.ts";

/** Entries, and the session that further questions about them belong to. */
export interface Batch {
  readonly session: Session;
  readonly entries: readonly Buffer[];
}

/** From server to server, and no further. */
const deepest = 5;

/**
 * Everything that a query finds, also what the server says is on others: those that are listed are asked, with the same
 * login.
 * @throws {IncompleteReadError} when a part is on a server that is not listed
 * @throws what `search` and `openSessionTo` throw
 */
export async function* searchEverywhere(
  session: Session,
  query: Query,
  visited: ReadonlySet<string> = new Set(),
): AsyncGenerator<Batch> {
  for await (const found of search(session, query)) {
    if ("entries" in found) {
      yield { session, entries: found.entries };
      continue;
    }
    for (const text of found.elsewhere) {
      const reference = parseReference(text);
      if (reference !== undefined && isLeftOut(reference, session)) continue;
      const server = reference === undefined ? undefined : listed(reference, session);
      if (reference === undefined || server === undefined) throw unlisted(text, session, query);
      const next = { ...query, base: reference.base === "" ? query.base : reference.base, ...scopeOf(reference) };
      const place = `${server.text} ${next.scope} ${dnKey(next.base)}`;
      if (visited.has(place) || visited.size >= deepest) {
        throw new IncompleteReadError(
          `${session.place}: search for ${query.what}: the references to ${text} go in a circle`,
        );
      }
      const other = await openSessionTo(server, session.origin);
      try {
        yield* searchEverywhere(other, next, new Set([...visited, place]));
      } finally {
        await other.close();
      }
    }
  }
}

function scopeOf({ scope }: Reference): Partial<Pick<Query, "scope">> {
  return scope === undefined ? {} : { scope };
}

/** Parts of every Active Directory that are on all its servers and hold neither users nor groups. */
const administrative = /^(?:cn=configuration|cn=schema,cn=configuration|dc=(?:domain|forest)dnszones),dc=/;

function isLeftOut({ server, base }: Reference, { options }: Session): boolean {
  const host = server.host.toLowerCase();
  return administrative.test(dnKey(base)) || options.referrals.ignore.some((one) => one.toLowerCase() === host);
}

/** The address in the options is used, not the server's: it says how to protect the login. */
function listed({ server }: Reference, { options }: Session): LdapUrl | undefined {
  return options.referrals.follow.find(
    ({ scheme, host, port }) =>
      host.toLowerCase() === server.host.toLowerCase() && (scheme !== server.scheme || port === server.port),
  );
}

function unlisted(text: string, session: Session, query: Query): IncompleteReadError {
  return new IncompleteReadError(
    `${session.place}: search for ${query.what}: a part is at ${text}; add its server to referrals.follow (or its host to referrals.ignore, if nothing there is in scope)`,
  );
}
