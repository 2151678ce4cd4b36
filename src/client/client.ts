import { familyB } from "#wire/routes.ts";
import { contextOf } from "./context.ts";
import type { ClientOptions } from "./context.ts";
import { createDirectory } from "./directory.ts";
import type { Directory } from "./directory.ts";
import { createSession } from "./session.ts";

/**
 * A client of family B. Every method throws `UnavailableError` or `RefusedError`, which name the target, the operation
 * and what to do, and the reason of its signal as soon as that is aborted. Nothing is left open between calls.
 */
export interface Client extends Directory {
  /** Opens a session now; otherwise the first request that needs one does. */
  login(signal: AbortSignal): Promise<void>;
  /** Ends the session that this client has opened; one that was given to it is its giver's to end. */
  logout(signal: AbortSignal): Promise<void>;
}

/** @throws {InputError} an url or a certificate that is none */
export function createClient(options: ClientOptions): Client {
  const context = contextOf(options, familyB);
  const { http } = context;
  const session = createSession(context, options.credentials);
  const directory = createDirectory(session, options.form);
  return {
    ...directory,
    reach: async (signal) => [http.place, ...(await directory.reach(signal))],
    login: (signal) => session.login(signal),
    logout: (signal) => session.logout(signal),
  };
}
