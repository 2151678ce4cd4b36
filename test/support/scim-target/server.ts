import { hash, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { json } from "node:stream/consumers";
import { listen, stop, track } from "../scripted-server.ts";
import type { Limits } from "./limits.ts";
import { patched, Refused } from "./patch.ts";
import type { Json } from "./patch.ts";

type Kind = "Users" | "Groups";

/** A request as it came. */
export interface Received {
  readonly method: string;
  /** Below the base: `Users/1`. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: unknown;
}

/** What happens to a request: its connection ends before, or after it was carried out. */
export type Fault = "before" | "after" | undefined;

/** A SCIM server in memory that refuses what an application would refuse. */
export class ScimApplication {
  limits: Limits;
  token = "t0ken-of-the-application";
  readonly users = new Map<string, Json>();
  readonly groups = new Map<string, Json>();
  readonly members = new Map<string, ReadonlySet<string>>();
  readonly requests: Received[] = [];
  /** What it says of itself, by path: `Schemas`. */
  readonly says = new Map<string, unknown>();
  /** The names of all that was ever created, in order. */
  readonly created: string[] = [];
  /** Sees each request first. */
  fault: (request: Received) => Fault | Promise<Fault> = () => undefined;
  #spent = 0;
  #since = 0;
  #next = 1;
  readonly #open: Set<Socket>;
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  #port = 0;

  constructor(limits: Limits) {
    this.limits = limits;
    this.#open = track(this.#server) as Set<Socket>;
  }

  static async start(limits: Limits): Promise<ScimApplication> {
    const application = new ScimApplication(limits);
    application.#port = await listen(application.#server);
    return application;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/scim/v2`;
  }

  close(): Promise<void> {
    return stop(this.#server, this.#open);
  }

  /** The requests that change something. */
  writes(): readonly Received[] {
    return this.requests.filter(({ method }) => method !== "GET");
  }

  /** Somebody adds an object by hand. @returns its id */
  add(kind: Kind, resource: Json, members: readonly string[] = []): string {
    const id = `${kind === "Users" ? "u" : "g"}${this.#next++}-${randomUUID().slice(0, 8)}`;
    this.#all(kind).set(id, { ...resource, id });
    if (kind === "Groups") this.members.set(id, new Set(members));
    return id;
  }

  /** Somebody removes an object, and its memberships. */
  remove(id: string): void {
    this.users.delete(id);
    this.groups.delete(id);
    this.members.delete(id);
    for (const [group, members] of this.members)
      this.members.set(group, new Set([...members].filter((each) => each !== id)));
  }

  #all(kind: Kind): Map<string, Json> {
    return kind === "Users" ? this.users : this.groups;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "", "http://localhost");
    const path = decodeURI(url.pathname).replace(/^\/scim\/v2\//, "");
    const body = ["POST", "PUT", "PATCH"].includes(request.method ?? "")
      ? await json(request).catch(() => undefined)
      : undefined;
    const received = { method: request.method ?? "", path, query: url.searchParams, body };
    this.requests.push(received);
    const fault = await this.fault(received);
    if (fault === "before") return void request.socket.destroy();
    let [status, answer, headers] = [200, undefined as unknown, {} as Record<string, string>];
    try {
      if (request.headers.authorization !== `Bearer ${this.token}`) throw new Refused(401, "who are you?");
      [status, answer] = this.#answer(received, request.headers["if-match"]);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      status = error.status;
      if (status === 429) headers = { "retry-after": "1" };
      answer = {
        schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
        status: String(status),
        detail: error.message,
        ...(error.type !== undefined && { scimType: error.type }),
      };
    }
    if (fault === "after") return void request.socket.destroy();
    if (status === 201 && this.limits.answersByLocation) {
      const id = (answer as { readonly id: string }).id;
      [answer, headers] = [undefined, { location: `/scim/v2/${path}/${id}` }];
    }
    response.writeHead(status, { "content-type": "application/scim+json", ...headers });
    response.end(answer === undefined ? undefined : JSON.stringify(answer));
  }

  #answer(received: Received, version: string | undefined): [status: number, answer?: unknown] {
    const { method, path, query, body } = received;
    const [kind, id] = path.split("/");
    if (this.says.has(path)) return [200, this.says.get(path)];
    if (kind === "ServiceProviderConfig") return [200, this.#config()];
    if (kind !== "Users" && kind !== "Groups") throw new Refused(404, `no ${path}`);
    if (method === "GET") return [200, id === undefined ? this.#list(kind, query) : this.#one(kind, id, query)];
    this.#spend();
    if (method === "POST") return this.#create(kind, body as Json);
    const all = this.#all(kind);
    const before = all.get(id ?? "");
    if (id === undefined || before === undefined) throw new Refused(404, `no ${path}`);
    if (version !== undefined && this.limits.versions && version !== versionOf(before))
      throw new Refused(412, "it has changed");
    if (method === "DELETE") {
      if (this.limits.ignores) return [204];
      if (kind === "Users" && this.limits.deactivates) all.set(id, { ...before, active: false });
      else {
        this.remove(id);
      }
      return [204];
    }
    return this.#change(kind, id, before, received);
  }

  #change(kind: Kind, id: string, before: Json, { method, body }: Received): [status: number, answer?: unknown] {
    const { limits } = this;
    let next: { resource: Json; members: ReadonlySet<string> };
    if (method === "PATCH" && limits.patches) next = patched(before, this.members.get(id) ?? new Set(), body, limits);
    else if (method === "PUT") {
      const { members, ...resource } = body as Json;
      next = { resource, members: new Set(membersIn(members)) };
    } else throw new Refused(501, `no ${method}`);
    const resource = this.#checked(kind, { ...next.resource, id }, id);
    for (const member of next.members)
      if (!this.users.has(member) && !this.groups.has(member)) throw new Refused(404, `no member ${member}`);
    if (!limits.ignores) {
      this.#all(kind).set(id, resource);
      if (kind === "Groups") this.members.set(id, next.members);
    }
    return method === "PATCH" && limits.answersPatch === 204
      ? [204]
      : [200, limits.ignores ? body : this.#shown(kind, resource, true)];
  }

  #create(kind: Kind, body: Json): [status: number, answer?: unknown] {
    const { members, ...rest } = body;
    const resource = this.#checked(kind, rest);
    if (this.limits.ignores) return [200, body];
    this.created.push(String(resource[kind === "Users" ? "userName" : "displayName"]));
    const id = this.add(kind, resource, membersIn(members));
    const shown = this.#shown(kind, this.#all(kind).get(id) ?? {}, true);
    return [201, this.limits.hidesIds ? { schemas: shown["schemas"] } : shown];
  }

  /** A resource as it is stored. @throws {Refused} */
  #checked(kind: Kind, resource: Json, own?: string): Json {
    const { limits } = this;
    const key = kind === "Users" ? "userName" : "displayName";
    if (typeof resource[key] !== "string" || resource[key] === "") throw new Refused(400, `no ${key}`, "invalidValue");
    if ("password" in resource) throw new Refused(400, "a password");
    const lower = (value: unknown): unknown =>
      limits.lowers && typeof value === "string" ? value.toLowerCase() : value;
    const stored: Json = { ...resource, [key]: kind === "Users" ? lower(resource[key]) : resource[key] };
    delete stored["meta"];
    if (kind === "Groups") return stored;
    for (const name of limits.required)
      if (stored[name] === undefined) throw new Refused(400, `no ${name}`, "invalidValue");
    if (stored["active"] !== undefined && typeof stored["active"] !== "boolean") throw new Refused(400, "active");
    for (const list of ["emails", "phoneNumbers"]) {
      const values = stored[list];
      if (values === undefined) continue;
      if (!Array.isArray(values)) throw new Refused(400, `${list} is a list`, "invalidValue");
      if (limits.singleValued && values.length > 1) throw new Refused(400, `one of ${list}`, "invalidValue");
      if (list === "emails") stored[list] = values.map((each: Json) => ({ ...each, value: lower(each["value"]) }));
      else if (limits.trimsPhones)
        stored[list] = values.map((each: Json) => ({ ...each, value: String(each["value"]).replaceAll(" ", "") }));
    }
    const name = String(stored["userName"]).toLowerCase();
    for (const [id, other] of this.users)
      if (id !== own && String(other["userName"]).toLowerCase() === name)
        throw new Refused(
          409,
          "Refused to create a new, duplicate resource",
          limits.scimTypes ? "uniqueness" : undefined,
        );
    return stored;
  }

  #spend(): void {
    const { burst } = this.limits;
    if (burst === 0) return;
    if (performance.now() - this.#since > 1_000) [this.#since, this.#spent] = [performance.now(), 0];
    if (++this.#spent > burst) throw new Refused(429, "too many requests");
  }

  #one(kind: Kind, id: string, query: URLSearchParams): Json {
    if (query.has("excludedAttributes") && !this.limits.excludes) throw new Refused(400, "excludedAttributes");
    const found = this.#all(kind).get(id);
    if (found === undefined) throw new Refused(404, `no ${id}`);
    const isAsked = query.get("attributes") === "members";
    return this.#shown(kind, found, query.get("excludedAttributes") !== "members", isAsked);
  }

  #list(kind: Kind, query: URLSearchParams): Json {
    const { limits } = this;
    const matching = [...this.#all(kind).values()].filter(filterOf(query.get("filter")));
    const count = Math.min(Number(query.get("count") ?? limits.largestPage), limits.largestPage);
    if (query.has("excludedAttributes") && !limits.excludes) throw new Refused(400, "excludedAttributes");
    const isCursor = limits.pages === "cursor";
    const asks = query.has("cursor") || limits.withoutCursor === 0;
    const start = isCursor ? Number(query.get("cursor") ?? "") : Math.max(1, Number(query.get("startIndex") ?? 1)) - 1;
    const page = matching.slice(start, start + (asks ? count : limits.withoutCursor));
    const shows = limits.shows === "everywhere" && query.get("excludedAttributes") !== "members";
    const end = start + page.length;
    return {
      schemas: ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
      totalResults: matching.length,
      itemsPerPage: page.length,
      ...(isCursor ? asks && end < matching.length && { nextCursor: String(end) } : { startIndex: start + 1 }),
      Resources: page.map((each) => cutOff(this.#shown(kind, each, shows), limits)),
    };
  }

  #shown(kind: Kind, resource: Json, withMembers: boolean, isAsked = false): Json {
    const { limits } = this;
    const shown: Json = { ...resource };
    if (kind === "Users" && limits.forgetsActive) delete shown["active"];
    if (kind === "Groups" && withMembers && limits.shows !== "nowhere" && (limits.shows !== "asked" || isAsked))
      shown["members"] = [...(this.members.get(String(resource["id"])) ?? [])].map((value) =>
        limits.references
          ? { $ref: `${this.url}/${this.users.has(value) ? "Users" : "Groups"}/${value}` }
          : { value, type: this.users.has(value) ? "User" : "Group" },
      );
    shown["meta"] = {
      resourceType: kind === "Users" ? "User" : "Group",
      ...(limits.versions && { version: versionOf(resource) }),
    };
    return shown;
  }

  #config(): Json {
    const { limits } = this;
    return {
      schemas: ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
      patch: { supported: limits.patches },
      etag: { supported: limits.versions },
      filter: { supported: true, maxResults: limits.largestPage },
      ...(limits.pages === "cursor" &&
        limits.withoutCursor === 0 && {
          pagination: { cursor: true, index: false, defaultPaginationMethod: "cursor" },
        }),
    };
  }
}

function cutOff({ members, ...rest }: Json, { listedMembers }: Limits): Json {
  return Array.isArray(members) ? { ...rest, members: members.slice(0, listedMembers) } : rest;
}

function membersIn(value: unknown): readonly string[] {
  return ((value ?? []) as readonly Json[]).map(({ value: id, $ref }) =>
    typeof $ref === "string" ? $ref.replace(/.*\//, "") : String(id),
  );
}

function versionOf(resource: Json): string {
  return `W/"${hash("sha256", JSON.stringify(resource), "base64url")}"`;
}

function filterOf(filter: string | null): (resource: Json) => boolean {
  if (filter === null) return () => true;
  const [, name = "", value = ""] = /^(\w+) eq "((?:[^"\\]|\\.)*)"$/.exec(filter) ?? [];
  if (name === "") throw new Refused(400, "not such a filter", "invalidFilter");
  const wanted = String(JSON.parse(`"${value}"`)).toLowerCase();
  return (resource) => String(resource[name]).toLowerCase() === wanted;
}
