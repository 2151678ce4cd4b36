import { X509Certificate } from "node:crypto";
import { InputError, messageOf } from "#errors.ts";
import { familyB } from "#wire/routes.ts";
import { isLoopback } from "./connection.ts";
import { createDirectory } from "./directory.ts";
import type { Directory } from "./directory.ts";
import { createHttp } from "./http.ts";
import type { HttpOptions } from "./http.ts";
import { defaultRetries } from "./repeat.ts";
import type { Retries } from "./repeat.ts";
import { createSession } from "./session.ts";
import type { Credentials } from "./session.ts";

export interface ClientOptions extends HttpOptions {
  /** The target's name, for messages. */
  readonly name: string;
  readonly credentials: Credentials;
  readonly retries?: Partial<Retries>;
  /** Says what a person may want to know and that is no failure: a repeated attempt, a session opened again. Never given a secret. */
  readonly log?: (message: string) => void;
}

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
  const { name, url, ca, credentials, retries, log = () => undefined } = options;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new InputError(`target ${name}: the url must begin with http:// or https://`);
  }
  if (ca !== undefined) checkCertificate(ca, name);
  const http = createHttp(options, familyB);
  if (http.url.protocol === "http:" && !isLoopback(http.url)) {
    log(`target ${name}: ${http.url.origin} is not encrypted: passwords and sessions can be read on the way`);
  }
  const session = createSession({ name, http, retries: { ...defaultRetries, ...retries }, log }, credentials);
  const directory = createDirectory(session);
  return {
    ...directory,
    reach: async (signal) => [http.place, ...(await directory.reach(signal))],
    login: (signal) => session.login(signal),
    logout: (signal) => session.logout(signal),
  };
}

function checkCertificate(ca: string, name: string): X509Certificate {
  try {
    return new X509Certificate(ca);
  } catch (error) {
    throw new InputError(`target ${name}: \`ca\` holds no certificate in PEM form: ${messageOf(error)}`);
  }
}
