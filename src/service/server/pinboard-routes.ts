import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { PinboardData } from "#service/pinboards/pinboards.ts";
import { readDataRequest, readHeaderRequest } from "#service/pinboards/request.ts";
import { familyB, pinboardRoutes } from "#wire/routes.ts";
import { json, sendJson } from "#http/answers.ts";
import { releaseSent } from "./answers.ts";
import type { ServerContext } from "./context.ts";
import { disconnectOf, parametersOf, queryOf, readBody, valuesOf } from "#http/exchange.ts";

/** Answers up to this size, in bytes, are sent at once: compressing them takes less than setting up a stream. */
const small = 128 * 1024;

/** The pinboards of family B (specification 4.2) below one prefix (0.2). They need any session (0.6). */
export function addPinboardRoutes(app: FastifyInstance, prefix: string, context: ServerContext): void {
  const { callers, pinboards, directory, shutdown } = context;
  const { data, dataByGet, headers, pinboardHeaders } = pinboardRoutes;

  for (const { method, path } of [data, dataByGet]) {
    app.route({
      method,
      url: prefix + familyB + path,
      handler: async (request, reply) => {
        const { name } = await callers.require(request);
        const query = queryOf(request);
        const form = new URLSearchParams(method === "POST" ? await readBody(request) : "");
        const wanted = readDataRequest(parametersOf(query, form), valuesOf("vizid", query, form));
        const signal = AbortSignal.any([shutdown, disconnectOf(reply)]);
        return sendData(reply, await pinboards.data(wanted, signal, name));
      },
    });
  }

  for (const { method, path } of [headers, pinboardHeaders]) {
    app.route({
      method,
      url: prefix + familyB + path,
      handler: async (request: FastifyRequest, reply) => {
        await callers.require(request);
        const id = readHeaderRequest(parametersOf(queryOf(request), new URLSearchParams()));
        return sendJson(reply, id === undefined ? [] : pinboards.headers(id, (await directory.administrator()).id));
      },
    });
  }
}

/** The results are files until the answer has been sent, or its client is gone. */
async function sendData(reply: FastifyReply, data: PinboardData): Promise<FastifyReply> {
  releaseSent(reply, data);
  if (data.size > small) return reply.type(json).send(Readable.from(data.read(), { objectMode: false }));
  return reply.type(json).send(Buffer.concat(await Array.fromAsync(data.read())));
}
