import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { messageOf } from "#errors.ts";
import type { Logger } from "pino";
import type { Change } from "#plan/change.ts";
import type { Filter } from "#plan/stored.ts";
import type { Begun, Coordinator, SyncStatus } from "#sync/coordinator/coordinator.ts";
import type { Actor, RunRecord } from "#sync/record.ts";
import { controlRoot, controlRoutes } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { authenticate } from "./access.ts";
import type { Host } from "./access.ts";
import { Refusal, answerOf, decided } from "./answers.ts";
import { changesAsJson } from "./answers.ts";
import type { EventStreams } from "./events.ts";
import { approveBody, changesQuery, emptyBody, read, rejectBody, runBody, runsQuery } from "./requests.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who asks something of the daemon. */
    actor: Actor;
  }
}

export interface ControlOptions {
  /** What a command on this machine proves with that it may read the data folder. */
  readonly token: string;
  readonly version: string;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly log: Logger;
}

/** The daemon, as its API asks it. */
export interface Daemon {
  readonly coordinator: Coordinator;
  /** The configuration that is in force. Those of two processes are the same when their digests are. */
  readonly configuration: () => { readonly file: string; readonly digest: string };
  /** What a run has planned, as far as it fits. */
  readonly changes: (run: RunRecord, filter: Filter) => AsyncIterable<Change>;
  /** Reads the configuration again, as a whole or not at all. @throws {InputError} something is wrong with it */
  readonly reload: (by: Actor) => Promise<unknown>;
}

/** What the routes work with. */
export interface ControlContext extends ControlOptions {
  readonly events: EventStreams;
  /** @throws {UnavailableError} there is none yet */
  daemon(): Daemon;
  isStopping(): boolean;
  /** Follows a run that was begun here. @returns it, as it began */
  begun(beginning: Begun): RunRecord;
  /** How a run that was begun here has ended. */
  endOf(id: string): RunRecord | "under way" | undefined;
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

/** Adds the routes of the daemon's API, below `controlRoot`. */
export function addControlRoutes(app: FastifyInstance, host: Host, context: ControlContext): void {
  const routes = (scope: FastifyInstance, _: unknown, done: () => void): void => {
    prepare(scope, host, context);
    addReading(scope, context);
    addDeciding(scope, context);
    done();
  };
  app.register(routes, { prefix: controlRoot });
}

/** What all requests have in common: who may make them, what their bodies are, and how they fail. */
function prepare(scope: FastifyInstance, host: Host, { token, isStopping, events, log }: ControlContext): void {
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
}

function addReading(scope: FastifyInstance, { version, startedAt, daemon, events, endOf }: ControlContext): void {
  add(scope, controlRoutes.status, (): Status => {
    const { configuration, coordinator } = daemon();
    return { pid: process.pid, version, startedAt, configuration: configuration(), syncs: coordinator.syncs() };
  });
  add(scope, controlRoutes.syncs, () => ({ syncs: daemon().coordinator.syncs() }));
  add(scope, controlRoutes.runs, (request) => listed(daemon().coordinator, request.query));
  add(scope, controlRoutes.details, (request) => runOf(daemon().coordinator, request));
  add(scope, controlRoutes.end, (request, reply) => {
    const run = runOf(daemon().coordinator, request);
    const end = endOf(run.id) ?? run;
    const isUnderWay = end === "under way" || end.state === "running";
    return reply.code(isUnderWay ? 202 : 200).send(isUnderWay ? run : end);
  });
  add(scope, controlRoutes.changes, async (request, reply) => {
    const { coordinator, changes } = daemon();
    const { kind, action, name, attribute } = read(changesQuery, request.query, "query");
    const run = runOf(coordinator, request);
    if (!run.kept) throw new Refusal(404, `of run ${run.id} no changes are kept: it has none, or it is too long ago`);
    const filter = {
      ...(kind === undefined ? {} : { kind }),
      ...(action === undefined ? {} : { actions: action }),
      ...(name === undefined ? {} : { names: name }),
      ...(attribute === undefined ? {} : { aspects: attribute }),
    };
    const isLines = /\bapplication\/(?:x-)?ndjson\b/i.test(request.headers.accept ?? "");
    reply.type(isLines ? "application/x-ndjson" : "application/json");
    return reply.send(await changesAsJson(changes(run, filter), isLines ? "lines" : "array"));
  });
  add(scope, controlRoutes.events, (request, reply) => {
    const lastId = request.headers["last-event-id"];
    return reply.type("text/event-stream").send(events.open(typeof lastId === "string" ? lastId : undefined));
  });
}

/** What takes long is answered 202, with the run as it began: `/events` and `/runs/:id/end` tell how it ends. */
function addDeciding(scope: FastifyInstance, { daemon, begun }: ControlContext): void {
  const accepted = async (reply: FastifyReply, beginning: Promise<Begun>): Promise<RunRecord> => {
    const run = begun(await decided(beginning));
    reply.code(202);
    return run;
  };

  add(scope, controlRoutes.run, async (request, reply) => {
    const { sync = "" } = request.params as { sync?: string };
    const wanted = read(runBody, request.body, "body");
    const { coordinator } = daemon();
    if (!coordinator.syncs().some((each) => each.sync === sync)) throw new Refusal(404, `no sync is called ${sync}`);
    return accepted(reply, coordinator.begin({ ...wanted, sync, cause: "demand", by: request.actor }));
  });
  add(scope, controlRoutes.approve, async (request, reply) => {
    const { digest, overrides, ...selection } = read(approveBody, request.body, "body");
    const { coordinator } = daemon();
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
    const { coordinator } = daemon();
    const { id } = runOf(coordinator, request);
    return decided(coordinator.reject(id, { ...rejection, by: request.actor }));
  });
  add(scope, controlRoutes.undo, async (request, reply) => {
    read(emptyBody, request.body, "body");
    const { coordinator } = daemon();
    const { id } = runOf(coordinator, request);
    return accepted(reply, coordinator.undo(id, { by: request.actor }));
  });
  add(scope, controlRoutes.reload, async (request) => {
    read(emptyBody, request.body, "body");
    const { reload, configuration } = daemon();
    await decided(reload(request.actor));
    return { configuration: configuration() };
  });
}

/** @throws {Refusal} 404 */
function runOf(coordinator: Coordinator, request: FastifyRequest): RunRecord {
  const { id } = request.params as { id?: string };
  const run = coordinator.runs().find((each) => each.id === id);
  if (run === undefined) throw new Refusal(404, `there is no run ${id ?? ""}`);
  return run;
}

/** What `GET /runs` answers. `more`: there are others before the last of them. */
export interface RunList {
  readonly runs: readonly RunRecord[];
  readonly more: boolean;
}

function listed(coordinator: Coordinator, query: unknown): RunList {
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
