import { familyB } from "#wire/routes.ts";
import { createDirectory } from "./directory.ts";
import type { Directory } from "./directory.ts";
import type { FormKind } from "./form.ts";
import { contextOf } from "./request.ts";
import type { RequestOptions } from "./request.ts";
import { createSession } from "./session.ts";
import type { Credentials } from "./session.ts";

export interface ClientOptions extends RequestOptions {
  readonly credentials: Credentials;
  /**
   * The encoding to try first for a list. Default: urlencoded, which every service accepts, although it makes a list half
   * as long again.
   */
  readonly form?: FormKind | undefined;
}

/**
 * A client of family B. Every method throws `UnavailableError` or `RefusedError`, which name the target, the operation
 * and what to do, and the reason of its signal as soon as that is aborted. Nothing is left open between calls.
 */
export interface Client extends Directory {
  /** Opens a session now instead of with the first request that needs one. */
  login(signal: AbortSignal): Promise<void>;
  /** Ends a session that this client opened, but not one that it was given. */
  logout(signal: AbortSignal): Promise<void>;
}

/** @throws {InputError} the url or the certificate is invalid */
export function createClient(options: ClientOptions): Client {
  const context = contextOf(options, familyB);
  const session = createSession(context, options.credentials);
  const directory = createDirectory(session, options.form);
  return {
    ...directory,
    reach: async (signal) => [context.endpoint.place, ...(await directory.reach(signal))],
    login: (signal) => session.login(signal),
    logout: (signal) => session.logout(signal),
  };
}
