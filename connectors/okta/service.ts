import type { OpenContext, ReadContext } from "#connector.ts";
import { IncompleteReadError } from "#errors.ts";
import { DirectoryApi } from "#http/directory/api.ts";
import type { JsonAnswer } from "#http/directory/api.ts";
import { assertionGrant, fixedHeaders, TokenAuthorization } from "#http/directory/credentials.ts";
import type { Grant } from "#http/directory/credentials.ts";
import type { Authorization, Refusal } from "#http/directory/authorization.ts";
import { connectionOf, fileReader } from "#http/directory/options.ts";
import { linkIn } from "#http/directory/pages.ts";
import type { Page, PagedList } from "#http/directory/pages.ts";
import { DpopAuthorization } from "./dpop.ts";
import { idOf, itemsIn } from "./entry.ts";
import type { Item } from "./entry.ts";
import { statuses } from "./options.ts";
import type { Options } from "./options.ts";

/** What a service app has to be granted, and a person's role has to include. */
const scopes = ["okta.users.read", "okta.groups.read"] as const;

/** @param folder where relative paths start */
export function authorizationOf({ url, token, clientId, privateKey, dpop }: Options, folder: string): Authorization {
  if (token !== undefined)
    return fixedHeaders({ authorization: `SSWS ${token}` }, [token], "the holder of an API token");
  if (clientId === undefined || privateKey === undefined) throw new TypeError("neither a token nor a key");
  const readFile = fileReader(folder);
  const { file, kid, algorithm } = privateKey;
  const signed = assertionGrant({
    tokenUrl: new URL("/oauth2/v1/token", url).href,
    clientId,
    scope: scopes.join(" "),
    key: { name: file, read: () => readFile("privateKey.file", file), kid, algorithm },
  });
  const grant: Grant = {
    ...signed,
    // Okta's guide and its own clients send the assertion alone, which names the client.
    form: async () => {
      const { client_id: _, ...fields } = (await signed.form()).fields;
      return { fields };
    },
  };
  return dpop ? new DpopAuthorization(grant) : new TokenAuthorization(grant);
}

/** An organization, for the time of one read. */
export class Organization extends DirectoryApi {
  readonly options: Options;

  /** @throws {InputError} the file of certificates cannot be read */
  constructor(options: Options, authorization: Authorization, { name, folder }: OpenContext, context: ReadContext) {
    const { url, origins } = options;
    super(
      {
        subject: `source ${name}`,
        origins: [...originsOf(url), ...origins],
        authorization,
        ...connectionOf(options, folder),
        advice: (refusal) => adviceOn(refusal, options),
      },
      context,
    );
    this.options = options;
  }

  /** Below `/api/v1/`. Parameters that are undefined are left out. */
  url(path: string, parameters: Readonly<Record<string, string | undefined>> = {}): URL {
    const url = new URL(`/api/v1/${path}`, this.options.url);
    for (const [name, value] of Object.entries(parameters)) if (value !== undefined) url.searchParams.set(name, value);
    return url;
  }

  list(path: string, parameters: Readonly<Record<string, string | undefined>>): PagedList<Item> {
    const size = this.options.pageSize;
    return {
      url: this.url(path, { ...parameters, limit: `${size}` }),
      paging: { by: "link", size },
      get: (url) => this.#page(url),
    };
  }

  /** Okta answers 500 to a page that takes it too long, and advises to ask for less. */
  async #page(url: URL): Promise<Page<Item>> {
    for (let place = url; ;) {
      const limit = Number(place.searchParams.get("limit"));
      const answer = await this.json(place, {
        refused: ({ status }) => (status === 500 && limit > smallestPage ? { value: tooSlow } : undefined),
      });
      if (answer !== tooSlow)
        return { items: itemsIn(answer.value, this.titleOf(place)), next: linkIn(answer.headers) };
      place = new URL(place);
      place.searchParams.set("limit", `${Math.ceil(limit / 4)}`);
    }
  }

  /** The first records of a list that need not be complete. */
  async some(path: string, parameters: Readonly<Record<string, string | undefined>>): Promise<readonly Item[]> {
    const url = this.url(path, parameters);
    return itemsIn((await this.json(url)).value, this.titleOf(url));
  }

  /** A user or a group; undefined: there is none. @throws {IncompleteReadError} the answer is another one */
  async one(kind: "users" | "groups", id: string): Promise<Item | undefined> {
    const url = this.url(`${kind}/${encodeURIComponent(id)}`);
    const value = await this.jsonIfAny(url);
    if (value === undefined) return undefined;
    const title = this.titleOf(url);
    // A user would also be found by a login.
    if (idOf(value, title) !== id) throw new IncompleteReadError(`${title}: the answer is another record`);
    return value as Item;
  }

  /**
   * The group that every user is in, and how many it counts.
   * @throws {IncompleteReadError} it does not show: the role behind the credentials sees a part of the organization
   */
  async everyone(): Promise<{ readonly id: string; readonly count: number }> {
    const groups = await this.some("groups", { filter: 'type eq "BUILT_IN"', expand: "stats" });
    const group = groups.find(({ profile }) => (profile as Item | undefined)?.["name"] === "Everyone");
    if (group !== undefined) return { id: idOf(group, ""), count: this.usersIn(group) };
    throw new IncompleteReadError(
      `${this.subject}: the group Everyone is not visible, so the credentials see only a part of the organization, and nothing tells how much; ${whatToGrant(this.options)}`,
    );
  }

  /** How many users a group counts. @throws {IncompleteReadError} it does not say */
  usersIn(group: Item): number {
    const stats = (group["_embedded"] as { readonly stats?: { readonly usersCount?: unknown } } | undefined)?.stats;
    const count = stats?.usersCount;
    if (typeof count === "number") return count;
    const where = this.url(`groups/${idOf(group, "")}`).href;
    throw new IncompleteReadError(
      `${this.subject}: ${where}: Okta does not say how many users the group has (expand=stats), so nothing proves that all its members come`,
    );
  }
}

/** Pages are not made smaller than this. */
const smallestPage = 20;
/** Instead of a page. */
const tooSlow: JsonAnswer = { value: undefined, headers: {} };

/** The organization's address, and its other one: links in answers of one name the other. */
export function originsOf(url: string): readonly string[] {
  const { origin, protocol, host } = new URL(url);
  const [, name, admin, domain] = /^([^.]+?)(-admin)?(\.okta(?:preview|-emea|-gov)?\.(?:com|mil))$/.exec(host) ?? [];
  if (name === undefined) return [origin];
  return [origin, `${protocol}//${name}${admin === undefined ? "-admin" : ""}${domain}`];
}

/** A search that finds users with one of these statuses. */
export function searchFor(some: readonly string[], search?: string): string {
  const either = some.map((status) => `status eq "${status}"`).join(" or ");
  return search === undefined ? either : `(${either}) and (${search})`;
}

/** All statuses but that of users who were deactivated. */
export const notDeactivated: readonly string[] = statuses.filter((status) => status !== "DEPROVISIONED");

function whatToGrant({ token }: Options): string {
  const role = "a role that sees all users and groups, such as Read-Only Administrator";
  return token === undefined
    ? `grant the app the scopes ${scopes.join(" and ")} (Okta API Scopes), and ${role} (Admin roles)`
    : `the token must be one of a person with ${role}`;
}

/** What to do about a refusal. The codes are Okta's; those of its token endpoint are OAuth's. */
function adviceOn({ status, body, headers }: Refusal, options: Options): string | undefined {
  const { errorCode, error } = (body ?? {}) as Readonly<Record<string, unknown>>;
  switch (errorCode ?? error) {
    case "E0000011":
      return options.token === undefined
        ? "the app's token is not accepted; if the app requires proof of possession, set dpop: true"
        : "the API token is not accepted: it may be revoked, unused for 30 days, of a person who was deactivated, or of another organization";
    case "E0000006":
      return whatToGrant(options);
    case "E0000031":
      return "Okta does not understand the search; check users: { search } and groups: { search }";
    case "invalid_client":
      return "check clientId, privateKey and its kid: the app must have the public half of the key, and the clock must be right";
    case "invalid_scope":
      return whatToGrant(options);
    case "invalid_dpop_proof":
      return options.dpop
        ? "the proof of possession is not accepted; is the clock right?"
        : "the app requires proof of possession: set dpop: true";
    default:
      break;
  }
  const challenge = String(headers["www-authenticate"] ?? "");
  if (/dpop/i.test(challenge) && !options.dpop) return "the app requires proof of possession: set dpop: true";
  return status === 403 ? whatToGrant(options) : undefined;
}
