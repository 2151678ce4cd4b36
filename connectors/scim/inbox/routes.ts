import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { queryOf } from "#http/exchange.ts";
import type { InboxHost, InboxSettings } from "#connector.ts";
import { isLoopback } from "#http/listening.ts";
import type { Push } from "#state/inbox/events.ts";
import type { InboxKind } from "#state/inbox/resources.ts";
import { UnavailableError } from "#errors.ts";
import type { Resource } from "../schema.ts";
import { pages, resourceTypes, schemas, serviceProviderConfig } from "./discovery.ts";
import { invalid, ScimError } from "./errors.ts";
import { Requests, sameEtag } from "./requests.ts";
import type { Answer, ListQuery } from "./requests.ts";
import type { Selection } from "./resources.ts";

/** The longest body, in bytes. */
const longestBody = 2 ** 20;

/** What a request is about, once it was admitted. */
interface Admitted {
  readonly source: string;
  readonly settings: InboxSettings;
  /** The id of the token. */
  readonly token: string;
}

const admitted = new WeakMap<FastifyRequest, Admitted>();

/** Adds the routes of all inboxes (RFC 7644), each below `/scim/v2/SOURCE`. */
export function addInboxRoutes(app: FastifyInstance, host: InboxHost): void {
  const routes = (scope: FastifyInstance, _: unknown, done: () => void): void => {
    prepare(scope, host);
    const base = (request: FastifyRequest): string =>
      `${host.url() ?? `${request.protocol}://${request.host}`}${root}/${encodeURIComponent(admittedOf(request).source)}`;
    addDiscovery(scope, base);
    for (const kind of ["user", "group"] as const)
      addResources(scope, kind, host, (request) => {
        const { source, settings } = admittedOf(request);
        return new Requests(host.inboxes, source, base(request), settings);
      });
    done();
  };
  app.register(routes, { prefix: `${root}/:source`, bodyLimit: longestBody });
}

const root = "/scim/v2";

function admittedOf(request: FastifyRequest): Admitted {
  const found = admitted.get(request);
  if (found === undefined) throw new Error("the request was not admitted");
  return found;
}

function prepare(scope: FastifyInstance, host: InboxHost): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser("*", { parseAs: "string", bodyLimit: longestBody }, (_request, body, done) => {
    try {
      done(null, JSON.parse(String(body)));
    } catch {
      done(invalid("invalidSyntax", "the body is not JSON"));
    }
  });
  scope.addHook("onRequest", async (request) => {
    admitted.set(request, await admit(request, host));
  });
  scope.setErrorHandler((thrown, request, reply) => {
    const error = scimErrorOf(thrown);
    const source = sourceOf(request);
    if (error.status >= 500) host.warn(`inbox ${source}: ${request.method} ${request.routeOptions.url}`, thrown);
    if (error.status === 401) reply.header("www-authenticate", `Bearer realm="${encodeURIComponent(source)}"`);
    const retryAfter = error.retryAfter ?? (error.status === 503 ? 30 : undefined);
    if (retryAfter !== undefined) reply.header("retry-after", String(retryAfter));
    return answer(reply.code(error.status), {
      schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
      status: String(error.status),
      ...(error.scimType !== undefined && { scimType: error.scimType }),
      detail: error.message,
    });
  });
  scope.all("/*", (request) => {
    throw new ScimError(404, `there is no ${request.method} here`);
  });
}

function sourceOf(request: FastifyRequest): string {
  return (request.params as { readonly source?: string }).source ?? "";
}

/** @throws {ScimError} 401, 403, 404, 429 */
async function admit(request: FastifyRequest, host: InboxHost): Promise<Admitted> {
  const source = sourceOf(request);
  const settings = host.settingsOf(source);
  if (settings === undefined) throw new ScimError(404, "there is no such inbox");
  const isEncrypted = request.protocol === "https" || isLoopback(request.socket.remoteAddress ?? "");
  if (!isEncrypted && !settings.allowPlainHttp)
    throw new ScimError(403, "expected https://: over plain HTTP the token, which is no secret any more, was readable");
  // Some send the token alone.
  const [, given] = /^(?:Bearer +)?(\S+) *$/i.exec(request.headers.authorization ?? "") ?? [];
  const found = await host.admit(source, given, request.exchange.address);
  if ("token" in found) return { source, settings, token: found.token };
  if (found.status === 401) throw new ScimError(401, "expected a valid token: Authorization: Bearer TOKEN");
  throw new ScimError(429, `too many requests; try again in ${found.retryAfter} s`, undefined, found.retryAfter);
}

function scimErrorOf(thrown: unknown): ScimError {
  if (thrown instanceof ScimError) return thrown;
  if (thrown instanceof UnavailableError) return new ScimError(503, "the inbox cannot be written now; try again");
  const code = thrown instanceof Error && "statusCode" in thrown ? Number(thrown.statusCode) : 500;
  if (code === 413) return new ScimError(413, `the body is longer than ${longestBody} bytes`);
  return code >= 400 && code < 500
    ? new ScimError(code, "the request cannot be read", "invalidSyntax")
    : new ScimError(500, "an unexpected error; the log of the daemon says more");
}

function answer(reply: FastifyReply, body: Resource): FastifyReply {
  reply.type("application/scim+json");
  if (membersOf(body) > membersInOnePart) return reply.send(Readable.from(partsOf(body), { objectMode: false }));
  // As bytes: the framework would add a charset, which JSON does not have.
  return reply.send(Buffer.from(JSON.stringify(body)));
}

/** A longer list of members is written in parts, and others get their turn meanwhile. */
const membersInOnePart = 2_000;

function membersOf({ members, Resources }: Resource): number {
  if (Array.isArray(Resources)) return (Resources as Resource[]).reduce((sum, each) => sum + membersOf(each), 0);
  return Array.isArray(members) ? members.length : 0;
}

function* partsOf(body: Resource): Generator<Buffer> {
  const name = Array.isArray(body["Resources"]) ? "Resources" : "members";
  const { [name]: items, ...rest } = body;
  const all = (items ?? []) as Resource[];
  yield Buffer.from(`${JSON.stringify(rest).slice(0, -1)},"${name}":[`);
  for (let at = 0; at < all.length; at += name === "members" ? membersInOnePart : 1) {
    if (at > 0) yield Buffer.from(",");
    if (name === "Resources") yield* partsOf(all[at] ?? {});
    else yield Buffer.from(JSON.stringify(all.slice(at, at + membersInOnePart)).slice(1, -1));
  }
  yield Buffer.from("]}");
}

function answerResource(reply: FastifyReply, { resource, etag, location }: Answer): FastifyReply {
  return answer(reply.header("etag", etag).header("location", location), resource);
}

function addDiscovery(scope: FastifyInstance, base: (request: FastifyRequest) => string): void {
  scope.get("/ServiceProviderConfig", (request, reply) => answer(reply, serviceProviderConfig(base(request))));
  for (const [path, all] of [
    ["/ResourceTypes", resourceTypes],
    ["/Schemas", schemas],
  ] as const) {
    scope.get(path, (request, reply) => {
      const Resources = all(base(request));
      return answer(reply, {
        schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        totalResults: Resources.length,
        itemsPerPage: Resources.length,
        startIndex: 1,
        Resources,
      });
    });
    scope.get(`${path}/:id`, (request, reply) => {
      const found = all(base(request)).find((each) => each["id"] === idOf(request));
      if (found === undefined) throw new ScimError(404, `there is no such thing in ${path}`);
      return answer(reply, found);
    });
  }
}

function addResources(
  scope: FastifyInstance,
  kind: InboxKind,
  { now }: Pick<InboxHost, "now">,
  requests: (request: FastifyRequest) => Requests,
): void {
  const path = kind === "user" ? "/Users" : "/Groups";
  const pushOf = (request: FastifyRequest): Push => ({ at: now(), token: admittedOf(request).token });
  // Some clients end a path with a slash, or write it in lower case.
  const written = (rest: string): readonly string[] => [
    `${path}${rest}`,
    `${path}${rest}/`,
    `${path.toLowerCase()}${rest}`,
  ];
  for (const list of written("")) {
    scope.get(list, async (request, reply) => answer(reply, await requests(request).list(kind, listQuery(request))));
    scope.post(list, async (request, reply) => {
      const { body } = request;
      const created = await requests(request).create(kind, body, pushOf(request), selectionOf(request));
      return answerResource(reply.code(201), created);
    });
  }
  for (const one of written("/:id")) {
    scope.get(one, async (request, reply) => {
      const found = await requests(request).get(kind, idOf(request), selectionOf(request));
      const known = request.headers["if-none-match"];
      if (known !== undefined && sameEtag(known, found.etag)) return reply.code(304).header("etag", found.etag).send();
      return answerResource(reply, found);
    });
    scope.put(one, async (request, reply) => {
      const asked = { ...selectionOf(request), version: request.headers["if-match"] };
      return answerResource(
        reply,
        await requests(request).replace(kind, idOf(request), request.body, pushOf(request), asked),
      );
    });
    scope.patch(one, async (request, reply) => {
      const selection = selectionOf(request);
      // The members of a group may be many: only who asks is answered with it.
      const isBrief = kind === "group" && selection.attributes === undefined;
      const asked = { ...(isBrief ? { excludedAttributes: ["members"] } : selection) };
      const version = request.headers["if-match"];
      const patched = await requests(request).patch(kind, idOf(request), request.body, pushOf(request), {
        ...asked,
        version,
      });
      return isBrief ? reply.code(204).header("etag", patched.etag).send() : answerResource(reply, patched);
    });
    scope.delete(one, async (request, reply) => {
      await requests(request).remove(kind, idOf(request), pushOf(request), request.headers["if-match"]);
      return reply.code(204).send();
    });
  }
}

function idOf(request: FastifyRequest): string {
  return (request.params as { readonly id: string }).id;
}

function selectionOf(request: FastifyRequest): Selection {
  const query = queryOf(request);
  const names = (key: string): string[] | undefined =>
    query
      .get(key)
      ?.split(",")
      .map((name) => name.trim())
      .filter((name) => name !== "");
  return { attributes: names("attributes"), excludedAttributes: names("excludedAttributes") };
}

/** The filter as a client meant it: whoever writes a blank as `%20` means a plus by `+`, as in `ada+test@example.com`. */
function filterIn({ url }: FastifyRequest): string | undefined {
  const parameters = url.slice(url.indexOf("?") + 1).split("&");
  const written = parameters.find((each) => each.startsWith("filter=")) ?? "";
  const meant = written.includes("%20") ? written.replaceAll("+", "%2B") : written;
  return new URLSearchParams(meant).get("filter") ?? undefined;
}

/** @throws {ScimError} 400: a number is none */
function listQuery(request: FastifyRequest): ListQuery {
  const query = queryOf(request);
  const whole = (key: string, otherwise: number): number => {
    const value = query.get(key) ?? "";
    if (value === "") return otherwise;
    if (!/^-?\d{1,9}$/.test(value)) throw invalid("invalidValue", `${key} is not a whole number`);
    return Number(value);
  };
  return {
    ...selectionOf(request),
    filter: filterIn(request),
    // RFC 7644, 3.4.2.4: what is too small is the smallest.
    startIndex: Math.max(whole("startIndex", 1), 1),
    count: Math.max(whole("count", pages.usual), 0),
    cursor: query.get("cursor") ?? undefined,
  };
}
