import pino from "pino";
import { Pool } from "undici";
import { inbox } from "#connectors/scim/inbox/options.ts";
import { addInboxRoutes } from "#connectors/scim/inbox/routes.ts";
import { startControlListener } from "#control/listener.ts";
import type { Inboxes } from "#state/inbox/inbox.ts";
import { openedStore } from "../../contract/state/opened.ts";
import type { Opening } from "../../contract/state/opened.ts";
import type { Send } from "./client.ts";

/** Inboxes that are served over HTTP. */
export interface ServedInboxes {
  /** Where `Users` and `Groups` of a source are. */
  readonly urlOf: (source: string) => string;
  stop(): Promise<void>;
}

/** The token of all of them. */
export const token = "secret";
const settings = inbox.parse({});

/** Serves inboxes as a daemon does: of any source. */
export async function serveInboxes(inboxes: Inboxes): Promise<ServedInboxes> {
  const listener = await startControlListener({
    listen: { host: "127.0.0.1", port: 0 },
    allowPlainHttp: false,
    probes: [],
    isStopping: () => false,
    log: pino({ level: "silent" }),
    routes: (app) =>
      addInboxRoutes(app, {
        settingsOf: () => settings,
        inboxes,
        admit: async (_, given) => (given === token ? { token: "t1" } : { status: 401 }),
        url: () => undefined,
        now: () => Date.now(),
        warn: (message, error) => process.stderr.write(`${message}: ${String(error)}\n`),
      }),
  });
  return { urlOf: (source) => `${listener.url}/scim/v2/${source}`, stop: () => listener.stop() };
}

/** A client of a served inbox. */
export function clientOf(url: string): { readonly send: Send; close(): Promise<void> } {
  const { origin, pathname } = new URL(url);
  const pool = new Pool(origin, { pipelining: 1 });
  return {
    send: async (method, path, sent, headers = {}) => {
      const response = await pool.request({
        method,
        path: pathname + path,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/scim+json", ...headers },
        body: sent === undefined ? null : JSON.stringify(sent),
      });
      // A server that is killed between head and body: reading says so, too.
      response.body.on("error", () => undefined);
      const text = await response.body.text();
      return {
        status: response.statusCode,
        etag: String(response.headers["etag"]),
        body: text === "" ? undefined : JSON.parse(text),
      };
    },
    close: () => pool.destroy(),
  };
}

if (import.meta.main) {
  const store = await openedStore(JSON.parse(process.argv[2] ?? "") as Opening);
  // Its files stay open for as long as something can close it.
  process.once("SIGTERM", () => void store.close());
  const { urlOf } = await serveInboxes(store.inboxes);
  process.stdout.write(`${urlOf("okta")}\n`);
}
