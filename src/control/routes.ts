import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { messageOf } from "#errors.ts";
import type { Action, Role } from "#roles.ts";
import type { Begun, Coordinator } from "#sync/coordinator/coordinator.ts";
import { overriddenBy } from "#sync/coordinator/refusals.ts";
import { runDocument, stateName } from "#state/record.ts";
import type { Actor, RunDocument, RunRecord, SyncStatus } from "#state/record.ts";
import { controlRoot, controlRoutes } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { addAccountRoutes, isOpenRoute } from "./account-routes.ts";
import { authenticate, bearerOf, isSame, listeningOf, permit } from "./access.ts";
import type { Host } from "./access.ts";
import { addInboxManagement } from "./inbox-routes.ts";
import { Refusal, answerOf, changesAsJson, orConflict } from "./answers.ts";
import type { Control, RunUnderWay } from "./control.ts";
import { approveBody, changesQuery, emptyBody, read, rejectBody, runBody, runsQuery } from "./requests.ts";
import type { RunsQuery } from "./requests.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who sent the request. */
    actor: Actor;
    /** What they may do. */
    role: Role;
  }
}

/** What `GET /status` answers. */
export interface Status {
  readonly pid: number;
  readonly version: string;
  readonly startedAt: string;
  readonly configuration: { readonly file: string; readonly digest: string };
  readonly syncs: readonly SyncStatus[];
}

/** The largest body, in bytes. */
const bodyLimit = 64 * 1024;

/** Adds the routes of the daemon's API, below `controlRoot`. */
export function addControlRoutes(app: FastifyInstance, host: Host, control: Control): void {
  const routes = (scope: FastifyInstance, _: unknown, done: () => void): void => {
    prepare(scope, host, control);
    addQueries(scope, host, control);
    addCommands(scope, control);
    addAccountRoutes((route, handle) => add(scope, route, handle), control.options);
    addInboxManagement((route, handle) => add(scope, route, handle), control.options.inboxes);
    done();
  };
  app.register(routes, { prefix: controlRoot });
}

/** What all routes share: authentication, JSON bodies and error answers. */
function prepare(scope: FastifyInstance, host: Host, { options, isStopping, events }: Control): void {
  scope.decorateRequest("actor");
  scope.decorateRequest("role");
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser("*", { parseAs: "string" }, async (_request: FastifyRequest, body: string) =>
    parseBody(body),
  );
  scope.addHook("onRequest", async (request) => {
    if (!isOpenRoute(request))
      ({ actor: request.actor, role: request.role } = await authenticate(request, host, options));
    if (isStopping() && request.method !== "GET") throw new Refusal(503, "the daemon is stopping");
  });
  scope.addHook("preClose", (closed) => {
    events.close();
    closed();
  });
  scope.setErrorHandler((error, request, reply) => {
    const { status, headers, document, unexpected } = answerOf(error);
    if (unexpected)
      options.log.error({ err: error }, `${request.method} ${request.routeOptions.url}: ${messageOf(error)}`);
    return reply.code(status).headers(headers).send(document);
  });
  scope.setNotFoundHandler((request) => {
    throw new Refusal(404, `there is no ${request.method} ${request.url.split("?", 1)[0]} here`);
  });
}

function addQueries(
  scope: FastifyInstance,
  host: Host,
  { options, daemon, events, outcomeOf, progressOf }: Control,
): void {
  add(scope, controlRoutes.status, (): Status => {
    const { configuration, coordinator } = daemon();
    const { version, startedAt } = options;
    return { pid: process.pid, version, startedAt, configuration: configuration(), syncs: coordinator.syncs() };
  });
  add(scope, controlRoutes.syncs, () => ({ syncs: daemon().coordinator.syncs() }));
  add(scope, controlRoutes.runs, (request): RunList => {
    const { runs, more } = listRuns(daemon().coordinator, read(runsQuery, request.query, "query"));
    return { runs: runs.map(runDocument), more };
  });
  add(scope, controlRoutes.details, (request) => runDocument(runOf(daemon().coordinator, request)));
  add(scope, controlRoutes.end, (request, reply) => {
    const run = runOf(daemon().coordinator, request);
    const end = outcomeOf(run.id) ?? run;
    const isUnderWay = end === "under way" || end.state === "running";
    if (!isUnderWay) return reply.send(runDocument(end));
    return reply.code(202).send({ ...runDocument(run), progress: progressOf(run.id) } satisfies RunUnderWay);
  });
  add(scope, controlRoutes.changes, async (request, reply) => {
    const { coordinator, changes } = daemon();
    const { kind, action, name, source, cause, group, attribute } = read(changesQuery, request.query, "query");
    const run = runOf(coordinator, request);
    if (!run.kept) throw new Refusal(404, `no changes are stored of run ${run.id}: it had none, or it is too old`);
    const filter = {
      kind,
      actions: action,
      names: name,
      sources: source,
      causes: cause,
      groups: group,
      aspects: attribute,
    };
    const isLines = /\bapplication\/(?:x-)?ndjson\b/i.test(request.headers.accept ?? "");
    reply.type(isLines ? "application/x-ndjson" : "application/json");
    return reply.send(await changesAsJson(changes(run, filter), isLines ? "lines" : "array"));
  });
  add(scope, controlRoutes.events, (request, reply) => {
    const lastId = request.headers["last-event-id"];
    const since = typeof lastId === "string" ? lastId : undefined;
    return reply
      .type("text/event-stream")
      .send(events.open(since, listeningOf(request, host, options), request.raw.socket));
  });
}

/** What starts a run answers 202 with the run as it began; `/events` and `/runs/:id/end` report its outcome. */
function addCommands(scope: FastifyInstance, { daemon, track, options: { token } }: Control): void {
  const accepted = async (reply: FastifyReply, beginning: Promise<Begun>): Promise<RunDocument> => {
    const run = track(await orConflict(beginning));
    reply.code(202);
    return runDocument(run);
  };

  add(scope, controlRoutes.run, async (request, reply) => {
    const { sync = "" } = request.params as { sync?: string };
    const wanted = read(runBody, request.body, "body");
    permit(request, actionOf(wanted));
    const { coordinator } = daemon();
    if (!coordinator.syncs().some((each) => each.sync === sync)) throw new Refusal(404, `no sync is called ${sync}`);
    return accepted(reply, coordinator.begin({ ...wanted, sync, cause: "demand", by: request.actor }));
  });
  add(scope, controlRoutes.approve, async (request, reply) => {
    const { digest, overrides, reason, ...selection } = read(approveBody, request.body, "body");
    permit(request, actionOf({ overrides }));
    const { coordinator } = daemon();
    const run = runOf(coordinator, request);
    permit(request, actionOf({ overrides: overriddenBy(run, overrides) }));
    const approval = {
      by: request.actor,
      digest,
      overrides,
      reason,
      ...(Object.keys(selection).length === 0 ? {} : { selection }),
    };
    return accepted(reply, coordinator.approve(run.id, approval));
  });
  add(scope, controlRoutes.reject, async (request) => {
    const rejection = read(rejectBody, request.body, "body");
    permit(request, "decide");
    const { coordinator } = daemon();
    const { id } = runOf(coordinator, request);
    return runDocument(await orConflict(coordinator.reject(id, { ...rejection, by: request.actor })));
  });
  add(scope, controlRoutes.undo, async (request, reply) => {
    read(emptyBody, request.body, "body");
    permit(request, "decide");
    const { coordinator } = daemon();
    const { id } = runOf(coordinator, request);
    return accepted(reply, coordinator.undo(id, { by: request.actor }));
  });
  add(scope, controlRoutes.hold, (request, reply) => {
    read(emptyBody, request.body, "body");
    onlyToken(request, token);
    const { hold, coordinator } = daemon();
    const running = coordinator.syncs().flatMap((each) => each.running ?? []);
    return reply.code(hold.renew() ? 200 : 202).send({ running });
  });
  add(scope, controlRoutes.release, (request) => {
    read(emptyBody, request.body, "body");
    onlyToken(request, token);
    daemon().hold.release();
    return {};
  });
  add(scope, controlRoutes.reload, async (request) => {
    read(emptyBody, request.body, "body");
    permit(request, "reload");
    const { reload, configuration } = daemon();
    await orConflict(reload(request.actor));
    return { configuration: configuration() };
  });
}

/** What beginning or approving a run is, for `checkMay`. */
export function actionOf({ overrides = [] }: { readonly overrides?: readonly string[] | undefined }): Action {
  return overrides.length === 0 ? "decide" : "override";
}

/** Only a process that may read the daemon's files has its token. @throws {Refusal} 403 */
function onlyToken(request: FastifyRequest, token: string): void {
  const given = bearerOf(request);
  if (given === undefined || !isSame(given, token))
    throw new Refusal(403, "only a command that can read data/daemon/control.json may ask for this");
}

function runOf(coordinator: Coordinator, request: FastifyRequest): RunRecord {
  const { id = "" } = request.params as { id?: string };
  return findRun(coordinator, id);
}

/** @throws {Refusal} 404 */
export function findRun(coordinator: Coordinator, id: string): RunRecord {
  const run = coordinator.runs().find((each) => each.id === id);
  if (run === undefined) throw new Refusal(404, `there is no run ${id}`);
  return run;
}

/** What `GET /runs` answers. `more`: there are older runs than the last one. */
export interface RunList<Run = RunDocument> {
  readonly runs: readonly Run[];
  readonly more: boolean;
}

/** A page of the runs, newest first. */
export function listRuns(coordinator: Coordinator, { sync, state, before, limit }: RunsQuery): RunList<RunRecord> {
  const matching = coordinator
    .runs()
    .filter(
      (run) =>
        (sync === undefined || run.sync === sync) &&
        (state === undefined || stateName(run) === state) &&
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
