import { createHmac, hash } from "node:crypto";

/*
 * How a daemon proves to the holder of an access token that it is the daemon that has made it: another program may listen
 * at its address by now. The daemon stores the digest of the token, and answers a challenge with it; neither the token nor
 * its digest is sent.
 */

/** How a session or a token is stored. */
export function digestOf(token: string): string {
  return hash("sha256", token, "base64url");
}

/** What a challenge calls a token, by its digest: nothing follows from it. */
export function nameOf(digest: string): string {
  return hash("sha256", `name ${digest}`, "base64url");
}

/** The answer to a challenge; only a holder of the token's digest can give it. */
export function proofOf(digest: string, challenge: string): string {
  return createHmac("sha256", digest).update(challenge).digest("base64url");
}
