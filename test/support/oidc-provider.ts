import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";

/** A real OpenID provider on this machine. Anybody may sign in with any password; who they are is `people`. */
export interface OidcProvider {
  readonly issuer: string;
  /** By the name they sign in with: their groups. Who is not there is nobody. */
  readonly people: Map<string, { name: string; groups: string[] }>;
  /** The answers to the logouts that it has sent. */
  readonly logouts: { readonly client: string; readonly error?: string }[];
  /** The bodies of its logouts. */
  readonly sent: string[];
  stop(): Promise<void>;
  start(): Promise<void>;
}

export interface OidcClient {
  readonly clientId: string;
  readonly clientSecret: string;
  /** Where the console is. */
  readonly publicUrl: string;
}

/** @param lifetime of access tokens, in seconds */
export async function startProvider(client: OidcClient, lifetime: number): Promise<OidcProvider> {
  const people: OidcProvider["people"] = new Map();
  const logouts: OidcProvider["logouts"] = [];
  const sent: string[] = [];
  const server = createServer();
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve()));
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const issuer = `http://127.0.0.1:${port}`;
  const { clientId: client_id, clientSecret: client_secret, publicUrl } = client;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id,
        client_secret,
        redirect_uris: [`${publicUrl}/sign-in/oidc/callback`],
        post_logout_redirect_uris: [`${publicUrl}/sign-in`],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        backchannel_logout_uri: `${publicUrl}/sign-in/oidc/logout`,
        backchannel_logout_session_required: true,
      },
    ],
    claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
    features: { backchannelLogout: { enabled: true }, rpInitiatedLogout: { enabled: true } },
    findAccount: (_, sub) => {
      const person = people.get(sub);
      if (person === undefined) return undefined;
      const { name, groups } = person;
      return { accountId: sub, claims: () => ({ sub, preferred_username: name, groups }) };
    },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    pkce: { required: () => true },
    ttl: { AccessToken: lifetime, IdToken: 3600, Session: 3600, Grant: 3600, Interaction: 600, RefreshToken: 3600 },
    // Its own refuses to ask addresses of this machine.
    fetch: async (address, given: RequestInit & { dispatcher?: unknown } = {}) => {
      const { dispatcher: _dispatcher, ...options } = given;
      if (options.body instanceof URLSearchParams) sent.push(options.body.toString());
      return fetch(address, options);
    },
    cookies: { keys: ["of the test"] },
  });
  provider.on("backchannel.success", (_, { clientId }) => logouts.push({ client: clientId }));
  provider.on("backchannel.error", (_, error, { clientId }) =>
    logouts.push({ client: clientId, error: error.message }),
  );
  const answer = provider.callback();
  server.on("request", (request, response) => void answer(request, response));
  return {
    issuer,
    people,
    logouts,
    sent,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
    start: () => listen(port),
  };
}
