import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { Server, Socket } from "node:net";
import SCIMMY from "scimmy";
import { scimmyApp } from "./scimmy-app.ts";
import { listen, stop, track } from "./scripted-server.ts";

/** The resources of a SCIM server in its order. They can be changed while it runs. */
export interface ScimDirectory {
  users: readonly ScimResource[];
  groups: readonly ScimResource[];
}

export type ScimResource = { readonly id: string } & Readonly<Record<string, unknown>>;

export interface ScimServer {
  readonly url: string;
  readonly directory: ScimDirectory;
  /** Paths and queries, in the order of the requests. */
  readonly requests: readonly string[];
  /** Connections that are open now. */
  readonly open: ReadonlySet<Socket>;
  /** Sees every request first; true if it has answered. Stays until replaced. */
  intercept(answer: Interception): void;
  close(): Promise<void>;
}

type Interception = (request: IncomingMessage, response: ServerResponse) => boolean | Promise<boolean>;

export interface ScimServerOptions {
  /** The expected header `authorization`. Default: anything. */
  readonly authorization?: () => string;
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** An attribute that the standard does not have. */
export const details = "urn:ietf:params:scim:schemas:extension:details:2.0:Group";

/** A SCIM server as the library makes it (RFC 7644), below `/scim/v2`. */
export async function startScim(directory: ScimDirectory, options: ScimServerOptions = {}): Promise<ScimServer> {
  const app = scimmyApp({
    handler: (request) => {
      const expected = options.authorization?.();
      if (expected !== undefined && request.headers.authorization !== expected) throw new Error("Not with that token");
      return "reader";
    },
    context: () => directory,
  });
  return serve(app, directory, options);
}

/** Serves an application so that requests can be watched and intercepted. */
async function serve(
  app: (request: IncomingMessage, response: ServerResponse) => void,
  directory: ScimDirectory,
  { tls }: ScimServerOptions,
): Promise<ScimServer> {
  const requests: string[] = [];
  let interception: Interception = () => false;
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    requests.push(request.url ?? "");
    void (async () => {
      if (!(await interception(request, response))) app(request, response);
    })();
  };
  const server: Server = tls === undefined ? createHttpServer(listener) : createHttpsServer(tls, listener);
  const open = track(server);
  const port = await listen(server);
  return {
    url: `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}/scim/v2`,
    directory,
    requests,
    open,
    intercept: (answer) => {
      interception = answer;
    },
    close: async () => {
      if (server.listening) await stop(server, open);
    },
  };
}

/** The requested page. The library would create objects for the whole list each time. */
function page(
  { filter, constraints = {} }: InstanceType<typeof SCIMMY.Resources.User>,
  all: readonly ScimResource[],
  present: (resource: ScimResource) => object,
) {
  const { startIndex = 1, count = 100 } = constraints as { startIndex?: number; count?: number };
  const matching = filter === undefined ? all : (filter.match([...all]) as readonly ScimResource[]);
  const resources = matching.slice(startIndex - 1, startIndex - 1 + count).map(present);
  const list = new SCIMMY.Messages.ListResponse(resources as never[], {
    itemsPerPage: count,
    totalResults: matching.length,
  });
  return Object.assign(list, { startIndex });
}

function one(id: string, all: readonly ScimResource[]): ScimResource {
  const found = all.find((resource) => resource.id === id);
  if (found === undefined) throw new SCIMMY.Types.Error(404, null as never, `Resource ${id} not found`);
  return found;
}

class Users extends SCIMMY.Resources.User {
  override async read(context?: unknown): Promise<never> {
    const directory = context as ScimDirectory;
    const present = (resource: ScimResource) =>
      new SCIMMY.Schemas.User(resource, "out", Users.basepath() as never, this.attributes);
    if (this.id !== undefined) return present(one(this.id, directory.users)) as never;
    return page(this as never, directory.users, present) as never;
  }
}

class Groups extends SCIMMY.Resources.Group {
  override async read(context?: unknown): Promise<never> {
    const directory = context as ScimDirectory;
    const present = (resource: ScimResource) =>
      new SCIMMY.Schemas.Group(resource, "out", Groups.basepath() as never, this.attributes);
    if (this.id !== undefined) return present(one(this.id, directory.groups)) as never;
    return page(this as never, directory.groups, present) as never;
  }
}

const { SchemaDefinition, Attribute } = SCIMMY.Types;
Users.extend(SCIMMY.Schemas.EnterpriseUser);
Groups.extend(
  new SchemaDefinition("Details", details, "What else there is to say", [
    new Attribute("string", "description"),
  ]) as never,
);
SCIMMY.Resources.declare(Users as never, "User");
SCIMMY.Resources.declare(Groups as never, "Group");

/** What real servers do and the SCIMMY library does not. */
export interface Quirks {
  /** Cursors instead of startIndex (RFC 9865). */
  readonly cursors?: boolean;
  /** The largest page, whatever `count` asks for. */
  readonly largestPage?: number;
  /** The most members of a group in any answer. */
  readonly memberLimit?: number;
  /** Lists of groups omit members. */
  readonly noMembersInLists?: boolean;
  /** `startIndex` and `count` page the members of one group. */
  readonly memberPages?: boolean;
  /** Omits `totalResults`. */
  readonly noTotals?: boolean;
  /** With cursors: the largest `count`; a larger one is refused (RFC 9865, `invalidCount`). */
  readonly largestCount?: number;
  /**
   * As Entra ID's documents have it: cursors alone, an empty one is refused, `resources` in lower case, paths and types too,
   * totals only where one page is all, groups without members.
   */
  readonly entra?: boolean;
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
        pagination: {
          cursor: quirks.cursors === true || quirks.entra === true,
          index: quirks.cursors !== true && quirks.entra !== true,
        },
      });
      return;
    }
    const refusal = refusalOf(searchParams, quirks);
    if (refusal !== undefined) {
      send(response, 400, { status: "400", ...refusal });
      return;
    }
    const all = /^Users$/i.test(type) ? directory.users : /^Groups$/i.test(type) ? directory.groups : [];
    if (id === undefined) send(response, 200, listOf(all, searchParams, quirks));
    else {
      const found = all.find((resource) => resource.id === decodeURIComponent(id));
      if (found === undefined) send(response, 404, { status: "404", detail: `no ${id}` });
      else send(response, 200, membersOf(found, searchParams, quirks));
    }
  };
  return serve(app, directory, options);
}

function refusalOf(query: URLSearchParams, { entra, largestCount }: Quirks): object | undefined {
  if (entra === true && query.get("cursor") === "") return { scimType: "invalidCursor", detail: "BadRequest" };
  return largestCount !== undefined && Number(query.get("count") ?? 0) > largestCount
    ? { scimType: "invalidCount", detail: `at most ${largestCount}` }
    : undefined;
}

/** A page as Entra ID has it. */
function entraListOf(all: readonly ScimResource[], query: URLSearchParams): object {
  const start = Number(query.get("cursor")?.replace("after-", "") ?? 0);
  const end = start + Math.min(Number(query.get("count") ?? 100), 100);
  const resources = all.slice(start, end).map((resource) => ({
    ...resource,
    members: undefined,
    meta: { resourceType: "members" in resource ? "group" : "user" },
  }));
  return {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
    ...(start === 0 && end >= all.length ? { totalResults: all.length } : { itemsPerPage: 100 }),
    ...(end < all.length ? { nextCursor: `after-${end}` } : {}),
    resources,
  };
}

function listOf(all: readonly ScimResource[], query: URLSearchParams, quirks: Quirks): object {
  if (quirks.entra === true) return entraListOf(all, query);
  const cursor = query.get("cursor") ?? "";
  const start =
    quirks.cursors === true ? Number(cursor.replace("after-", "")) : Number(query.get("startIndex") ?? 1) - 1;
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
      const { members, ...rest } = resource;
      if (limit === undefined || !Array.isArray(members)) return resource;
      return limit === 0 ? rest : { ...rest, members: members.slice(0, limit) };
    }),
  };
}

function membersOf(resource: ScimResource, query: URLSearchParams, { memberLimit, memberPages }: Quirks): object {
  const members = resource["members"];
  if (!Array.isArray(members)) return resource;
  const start = memberPages === true ? Number(query.get("startIndex") ?? 1) - 1 : 0;
  const count = memberPages === true ? Number(query.get("count") ?? 100) : Infinity;
  return { ...resource, members: members.slice(start, start + Math.min(count, memberLimit ?? Infinity)) };
}
