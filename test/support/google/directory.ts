import { hash } from "node:crypto";

/** What a list is made of: an array, or something that makes its items when they are asked for. */
export interface Listed<Item> {
  readonly length: number;
  at(index: number): Item | undefined;
  /** The item with an id, where that is faster than to look at all. */
  byId?(id: string): Item | undefined;
}

type Json = Readonly<Record<string, unknown>>;
export type GoogleUser = Json & { readonly id: string; readonly primaryEmail: string };
/** Without `directMembersCount`, which is counted. */
export type GoogleGroup = Json & { readonly id: string; readonly email: string };
/** One of type CUSTOMER, everybody, has no address. */
export type GoogleMember = Json & {
  readonly id: string;
  readonly email?: string | undefined;
  readonly type: "USER" | "GROUP" | "CUSTOMER";
  readonly role?: "OWNER" | "MANAGER" | "MEMBER" | undefined;
};

/** A customer's directory. It can be changed while the server runs. */
export interface GoogleDirectory {
  /** By address. */
  users: Listed<GoogleUser>;
  /** By address. */
  groups: Listed<GoogleGroup>;
  /** By id. */
  members: (group: GoogleGroup) => Listed<GoogleMember>;
}

export type ListName = "users" | "groups" | "members";

/** What Google has been seen to do, or could; each is off unless it is set. */
export interface GoogleFaults {
  /** A mask loses `nextPageToken`, even if it names it. */
  maskDropsToken?: boolean | undefined;
  /** The first page of a list is full and has no token. */
  endsAfterFirstPage?: ListName | undefined;
  /** The token of the next page is the one of this page. */
  sameToken?: ListName | undefined;
  /** The first page of a list has a token and no items. */
  emptyFirstPage?: ListName | undefined;
  /** Every page starts with the last item of the page before. */
  repeatsItems?: ListName | undefined;
  /** A list is answered with its kind and nothing in it. */
  empties?: ListName | undefined;
  /** Users come with their ids alone. */
  onlyIds?: boolean | undefined;
  /** Users come as other users see them. */
  publicView?: boolean | undefined;
  /** The subject's role covers only these users. */
  covers?: ((user: GoogleUser) => boolean) | undefined;
  /** `directMembersCount` differs by so many from what there is. */
  countOff?: number | undefined;
  /** Groups come without `directMembersCount`. */
  noCounts?: boolean | undefined;
  /** `includeDerivedMembership` leaves out every second member. */
  derivedFewer?: boolean | undefined;
  /** `roles=MEMBER` returns owners and managers, too, as members. */
  rolesMixed?: boolean | undefined;
  /** Answers instead of the directory: refusals, pages of a proxy, torn answers. */
  answers?: ((request: Requested) => RawAnswer | undefined) | undefined;
}

export interface Requested {
  /** `users`, `groups`, `members`, `user`, `group`, or `token`. */
  readonly what: string;
  readonly url: URL;
  /** How many requests came before. */
  readonly number: number;
}

export interface RawAnswer {
  readonly status: number;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The connection is cut after the body, which is announced as longer. */
  readonly isCut?: boolean | undefined;
}

/** A directory, and what is wrong with it. */
export interface Directory {
  readonly directory: GoogleDirectory;
  readonly faults: GoogleFaults;
}

const customer = "C03az79cb";

/** A refusal in Google's form. */
function refusal(status: number, reason: string, message: string, headers?: RawAnswer["headers"]): RawAnswer {
  const domain = /limit|quota/i.test(reason) ? "usageLimits" : "global";
  const body = JSON.stringify({ error: { code: status, message, errors: [{ message, domain, reason }] } });
  return { status, body, headers };
}

export const refusals = {
  backendError: refusal(503, "backendError", "The service is currently unavailable."),
  userRateLimit: refusal(403, "userRateLimitExceeded", "Quota exceeded for quota metric 'Queries'"),
  quotaExceeded: refusal(403, "quotaExceeded", "Request rate higher than configured."),
  rateLimit: refusal(429, "rateLimitExceeded", "Quota exceeded for quota metric 'Queries'", { "retry-after": "1" }),
  forbidden: refusal(403, "forbidden", "Not Authorized to access this resource/api"),
  scopes: refusal(403, "insufficientPermissions", "Request had insufficient authentication scopes."),
  disabled: refusal(
    403,
    "accessNotConfigured",
    "Admin SDK API has not been used in project 1 before or it is disabled.",
  ),
  credentials: refusal(401, "authError", "Request had invalid authentication credentials."),
  notFound: (what: string) => refusal(404, "notFound", `Resource Not Found: ${what}`),
  invalid: (what: string) => refusal(400, "invalid", `Invalid Input${what === "" ? "" : `: ${what}`}`),
} as const;

const standard = ["fields", "alt", "prettyPrint", "quotaUser"];
const lists = {
  users: {
    most: 500,
    parameters:
      "customer domain maxResults orderBy sortOrder pageToken projection customFieldMask viewType showDeleted",
  },
  groups: { most: 200, parameters: "customer domain maxResults orderBy sortOrder pageToken" },
  members: { most: 200, parameters: "maxResults pageToken roles includeDerivedMembership" },
  user: { most: 0, parameters: "projection customFieldMask viewType" },
  group: { most: 0, parameters: "" },
} as const;

/** What a mask may name of users and groups: Google refuses anything else. */
const known = {
  users:
    "addresses agreedToTerms aliases archivalTime archived changePasswordAtNextLogin creationTime customerId customSchemas deletionTime emails etag externalIds gender guestAccountInfo id ims includeInGlobalAddressList ipWhitelisted isAdmin isDelegatedAdmin isEnforcedIn2Sv isEnrolledIn2Sv isGuestUser isMailboxSetup keywords kind languages lastLoginTime locations name nonEditableAliases notes organizations orgUnitPath phones posixAccounts primaryEmail recoveryEmail recoveryPhone relations sshPublicKeys suspended suspensionReason suspensionTime thumbnailPhotoEtag thumbnailPhotoUrl websites",
  groups: "adminCreated aliases description directMembersCount email etag externalIds id kind name nonEditableAliases",
  members: "delivery_settings email etag id kind role status type",
} as const;

/** What the API answers to an administrator. */
export function answerOf(server: Directory, what: string, key: string, query: URLSearchParams): RawAnswer {
  if (!(what in lists)) return refusals.notFound("method");
  const { parameters } = lists[what as keyof typeof lists];
  for (const name of query.keys())
    if (![...standard, ...parameters.split(" ")].includes(name)) {
      const message = `Invalid JSON payload received. Unknown name "${name}": Cannot bind query parameter.`;
      return refusal(400, "badRequest", message);
    }
  const { directory } = server;
  if (what === "user") {
    const user =
      directory.users.byId?.(key) ??
      find(directory.users, ({ id, primaryEmail }) => id === key || primaryEmail === key);
    const isSeen = user !== undefined && server.faults.covers?.(user) !== false;
    return isSeen ? masked(shownUser(server, query)(user), query, "users") : refusals.notFound("userKey");
  }
  if (what === "group" || what === "members") {
    const group =
      directory.groups.byId?.(key) ?? find(directory.groups, ({ id, email }) => id === key || email === key);
    if (group === undefined) return refusals.notFound("groupKey");
    return what === "members" ? membersOf(server, group, query) : masked(shownGroup(server)(group), query, "groups");
  }
  const isOurs = ["my_customer", customer].includes(query.get("customer") ?? "");
  if (!isOurs) return refusal(400, "badRequest", "Bad Request");
  if (what === "groups")
    return page(
      server,
      "groups",
      { all: directory.groups, keyOf: ({ email }) => email, shown: shownGroup(server) },
      query,
    );
  const keyOf = ({ primaryEmail }: GoogleUser): string => primaryEmail;
  return page(server, "users", { all: usersSeen(server), keyOf, shown: shownUser(server, query) }, query);
}

function usersSeen({ directory, faults: { covers } }: Directory): Listed<GoogleUser> {
  if (covers === undefined) return directory.users;
  return itemsOf(directory.users).filter(covers);
}

function shownUser({ faults }: Directory, query: URLSearchParams): (user: GoogleUser) => Json {
  return (user) => {
    const { customSchemas, ...rest } = user;
    if (faults.onlyIds === true) return { kind: "admin#directory#user", id: user.id };
    if (faults.publicView === true) return { id: user.id, primaryEmail: user.primaryEmail, name: user["name"] };
    const hasSchemas = customSchemas !== undefined && ["full", "custom"].includes(query.get("projection") ?? "");
    return { kind: "admin#directory#user", customerId: customer, ...rest, ...(hasSchemas ? { customSchemas } : {}) };
  };
}

function shownGroup({ directory, faults }: Directory): (group: GoogleGroup) => Json {
  return (group) => {
    const count = directory.members(group).length + (faults.countOff ?? 0);
    const counted = faults.noCounts === true ? {} : { directMembersCount: String(count) };
    return { kind: "admin#directory#group", ...group, ...counted };
  };
}

function membersOf(server: Directory, group: GoogleGroup, query: URLSearchParams): RawAnswer {
  const { directory, faults } = server;
  const roles = query.get("roles")?.split(",");
  let all = directory.members(group);
  // Who is not in the directory is known by address alone.
  const isExternal = ({ email = "" }: GoogleMember) => !email.endsWith("@example.com") && email !== "";
  if (/\bstatus\b/.test(query.get("fields") ?? "") && itemsOf(all).some(isExternal)) return refusals.forbidden;
  if (query.get("includeDerivedMembership") === "true") {
    all = derived(directory, group, new Set());
    if (faults.derivedFewer === true) all = itemsOf(all).filter((_, index) => index % 2 === 0);
  }
  const isMixed = faults.rolesMixed === true && roles?.includes("MEMBER") === true;
  if (roles !== undefined && !isMixed) all = itemsOf(all).filter(({ role = "MEMBER" }) => roles.includes(role));
  const shown = (member: GoogleMember): Json => ({
    kind: "admin#directory#member",
    ...member,
    role: isMixed ? "MEMBER" : (member.role ?? "MEMBER"),
  });
  return page(server, "members", { all, keyOf: ({ id }) => id, shown }, query);
}

function derived(directory: GoogleDirectory, group: GoogleGroup, seen: Set<string>): GoogleMember[] {
  if (seen.has(group.id)) return [];
  seen.add(group.id);
  const all = itemsOf(directory.members(group)).flatMap((member) => {
    const inner = member.type === "GROUP" ? find(directory.groups, ({ id }) => id === member.id) : undefined;
    return inner === undefined ? [member] : derived(directory, inner, seen);
  });
  return [...new Map(all.map((member) => [member.id, member])).values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

interface Lists<Item> {
  readonly all: Listed<Item>;
  /** By what the list is sorted. */
  readonly keyOf: (item: Item) => string;
  readonly shown: (item: Item) => Json;
}

/** One page. A token holds the last key and belongs to its query, so that changes between pages skip nobody. */
function page<Item>(
  { faults }: Directory,
  name: ListName,
  { all, keyOf, shown }: Lists<Item>,
  query: URLSearchParams,
): RawAnswer {
  const isDescending = query.get("sortOrder") === "DESCENDING" && query.has("orderBy");
  const size = Math.min(Number(query.get("maxResults") ?? (name === "users" ? 100 : 200)) || 1, lists[name].most);
  const mark = hash("sha256", [...query].filter(([key]) => key !== "pageToken").join()).slice(0, 12);
  const token = query.get("pageToken");
  const [tokenMark, after] = token === null ? [mark] : Buffer.from(token, "base64url").toString().split(" ");
  if (tokenMark !== mark || (token !== null && after === undefined)) return refusals.invalid("pageToken");
  const at = (index: number): Item | undefined => all.at(isDescending ? all.length - 1 - index : index);
  const isAfter = (item: Item | undefined, key: string): boolean =>
    item === undefined || (isDescending ? keyOf(item) < key : keyOf(item) > key);
  let first = after === undefined ? 0 : firstWhere(all.length, (index) => isAfter(at(index), after));
  if (faults.repeatsItems === name && first > 0) first--;
  const items: Item[] = [];
  const count = (faults.emptyFirstPage === name && token === null) || faults.empties === name ? 0 : size;
  for (let index = first; index < first + count; index++) {
    const item = at(index);
    if (index < all.length && item !== undefined) items.push(item);
  }
  const last = items.at(-1);
  const key = faults.sameToken === name ? (after ?? "") : last === undefined ? "" : keyOf(last);
  const isEnd = first + items.length >= all.length || faults.empties === name || faults.endsAfterFirstPage === name;
  const hasToken = !isEnd && !(faults.maskDropsToken === true && query.has("fields"));
  const body = {
    kind: `admin#directory#${name}`,
    etag: `"${mark}"`,
    ...(items.length === 0 ? {} : { [name]: items.map(shown) }),
    ...(hasToken
      ? { nextPageToken: Buffer.from(`${mark} ${isDescending && key === "" ? "\uffff" : key}`).toString("base64url") }
      : {}),
  };
  return masked(body, query, name);
}

/** The first index below `length` for which something holds that holds for all after it. */
function firstWhere(length: number, holds: (index: number) => boolean): number {
  let [low, high] = [0, length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function find<Item>(all: Listed<Item>, holds: (item: Item) => boolean): Item | undefined {
  for (let index = 0; index < all.length; index++) {
    const item = all.at(index);
    if (item !== undefined && holds(item)) return item;
  }
  return undefined;
}

function itemsOf<Item>(all: Listed<Item>): Item[] {
  return Array.isArray(all) ? (all as Item[]) : Array.from({ length: all.length }, (_, index) => all.at(index) as Item);
}

type Mask = ReadonlyMap<string, Mask>;

/** What `fields` asks for (partial responses): `nextPageToken,users(id,name/givenName)`. */
function masked(body: Json, query: URLSearchParams, name: ListName): RawAnswer {
  const fields = query.get("fields");
  if (fields === null || fields === "*") return { status: 200, body: JSON.stringify(body) };
  const mask = maskOf(fields);
  const inner = name in body || body["nextPageToken"] !== undefined ? (mask.get(name) ?? new Map()) : mask;
  const outer = new Set(["kind", "etag", "nextPageToken", name]);
  const wrong = [...inner.keys()].find((field) => !known[name].split(" ").includes(field) && !outer.has(field));
  if (wrong !== undefined) return refusal(400, "invalidParameter", `Invalid field selection ${wrong}`);
  return { status: 200, body: JSON.stringify(picked(body, mask)) };
}

function maskOf(fields: string): Mask {
  const pieces = fields.match(/[(),/]|[^(),/]+/g) ?? [];
  let next = 0;
  const item = (into: Map<string, Mask>): void => {
    const name = pieces[next++] ?? "";
    const inner = new Map(into.get(name));
    into.set(name, inner);
    if (pieces[next] === "/" && ++next > 0) item(inner);
    else if (pieces[next] === "(" && ++next > 0) {
      list(inner);
      next++;
    }
  };
  const list = (into: Map<string, Mask>): Mask => {
    item(into);
    while (pieces[next] === "," && ++next > 0) item(into);
    return into;
  };
  return list(new Map());
}

function picked(value: unknown, mask: Mask): unknown {
  if (mask.size === 0 || mask.has("*")) return value;
  if (Array.isArray(value)) return value.map((item) => picked(item, mask));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => {
      const own = mask.get(key);
      return own === undefined ? [] : [[key, picked(inner, own)]];
    }),
  );
}
