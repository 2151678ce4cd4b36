import { messageOf } from "#errors.ts";
import type { Target } from "#sync/ports.ts";
import { createClient } from "./client.ts";
import type { ClientOptions } from "./context.ts";

/** How long the end of a session is waited for, in milliseconds: a run that is over is not kept up by it. */
const farewell = 5000;

/** A service of the interface as the target of a sync. @throws {InputError} an url or a certificate that is none */
export function openTarget(options: ClientOptions): Target {
  const client = createClient(options);
  return {
    name: options.name,
    list: (destination, signal) => client.list(destination, signal),
    sync: (request, destination, signal) => client.sync(request, destination, signal),
    check: (signal) => client.reach(signal),
    close: async () => {
      try {
        await client.logout(AbortSignal.timeout(farewell));
      } catch (error) {
        options.log?.(`target ${options.name}: the session was not ended: ${messageOf(error)}`);
      }
    },
  };
}
