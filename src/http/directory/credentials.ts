import { createPrivateKey, hash, randomUUID, X509Certificate } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { SignJWT } from "jose";
import { z } from "zod";
import { InputError, messageOf } from "#errors.ts";
import { formBody, jsonIn } from "#http/client.ts";
import type { Authorization, Refusal, Requester } from "./authorization.ts";

/** The same headers for every request. */
export function fixedHeaders(
  headers: Readonly<Record<string, string>>,
  secrets: readonly string[],
  who: string,
): Authorization {
  return { headers: () => Promise.resolve(headers), renew: () => false, secrets: () => secrets, who };
}

export function bearer(token: string): Authorization {
  return fixedHeaders({ authorization: `Bearer ${token}` }, [token], "the holder of a token");
}

/** Shorter passwords are none: some services take an API key as the user's name, with any password. */
const shortestPassword = 4;

export function basic(username: string, password: string): Authorization {
  const encoded = Buffer.from(`${username}:${password}`).toString("base64");
  const isKey = password.length < shortestPassword;
  return fixedHeaders(
    { authorization: `Basic ${encoded}` },
    [isKey ? username : password, encoded],
    isKey ? "the holder of an API key" : `the user ${username}`,
  );
}

/** How a token endpoint is asked for a token. */
export interface Grant {
  readonly tokenUrl: string;
  /** For a person: `the client 1b2c…`. */
  readonly who: string;
  /** What is sent, made for every token anew. @throws {InputError} a key or a file cannot be used */
  form(): Promise<TokenForm>;
  /** May have the request sent again at once: the refusal says what it must have (a nonce). */
  readonly refused?: ((refusal: Refusal, sent: TokenForm) => "again" | undefined) | undefined;
  /** Never to appear in a message. */
  secrets(): readonly string[];
}

export interface TokenForm {
  readonly fields: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** What a client asks for beside its own identity. */
export interface Scope {
  readonly scope?: string | undefined;
  /** The parameter `audience`, for servers that require one. */
  readonly audience?: string | undefined;
}

function asked({ scope, audience }: Scope): Record<string, string> {
  return { ...(scope !== undefined && { scope }), ...(audience !== undefined && { audience }) };
}

/** The client credentials grant with a secret (RFC 6749, 4.4). @param client `send`: where id and secret are */
export function secretGrant(
  client: Scope & {
    readonly tokenUrl: string;
    readonly clientId: string;
    readonly clientSecret: string;
    readonly send: "header" | "body";
  },
): Grant {
  const { tokenUrl, clientId, clientSecret, send } = client;
  const encoded = Buffer.from(`${formEncoded(clientId)}:${formEncoded(clientSecret)}`).toString("base64");
  return {
    tokenUrl,
    who: `the client ${clientId}`,
    form: async () => ({
      fields: {
        grant_type: "client_credentials",
        ...asked(client),
        ...(send === "body" && { client_id: clientId, client_secret: clientSecret }),
      },
      ...(send === "header" && { headers: { authorization: `Basic ${encoded}` } }),
    }),
    secrets: () => [clientSecret, formEncoded(clientSecret), encoded],
  };
}

/** Form encoding (RFC 6749, 2.3.1). */
function formEncoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

/** A private key and what a server knows it by. */
export interface SigningKey {
  /** For messages: the option, or the file. */
  readonly name: string;
  /** PEM, or a JWK; read for every token, so that a file may be replaced. @throws {InputError} */
  readonly read: () => string;
  /** Default: ES256 for a key of P-256, otherwise RS256. */
  readonly algorithm?: "RS256" | "PS256" | "ES256" | undefined;
  /** Default: that of a JWK. */
  readonly kid?: string | undefined;
  /** The certificate in PEM; its digest goes into the header as `x5t#S256`. @throws {InputError} */
  readonly certificate?: (() => string) | undefined;
}

/** A token lives so long, in seconds: it is used at once, and clocks differ. */
const lifetime = 300;

/**
 * A signed JSON web token.
 * @param claims without times and `jti`, which are added
 * @throws {InputError} the key or the certificate cannot be used; the message holds neither
 */
async function signedJwt(claims: Readonly<Record<string, string>>, key: SigningKey): Promise<string> {
  const { privateKey, kid } = privateKeyIn(key);
  const algorithm = key.algorithm ?? (privateKey.asymmetricKeyType === "ec" ? "ES256" : "RS256");
  const certificate =
    key.certificate === undefined ? undefined : certificateFor(privateKey, key.certificate(), key.name);
  const now = Math.floor(Date.now() / 1_000);
  const token = new SignJWT({ ...claims, jti: randomUUID() })
    .setProtectedHeader({
      alg: algorithm,
      typ: "JWT",
      ...(kid !== undefined && { kid }),
      ...(certificate !== undefined && {
        "x5t#S256": hash("sha256", certificate.raw, "base64url"),
      }),
    })
    .setIssuedAt(now)
    // Its clock may be a little behind.
    .setNotBefore(now - 60)
    .setExpirationTime(now + lifetime);
  try {
    return await token.sign(privateKey);
  } catch (error) {
    throw new InputError(`${key.name}: the key does not fit ${algorithm} (${messageOf(error)})`);
  }
}

function privateKeyIn({ name, read, kid }: SigningKey): { privateKey: KeyObject; kid: string | undefined } {
  const text = read();
  try {
    if (!text.trimStart().startsWith("{")) return { privateKey: createPrivateKey(text), kid };
    const jwk = JSON.parse(text) as Record<string, unknown>;
    const own = typeof jwk["kid"] === "string" ? jwk["kid"] : undefined;
    return { privateKey: createPrivateKey({ key: jwk, format: "jwk" }), kid: kid ?? own };
  } catch {
    // The cause may quote the key.
    throw new InputError(
      `${name}: expected a private key, unencrypted, in PEM form (-----BEGIN PRIVATE KEY-----) or as a JWK`,
    );
  }
}

function certificateFor(key: KeyObject, text: string, name: string): X509Certificate {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(text);
  } catch {
    throw new InputError(`${name}: expected a certificate in PEM form (-----BEGIN CERTIFICATE-----)`);
  }
  if (!certificate.checkPrivateKey(key)) throw new InputError(`${name}: the key does not belong to the certificate`);
  if (certificate.validToDate.getTime() < Date.now())
    throw new InputError(
      `${name}: the certificate was valid until ${certificate.validTo}: renew it, also at the server`,
    );
  return certificate;
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/** The client credentials grant with an assertion (RFC 7523, 2.2) that is signed for the token URL. */
export function assertionGrant(
  client: Scope & { readonly tokenUrl: string; readonly clientId: string; readonly key: SigningKey },
): Grant {
  const { tokenUrl, clientId, key } = client;
  return clientAssertion(client, () => signedJwt({ iss: clientId, sub: clientId, aud: tokenUrl }, key));
}

/**
 * The client credentials grant with a token that another issuer wrote into a file (workload identity).
 * @param client `read`: gives the token, for every request anew, since it is replaced there. @throws {InputError}
 */
export function federatedGrant(
  client: Scope & { readonly tokenUrl: string; readonly clientId: string; readonly read: () => string },
): Grant {
  return clientAssertion(client, async () => client.read().trim());
}

function clientAssertion(
  client: Scope & { readonly tokenUrl: string; readonly clientId: string },
  assertion: () => Promise<string>,
): Grant {
  let last = "";
  return {
    tokenUrl: client.tokenUrl,
    who: `the client ${client.clientId}`,
    form: async () => {
      last = await assertion();
      return {
        fields: {
          grant_type: "client_credentials",
          client_id: client.clientId,
          client_assertion_type: assertionType,
          client_assertion: last,
          ...asked(client),
        },
      };
    },
    secrets: () => (last === "" ? [] : [last]),
  };
}

/**
 * The JWT bearer grant for a subject (RFC 7523, 2.1): a service account that acts for a person.
 * @param client `audience`: who the assertion is for; default: the token URL
 */
export function subjectGrant(client: {
  readonly tokenUrl: string;
  readonly issuer: string;
  readonly subject?: string | undefined;
  readonly scope?: string | undefined;
  readonly audience?: string | undefined;
  readonly key: SigningKey;
}): Grant {
  const { tokenUrl, issuer, subject, scope, audience = tokenUrl, key } = client;
  let last = "";
  return {
    tokenUrl,
    who: subject === undefined ? issuer : `${issuer} for ${subject}`,
    form: async () => {
      const claims = { iss: issuer, aud: audience, ...(subject !== undefined && { sub: subject }) };
      last = await signedJwt({ ...claims, ...(scope !== undefined && { scope }) }, key);
      return { fields: { grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer", assertion: last } };
    },
    secrets: () => (last === "" ? [] : [last]),
  };
}

const tokenAnswer = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]+$/),
  token_type: z.string().optional(),
  expires_in: z.coerce.number().positive().optional(),
});

/** A token is renewed this long before it expires, in milliseconds: the request still has to arrive. */
const margin = 30_000;

interface Token {
  readonly value: string;
  /** By `performance.now()`. */
  readonly goodUntil: number;
}

/** A token from a token endpoint: asked for when it is needed, once for all that wait, and anew before it ends. */
export class TokenAuthorization implements Authorization {
  readonly who: string;
  readonly #grant: Grant;
  readonly #type: string;
  #token: Token | undefined;
  /** Replaced ones too: an answer may repeat them. */
  #tokens: readonly string[] = [];
  #pending: { readonly api: Requester; readonly token: Promise<Token> } | undefined;

  /** @param type the token's type, as the header `authorization` names it: `Bearer`, `DPoP` */
  constructor(grant: Grant, type = "Bearer") {
    this.who = grant.who;
    this.#grant = grant;
    this.#type = type;
  }

  async headers(api: Requester): Promise<{ readonly authorization: string }> {
    let token = this.#token;
    if (token === undefined || performance.now() >= token.goodUntil) token = await this.#next(api);
    return { authorization: `${this.#type} ${token.value}` };
  }

  renew({ authorization }: Readonly<Record<string, string>>): boolean {
    // Another request may have renewed it already.
    if (this.#token !== undefined && authorization === `${this.#type} ${this.#token.value}`) this.#token = undefined;
    return true;
  }

  secrets(): readonly string[] {
    return [...this.#grant.secrets(), ...this.#tokens];
  }

  /** One request for all that wait, of one read: another read may be stopped. */
  #next(api: Requester): Promise<Token> {
    if (this.#pending?.api === api) return this.#pending.token;
    const token = this.#fetch(api).finally(() => {
      if (this.#pending?.token === token) this.#pending = undefined;
    });
    this.#pending = { api, token };
    return token;
  }

  async #fetch(api: Requester): Promise<Token> {
    const { tokenUrl } = this.#grant;
    const title = `POST ${tokenUrl}`;
    let sent: TokenForm = { fields: {} };
    const answer = await api.perform({
      title,
      isForToken: true,
      request: async () => {
        sent = await this.#grant.form();
        const { fields, headers } = sent;
        return {
          url: new URL(tokenUrl),
          method: "POST",
          headers: { accept: "application/json", ...headers },
          body: formBody(fields),
        };
      },
      refused: (refusal) => this.#grant.refused?.(refusal, sent),
      use: async (answer) => tokenAnswer.safeParse(await jsonIn(answer).catch(unlessBroken)),
    });
    const type = answer.data?.token_type;
    if (!answer.success || (type !== undefined && type.toLowerCase() !== this.#type.toLowerCase())) {
      const where = answer.success ? "token_type" : (answer.error.issues[0]?.path.join(".") ?? "");
      throw new InputError(
        `${api.subject}: ${title}: the answer is not one with a ${this.#type.toLowerCase()} token${where === "" ? "" : ` (${where})`}; check auth`,
      );
    }
    const { access_token: value, expires_in: seconds } = answer.data;
    this.#tokens = [value, ...this.#tokens].slice(0, 3);
    const life = (seconds ?? 300) * 1_000;
    this.#token = { value, goodUntil: performance.now() + Math.max(life - margin, life / 2) };
    return this.#token;
  }
}

/** What is not JSON is not shown: it may hold a token. */
function unlessBroken(error: unknown): undefined {
  if (error instanceof SyntaxError) return undefined;
  throw error;
}
