import { messageOf } from "#errors.ts";
import type { ListTarget } from "#connector.ts";
import { Client } from "./client.ts";
import type { ClientOptions } from "./client.ts";

/** How long to wait for the logout, in milliseconds: it must not hold up a run that is over. */
const logoutTimeout = 5000;

/** A service of the interface as the target of a sync. @throws {InputError} the url or the certificate is invalid */
export function openTarget(options: ClientOptions): ListTarget {
  const client = new Client(options);
  return {
    takes: "list",
    name: options.name,
    list: (read, signal) => client.readList(read, signal),
    isStill: (tag, signal) => client.isStill(tag, signal),
    sync: (request, destination, signal) => client.sync(request, destination, signal),
    check: (signal) => client.reach(signal),
    close: async () => {
      try {
        await client.logout(AbortSignal.timeout(logoutTimeout));
      } catch (error) {
        options.log?.(`target ${options.name}: the session was not ended: ${messageOf(error)}`);
      }
    },
  };
}
