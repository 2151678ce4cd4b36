import type { IncomingMessage, ServerResponse } from "node:http";
import { serve, type ScimDirectory, type ScimResource, type ScimServer, type ScimServerOptions } from "./scim.ts";

/** What servers in the field do that the library of `scim.ts` does not. */
export interface Quirks {
  /** Cursors instead of startIndex (RFC 9865). */
  readonly cursors?: boolean;
  /** What it gives at a time, whatever is asked for. */
  readonly largestPage?: number;
  /** So many members of a group at most. */
  readonly memberLimit?: number;
  /** Lists of groups are without members. */
  readonly noMembersInLists?: boolean;
  /** `startIndex` and `count` page the members of one group. */
  readonly memberPages?: boolean;
  /** Does not tell how many there are. */
  readonly noTotals?: boolean;
}

/** A SCIM server that pages as `quirks` say, below `/scim/v2`. */
export function startPagedScim(
  directory: ScimDirectory,
  quirks: Quirks = {},
  options: ScimServerOptions = {},
): Promise<ScimServer> {
  const send = (response: ServerResponse, status: number, body: object): void => {
    response.writeHead(status, { "content-type": "application/scim+json" }).end(JSON.stringify(body));
  };

  const app = (request: IncomingMessage, response: ServerResponse): void => {
    const expected = options.authorization?.();
    if (expected !== undefined && request.headers.authorization !== expected) {
      send(response, 401, { status: "401", detail: `Not with ${request.headers.authorization}` });
      return;
    }
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://localhost");
    const [type = "", id] = pathname.split("/").slice(3);
    if (type === "ServiceProviderConfig") {
      send(response, 200, {
        filter: { supported: true, maxResults: quirks.largestPage ?? 1_000 },
        pagination: { cursor: quirks.cursors === true, index: quirks.cursors !== true },
      });
      return;
    }
    const all = type === "Users" ? directory.users : type === "Groups" ? directory.groups : [];
    if (id === undefined) send(response, 200, listOf(all, searchParams, quirks));
    else {
      const found = all.find((resource) => resource.id === decodeURIComponent(id));
      if (found === undefined) send(response, 404, { status: "404", detail: `no ${id}` });
      else send(response, 200, membersOf(found, searchParams, quirks));
    }
  };
  return serve(app, directory, options);
}

function listOf(all: readonly ScimResource[], query: URLSearchParams, quirks: Quirks): object {
  const cursor = query.get("cursor");
  const start =
    quirks.cursors === true ? Number(cursor?.replace("after-", "")) : Number(query.get("startIndex") ?? 1) - 1;
  const end = start + Math.min(Number(query.get("count") ?? 100), quirks.largestPage ?? 1_000);
  const limit = quirks.noMembersInLists === true ? 0 : quirks.memberLimit;
  return {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
    ...(quirks.noTotals === true ? {} : { totalResults: all.length }),
    ...(quirks.cursors === true
      ? end < all.length
        ? { nextCursor: `after-${end}` }
        : {}
      : { startIndex: start + 1, itemsPerPage: end - start }),
    Resources: all.slice(start, end).map((resource) => {
      if (limit === undefined || !("members" in resource)) return resource;
      const { members, ...rest } = resource;
      return limit === 0 ? rest : { ...rest, members: (members as unknown[]).slice(0, limit) };
    }),
  };
}

function membersOf(resource: ScimResource, query: URLSearchParams, { memberLimit, memberPages }: Quirks): object {
  if (!("members" in resource)) return resource;
  const members = resource["members"] as unknown[];
  const start = memberPages === true ? Number(query.get("startIndex") ?? 1) - 1 : 0;
  const count = memberPages === true ? Number(query.get("count") ?? 100) : Infinity;
  return { ...resource, members: members.slice(start, start + Math.min(count, memberLimit ?? Infinity)) };
}
