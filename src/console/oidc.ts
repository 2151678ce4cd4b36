import { createRemoteJWKSet, customFetch as keysFetch, jwtVerify } from "jose";
import * as client from "openid-client";
import type { OidcOptions } from "#config/console.ts";
import type { ProviderSession } from "#control/sessions.ts";
import { InputError, messageOf, UnavailableError } from "#errors.ts";
import { readAuthorities } from "#files/certificates.ts";
import { bytesBody, HttpClient, textOf } from "#http/client.ts";
import { HttpError } from "#http/errors.ts";
import { presentable } from "#redact.ts";
import { roles } from "#roles.ts";
import type { Role } from "#roles.ts";
import { isObject } from "#values.ts";
import { oidcPaths } from "./oidc-paths.ts";

/** Somebody whom the provider has vouched for. */
export interface Vouched {
  readonly subject: { readonly issuer: string; readonly sub: string };
  readonly name: string;
  /** The highest that their groups and claims give. */
  readonly role: Role | undefined;
  /** For whoever has no role: the groups that the provider says they are in; undefined: it says nothing of groups. */
  readonly groups: readonly string[] | undefined;
  readonly session: ProviderSession;
}

/** What a sign-in under way must come back with; the browser keeps it, for this site alone. */
export interface Attempt {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** Where to go afterwards. */
  readonly next: string;
}

/** A logout that the provider sends. */
export interface ProviderLogout {
  readonly id: string;
  readonly issuer: string;
  readonly sub?: string | undefined;
  readonly sid?: string | undefined;
}

/** In milliseconds. */
const timeouts = { connect: 5_000, headers: 10_000, body: 10_000 };

/** How long a provider that did not answer is not asked again, in milliseconds. */
const pause = 5_000;

/** How long a session goes on of whose end the provider says nothing, in milliseconds. */
const usualLifetime = 3_600_000;

/** How old a logout of the provider may be, in seconds; it is remembered for longer. */
const oldestLogout = 300;

/** Signatures with a public key. With the client's secret as the key, whoever knows it could end sessions. */
const signatures = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];

const logoutEvent = "http://schemas.openid.net/event/backchannel-logout";

/** Sign-in with the OpenID provider of the configuration: the code flow, with PKCE, state and nonce. */
export class Oidc {
  readonly name: string;
  readonly issuer: string;
  readonly roles: OidcOptions["roles"];
  readonly #options: OidcOptions;
  readonly #publicUrl: string;
  #found: Promise<client.Configuration> | undefined;
  #failed = -Infinity;
  #keys: ReturnType<typeof createRemoteJWKSet> | undefined;

  constructor(options: OidcOptions, publicUrl: string) {
    this.name = options.name;
    this.issuer = options.issuer;
    this.roles = options.roles;
    this.#options = options;
    this.#publicUrl = publicUrl;
  }

  /** Why nobody can sign in with the provider now, for a person; undefined: they can. */
  async problem(): Promise<string | undefined> {
    try {
      await this.#provider();
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  /** Begins a sign-in. @returns where the browser goes, and what it keeps. @throws {UnavailableError} */
  async begin(next: string): Promise<{ readonly url: string; readonly attempt: Attempt }> {
    const provider = await this.#provider();
    const [state, nonce] = [client.randomState(), client.randomNonce()];
    const verifier = client.randomPKCECodeVerifier();
    const url = client.buildAuthorizationUrl(provider, {
      redirect_uri: this.#publicUrl + oidcPaths.back,
      scope: [...new Set(["openid", ...this.#options.scopes])].join(" "),
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
      state,
      nonce,
    });
    return { url: url.href, attempt: { state, nonce, verifier, next } };
  }

  /**
   * Ends a sign-in.
   * @param query what the provider has sent the browser back with
   * @throws {InputError} it was not this sign-in, or the provider refuses it; {UnavailableError} it does not answer
   */
  async complete(query: string, { state, nonce, verifier }: Attempt): Promise<Vouched> {
    const provider = await this.#provider();
    const url = new URL(`${this.#publicUrl}${oidcPaths.back}${query}`);
    try {
      const tokens = await client.authorizationCodeGrant(provider, url, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      return await this.#vouched(provider, tokens);
    } catch (error) {
      throw this.#failure(error, "refused the sign-in");
    }
  }

  /**
   * Asks the provider whether a session goes on, and with which groups.
   * @returns undefined when it has ended there, or cannot be asked about. @throws {UnavailableError} the provider does not answer
   */
  async renew({ refreshToken, idToken, sid }: ProviderSession, sub: string): Promise<Vouched | undefined> {
    if (refreshToken === undefined) return undefined;
    const provider = await this.#provider();
    try {
      const tokens = await client.refreshTokenGrant(provider, refreshToken);
      const claims = tokens.claims();
      if ((claims?.sub ?? sub) !== sub) return undefined;
      // Then nothing says which groups they have now.
      if (claims === undefined && provider.serverMetadata().userinfo_endpoint === undefined) return undefined;
      return await this.#vouched(provider, tokens, { refreshToken, idToken, sid, sub });
    } catch (error) {
      const failure = this.#failure(error, "has ended the session");
      if (failure instanceof UnavailableError) throw failure;
      return undefined;
    }
  }

  /** Where a browser ends the session at the provider, too; undefined: the provider has no such address. */
  async logoutUrl({ idToken }: ProviderSession): Promise<string | undefined> {
    const provider = await this.#provider().catch(() => undefined);
    if (provider?.serverMetadata().end_session_endpoint === undefined) return undefined;
    return client.buildEndSessionUrl(provider, {
      id_token_hint: idToken,
      post_logout_redirect_uri: `${this.#publicUrl}/sign-in`,
    }).href;
  }

  /** Checks a logout that the provider has sent (OpenID Connect Back-Channel Logout 1.0, 2.6). @throws {InputError} */
  async readLogout(token: string): Promise<ProviderLogout> {
    const provider = await this.#provider();
    const { issuer, jwks_uri: keys } = provider.serverMetadata();
    if (keys === undefined) throw new InputError("the provider has no keys to check it with");
    this.#keys ??= createRemoteJWKSet(new URL(keys), { [keysFetch]: (url, options) => this.#fetch(url, options) });
    const verified = await jwtVerify(token, this.#keys, {
      issuer,
      audience: this.#options.clientId,
      algorithms: signatures,
      maxTokenAge: oldestLogout,
      clockTolerance: 30,
      requiredClaims: ["iat", "jti", "events"],
    }).catch((error: unknown) => {
      throw new InputError(`it is not a logout of the provider: ${presentable(messageOf(error))}`);
    });
    const { sub, sid, jti, nonce, events } = verified.payload;
    const isLogout = typeof events === "object" && events !== null && logoutEvent in events && nonce === undefined;
    const session = typeof sid === "string" ? sid : undefined;
    if (!isLogout || jti === undefined || (sub === undefined && session === undefined))
      throw new InputError("it is not a logout of the provider");
    return { id: jti, issuer: this.issuer, sub, sid: session };
  }

  async #vouched(
    provider: client.Configuration,
    tokens: client.TokenEndpointResponse & client.TokenEndpointResponseHelpers,
    before?: Pick<ProviderSession, "refreshToken" | "idToken" | "sid"> & { readonly sub: string },
  ): Promise<Vouched> {
    const idClaims: Readonly<Record<string, unknown>> = tokens.claims() ?? {};
    const sub = textIn(idClaims["sub"]) ?? before?.sub ?? "";
    const hasUserInfo = provider.serverMetadata().userinfo_endpoint !== undefined;
    const info = hasUserInfo ? await client.fetchUserInfo(provider, tokens.access_token, sub) : {};
    const claims: Readonly<Record<string, unknown>> = { ...info, ...idClaims };
    const lifetime = tokens.expiresIn();
    return {
      subject: { issuer: this.issuer, sub },
      name: textIn(claims["preferred_username"]) ?? textIn(claims["email"]) ?? textIn(claims["name"]) ?? sub,
      role: roleOf(claims, this.#options),
      groups: valuesOf(claims, this.#options.groups),
      session: {
        until: Date.now() + (lifetime === undefined ? usualLifetime : lifetime * 1000),
        sid: textIn(idClaims["sid"]) ?? before?.sid,
        idToken: tokens.id_token ?? before?.idToken ?? "",
        refreshToken: tokens.refresh_token ?? before?.refreshToken,
      },
    };
  }

  /** What the provider says of itself: once, and again a while after it did not answer. */
  #provider(): Promise<client.Configuration> {
    if (this.#found !== undefined && performance.now() - this.#failed < pause) return this.#found;
    if (this.#failed > -Infinity) this.#found = undefined;
    this.#failed = -Infinity;
    this.#found ??= this.#discover().catch((error: unknown) => {
      this.#failed = performance.now();
      throw this.#failure(error, "does not describe itself as expected");
    });
    return this.#found;
  }

  async #discover(): Promise<client.Configuration> {
    const { issuer, clientId, clientSecret } = this.#options;
    const fetch: client.CustomFetch = (url, options) => this.#fetch(url, options);
    // The configuration allows http:// on this machine alone.
    const execute = [
      client.enableNonRepudiationChecks,
      ...(issuer.startsWith("http:") ? [client.allowInsecureRequests] : []),
    ];
    const found = await client.discovery(new URL(issuer), clientId, undefined, client.None(), {
      [client.customFetch]: fetch,
      execute,
    });
    if (clientSecret === undefined) return found;
    const server = found.serverMetadata();
    const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const authentication = methods.includes("client_secret_basic") ? client.ClientSecretBasic : client.ClientSecretPost;
    const provider = new client.Configuration(server, clientId, undefined, authentication(clientSecret));
    provider[client.customFetch] = fetch;
    for (const each of execute) each(provider);
    return provider;
  }

  async #fetch(
    url: string | URL,
    {
      method,
      headers,
      body,
      signal,
    }: Pick<client.CustomFetchOptions, "method"> & {
      readonly headers?: ConstructorParameters<typeof Headers>[0];
      readonly body?: unknown;
      readonly signal?: AbortSignal | null;
    },
  ): Promise<Response> {
    const { ca, proxy } = this.#options;
    const http = new HttpClient({
      owner: "provider",
      timeouts,
      ca: ca === undefined ? undefined : readAuthorities(ca, `console.oidc.ca: ${ca}`),
      proxy,
    });
    const text = body instanceof URLSearchParams ? body.toString() : body;
    const sent = typeof text === "string" ? bytesBody(text) : undefined;
    return http.exchange(
      {
        url: new URL(url),
        method: method === "POST" ? "POST" : "GET",
        headers: Object.fromEntries(new Headers(headers)),
        body: sent,
      },
      async (answer) => {
        const given = Object.entries(answer.headers).flatMap(([name, value]) =>
          value === undefined ? [] : [[name, String(value)] satisfies [string, string]],
        );
        return new Response(await textOf(answer), { status: answer.status, headers: given });
      },
      signal ?? new AbortController().signal,
    );
  }

  /** An error for a person. @param refused what the provider has done when it has answered */
  #failure(error: unknown, refused: string): InputError | UnavailableError {
    if (error instanceof InputError || error instanceof UnavailableError) return error;
    const { clientSecret = "" } = this.#options;
    if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError) {
      const said = presentable(error.error_description ?? error.error, [clientSecret]);
      return new InputError(`${this.name} ${refused}: ${said}`, { cause: error });
    }
    const causes = causesOf(error);
    const unanswered = causes.find((each) => each instanceof HttpError);
    const said = presentable(messageOf(unanswered ?? causes.at(-1)), [clientSecret]);
    if (unanswered !== undefined)
      return new UnavailableError(`${this.name} cannot be asked: ${said}`, { cause: error });
    return new InputError(`${this.name} ${refused}: ${said}`, { cause: error });
  }
}

/** An error, and what caused it, one after the other. */
function causesOf(error: unknown): unknown[] {
  return error instanceof Error && error.cause instanceof Error ? [error, ...causesOf(error.cause)] : [error];
}

/** What somebody's groups and claims give them: the highest. */
export function roleOf(
  claims: Readonly<Record<string, unknown>>,
  options: Pick<OidcOptions, "groups" | "roles">,
): Role | undefined {
  return roles.findLast((role) => {
    const wanted = options.roles[role];
    if (wanted === undefined) return false;
    if (wanted.claim === undefined && wanted.values.includes("*")) return true;
    const claim = wanted.claim ?? options.groups;
    // Anybody may write any address into their profile: the provider says that nobody has proved it.
    if (claim === "email" && String(claims["email_verified"]) === "false") return false;
    const has = valuesOf(claims, claim) ?? [];
    return wanted.values.some((value) => has.includes(value));
  });
}

/** The values of a claim; `realm_access.roles` is within another, unless a claim has that very name. */
function valuesOf(claims: Readonly<Record<string, unknown>>, name: string): readonly string[] | undefined {
  const at = Object.hasOwn(claims, name)
    ? claims[name]
    : name
        .split(".")
        .reduce<unknown>(
          (value, key) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined),
          claims,
        );
  if (at === undefined || at === null) return undefined;
  return [at].flat().map(String);
}

function textIn(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
