import { createRequire } from "node:module";
import type * as undici from "undici";

/**
 * What is used of undici, by the files it is in: its index also loads fetch, WebSockets, caches and mocks, which take
 * 5 MiB and a tenth of the start.
 */
const load = createRequire(import.meta.url);

// As the index does it: a dispatcher has no request() of its own.
Object.assign(
  (load("undici/lib/dispatcher/dispatcher.js") as typeof undici.Dispatcher).prototype,
  load("undici/lib/api"),
);

export const Client = load("undici/lib/dispatcher/client.js") as typeof undici.Client;
export type Client = undici.Client;
export const buildConnector = load("undici/lib/core/connect.js") as typeof undici.buildConnector;
