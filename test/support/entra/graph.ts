import { createHmac, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { Refusal } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { evaluate, isAdvanced } from "./filter.ts";
import { app, byId, everyPermission } from "./tenant.ts";
import type { GraphObject, Member, MemberType, Rows, Tenant } from "./tenant.ts";

/** What Graph has been seen to do (and less than that would be news). Lists are named by the path they match. */
export interface Faults {
  /** A full page without a link to the next one. */
  lostLink?: RegExp | undefined;
  /** A link that leads to the page it is on, for ever. */
  sameLink?: RegExp | undefined;
  /** A link to another host. */
  foreignLink?: RegExp | undefined;
  /** So many links are refused: Directory_ExpiredPageToken. */
  expiredLinks?: number | undefined;
  /** Before each page comes an empty one. */
  emptyPages?: RegExp | undefined;
  /** Each page begins with the last object of the one before. */
  repeats?: RegExp | undefined;
  /** Success, and the last object of each page is left out. */
  less?: RegExp | undefined;
  /** The largest page, whatever `$top` asks for. */
  largestPage?: number | undefined;
  /** Types that the app may not read, besides what its permissions say: id and type, everything else null. */
  limited?: readonly MemberType[] | undefined;
  /** Lists show the id of each object, and null for everything else. */
  blank?: RegExp | undefined;
  /** One attribute is null everywhere. */
  withheld?: string | undefined;
  /** Counts are wrong by so many. */
  countsOff?: { readonly of: RegExp; by: number } | undefined;
  /** Azure AD B2C: there are no counts. */
  noCounts?: boolean | undefined;
  /** Groups from Active Directory come without the groups in them, and counts agree. */
  noNesting?: boolean | undefined;
  /** The next requests that match are refused. */
  refuse?: { readonly of: RegExp; readonly status: number; times: number; readonly retryAfter?: string } | undefined;
  /** Header `x-ms-throttle-limit-percentage`. */
  percentage?: string | undefined;
  /** Tokens of delta queries are gone (410). */
  expiredDeltas?: boolean | undefined;
  /** Every answer waits so many milliseconds. */
  latency?: number | undefined;
}

/** What a request is about: which objects, and how they are shown. */
interface Listing {
  readonly rows: Rows<GraphObject>;
  readonly type: "user" | "group" | "directoryObject";
}

/** Graph v1.0, as far as a directory of users and groups goes. */
export class Graph {
  origin = "http://127.0.0.1";
  permissions: readonly string[] = everyPermission;
  readonly requests: string[] = [];
  readonly changes: { readonly kind: "users" | "groups"; readonly id: string; readonly reason?: string | undefined }[] =
    [];
  readonly #tenant: Tenant;
  readonly #faults: Faults;
  readonly #key = randomBytes(16);

  constructor(tenant: Tenant, faults: Faults) {
    this.#tenant = tenant;
    this.#faults = faults;
  }

  /** @throws {Refusal} */
  answer(url: URL, headers: IncomingMessage["headers"]): Answer {
    const { refuse, percentage } = this.#faults;
    if (refuse !== undefined && refuse.times > 0 && refuse.of.test(url.pathname)) {
      refuse.times--;
      const { status, retryAfter } = refuse;
      const throttled = {
        "x-ms-throttle-scope": `Tenant_Application/ReadWrite/${app.clientId}/${app.tenant}`,
        "x-ms-throttle-information": "ResourceUnitLimitExceeded",
      };
      const [code, extra] =
        status === 429
          ? (["TooManyRequests", throttled] as const)
          : ([status === 403 ? "Authorization_RequestDenied" : "ServiceUnavailable", {}] as const);
      throw new Refusal(
        status,
        code,
        status === 403 ? "Insufficient privileges to complete the operation." : "Please retry after some time.",
        {
          ...(retryAfter !== undefined && { "retry-after": retryAfter }),
          ...extra,
        },
      );
    }
    const [, , collection = "", id, relation, cast] = url.pathname.replace(/\/\$count$/, "").split("/");
    const isCount = url.pathname.endsWith("/$count");
    const isEventual = headers["consistencylevel"] === "eventual";
    if (collection !== "users" && collection !== "groups")
      throw new Refusal(400, "BadRequest", `Resource not found for the segment '${collection}'.`);
    this.#assertPermitted(collection);
    const answer = id === "delta" ? this.#delta(url, collection) : undefined;
    if (answer !== undefined) return answer;
    const query = new Query(url, isEventual, isCount, this.#faults.noCounts === true);
    const extra = {
      "x-ms-resource-unit": "1",
      ...(percentage !== undefined && { "x-ms-throttle-limit-percentage": percentage }),
    };
    if (id !== undefined && relation === undefined) {
      const found = byId(this.#tenant[collection], id);
      if (found === undefined) throw missing(id);
      return {
        status: 200,
        headers: extra,
        body: { "@odata.context": this.#context(collection), ...this.#shown(found, query, this.#listing(collection)) },
      };
    }
    const listing = id === undefined ? this.#listing(collection) : this.#membersOf(url, id, cast, isEventual);
    if (isCount) {
      const total = query.filter === undefined ? listing.rows.length : this.#count(listing.rows, query);
      return { status: 200, headers: extra, body: `${total + this.#countError(url)}` };
    }
    return { status: 200, headers: extra, body: this.#page(url, listing, query) };
  }

  #listing(collection: "users" | "groups"): Listing {
    return { rows: this.#tenant[collection], type: collection === "users" ? "user" : "group" };
  }

  #assertPermitted(collection: "users" | "groups"): void {
    const enough = collection === "users" ? ["User.Read.All"] : ["GroupMember.Read.All", "Group.Read.All"];
    if ([...enough, "Directory.Read.All"].some((name) => this.permissions.includes(name))) return;
    throw new Refusal(403, "Authorization_RequestDenied", "Insufficient privileges to complete the operation.");
  }

  #context(what: string): string {
    return `${this.origin}/v1.0/$metadata#${what}`;
  }

  #membersOf(url: URL, id: string, cast: string | undefined, isEventual: boolean): Listing {
    const group = byId(this.#tenant.groups, id);
    if (group === undefined) throw missing(id);
    const hidden = group["visibility"] === "HiddenMembership" && !this.permissions.includes("Member.Read.Hidden");
    const all = hidden ? [] : this.#tenant.members(id);
    const isBeta = url.pathname.startsWith("/beta/");
    const type = cast?.replace("microsoft.graph.", "");
    if (cast !== undefined && !isEventual)
      throw new Refusal(400, "Request_UnsupportedQuery", "OData cast requires ConsistencyLevel eventual and $count.");
    if (type === "group" && (group["groupTypes"] as readonly string[] | undefined)?.includes("Unified"))
      throw new Refusal(400, "Request_UnsupportedQuery", "The specified cast is not supported for this group.");
    const isLess = this.#faults.noNesting === true && group["onPremisesSyncEnabled"] === true;
    // Graph v1.0 lists applications to those alone who ask the index, which counts are from.
    const isShown = ({ type: of }: Member): boolean =>
      (of !== "servicePrincipal" || isBeta || isEventual) &&
      !(isLess && of === "group") &&
      (type === undefined || of === type);
    const members = Array.isArray(all) ? (all as readonly Member[]).filter(isShown) : all;
    const at = (index: number): GraphObject | undefined => {
      const member = members.at(index);
      return member === undefined ? undefined : this.#member(member);
    };
    return { rows: { length: members.length, at }, type: "directoryObject" };
  }

  #member({ type, id }: Member): GraphObject {
    const { limited = [] } = this.#faults;
    const isUnread = type === "user" && !this.permissions.some((name) => /^(?:User|Directory)\.Read\.All$/.test(name));
    const kind = { "@odata.type": `#microsoft.graph.${type}` };
    if (isUnread || limited.includes(type)) return { ...kind, id };
    const object =
      type === "user" ? byId(this.#tenant.users, id) : type === "group" ? byId(this.#tenant.groups, id) : undefined;
    return { ...kind, id, ...(object ?? { displayName: `The ${type} ${id.slice(-3)}` }) };
  }

  #count(rows: Rows<GraphObject>, query: Query): number {
    let total = 0;
    for (let index = 0; index < rows.length; index++) if (query.matches(rows.at(index))) total++;
    return total;
  }

  #countError({ pathname }: URL): number {
    const { countsOff } = this.#faults;
    return countsOff?.of.test(pathname) === true ? countsOff.by : 0;
  }

  #page(url: URL, listing: Listing, query: Query): object {
    const { lostLink, sameLink, foreignLink, emptyPages, repeats, less, largestPage = 999 } = this.#faults;
    const is = (fault: RegExp | undefined): boolean => fault?.test(url.pathname) === true;
    const token = url.searchParams.get("$skiptoken");
    const { start, isEmpty } = token === null ? { start: 0, isEmpty: is(emptyPages) } : this.#opened(url, token);
    const top = isEmpty ? 0 : Math.min(query.top, largestPage);
    const value: object[] = [];
    let next = start;
    for (; next < listing.rows.length && value.length < top; next++) {
      const row = listing.rows.at(next);
      if (row !== undefined && query.matches(row)) value.push(this.#shown(row, query, listing, url));
    }
    if (is(repeats) && start > 0)
      value.unshift(this.#shown(listing.rows.at(start - 1) ?? { id: "" }, query, listing, url));
    if (is(less)) value.pop();
    const isMore = next < listing.rows.length && !is(lostLink);
    const isNextEmpty = is(emptyPages) && !isEmpty;
    const place = is(sameLink) ? { start, isEmpty } : { start: next, isEmpty: isNextEmpty };
    const link = isMore || isEmpty ? this.#link(url, place, is(foreignLink)) : undefined;
    const total = query.isCounted && token === null ? this.#count(listing.rows, query) : undefined;
    return {
      "@odata.context": this.#context(listing.type === "directoryObject" ? "directoryObjects" : `${listing.type}s`),
      ...(total !== undefined && { "@odata.count": total }),
      ...(link !== undefined && { "@odata.nextLink": link }),
      value,
    };
  }

  /** A link to a page; what is in its token is nobody's business. */
  #link(url: URL, place: object, isForeign: boolean): string {
    const link = new URL(url.pathname + url.search, isForeign ? "https://graph.example.net" : this.origin);
    const sealed = Buffer.from(JSON.stringify({ ...place, path: url.pathname })).toString("base64url");
    link.searchParams.set("$skiptoken", `${sealed}.${this.#seal(sealed)}`);
    return link.href;
  }

  #opened(url: URL, token: string): { readonly start: number; readonly isEmpty: boolean } {
    const [sealed = "", seal] = token.split(".");
    const { expiredLinks = 0 } = this.#faults;
    if (expiredLinks > 0) {
      this.#faults.expiredLinks = expiredLinks - 1;
      throw new Refusal(
        400,
        "Directory_ExpiredPageToken",
        "The specified page token value has expired and can no longer be included in your request.",
      );
    }
    const place = JSON.parse(Buffer.from(sealed, "base64url").toString() || "{}") as {
      start: number;
      isEmpty: boolean;
      path: string;
    };
    if (seal !== this.#seal(sealed) || place.path !== url.pathname)
      throw new Refusal(400, "Request_BadRequest", "Invalid value specified for property '$skiptoken'.");
    return place;
  }

  #seal(text: string): string {
    return createHmac("sha256", this.#key).update(text).digest("base64url").slice(0, 16);
  }

  #shown(object: GraphObject, { select, expandsManager }: Query, { type }: Listing, url?: URL): object {
    const { blank, withheld } = this.#faults;
    const isBlank = url !== undefined && blank?.test(url.pathname) === true;
    const isMember = type === "directoryObject";
    const shown: Record<string, unknown> = isMember ? { "@odata.type": object["@odata.type"], id: object.id } : {};
    for (const name of select ?? Object.keys(object))
      shown[name] = name === "id" ? object.id : isBlank || name === withheld ? null : (object[name] ?? null);
    const manager = object["manager"];
    if (!expandsManager) delete shown["manager"];
    else if (typeof manager === "string") {
      const { id, displayName = null } = byId(this.#tenant.users, manager) ?? { id: manager };
      shown["manager"] = { "@odata.type": "#microsoft.graph.user", id, displayName };
    }
    return shown;
  }

  #delta(url: URL, kind: "users" | "groups"): Answer {
    for (const name of ["$top", "$orderby", "$search"])
      if (url.searchParams.has(name)) throw new Refusal(400, "Request_UnsupportedQuery", `${name} is not supported.`);
    const token = url.searchParams.get("$deltatoken");
    if (token === null) throw new Refusal(400, "Request_BadRequest", "This server has no first round of changes.");
    if (token !== "latest" && this.#faults.expiredDeltas === true)
      throw new Refusal(
        410,
        "syncStateNotFound",
        "The sync state generation is not found; continuation token is expired and a full sync is required.",
        { location: `${this.origin}/v1.0/${kind}/delta?$deltatoken=` },
      );
    const seen = token === "latest" ? this.changes.length : Number(Buffer.from(token, "base64url").toString());
    const news = this.changes.slice(seen).filter((change) => change.kind === kind);
    const link = new URL(url.pathname + url.search, this.origin);
    link.searchParams.set("$deltatoken", Buffer.from(`${this.changes.length}`).toString("base64url"));
    const value = news.map(({ id, reason }) => (reason === undefined ? { id } : { id, "@removed": { reason } }));
    return { status: 200, body: { "@odata.context": this.#context(kind), "@odata.deltaLink": link.href, value } };
  }
}

function missing(id: string): Refusal {
  return new Refusal(
    404,
    "Request_ResourceNotFound",
    `Resource '${id}' does not exist or one of its queried reference-property objects are not present.`,
  );
}

/** The parameters of a request that Graph would take. */
class Query {
  readonly top: number;
  readonly select: readonly string[] | undefined;
  readonly filter: string | undefined;
  readonly isCounted: boolean;
  readonly expandsManager: boolean;

  /** @throws {Refusal} */
  constructor({ searchParams }: URL, isEventual: boolean, isCount: boolean, noCounts: boolean) {
    const unsupported = (message: string): Refusal => new Refusal(400, "Request_UnsupportedQuery", message);
    for (const name of searchParams.keys())
      if (!["$top", "$select", "$filter", "$count", "$expand", "$skiptoken"].includes(name))
        throw unsupported(`${name} is not supported.`);
    this.top = Number(searchParams.get("$top") ?? 100);
    if (!(this.top >= 1 && this.top <= 999))
      throw new Refusal(400, "Request_BadRequest", "Invalid page size specified: it must be between 1 and 999.");
    this.select = searchParams.get("$select")?.split(",");
    const single = this.select?.find((name) =>
      /^(?:aboutMe|birthday|hireDate|interests|mailboxSettings|mySite|pastProjects|preferredName|responsibilities|schools|skills)$/.test(
        name,
      ),
    );
    if (single !== undefined) throw new Refusal(501, "NotImplemented", `${single} cannot be listed.`);
    const unknown = this.select?.find(
      (name) => /[^\w]/.test(name) || name === "sAMAccountName" || name.startsWith("no"),
    );
    if (unknown !== undefined)
      throw new Refusal(
        400,
        "BadRequest",
        `Parsing OData Select and Expand failed: Could not find a property named '${unknown}' on type 'microsoft.graph.user'.`,
      );
    this.filter = searchParams.get("$filter") ?? undefined;
    this.isCounted = searchParams.get("$count") === "true" && isEventual;
    this.expandsManager = searchParams.get("$expand")?.startsWith("manager") === true;
    if ((isCount || this.isCounted) && (noCounts || !isEventual))
      throw new Refusal(400, "Request_BadRequest", "$count is not currently supported.");
    if (this.filter !== undefined && isAdvanced(this.filter) && !(isEventual && (isCount || this.isCounted)))
      throw unsupported(
        "Unsupported or invalid query filter clause specified: this needs ConsistencyLevel eventual and $count.",
      );
    if (this.expandsManager && this.isCounted) throw unsupported("$expand is not supported together with $count.");
  }

  matches(object: GraphObject | undefined): boolean {
    try {
      return object !== undefined && (this.filter === undefined || evaluate(this.filter, object));
    } catch {
      throw new Refusal(400, "Request_UnsupportedQuery", "Unsupported or invalid query filter clause specified.");
    }
  }
}
