import type { Answer, HttpRequest, Method } from "#http/client.ts";

/** An answer without success, and what its body says. */
export interface Refusal {
  readonly status: number;
  readonly headers: Answer["headers"];
  /** Parsed JSON; undefined: it is not JSON. May hold a secret. */
  readonly body: unknown;
  /** Safe to show. */
  readonly said: string | undefined;
}

/** A request as `perform` repeats it. */
export interface Exchange<T> {
  /** For messages: `GET https://idp.example.com/users?page=2`. */
  readonly title: string;
  /** It asks for a token, and not for records. */
  readonly isForToken?: boolean | undefined;
  /** Ends the exchange, beside the signal of the whole read. */
  readonly signal?: AbortSignal | undefined;
  /** It changes something: every status of success is one. */
  readonly writes?: true | undefined;
  /** It must not arrive twice: it is sent again only where the server cannot have acted on it. */
  readonly once?: true | undefined;
  /** Called for every attempt. */
  readonly request: () => Promise<HttpRequest>;
  /** Reads a successful answer. @throws {HttpError}, {JsonError}, {SyntaxError}: it may be asked for again */
  readonly use: (answer: Answer) => Promise<T>;
  /** The answer stays open after `use`; its result says who closes it. */
  readonly keepsOpen?: boolean | undefined;
  /**
   * May turn a refusal into a result, or into another attempt at once (`again`). Too many requests are none: that says nothing
   * about what was asked.
   */
  readonly refused?: ((refusal: Refusal) => { readonly value: T } | "again" | undefined) | undefined;
}

/** Sends requests for tokens: `DirectoryApi`. */
export interface Requester {
  /** For messages: `source corp`. */
  readonly subject: string;
  perform<T>(exchange: Exchange<T>): Promise<T>;
}

/** The credentials of a source. Holds a token for as long as it is valid, across reads. */
export interface Authorization {
  /**
   * The headers of a request.
   * @param api asks for a token, where one is needed
   * @throws what `DirectoryApi.get` throws, when there is no token; {InputError} a key or a file cannot be used
   */
  headers(api: Requester, request: Target): Promise<Readonly<Record<string, string>>>;
  /**
   * Called with what a 401 refused, once for each request: forgets a token that no longer holds.
   * @returns false when there is no way to get another
   */
  renew(sent: Readonly<Record<string, string>>, refusal: Refusal): boolean;
  /** Never to appear in a message. */
  secrets(): readonly string[];
  /** Whose credentials these are, for a person: `the client 1b2c…`. */
  readonly who: string;
}

/** What a request is for: some proofs are for one method and one URL. */
export interface Target {
  readonly method: Method;
  readonly url: URL;
}
