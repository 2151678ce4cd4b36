import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { messageOf } from "#errors.ts";
import type { Begun, Coordinator, SyncStatus } from "#sync/coordinator.ts";
import type { Actor, RunRecord } from "#sync/record.ts";
import { controlRoot, controlRoutes } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { authenticate } from "./access.ts";
import type { Host } from "./access.ts";
import { Refusal, answerOf, decided } from "./answers.ts";
import { createEnds } from "./ends.ts";
import { createEventStreams } from "./events.ts";
import { approveBody, emptyBody, read, rejectBody, runBody, runsQuery } from "./requests.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who asks something of the daemon. */
    actor: Actor;
  }
}

export interface ControlOptions {
  readonly coordinator: Coordinator;
  /** What a command on this machine proves with that it may read the data folder. */
  readonly token: string;
  readonly about: About;
  /** Reads the configuration again, as a whole or not at all. @throws {InputError} something is wrong with it */
  readonly reload: () => Promise<void>;
  readonly isStopping: () => boolean;
  readonly log: Logger;
}

/** What the daemon says of itself. */
export interface About {
  readonly version: string;
  /** ISO 8601. */
  readonly startedAt: string;
  /** The configuration that is in force. The digest is `configurationDigest`'s. */
  readonly configuration: () => { readonly file: string; readonly digest: string };
}

/** What `GET /status` answers. */
export interface Status {
  readonly pid: number;
  readonly version: string;
  readonly startedAt: string;
  readonly configuration: { readonly file: string; readonly digest: string };
  readonly syncs: readonly SyncStatus[];
}

/** What a body may have, in bytes. */
const bodyLimit = 64 * 1024;

/** The daemon's own API. What takes long is answered 202, with the run as it began: `/events` tells how it goes on. */
export function addControlRoutes(app: FastifyInstance, host: Host, options: ControlOptions): void {
  const { coordinator, token, about, isStopping, log } = options;
  const events = createEventStreams((listener) => coordinator.subscribe(listener));
  const ends = createEnds((id, run) => {
    events.tell("ended", { id, run });
  });
  /** Answers with the run as it began. How it ends is told by `/events` and `/runs/:id/end`. */
  const accepted = async (reply: FastifyReply, beginning: Promise<Begun>): Promise<RunRecord> => {
    const begun = await decided(beginning);
    void ends.expect(begun);
    reply.code(202);
    return begun.run;
  };

  const routes = (scope: FastifyInstance, _: unknown, done: () => void): void => {
    scope.decorateRequest("actor");
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", { parseAs: "string" }, async (_request: FastifyRequest, body: string) =>
      parseBody(body),
    );
    scope.addHook("onRequest", async (request, reply) => {
      reply.headers({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
      request.actor = await authenticate(request, host, token);
      if (isStopping() && request.method !== "GET") throw new Refusal(503, "the daemon is stopping");
    });
    scope.addHook("preClose", (closed) => {
      events.close();
      closed();
    });
    scope.setErrorHandler((error, request, reply) => {
      const { status, headers, document, unforeseen } = answerOf(error);
      if (unforeseen) log.error({ err: error }, `${request.method} ${request.routeOptions.url}: ${messageOf(error)}`);
      return reply.code(status).headers(headers).send(document);
    });
    scope.setNotFoundHandler((request) => {
      throw new Refusal(404, `there is no ${request.method} ${request.url.split("?", 1)[0]} here`);
    });

    add(scope, controlRoutes.status, (): Status => ({
      pid: process.pid,
      version: about.version,
      startedAt: about.startedAt,
      configuration: about.configuration(),
      syncs: coordinator.syncs(),
    }));
    add(scope, controlRoutes.syncs, () => ({ syncs: coordinator.syncs() }));
    add(scope, controlRoutes.run, async (request, reply) => {
      const { sync = "" } = request.params as { sync?: string };
      const wanted = read(runBody, request.body, "body");
      if (!coordinator.syncs().some((each) => each.sync === sync)) throw new Refusal(404, `no sync is called ${sync}`);
      return accepted(reply, coordinator.begin({ ...wanted, sync, cause: "demand", by: request.actor }));
    });
    add(scope, controlRoutes.runs, (request) => listed(coordinator, request.query));
    add(scope, controlRoutes.shown, (request) => runOf(coordinator, request));
    add(scope, controlRoutes.end, (request, reply) => {
      const { id = "" } = request.params as { id?: string };
      const end = ends.of(id) ?? runOf(coordinator, request);
      const isUnderWay = end === "under way" || end.state === "running";
      return reply.code(isUnderWay ? 202 : 200).send(isUnderWay ? {} : end);
    });
    add(scope, controlRoutes.approve, async (request, reply) => {
      const { digest, overrides, ...selection } = read(approveBody, request.body, "body");
      const { id } = runOf(coordinator, request);
      const approval = {
        by: request.actor,
        digest,
        ...(overrides === undefined ? {} : { overrides }),
        ...(Object.keys(selection).length === 0 ? {} : { selection }),
      };
      return accepted(reply, coordinator.approve(id, approval));
    });
    add(scope, controlRoutes.reject, async (request) => {
      const rejection = read(rejectBody, request.body, "body");
      const { id } = runOf(coordinator, request);
      return decided(coordinator.reject(id, { ...rejection, by: request.actor }));
    });
    add(scope, controlRoutes.undo, async (request, reply) => {
      read(emptyBody, request.body, "body");
      const { id } = runOf(coordinator, request);
      return accepted(reply, coordinator.undo(id, { by: request.actor }));
    });
    add(scope, controlRoutes.reload, async (request) => {
      read(emptyBody, request.body, "body");
      await decided(options.reload());
      return { configuration: about.configuration() };
    });
    add(scope, controlRoutes.events, (request, reply) => {
      const lastId = request.headers["last-event-id"];
      return reply.type("text/event-stream").send(events.open(typeof lastId === "string" ? lastId : undefined));
    });
    done();
  };
  app.register(routes, { prefix: controlRoot });
}

/** @throws {Refusal} 404 */
function runOf(coordinator: Coordinator, request: FastifyRequest): RunRecord {
  const { id } = request.params as { id?: string };
  const run = coordinator.runs().find((each) => each.id === id);
  if (run === undefined) throw new Refusal(404, `there is no run ${id ?? ""}`);
  return run;
}

function listed(
  coordinator: Coordinator,
  query: unknown,
): { readonly runs: readonly RunRecord[]; readonly more: boolean } {
  const { sync, state, before, limit } = read(runsQuery, query, "query");
  const matching = coordinator
    .runs()
    .filter(
      (run) =>
        (sync === undefined || run.sync === sync) &&
        (state === undefined || run.state === state) &&
        (before === undefined || run.id < before),
    );
  return { runs: matching.slice(0, limit), more: matching.length > limit };
}

/** @throws {Refusal} 400 */
function parseBody(body: string): unknown {
  try {
    return body === "" ? undefined : JSON.parse(body);
  } catch (cause) {
    throw new Refusal(400, `the body is not JSON: ${messageOf(cause)}`);
  }
}

function add(
  scope: FastifyInstance,
  { method, path }: Route,
  handle: (request: FastifyRequest, reply: FastifyReply) => unknown,
): void {
  scope.route({ method, url: path, bodyLimit, handler: async (request, reply) => handle(request, reply) });
}
