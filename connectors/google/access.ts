import { createPrivateKey } from "node:crypto";
import { z } from "zod";
import type { OpenContext, ReadContext } from "#connector.ts";
import { InputError, RefusedError } from "#errors.ts";
import { DirectoryApi } from "#http/directory/api.ts";
import type { Refusal } from "#http/directory/authorization.ts";
import { subjectGrant, TokenAuthorization } from "#http/directory/credentials.ts";
import { connectionOf, fileReader } from "#http/directory/options.ts";
import type { ReadFile } from "#http/directory/options.ts";
import type { Options } from "./options.ts";

const scope = (name: string): string => `https://www.googleapis.com/auth/admin.directory.${name}.readonly`;

/** What a read needs. The scope for groups includes their members. */
function scopesOf({ groups }: Options): readonly string[] {
  return groups === false ? [scope("user")] : [scope("user"), scope("group")];
}

const keyFile = z.object({
  type: z.literal("service_account"),
  client_email: z.string().min(1),
  client_id: z.string().default(""),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
});

/** A service account that reads for an administrator. Keeps its token across reads, and for as long as its key stays the same. */
export class ServiceAccount {
  readonly #options: Options;
  readonly #place: OpenContext;
  readonly #read: ReadFile;
  #last: { readonly text: string; readonly authorization: TokenAuthorization } | undefined;

  constructor(options: Options, place: OpenContext) {
    this.#options = options;
    this.#place = place;
    this.#read = fileReader(place.folder);
  }

  /** Access for one read, which must be closed. @throws {InputError} the key or `ca` cannot be read */
  open(context: ReadContext): DirectoryApi {
    const text = this.#read("key", this.#options.key.file);
    if (this.#last?.text !== text)
      this.#last = { text, authorization: this.#authorization(text, scopesOf(this.#options).join(" ")) };
    return this.#api(this.#last.authorization, context);
  }

  /**
   * The same refusal with the scopes that the service account may not ask for: Google does not name them.
   * @throws what `DirectoryApi.get` throws
   */
  async explained(refusal: RefusedError, context: ReadContext): Promise<RefusedError> {
    const missing: string[] = [];
    for (const each of scopesOf(this.#options)) {
      const authorization = this.#authorization(this.#read("key", this.#options.key.file), each);
      await using api = this.#api(authorization, context);
      try {
        await authorization.headers(api);
      } catch (error) {
        if (!(error instanceof RefusedError) || error.status !== 401) throw error;
        missing.push(each);
      }
    }
    if (missing.length === 0) return refusal;
    const problem = `source ${this.#place.name}: the service account may not ask for ${missing.join(" and ")}`;
    return new RefusedError(`${problem}: ${this.#delegation()}`, { status: 401, cause: refusal });
  }

  #authorization(text: string, scopes: string): TokenAuthorization {
    const { subject, endpoints } = this.#options;
    const { client_email, private_key, private_key_id } = this.#keyIn(text);
    const key = { name: `key: ${this.#options.key.file}`, read: () => private_key, kid: private_key_id };
    const grant = { tokenUrl: endpoints.token, issuer: client_email, subject, scope: scopes, key };
    return new TokenAuthorization(subjectGrant({ ...grant, key: { ...key, algorithm: "RS256" } }));
  }

  #keyIn(text: string): z.infer<typeof keyFile> {
    const problem = (what: string): InputError =>
      new InputError(
        `source ${this.#place.name}: key: ${this.#options.key.file} ${what}; expected the JSON key of a service account, as Google's console gives it`,
      );
    try {
      const key = keyFile.safeParse(JSON.parse(text));
      if (!key.success) throw problem(`has no valid ${key.error.issues[0]?.path.join(".") ?? "content"}`);
      createPrivateKey(key.data.private_key);
      return key.data;
    } catch (error) {
      // What a parser says may quote the key.
      throw error instanceof InputError ? error : problem("is not JSON, or holds no private key in PEM form");
    }
  }

  #api(authorization: TokenAuthorization, context: ReadContext): DirectoryApi {
    const { endpoints, attempts } = this.#options;
    return new DirectoryApi(
      {
        subject: `source ${this.#place.name}`,
        origins: [endpoints.directory],
        authorization,
        attempts,
        ...connectionOf(this.#options, this.#place.folder),
        isLimit: ({ status, body }) => status === 403 && limits.has(reasonIn(body)),
        errorText,
        advice: (refusal) => this.#advice(refusal),
      },
      context,
    );
  }

  #advice({ status, body }: Refusal): string | undefined {
    const { subject, customer } = this.#options;
    const reason = reasonIn(body);
    switch (reason) {
      case "unauthorized_client":
      case "access_denied":
        return this.#delegation();
      case "invalid_grant":
        return `check three things: the subject ${subject} is an active user; the key in ${this.#options.key.file} has not been deleted, nor its service account disabled; this machine's clock is right`;
      case "insufficientPermissions":
      case "ACCESS_TOKEN_SCOPE_INSUFFICIENT":
        return this.#delegation();
      case "accessNotConfigured":
      case "SERVICE_DISABLED":
        return "turn on the Admin SDK API in the Google Cloud project of the service account";
      case "domainCannotUseApis":
        return "an administrator must allow API access: Security > API controls, in the Admin console";
      default:
        if (status === 403)
          return `the subject ${subject} must be an administrator whose role may read users and groups in all organizational units`;
        return status === 400 || status === 404 ? `check customer (${customer}) and subject (${subject})` : undefined;
    }
  }

  /** What an administrator has to enter where. */
  #delegation(): string {
    const { client_id, client_email } = this.#keyIn(this.#read("key", this.#options.key.file));
    const client = client_id === "" ? `the service account ${client_email}` : `the client ID ${client_id}`;
    return `in the Admin console, under Security > Access and data control > API controls > Domain-wide delegation, give ${client} these scopes: ${scopesOf(this.#options).join(",")}`;
  }

  /** Whose credentials these are. */
  get who(): string {
    return this.#last?.authorization.who ?? "";
  }
}

/** Refusals that end when fewer requests come. */
const limits = new Set(["userRateLimitExceeded", "rateLimitExceeded", "quotaExceeded", "RATE_LIMIT_EXCEEDED"]);

const refusal = z.union([
  z.object({ error: z.string(), error_description: z.string().optional() }),
  z.object({
    error: z.object({
      message: z.string().optional(),
      status: z.string().optional(),
      errors: z.array(z.object({ reason: z.string().optional() })).optional(),
      details: z.array(z.object({ reason: z.string().optional() })).optional(),
    }),
  }),
]);

/** Google's word for why: of the token endpoint `invalid_grant`, of the API `forbidden`. */
function reasonIn(body: unknown): string {
  const { data } = refusal.safeParse(body);
  if (data === undefined) return "";
  if (typeof data.error === "string") return data.error;
  const { errors = [], details = [], status } = data.error;
  return errors[0]?.reason ?? details.find(({ reason }) => reason !== undefined)?.reason ?? status ?? "";
}

function errorText(body: unknown): string | undefined {
  const { data } = refusal.safeParse(body);
  if (data === undefined) return undefined;
  const message = "error_description" in data ? data.error_description : undefined;
  const said = typeof data.error === "string" ? message : data.error.message;
  return [reasonIn(body), said].filter((part) => part !== undefined && part !== "").join(": ");
}
