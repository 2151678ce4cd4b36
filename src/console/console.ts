import type { GuessFormat, Plans } from "./context.ts";
import type { Connections } from "#daemon/connections.ts";
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Host } from "#control/access.ts";
import type { Control } from "#control/control.ts";
import { serviceAccounts, targetAccounts } from "./accounts.ts";
import type { TargetAccountsOptions } from "./accounts.ts";
import type { App } from "./app.ts";
import type { People } from "#daemon/people.ts";
import type { Trials } from "#daemon/trials.ts";

/** The web console of a daemon. */
export interface Console {
  /** Adds its pages to a server. */
  readonly routes: (app: FastifyInstance, host: Host) => void;
}

export interface ConsoleOptions {
  readonly version: string;
  readonly log: Logger;
  /** Whether accounts that are no administrators may look. */
  readonly viewers: boolean;
  /** The daemon, as its own API sees it. */
  readonly control: Pick<Control, "daemon" | "track" | "isStopping">;
  readonly plans: Plans;
  readonly people: People;
  readonly trials: Trials;
  readonly connections: Connections;
  readonly guessFormat: GuessFormat;
  /** Where accounts are checked that no service on this listener has. */
  readonly targets: TargetAccountsOptions;
}

/** Its pages. Everything else on the listener is answered as if it did not exist. */
const paths = [
  "/",
  "/sign-in",
  "/sign-out",
  "/assets/:file",
  "/events",
  "/runs",
  "/runs/:id",
  "/runs/:id/:page",
  "/audit",
  "/audit/download",
  "/doubt",
  "/doubt/download",
  "/people",
  "/people/:page",
  "/pinboards",
  "/pinboards/:id",
  "/pinboards/:id/:visualization",
  "/pinboards/:id/:visualization/download",
  "/rules",
  "/rules/:id",
  "/rules/:id/stop",
  "/syncs/:sync/run",
  "/connections",
  "/connections/check",
  "/loads",
  "/loads/:id",
  "/loads/:id/:page",
];

/**
 * The pages have a server of their own without a listener: it is loaded with the first request, and its headers, errors and
 * forms do not meet those of the interface.
 */
export function createConsole({ control, targets, ...options }: ConsoleOptions): Console {
  return {
    routes: (server, host) => {
      // The service knows the requests of its listener; the pages have others, over the same connection.
      const requests = new WeakMap<IncomingMessage, FastifyRequest>();
      const outer = ({ raw }: FastifyRequest): FastifyRequest => {
        const found = requests.get(raw);
        if (found === undefined) throw new Error("the request did not come through the service's listener");
        return found;
      };
      const accounts = host.accounts === undefined ? targetAccounts(targets) : serviceAccounts(host.accounts, outer);
      const hosted = host.loads;
      const loads = hosted && { ...hosted, of: (request: FastifyRequest) => hosted.of(outer(request)) };
      let opening: Promise<App> | undefined;
      const open = async (): Promise<App> => {
        const { openApp } = await import("./app.ts");
        return openApp({ ...options, control, accounts, loads, pinboards: host.pinboards });
      };
      server.register((scope, _, done) => {
        // The body is left to the pages' own server.
        scope.removeAllContentTypeParsers();
        scope.addContentTypeParser("*", (_request, _body, parsed) => {
          parsed(null);
        });
        scope.addHook("preClose", async () => {
          const app = await opening;
          await app?.close();
        });
        for (const url of paths) {
          scope.route({
            method: ["GET", "POST"],
            url,
            handler: async (request, reply) => {
              const { id } = request.params as { id?: string };
              const answered =
                id !== undefined && url.startsWith("/loads/") ? await hosted?.passOn(request, reply, id) : undefined;
              if (answered !== undefined) return answered;
              opening ??= open();
              const app = await opening;
              reply.hijack();
              const contentType = host.contentType(request);
              if (contentType !== undefined) request.raw.headers["content-type"] = contentType;
              requests.set(request.raw, request);
              app.handle(request.raw, reply.raw);
              return reply;
            },
          });
        }
        done();
      });
    },
  };
}
