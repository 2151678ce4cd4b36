import { createHash, randomBytes, randomUUID, X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { decodeProtectedHeader, importX509, jwtVerify, SignJWT } from "jose";
import type { CryptoKey, KeyObject } from "jose";
import { Refusal } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { app, everyPermission } from "./tenant.ts";

/** What else the app may identify itself with, besides its secret. */
export interface TokenOptions {
  /** The certificate that the app's assertions are signed with. */
  readonly certificate?: string | undefined;
  /** Whose tokens the app may use instead. */
  readonly federated?:
    | { readonly issuer: string; readonly subject: string; readonly key: CryptoKey | KeyObject }
    | undefined;
}

/** The token endpoint of a tenant. */
export class Tokens {
  permissions: readonly string[] = everyPermission;
  issued = 0;
  last = "";
  readonly #options: TokenOptions;
  readonly #origin: () => string;
  readonly #good = new Set<string>();
  readonly #assertions = new Set<string>();

  constructor(options: TokenOptions, origin: () => string) {
    this.#options = options;
    this.#origin = origin;
  }

  /** @throws {Refusal} the token is none of ours, or has ended */
  check(authorization: string | undefined): void {
    if (this.#good.has(authorization?.replace(/^Bearer /, "") ?? "")) return;
    const message =
      authorization === undefined ? "Access token is empty." : "Lifetime validation failed, the token is expired.";
    throw new Refusal(401, "InvalidAuthenticationToken", message, { "www-authenticate": "Bearer" });
  }

  revoke(): void {
    this.#good.clear();
  }

  async answer(request: IncomingMessage, { pathname }: URL): Promise<Answer> {
    const [, tenant = "", ...rest] = pathname.split("/");
    const base = `${this.#origin()}/${tenant}`;
    if (tenant !== app.tenant && tenant !== app.domain)
      return this.#refused(400, "invalid_request", 90002, `Tenant '${tenant}' not found.`);
    const endpoint = `${base}/oauth2/v2.0/token`;
    if (rest.join("/") === "v2.0/.well-known/openid-configuration")
      return {
        status: 200,
        body: {
          issuer: `${base}/v2.0`,
          token_endpoint: endpoint,
          authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
          jwks_uri: `${base}/discovery/v2.0/keys`,
        },
      };
    if (request.method !== "POST" || rest.join("/") !== "oauth2/v2.0/token") return { status: 404, body: "" };
    const form = new URLSearchParams(await text(request));
    if (form.get("grant_type") !== "client_credentials")
      return this.#refused(400, "unsupported_grant_type", 70003, "The app requested an unsupported grant type.");
    if (form.get("client_id") !== app.clientId)
      return this.#refused(400, "unauthorized_client", 700016, `Application '${form.get("client_id")}' was not found.`);
    if (!form.get("scope")?.split(" ").includes(`${this.#origin()}/.default`))
      return this.#refused(
        400,
        "invalid_scope",
        1002012,
        `The provided value for scope ${form.get("scope")} is not valid.`,
      );
    const problem = await this.#problemWith(form, endpoint);
    if (problem !== undefined) return this.#refused(401, "invalid_client", ...problem);
    this.issued++;
    const token = await new SignJWT({
      roles: [...this.permissions],
      appid: app.clientId,
      tid: tenant,
      aud: this.#origin(),
    })
      .setProtectedHeader({ alg: "HS256", typ: "JWT" })
      .setJti(randomUUID())
      .sign(randomBytes(32));
    this.#good.add(token);
    this.last = token;
    return { status: 200, body: { token_type: "Bearer", expires_in: 3599, ext_expires_in: 3599, access_token: token } };
  }

  async #problemWith(
    form: URLSearchParams,
    endpoint: string,
  ): Promise<readonly [code: number, message: string] | undefined> {
    const assertion = form.get("client_assertion");
    if (assertion === null)
      return form.get("client_secret") === app.clientSecret ? undefined : [7000215, "Invalid client secret provided."];
    if (form.get("client_assertion_type") !== "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
      return [50027, "JWT token is invalid or malformed."];
    const { certificate, federated } = this.#options;
    try {
      if (federated !== undefined) {
        const { issuer, subject, key } = federated;
        await jwtVerify(assertion, key, {
          issuer,
          subject,
          audience: "api://AzureADTokenExchange",
          requiredClaims: ["exp"],
        });
        return undefined;
      }
      const { raw } = new X509Certificate(certificate ?? "");
      const header = decodeProtectedHeader(assertion) as Readonly<Record<string, unknown>>;
      const thumbprint = (algorithm: string): string => createHash(algorithm).update(raw).digest("base64url");
      if (header["x5t#S256"] !== thumbprint("sha256") && header["x5t"] !== thumbprint("sha1"))
        return [
          700027,
          "The certificate with identifier used to sign the client assertion is not registered on application.",
        ];
      const alg = String(header["alg"]);
      const { payload } = await jwtVerify(assertion, await importX509(certificate ?? "", alg), {
        clockTolerance: 300,
        algorithms: ["PS256", "RS256"],
        audience: endpoint,
        issuer: app.clientId,
        subject: app.clientId,
        requiredClaims: ["exp", "nbf", "jti"],
      });
      if ((payload.exp ?? 0) - (payload.nbf ?? 0) > 3_600)
        return [700024, "Client assertion is not within its valid time range."];
      if (this.#assertions.has(payload.jti ?? "")) return [50027, "JWT token was used before."];
      this.#assertions.add(payload.jti ?? "");
      return undefined;
    } catch (error) {
      return federated === undefined
        ? [700027, `Client assertion contains an invalid signature. [Reason - ${String(error)}]`]
        : [700213, "No matching federated identity record found for presented assertion."];
    }
  }

  #refused(status: number, error: string, code: number, message: string): Answer {
    const id = randomUUID();
    return {
      status,
      body: {
        error,
        error_description: `AADSTS${code}: ${message} Trace ID: ${id} Correlation ID: ${id} Timestamp: 2026-11-26 20:00:00Z`,
        error_codes: [code],
        trace_id: id,
        correlation_id: id,
      },
    };
  }
}
