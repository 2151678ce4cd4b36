import { hash, randomUUID } from "node:crypto";
import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from "jose";
import type { JWK } from "jose";
import type { Authorization, Refusal, Requester, Target } from "#http/directory/authorization.ts";
import { TokenAuthorization } from "#http/directory/credentials.ts";
import type { Grant } from "#http/directory/credentials.ts";

/** The name of the header with a proof, and of the one in which a server gives a nonce. */
const header = { proof: "dpop", nonce: "dpop-nonce" } as const;

interface Keys {
  readonly privateKey: CryptoKey;
  readonly jwk: JWK;
}

/**
 * A token that is bound to a key (DPoP, RFC 9449): each request proves anew that it comes from who has the key. The key is
 * made here and never leaves this process; it is not the one that the app is known by.
 */
export class DpopAuthorization implements Authorization {
  readonly who: string;
  readonly #token: TokenAuthorization;
  #keys: Promise<Keys> | undefined;
  #nonce: string | undefined;

  constructor(grant: Grant) {
    this.who = `${grant.who}, with proof of possession (DPoP)`;
    this.#token = new TokenAuthorization(
      {
        ...grant,
        form: async () => {
          const { fields, headers } = await grant.form();
          const proof = await this.#proof({ method: "POST", url: new URL(grant.tokenUrl) });
          return { fields, headers: { ...headers, [header.proof]: proof } };
        },
        // The first request for a token is answered with the nonce that the next one must have.
        refused: (refusal, { headers = {} }) => (this.#takesNonce(headers, refusal) ? "again" : undefined),
      },
      "DPoP",
    );
  }

  async headers(api: Requester, request: Target): Promise<Readonly<Record<string, string>>> {
    const bearer = await this.#token.headers(api);
    const proof = await this.#proof(request, bearer.authorization.replace(/^DPoP /, ""));
    return { ...bearer, [header.proof]: proof };
  }

  renew(sent: Readonly<Record<string, string>>, refusal: Refusal): boolean {
    return this.#takesNonce(sent, refusal) || this.#token.renew(sent);
  }

  secrets(): readonly string[] {
    return this.#token.secrets();
  }

  /** @returns whether the server gives a nonce that the request did not have */
  #takesNonce(sent: Readonly<Record<string, string>>, { headers }: Refusal): boolean {
    const nonce = headers[header.nonce];
    if (typeof nonce !== "string" || nonce === "") return false;
    this.#nonce = nonce;
    return decodeJwt(sent[header.proof] ?? "")["nonce"] !== nonce;
  }

  async #proof({ method, url }: Target, token?: string): Promise<string> {
    const { privateKey, jwk } = await (this.#keys ??= newKeys());
    const claims = {
      htm: method,
      htu: `${url.origin}${url.pathname}`,
      jti: randomUUID(),
      ...(this.#nonce !== undefined && { nonce: this.#nonce }),
      ...(token !== undefined && { ath: hash("sha256", token, "base64url") }),
    };
    return new SignJWT(claims)
      .setProtectedHeader({ typ: "dpop+jwt", alg: "RS256", jwk })
      .setIssuedAt()
      .sign(privateKey);
  }
}

/** RS256 is what Okta's guide signs with. */
async function newKeys(): Promise<Keys> {
  const { privateKey, publicKey } = await generateKeyPair("RS256");
  return { privateKey, jwk: await exportJWK(publicKey) };
}
