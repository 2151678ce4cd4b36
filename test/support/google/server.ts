import { generateKeyPairSync, randomBytes } from "node:crypto";
import type { KeyObject } from "node:crypto";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { errors, jwtVerify } from "jose";
import { listen, stop, track } from "../scripted-server.ts";
import { answerOf, refusals } from "./directory.ts";
import type { Directory, GoogleDirectory, GoogleFaults, RawAnswer } from "./directory.ts";

export const scopes = {
  users: "https://www.googleapis.com/auth/admin.directory.user.readonly",
  groups: "https://www.googleapis.com/auth/admin.directory.group.readonly",
  members: "https://www.googleapis.com/auth/admin.directory.group.member.readonly",
} as const;

/** A service account's key: what the file from Google's console holds. */
export type ServiceAccountKey = Readonly<Record<string, string>>;

export interface GoogleServer extends Directory {
  readonly url: string;
  readonly endpoints: { readonly token: string; readonly directory: string };
  readonly key: ServiceAccountKey;
  /** Scopes that the service account may ask for. */
  readonly delegated: Set<string>;
  /** Administrators, by address. */
  readonly admins: Set<string>;
  /** Paths and queries, in the order of the requests. */
  readonly requests: readonly string[];
  readonly open: ReadonlySet<Socket>;
  /** How long tokens are valid, in seconds. */
  tokenSeconds: number;
  /** The header with which the last token is sent. */
  authorization(): string;
  /** Ends the tokens that were given out. */
  revoke(): void;
  close(): Promise<void>;
}

let pair: { readonly publicKey: KeyObject; readonly privateKey: KeyObject } | undefined;

export const subject = "admin@example.com";
const keyId = "7d9a5b1c";

type Tokens = Map<string, { readonly sub: string; readonly scopes: readonly string[]; readonly end: number }>;

/** The token endpoint and the Directory API (admin/directory/v1) of Google Workspace, for reading. */
export async function startGoogle(directory: GoogleDirectory, faults: GoogleFaults = {}): Promise<GoogleServer> {
  pair ??= generateKeyPairSync("rsa", { modulusLength: 2048 });
  const { publicKey, privateKey } = pair;
  const requests: string[] = [];
  const tokens: Tokens = new Map();
  const server = createServer((request, response) => {
    void serve(request).then((answer) => send(response, answer));
  });
  const open = track(server);
  const url = `http://127.0.0.1:${await listen(server)}`;
  const state: GoogleServer = {
    url,
    endpoints: { token: `${url}/token`, directory: url },
    key: {
      type: "service_account",
      project_id: "rollcall-1",
      private_key_id: keyId,
      private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
      client_email: "rollcall@rollcall-1.iam.gserviceaccount.com",
      client_id: "104857600000000000001",
      token_uri: `${url}/token`,
    },
    directory,
    faults,
    delegated: new Set(Object.values(scopes)),
    admins: new Set([subject]),
    requests,
    open,
    tokenSeconds: 3_599,
    authorization: () => `Bearer ${[...tokens.keys()].at(-1) ?? ""}`,
    revoke: () => tokens.clear(),
    close: async () => {
      if (server.listening) await stop(server, open);
    },
  };

  const serve = async (request: IncomingMessage): Promise<RawAnswer> => {
    const called = new URL(request.url ?? "/", url);
    const number = requests.push(request.url ?? "") - 1;
    const { what, key } = partsOf(called.pathname);
    const instead = state.faults.answers?.({ what, url: called, number });
    if (instead !== undefined) return instead;
    if (what === "token") return tokenFor(request, publicKey, tokens, state);
    const bearer = tokens.get(/^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "");
    if (bearer === undefined || bearer.end < Date.now()) return refusals.credentials;
    // The scope for groups includes their members.
    const fitting = what.startsWith("user")
      ? [scopes.users]
      : [scopes.groups, ...(what === "members" ? [scopes.members] : [])];
    if (!fitting.some((scope) => bearer.scopes.includes(scope))) return refusals.scopes;
    if (!state.admins.has(bearer.sub)) return refusals.forbidden;
    return answerOf(state, what, key, called.searchParams);
  };
  return state;
}

const lifetime =
  "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.";
const undelegated =
  "Client is unauthorized to retrieve access tokens using this method, or client not authorized for any of the scopes requested.";

/** Answers a request for a token, and notes what was given out. */
async function tokenFor(
  request: IncomingMessage,
  publicKey: KeyObject,
  tokens: Tokens,
  state: GoogleServer,
): Promise<RawAnswer> {
  const form = new URLSearchParams(await text(request));
  const refused = (status: number, error: string, error_description: string): RawAnswer => ({
    status,
    body: JSON.stringify({ error, error_description }),
  });
  if (form.get("grant_type") !== "urn:ietf:params:oauth:grant-type:jwt-bearer")
    return refused(400, "unsupported_grant_type", "Invalid grant_type");
  try {
    const { payload, protectedHeader } = await jwtVerify(form.get("assertion") ?? "", publicKey, {
      algorithms: ["RS256"],
      issuer: state.key["client_email"] ?? "",
      // Google's own clients name the address that they would reach without a test.
      audience: [state.endpoints.token, "https://oauth2.googleapis.com/token"],
      requiredClaims: ["iss", "sub", "scope", "aud", "iat", "exp"],
    });
    if (protectedHeader.kid !== undefined && protectedHeader.kid !== keyId)
      return refused(400, "invalid_grant", "Invalid JWT Signature.");
    const { sub = "", iat = 0, exp = 0 } = payload;
    if (exp - iat > 3_600 || Math.abs(iat - Date.now() / 1_000) > 300) return refused(400, "invalid_grant", lifetime);
    const asked = String(payload["scope"]).split(" ");
    if (!asked.every((scope) => state.delegated.has(scope))) return refused(401, "unauthorized_client", undelegated);
    if (!sub.endsWith("@example.com")) return refused(400, "invalid_grant", "Invalid email or User ID");
    const access_token = `ya29.${randomBytes(24).toString("base64url")}`;
    tokens.set(access_token, { sub, scopes: asked, end: Date.now() + state.tokenSeconds * 1_000 });
    return {
      status: 200,
      body: JSON.stringify({ access_token, expires_in: state.tokenSeconds, token_type: "Bearer" }),
    };
  } catch (error) {
    const isLate = error instanceof errors.JWTExpired;
    return refused(400, "invalid_grant", isLate ? lifetime : "Invalid JWT Signature.");
  }
}

/** The parts of a path: `/admin/directory/v1/groups/KEY/members`. */
function partsOf(path: string): { readonly what: string; readonly key: string } {
  if (path === "/token") return { what: "token", key: "" };
  const [, list = "", key, members] =
    /^\/admin\/directory\/v1\/(users|groups)(?:\/([^/]+)(\/members)?)?$/.exec(path) ?? [];
  if (key === undefined) return { what: list, key: "" };
  return { what: members === undefined ? list.slice(0, -1) : "members", key: decodeURIComponent(key) };
}

function send(response: ServerResponse, { status, body, headers, isCut }: RawAnswer): void {
  const length = Buffer.byteLength(body) + (isCut === true ? 1_000 : 0);
  response.writeHead(status, {
    "content-type": "application/json; charset=UTF-8",
    "content-length": length,
    ...headers,
  });
  if (isCut === true) response.write(body, () => response.destroy());
  else response.end(body);
}
