import type { FastifyRequest } from "fastify";
import { HttpError } from "./answers.ts";

/** What a body may be that is read as a whole, in bytes: a login, not a list. */
const limit = 64 * 1024;

/** Within how many milliseconds it must have arrived. */
const patience = 30_000;

/**
 * Reads a small body as a whole.
 * @throws {HttpError} 413 when it is too large, 408 when it does not arrive
 */
export async function readBody(request: FastifyRequest): Promise<string> {
  const { raw } = request;
  const tooLarge = new HttpError(413, [`The body may have ${limit} bytes at the most.`]);
  if (Number(raw.headers["content-length"]) > limit) throw tooLarge;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const pieces: Buffer[] = [];
  let length = 0;
  const timer = setTimeout(() => {
    reject(new HttpError(408, ["The body did not arrive in time."], { headers: { connection: "close" } }));
  }, patience);
  raw.on("data", (piece: Buffer) => {
    // What follows is read and dropped, so that a client that sends all of it first gets its answer too.
    length += piece.length;
    if (length > limit) reject(tooLarge);
    else pieces.push(piece);
  });
  raw.once("end", () => {
    resolve(Buffer.concat(pieces).toString("utf8"));
  });
  raw.once("error", reject);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
