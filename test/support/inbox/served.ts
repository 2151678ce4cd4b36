import pino from "pino";
import { Pool } from "undici";
import { addInboxRoutes } from "#connectors/scim/inbox/routes.ts";
import { startControlListener } from "#control/listener.ts";
import type { Inboxes } from "#state/inbox/inbox.ts";
import { openedStore } from "../../contract/state/opened.ts";
import type { Opening } from "../../contract/state/opened.ts";
import type { Send } from "./client.ts";

/** An inbox that is served over HTTP. */
export interface ServedInbox {
  /** Where its `Users` and `Groups` are. */
  readonly url: string;
  stop(): Promise<void>;
}

export const token = "secret";

/** Serves the inbox of a source as a daemon does. */
export async function serveInbox(inboxes: Inboxes, source: string): Promise<ServedInbox> {
  const listener = await startControlListener({
    listen: { host: "127.0.0.1", port: 0 },
    allowPlainHttp: false,
    probes: [],
    isStopping: () => false,
    log: pino({ level: "silent" }),
    routes: (app) =>
      addInboxRoutes(app, {
        source,
        inboxes,
        authenticate: async (given) => (given === token ? "t1" : undefined),
        now: () => Date.now(),
        warn: (message, error) => process.stderr.write(`${message}: ${String(error)}\n`),
      }),
  });
  return { url: `${listener.url}/scim/v2/${source}`, stop: () => listener.stop() };
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
  const { inboxes } = await openedStore(JSON.parse(process.argv[2] ?? "") as Opening);
  const { url } = await serveInbox(inboxes, process.argv[3] ?? "");
  process.stdout.write(`${url}\n`);
}
