import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { readMultipart } from "#http/multipart.ts";
import { CapacityError } from "#service/loads/capacity.ts";
import { longestId } from "#service/loads/chunks.ts";
import type { Cycle, DistantCycle, Node } from "#service/loads/cycle.ts";
import { readStartRequest } from "#service/loads/start-request.ts";
import type { Credentials } from "#service/session/login.ts";
import { loginParameters, loginRequest } from "#wire/administration.ts";
import { dataTexts } from "#wire/texts.ts";
import { chunkHeaders } from "#wire/loads.ts";
import type { LoadStarted } from "#wire/loads.ts";
import { dataRoutes, familyA, loadRoutes } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { HttpError, text } from "#http/answers.ts";
import { unverified } from "./answers.ts";
import { openSession } from "./callers.ts";
import type { LoginSettings } from "./callers.ts";
import type { NodeAddress, ServerContext } from "./context.ts";
import { destroyOnAbort, disconnectOf, parametersOf, plainAddress, queryOf, readBody } from "#http/exchange.ts";

/** Family A (specification 4.1). */
export function addDataRoutes(app: FastifyInstance, settings: LoginSettings): void {
  app.route({
    method: dataRoutes.ping.method,
    url: familyA + dataRoutes.ping.path,
    handler: (_request, reply) => reply.type(text).send(dataTexts.ping),
  });

  app.route({
    method: dataRoutes.login.method,
    url: familyA + dataRoutes.login.path,
    handler: async (request, reply) => {
      const credentials = credentialsOf(request, await readBody(request));
      if (credentials === undefined || !(await openSession(settings, request, reply, credentials))) throw unverified();
      return reply.type(text).send("");
    },
  });

  refuseOtherMethods(app, familyA, dataRoutes);
}

/** The pair in a JSON body, or in a form whatever its content type says (A.1). */
function credentialsOf(request: FastifyRequest, body: string): Credentials | undefined {
  const form = parametersOf(queryOf(request), new URLSearchParams(body));
  const parsed = body.trimStart().startsWith("{")
    ? loginRequest.safeParse(jsonOf(body))
    : loginParameters.safeParse(form);
  if (!parsed.success) return undefined;
  const { username, password } = parsed.data;
  return { username, password, remembered: false };
}

function jsonOf(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

type LoadRoute = (typeof loadRoutes)[keyof typeof loadRoutes];

/** Answers a request. */
type Answer = (context: ServerContext, request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;

/** Answers a request about a cycle at the node that has it. */
type Here = (cycle: Cycle, request: FastifyRequest, reply: FastifyReply, context: ServerContext) => Promise<unknown>;

/** The loads of family A (specification 4.1). */
export function addLoadRoutes(app: FastifyInstance, context: ServerContext): void {
  /** Answers are plain text, whatever they hold (A.25). */
  const add = ({ method, path }: LoadRoute, answer: Answer): void => {
    app.route({
      method,
      url: familyA + path,
      handler: async (request, reply) => {
        const body = await answer(context, request, reply);
        return body === reply ? reply : reply.type(text).send(body);
      },
    });
  };
  add(loadRoutes.start, start);
  add(loadRoutes.list, async ({ callers, loads }, request) => {
    const caller = await callers.require(request, ...loading);
    return JSON.stringify(await loads.statuses(caller.id));
  });
  add(loadRoutes.upload, atNode(unknownCycle, upload));
  add(loadRoutes.commit, atNode(unknownCommit, commit));
  add(loadRoutes.cancel, atNode(unknownCycle, cancel, cancelDistant));
  for (const route of [loadRoutes.status, loadRoutes.publicStatus])
    // The status that a silent node last reported.
    add(
      route,
      atNode(unknownCycle, status, async (cycle) => JSON.stringify(cycle.status())),
    );
  add(loadRoutes.badRecords, atNode(noBadRecords, badRecords));
  add(loadRoutes.inputSummary, async (context, request) => {
    const cycle = await find(context, request);
    if (cycle === undefined) throw unknownCycle(request);
    return JSON.stringify({ load_params: cycle.parameters() });
  });
  refuseOtherMethods(app, familyA, loadRoutes);
}

/** The privileges of which one is needed to load. */
const loading = ["dataManagement", "administration"] as const;

/** The cycle of the request, if its caller may know of it (A.9). */
async function find(
  { callers, loads }: ServerContext,
  request: FastifyRequest,
): Promise<Cycle | DistantCycle | undefined> {
  const caller = await callers.require(request, ...loading);
  const cycle = await loads.find(idOf(request));
  const isTheirs = cycle?.owner === caller.id || (cycle && (await callers.holds(caller, "administration")));
  return isTheirs ? cycle : undefined;
}

/**
 * What is answered by the node that has the cycle: here, or there.
 * @param alone answers for a node that does not answer, and is not lost. Absent: a 503
 */
function atNode(
  unknown: (request: FastifyRequest) => HttpError,
  here: Here,
  alone?: (cycle: DistantCycle, context: ServerContext) => Promise<unknown>,
): Answer {
  return async (context, request, reply) => {
    context.forward?.isForwarded(request);
    let cycle = await find(context, request);
    if (cycle?.node !== undefined) {
      const answered = await passOn(context, request, reply, cycle.node);
      if (answered !== undefined) return answered;
      // What it had may be known to be lost by now.
      cycle = await find(context, request);
    }
    if (cycle === undefined) throw unknown(request);
    if (cycle.node === undefined) return here(cycle, request, reply, context);
    if (alone === undefined) throw notReached(cycle.node);
    return alone(cycle, context);
  };
}

async function passOn(
  { forward }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  node: Node,
): Promise<FastifyReply | undefined> {
  if (forward === undefined) return undefined;
  // It was here a moment ago.
  if (forward.isForwarded(request)) throw notReached(node);
  return forward.send(request, reply, node);
}

async function start(
  { callers, loads, nodeAddress, secure }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<string> {
  const caller = await callers.require(request, ...loading);
  const body = await readBody(request);
  const parameters = readStartRequest(body);
  if (parameters === undefined) throw new HttpError(400, [dataTexts.invalidStart(body)]);
  const cycle = await withRoom(() => loads.start(caller.id, parameters));
  const started: LoadStarted = { node_address: nodeAddress ?? nodeAddressOf(request, secure), cycle_id: cycle.id };
  reply.code(202);
  return JSON.stringify(started);
}

const upload: Here = async (cycle, request, reply, { loads, shutdown }) => {
  if (!cycle.isIngesting()) throw notAccepting(cycle);
  const table = await loads.table(cycle);
  if (table === undefined) throw new HttpError(400, [dataTexts.noTable]);
  await receive(request, cycle, AbortSignal.any([shutdown, disconnectOf(reply)]));
  reply.code(202);
  return dataTexts.uploadComplete;
};

const commit: Here = async (cycle, request, reply, { loads }) => {
  if (cycle.outcome()?.code === "CANCELLED") throw notAccepting(cycle);
  const expected = cycle.isIngesting() ? chunkCountOf(request) : undefined;
  const missing = await withRoom(() => loads.commit(cycle, expected));
  if (missing !== undefined) {
    throw new HttpError(400, [
      `The commit expects ${expected} chunks, and ${missing.arrived} have arrived. The cycle goes on accepting data.`,
    ]);
  }
  reply.code(202);
  return dataTexts.commitMade;
};

const cancel: Here = async (cycle, _request, _reply, { loads }) => {
  await withRoom(() => loads.cancel(cycle));
  return "";
};

async function cancelDistant(cycle: DistantCycle, { loads }: ServerContext): Promise<string> {
  await loads.cancelDistant(cycle);
  return "";
}

const status: Here = async (cycle, _request, reply, { statusHold, shutdown }) => {
  if (!cycle.isIngesting()) await held(cycle, statusHold, AbortSignal.any([shutdown, disconnectOf(reply)]));
  return JSON.stringify(cycle.status());
};

const badRecords: Here = async (cycle, request, reply, context) => {
  if (cycle.outcome() === undefined) throw noBadRecords(request);
  const rejected = await sizeOf(cycle.badRecords);
  if (rejected !== undefined) {
    reply.header("content-length", rejected);
    return createReadStream(cycle.badRecords);
  }
  const { forward, loads } = context;
  const node = forward?.isForwarded(request) === true ? undefined : await loads.findRejected(cycle);
  if (node === undefined) throw noBadRecords(request);
  const answered = await passOn(context, request, reply, node);
  if (answered === undefined) throw notReached(node);
  return answered;
};

function idOf(request: FastifyRequest): string {
  return (request.params as { cycle_id: string }).cycle_id;
}

function unknownCycle(request: FastifyRequest): HttpError {
  return new HttpError(400, [dataTexts.unknownCycle(idOf(request))]);
}

function unknownCommit(request: FastifyRequest): HttpError {
  return new HttpError(500, [dataTexts.unknownCommit(idOf(request))]);
}

function noBadRecords(request: FastifyRequest): HttpError {
  return new HttpError(500, [dataTexts.noBadRecords(idOf(request))]);
}

/** The node that has the data of a load is not lost yet, and does not answer. */
function notReached({ address }: Node): HttpError {
  const place = address === undefined ? "" : ` (${address})`;
  return new HttpError(
    503,
    [`The node that has the data of this load${place} does not answer. Try again: it may be restarting.`],
    { headers: { "retry-after": "2" } },
  );
}

/** Receives the chunk of a request (A.6, A.8). Leaves nothing behind when it fails. */
async function receive(request: FastifyRequest, cycle: Cycle, signal: AbortSignal): Promise<void> {
  const id = chunkIdOf(request);
  signal.throwIfAborted();
  using _destroying = destroyOnAbort(signal, request.raw);
  const upload = cycle.beginUpload(id);
  try {
    await withRoom(async () => {
      await readFilePart(request, (part) => upload.write(part, signal));
      if (!(await cycle.publish(upload))) throw notAccepting(cycle);
    });
  } catch (error) {
    signal.throwIfAborted();
    throw cycle.isIngesting() ? error : notAccepting(cycle);
  } finally {
    await cycle.endUpload(upload);
  }
}

/**
 * Gives the first part of a `multipart/form-data` body that has a
 * filename to `take` (A.6). It ends when the body has, and `take` too.
 * @throws {HttpError} 400 when it is no such body, or has no such part; and what `take` throws
 */
async function readFilePart(request: FastifyRequest, take: (part: Readable) => Promise<void>): Promise<void> {
  const { contentType } = request.exchange;
  if (contentType?.split(";", 1)[0]?.trim().toLowerCase() !== "multipart/form-data") {
    throw new HttpError(400, [dataTexts.noFile]);
  }
  let isTaken = false;
  await readMultipart(request.raw, contentType, {
    take: async ({ filename, content }) => {
      if (filename === undefined || isTaken) {
        content.resume();
      } else {
        isTaken = true;
        await take(content);
      }
    },
    malformed: (cause) =>
      new HttpError(400, [`The body is not valid multipart/form-data. ${dataTexts.noFile}`], { cause }),
  });
  if (!isTaken) throw new HttpError(400, [dataTexts.noFile]);
}

function chunkIdOf({ headers }: FastifyRequest): string | undefined {
  const id = String(headers[chunkHeaders.id] ?? "");
  if (id.length > longestId) throw new HttpError(400, [`X-ts-chunk-id: expected at most ${longestId} characters.`]);
  return id === "" ? undefined : id;
}

function chunkCountOf({ headers }: FastifyRequest): number | undefined {
  const count = headers[chunkHeaders.count];
  if (count === undefined) return undefined;
  if (!/^\d{1,9}$/.test(String(count))) {
    throw new HttpError(400, [`X-ts-chunks: expected the number of chunks, not "${String(count)}".`]);
  }
  return Number(count);
}

/** Waits for the end of the commit, but not longer than `patience` (A.11). */
async function held(cycle: Cycle, patience: number, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  const waiting = delay(patience, undefined, { signal: AbortSignal.any([signal, over.signal]) });
  await Promise.race([cycle.ended, waiting.catch(() => undefined)]);
  over.abort();
}

function notAccepting(cycle: Cycle): HttpError {
  return new HttpError(400, [dataTexts.notAccepting(cycle.id)]);
}

/** The size of a file in bytes; undefined: it is not there. */
export async function sizeOf(file: string): Promise<number | undefined> {
  const found = await stat(file).catch(() => undefined);
  return found?.size;
}

/** Turns a lack of capacity into a 413, and a lack of disk space into a 507. */
async function withRoom<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof CapacityError)) throw cause;
    throw new HttpError(cause.lacking === "disk" ? 507 : 413, [cause.message], { cause });
  }
}

/** The address the client called, from its Host header; without a port, the default of the scheme (A.5). */
function nodeAddressOf({ headers, raw }: FastifyRequest, secure: boolean): NodeAddress {
  const { host, port } = /^(?<host>\[[^\]]+\]|[^:]+)(?::(?<port>\d{1,5}))?$/.exec(headers.host ?? "")?.groups ?? {};
  const called = port === undefined ? (secure ? 443 : 80) : Number(port);
  // HTTP/1.0 has no Host header, and nobody can call port 0 or 99999; the connection's own address is the next best.
  if (host === undefined || called < 1 || called > 65_535)
    return { host: plainAddress(raw.socket.localAddress), port: raw.socket.localPort ?? 0 };
  return { host, port: called };
}

/** Answers 405 where one of the routes has the path, with another method. */
function refuseOtherMethods(app: FastifyInstance, root: string, routes: Readonly<Record<string, Route>>): void {
  for (const [path, there] of Map.groupBy(Object.values(routes), (route) => route.path)) {
    const allowed: readonly string[] = there.map((route) => route.method);
    app.route({
      method: app.supportedMethods.filter((method) => !allowed.includes(method)),
      url: root + path,
      handler: () => {
        const list = allowed.join(", ");
        throw new HttpError(405, [`The method is not allowed here, only ${list}.`], { headers: { allow: list } });
      },
    });
  }
}
