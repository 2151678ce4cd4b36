import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Registry } from "prom-client";
import { isLoopback } from "#http/listening.ts";
import { healthRoutes } from "#wire/routes.ts";
import { bearerOf, isSame } from "#control/access.ts";

/** Who may read the metrics, besides administrators of the service. Without either: requests from this machine. */
export interface MetricsAccess {
  /** Anyone. */
  readonly open?: boolean;
  /** Only requests with this bearer token. */
  readonly token?: string;
}

/** The server that hosts the route. Without sessions, it knows no administrators. */
interface Host {
  administrator?(request: FastifyRequest): Promise<unknown>;
}

/** Headers that a proxy adds. The client behind a proxy may be on another machine. */
const forwarded = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"];

/** Serves the metrics in the text format of Prometheus. */
export function addMetricsRoute(app: FastifyInstance, registry: Registry, access: MetricsAccess, host: Host): void {
  app.route({
    method: healthRoutes.metrics.method,
    url: healthRoutes.metrics.path,
    handler: async (request, reply) => {
      const refused = await refusalOf(request, access, host);
      if (refused !== undefined) {
        reply.code(refused.status).header("www-authenticate", "Bearer").type("text/plain; charset=utf-8");
        return reply.send(`${refused.message}\n`);
      }
      return reply.type(registry.contentType).send(await registry.metrics());
    },
  });
}

async function refusalOf(
  request: FastifyRequest,
  { open = false, token }: MetricsAccess,
  host: Host,
): Promise<{ readonly status: number; readonly message: string } | undefined> {
  if (open) return undefined;
  const given = bearerOf(request);
  if (given !== undefined && token !== undefined) {
    return isSame(given, token) ? undefined : { status: 401, message: "that is not the token of `metrics.token`" };
  }
  if (token === undefined && isHere(request)) return undefined;
  const wanted = token === undefined ? "a request from this machine" : "the token of `metrics.token` as a bearer token";
  if (host.administrator === undefined) return { status: 401, message: `expected ${wanted}` };
  try {
    await host.administrator(request);
    return undefined;
  } catch (error) {
    const status = typeof error === "object" && error !== null && "status" in error ? error.status : undefined;
    if (status !== 401 && status !== 403) throw error;
    return { status, message: `expected ${wanted}, or the session of an administrator` };
  }
}

/**
 * Whether the request comes from this machine and names it: not through a proxy, and not from a page in a local browser
 * whose host name was pointed at this address (DNS rebinding).
 */
function isHere({ raw }: FastifyRequest): boolean {
  const { remoteAddress = "" } = raw.socket;
  if (!isLoopback(remoteAddress)) return false;
  if (forwarded.some((name) => raw.headers[name] !== undefined)) return false;
  const url = URL.parse(`http://${raw.headers.host ?? ""}`);
  return url !== null && isLoopback(url.hostname);
}
