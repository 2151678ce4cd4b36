import type { FastifyInstance } from "fastify";

/*
 * The console behind a proxy: its pages are written with addresses from `/` on. Where `console.publicUrl` has a path, they and every
 * redirect get it in front on their way out; the proxy takes it away again.
 */

declare module "fastify" {
  interface FastifyContextConfig {
    /** The origin at which browsers reach the route, where a proxy changes `Host`. */
    readonly publicOrigin?: string | undefined;
  }
}

/** The path of the public URL, `/rollcall`; empty where it has none. */
export function rootOf(publicUrl: string | undefined): string {
  return publicUrl === undefined ? "" : new URL(publicUrl).pathname.replace(/\/+$/, "");
}

/** Attributes whose value is an address of the console. No text of a page has them: its quotation marks are escaped. */
const addresses = /\b(href|src|action|hx-get|hx-post|hx-sse:connect)="\/(?!\/)/g;

/** A page with its addresses below a root. */
export function below(root: string, page: string): string {
  return root === ""
    ? page
    : page.replaceAll(addresses, `$1="${root}/`).replace("<html ", `<html data-root="${root}" `);
}

/** Makes redirects lead below the root, and tells every route where browsers see it. */
export function addProxied(app: FastifyInstance, publicUrl: string | undefined): void {
  if (publicUrl === undefined) return;
  const root = rootOf(publicUrl);
  const { origin: publicOrigin } = new URL(publicUrl);
  app.addHook("onRoute", (route) => {
    route.config = { ...route.config, publicOrigin };
  });
  app.addHook("onSend", async (_request, reply, payload) => {
    const location = reply.getHeader("location");
    if (typeof location === "string" && /^\/(?!\/)/.test(location)) reply.header("location", root + location);
    return payload;
  });
}
