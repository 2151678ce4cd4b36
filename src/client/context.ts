import { X509Certificate } from "node:crypto";
import { InputError, messageOf } from "#errors.ts";
import { familyA } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import type { Attempt, Context } from "./ask.ts";
import { isLoopback } from "#http/listening.ts";
import type { FormKind } from "./form.ts";
import { createHttpClient } from "#http/client.ts";
import type { Answer, HttpClientOptions, RequestBody } from "#http/client.ts";
import { defaultRetries } from "#http/retries.ts";
import type { Retries } from "#http/retries.ts";
import type { Credentials } from "./session.ts";

/** Where a service is and how it is reached. */
export interface EndpointOptions extends Omit<HttpClientOptions, "owner" | "keepAlive"> {
  /** `http://` or `https://`, host and port; its path stands before `prefix`. */
  readonly url: string;
  /** What stands before the root of the interface, for example `/callosum/v1`. */
  readonly prefix: string;
}

/** One request to an endpoint. */
export interface Exchange {
  readonly route: Route;
  readonly cookie?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: RequestBody | undefined;
}

/** One family of the interface at a service. */
export interface Endpoint {
  readonly url: URL;
  /** Where the family's paths begin, for messages. */
  readonly place: string;
  /** @throws what `HttpClient.exchange` throws */
  exchange<T>(exchange: Exchange, use: (answer: Answer) => Promise<T>, signal: AbortSignal): Promise<T>;
}

export function endpointOf({ url: address, prefix, ...options }: EndpointOptions, family: string): Endpoint {
  const url = new URL(address);
  const place = url.origin + pathOf(url.pathname, prefix, family);
  const http = createHttpClient({ ...options, owner: "target" });
  return {
    url,
    place,
    exchange: ({ route: { method, path }, cookie, headers, body }, use, signal) =>
      http.exchange(
        {
          url: new URL(place + path),
          method,
          headers: {
            accept: "application/json",
            // Some servers of this interface refuse requests without it, as a protection against forged ones.
            "x-requested-by": "rollcall",
            cookie,
            ...headers,
          },
          body,
        },
        use,
        signal,
      ),
  };
}

function pathOf(...parts: string[]): string {
  return parts
    .map((part) => part.replace(/^\/+|\/+$/g, ""))
    .reduce((path, part) => (part === "" ? path : `${path}/${part}`), "");
}

export interface ClientOptions extends EndpointOptions {
  /** The target's name, for messages. */
  readonly name: string;
  readonly credentials: Credentials;
  readonly retries?: Partial<Retries>;
  /**
   * The form in which a list is sent first. Default: urlencoded, which every service takes; what it makes of a list is half
   * as long again, and each byte of it is looked at on both sides.
   */
  readonly form?: FormKind;
  /** Says what a person may want to know and that is no failure: a repeated attempt, a session opened again. Never given a secret. */
  readonly log?: (message: string) => void;
  /** Is told of every request when it is over. */
  readonly observe?: (attempt: Attempt) => void;
}

/** What the requests to a family have in common. @throws {InputError} an url or a certificate that is none */
export function contextOf(options: ClientOptions, family: string): Context {
  const { name, url, ca, retries, log = () => undefined, observe } = options;
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw new InputError(`target ${name}: the url must begin with http:// or https://`);
  }
  if (ca !== undefined) checkCertificate(ca, name);
  const http = endpointOf(options, family);
  if (http.url.protocol === "http:" && !isLoopback(http.url.hostname)) {
    log(`target ${name}: ${http.url.origin} is not encrypted: passwords and sessions can be read on the way`);
  }
  return {
    name,
    http,
    retries: { ...defaultRetries, ...retries },
    log,
    ...(observe === undefined ? {} : { observe }),
    plainErrors: family === familyA,
  };
}

function checkCertificate(ca: string, name: string): X509Certificate {
  try {
    return new X509Certificate(ca);
  } catch (error) {
    throw new InputError(`target ${name}: \`ca\` holds no certificate in PEM form: ${messageOf(error)}`);
  }
}
