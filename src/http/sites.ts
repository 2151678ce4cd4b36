import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";

/** What a request of another site is told. */
export const otherSite =
  "the request comes from a page of another site, or through a proxy that does not pass the browser's Host header on " +
  "(nginx: proxy_set_header Host $http_host;), and `console.publicUrl` does not say where browsers reach it";

/** The methods that change nothing. A browser sends OPTIONS to ask first; nobody answers it with leave. */
const reading = new Set<string | undefined>(["GET", "HEAD", "OPTIONS"]);

/**
 * Does the request change something, and did a page of another site make a browser send it? A browser attaches its
 * session cookie to such a request too, where the other site is only another port or a sibling domain (SameSite=Lax). It
 * says so in `Sec-Fetch-Site`, which no page can set; an older one says in `Origin` which page it was. Other clients send
 * neither.
 * @param publicOrigin where browsers reach the server, if a proxy may have changed `Host`
 */
export function isFromOtherSite({ method, headers, socket }: IncomingMessage, publicOrigin?: string): boolean {
  if (reading.has(method)) return false;
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site !== "same-origin" && site !== "none";
  const { origin, host } = headers;
  if (origin === undefined || (publicOrigin !== undefined && origin === publicOrigin)) return false;
  if (!URL.canParse(origin) || host === undefined) return true;
  const { protocol, host: there } = new URL(origin);
  // Behind a proxy that ends TLS, only the browser knows the scheme.
  if (socket instanceof TLSSocket && protocol !== "https:") return true;
  const own = `${protocol}//${host}`;
  return !URL.canParse(own) || new URL(own).host !== there;
}
