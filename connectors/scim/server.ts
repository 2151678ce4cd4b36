import type { Socket } from "node:net";
import type { OpenContext, ReadContext } from "#connector.ts";
import { ask, type Asking, type Refusal } from "./ask.ts";
import type { Authorization } from "./authorization.ts";
import { type Answer, openExchanges } from "./exchange.ts";
import type { Options } from "./options.ts";

/** A server for the time of one read. */
export interface Server {
  /** Where it is, with a slash at the end. */
  readonly base: URL;
  /** `source corp` */
  readonly subject: string;
  readonly signal: AbortSignal;
  warn(message: string): void;
  /** @throws what `ask` throws */
  get<T>(query: Query<T>): Promise<T>;
  /** The connection that is in use. */
  socket(): Socket | undefined;
  close(): Promise<void>;
}

export interface Query<T> {
  /** Below the base. */
  readonly path: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly use: (answer: Answer) => Promise<T>;
  readonly refused?: (refusal: Refusal) => { readonly value: T } | undefined;
}

/** @throws {IncompleteReadError} when the file of certificates cannot be read */
export async function openServer(
  options: Options & { readonly url: string },
  authorization: Authorization,
  { name, folder }: OpenContext,
  { signal, warn }: ReadContext,
): Promise<Server> {
  const exchanges = await openExchanges(options, folder, signal);
  const asking: Asking = { exchanges, name, signal, warn, patience: options.timeouts.pause };
  const base = new URL(options.url.replace(/\/*$/, "/"));
  return {
    base,
    subject: `source ${name}`,
    signal,
    warn,
    get: ({ path, parameters, use, refused }) => {
      const url = new URL(path.replace(/^\/+/, ""), base);
      for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value);
      let headers: Readonly<Record<string, string>> = {};
      let isRenewed = false;
      return ask(asking, {
        title: `GET ${titleOf(url)}`,
        secrets: () => authorization.secrets(),
        use,
        request: async () => {
          headers = await authorization.headers(asking);
          return { url, headers };
        },
        refused: (refusal) => {
          if (refusal.status === 401 && !isRenewed && authorization.renew(headers)) {
            isRenewed = true;
            return "again";
          }
          return refused?.(refusal);
        },
      });
    },
    socket: () => exchanges.socket(),
    close: () => exchanges.close(),
  };
}

/** A URL as a message shows it: with its place in a list, without what is long or says nothing to a person. */
export function titleOf(url: URL): string {
  const place = ["startIndex", "count"].flatMap((name) => {
    const value = url.searchParams.get(name);
    return value === null ? [] : [`${name}=${value}`];
  });
  return `${url.origin}${url.pathname}${place.length === 0 ? "" : `?${place.join("&")}`}`;
}
