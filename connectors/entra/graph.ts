import { Buffer } from "node:buffer";
import type { Entry, OpenContext, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError, RefusedError } from "#errors.ts";
import { DirectoryApi } from "#http/directory/api.ts";
import type { Refusal } from "#http/directory/authorization.ts";
import { assertionGrant, federatedGrant, secretGrant, TokenAuthorization } from "#http/directory/credentials.ts";
import { connectionOf, fileReader } from "#http/directory/options.ts";
import type { Page } from "#http/directory/pages.ts";
import { isObject } from "#values.ts";
import { attributesOf } from "./attributes.ts";
import type { GraphObject } from "./attributes.ts";
import { clouds } from "./options.ts";
import type { Options } from "./options.ts";

/** Such queries are answered from an index, and only with this header. */
export const eventual = { consistencylevel: "eventual" } as const;

/** The permissions that a read needs, as Entra ID names them. */
export const permissions = {
  users: "User.Read.All",
  groups: "GroupMember.Read.All",
  hidden: "Member.Read.Hidden",
} as const;

function endpointsOf({ cloud }: Pick<Options, "cloud">): { readonly login: string; readonly graph: string } {
  return typeof cloud === "string" ? clouds[cloud] : cloud;
}

/** The app's identity. Files are read when a token is needed. */
export function authorizationOf(options: Options, { folder }: OpenContext): TokenAuthorization {
  const { tenant, clientId, clientSecret = "", certificate, federatedToken } = options;
  const { login, graph } = endpointsOf(options);
  const client = {
    tokenUrl: `${login.replace(/\/+$/, "")}/${tenant}/oauth2/v2.0/token`,
    clientId,
    scope: `${new URL(graph).origin}/.default`,
  };
  const readFile = fileReader(folder);
  if (federatedToken !== undefined)
    return new TokenAuthorization(
      federatedGrant({ ...client, read: () => readFile("federatedToken", federatedToken.file) }),
    );
  if (certificate === undefined) return new TokenAuthorization(secretGrant({ ...client, clientSecret, send: "body" }));
  const key = {
    name: certificate.key,
    read: () => readFile("certificate", certificate.key),
    algorithm: "PS256",
    certificate: () => readFile("certificate", certificate.file),
  } as const;
  return new TokenAuthorization(assertionGrant({ ...client, key }));
}

/** Graph, for the time of one read. */
export class Graph extends DirectoryApi {
  readonly options: Options;
  readonly #authorization: TokenAuthorization;
  readonly #base: string;

  constructor(
    options: Options,
    authorization: TokenAuthorization,
    { name, folder }: OpenContext,
    context: ReadContext,
  ) {
    const { graph } = endpointsOf(options);
    super(
      {
        subject: `source ${name}`,
        origins: [graph],
        authorization,
        ...connectionOf(options, folder),
        // Requests that people wait for go before ours, which read lists.
        headers: { "x-ms-throttle-priority": "low" },
        advice: adviceOn,
      },
      context,
    );
    this.options = options;
    this.#authorization = authorization;
    this.#base = `${new URL(graph).origin}/v1.0/`;
  }

  /** @param path below `/v1.0/` */
  url(path: string, parameters: Readonly<Record<string, string>> = {}): URL {
    const url = new URL(path, this.#base);
    for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
    return url;
  }

  /** A page of a list. */
  async page(url: URL, headers: Readonly<Record<string, string>> = {}): Promise<Page<GraphObject>> {
    const refused = ({ body }: Refusal) =>
      errorIn(body, "code") === "Directory_ExpiredPageToken" ? { value: lost } : undefined;
    const { value } = await this.json(url, { headers, refused });
    if (value === lost.value) return { items: [], lost: "Graph no longer knows the link to the next page" };
    const items = isObject(value) ? value["value"] : undefined;
    if (!isObject(value) || !Array.isArray(items) || !items.every(isObject))
      throw new InputError(`${this.titleOf(url)}: the answer is not a list of Graph`);
    const next = value["@odata.nextLink"];
    if (next !== undefined && typeof next !== "string")
      throw new InputError(`${this.titleOf(url)}: the link to the next page is not a text`);
    return { items, next };
  }

  /** How many there are, as Graph counts; undefined: this tenant does not count (Azure AD B2C). */
  async count(path: string, filter?: string): Promise<number | undefined> {
    const url = this.url(`${path}/$count`, filter === undefined ? {} : { $filter: filter });
    const refused = ({ status, body }: Refusal) =>
      status === 400 && /\$count is not/.test(errorIn(body, "message") ?? "") ? { value: noCount } : undefined;
    const text = (await this.text(url, { headers: { accept: "text/plain", ...eventual }, refused })).trim();
    if (text === noCount) return undefined;
    if (!/^\d+$/.test(text)) throw new InputError(`${this.titleOf(url)}: the answer is not a number`);
    return Number(text);
  }

  /** `count`, or 0 where such things cannot be: a Microsoft 365 group holds no groups. */
  async countIfAny(path: string): Promise<number | undefined> {
    try {
      return await this.count(path);
    } catch (error) {
      if (error instanceof RefusedError && error.status === 400) return 0;
      throw error;
    }
  }

  /** The permissions that the token names; undefined: it is not one that can be looked into. */
  async permissions(): Promise<readonly string[] | undefined> {
    const { authorization } = await this.#authorization.headers(this);
    try {
      const claims: unknown = JSON.parse(Buffer.from(authorization.split(".")[1] ?? "", "base64url").toString());
      const roles = isObject(claims) ? claims["roles"] : undefined;
      return Array.isArray(roles) ? roles.map(String) : undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * A record of a list.
   * @throws {IncompleteReadError} it has nothing but its id: the app may not read it
   */
  entry(kind: Entry["kind"], object: GraphObject): Entry {
    const id = idOf(this, object);
    const name = object[kind === "user" ? "userPrincipalName" : "displayName"];
    if (typeof name !== "string") throw unreadable(this, kind, id);
    return {
      kind,
      id,
      origin: this.url(`${kind}s/${id}`).href,
      attributes: attributesOf(object),
      keys: [id],
      memberOf: [],
      members: [],
    };
  }
}

const noCount = "no count";
const lost = { value: Symbol("lost"), headers: {} };

/** @throws {InputError} it has none */
export function idOf({ subject }: Graph, { id }: GraphObject): string {
  if (typeof id === "string" && id !== "") return id;
  throw new InputError(`${subject}: an object without an id; every object of Graph has one`);
}

export function unreadable({ subject }: Graph, kind: Entry["kind"], id: string, where = ""): IncompleteReadError {
  const permission = permissions[`${kind}s`];
  return new IncompleteReadError(
    `${subject}: ${kind} ${id}${where}: Graph shows its id and nothing else: the app may not read it; grant it the application permission ${permission}, with an administrator's consent`,
  );
}

/** What an error says: its code, `Authorization_RequestDenied`, or its message. */
function errorIn(body: unknown, part: "code" | "message"): string | undefined {
  const text = isObject(body) && isObject(body["error"]) ? body["error"][part] : undefined;
  return typeof text === "string" ? text : undefined;
}

/** What the numbers of the token endpoint's errors mean. */
const loginAdvice: Readonly<Record<string, string>> = {
  "7000215": "check clientSecret: it is the secret's value, not its id",
  "7000222": "the client secret has expired: make a new one in the app registration",
  "700027": "check certificate: the app registration must have it, and key must be its private key",
  "700213": "check federatedToken: issuer, subject and audience must be those of a federated credential of the app",
  "70021": "check federatedToken: issuer, subject and audience must be those of a federated credential of the app",
  "700016": "check clientId and tenant: the tenant has no such app",
  "90002": "check tenant: there is none of this name; a tenant of another cloud needs cloud",
  "900023": "check tenant: it is neither an id nor a domain",
  "1002012": "check cloud",
};

function adviceOn({ status, body }: Refusal): string | undefined {
  if (isObject(body) && Array.isArray(body["error_codes"])) {
    for (const code of body["error_codes"].map(String)) if (loginAdvice[code] !== undefined) return loginAdvice[code];
    return "check tenant, clientId and clientSecret (certificate, federatedToken)";
  }
  if (status === 403)
    return `the app needs the application permissions ${permissions.users} and ${permissions.groups}, with an administrator's consent`;
  if (status === 401) return "Graph rejects the token; check tenant and cloud";
  if (status === 400 || status === 501) return "check filter and attributes of users and groups";
  return undefined;
}
