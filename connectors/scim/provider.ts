import { textOf } from "./ask.ts";
import { objectOf } from "./names.ts";
import type { Server } from "./server.ts";

/** What a server announces that it can do (RFC 7643, 5; RFC 9865). */
export interface Provider {
  /** Whether it announces anything. */
  readonly isKnown: boolean;
  readonly hasCursors: boolean;
  /** The most resources that it gives at a time; undefined: it does not say. */
  readonly largestPage: number | undefined;
}

const unknown: Provider = { isKnown: false, hasCursors: false, largestPage: undefined };

/** Asks for the server's configuration; one that does not tell is taken for one without any of it. */
export async function providerOf(server: Server): Promise<Provider> {
  const text = await server.get({
    path: "ServiceProviderConfig",
    parameters: {},
    use: ({ body }) => textOf(body),
    refused: ({ status }) => (isUntold(status) ? { value: "" } : undefined),
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return unknown;
  }
  const config = objectOf(value);
  if (config === undefined) return unknown;
  const pagination = objectOf(config["pagination"]);
  const sizes = [objectOf(config["filter"])?.["maxResults"], pagination?.["maxPageSize"]];
  const known = sizes.filter((size): size is number => typeof size === "number" && Number.isInteger(size) && size > 0);
  return {
    isKnown: true,
    hasCursors: pagination?.["cursor"] === true,
    largestPage: known.length === 0 ? undefined : Math.min(...known),
  };
}

/** Some servers want other privileges for it, some do not have it. */
function isUntold(status: number): boolean {
  return status === 501 || (status >= 400 && status < 500 && status !== 401 && status !== 429);
}
