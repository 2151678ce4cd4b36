import type { FastifyReply } from "fastify";

export const json = "application/json";
export const text = "text/plain; charset=utf-8";

/** A refused request: its status and the messages for the caller. */
export class HttpError extends Error {
  readonly status: number;
  readonly messages: readonly string[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    messages: readonly string[],
    options: { headers?: Readonly<Record<string, string>>; cause?: unknown } = {},
  ) {
    super(messages.join("; "), { cause: options.cause });
    this.status = status;
    this.messages = messages;
    this.headers = options.headers ?? {};
  }
}

/** Answers with a small JSON value. As bytes: the framework would add a charset, which JSON does not have. */
export function sendJson(reply: FastifyReply, value: unknown): FastifyReply {
  return reply.type(json).send(jsonBytes(value));
}

export function jsonBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
