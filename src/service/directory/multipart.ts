import { once } from "node:events";
import type { Readable } from "node:stream";
import { Busboy } from "@fastify/busboy";
import { InputError, messageOf } from "#errors.ts";
import type { FormFields } from "./form.ts";

/**
 * Reads `multipart/form-data` as it arrives. A part may carry a filename or none (B.2).
 * @throws {InputError} when the body is no such form
 */
export async function readMultipart(body: Readable, contentType: string, fields: FormFields): Promise<void> {
  const parser = createParser(contentType);
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => undefined);
  parser.once("error", (cause: unknown) => {
    failure.reject(new InputError(`the body is not valid multipart/form-data: ${messageOf(cause)}`, { cause }));
  });

  // A part is announced while the one before it is still being read: they are read one after the other.
  let reading = Promise.resolve();
  parser.on("file", (name: string | undefined, part: Readable) => {
    // Where the body ends in it, that is an error of the parser's as well; this one may come before it is read.
    part.on("error", () => undefined);
    reading = reading.then(() => readPart(name ?? "", part, fields));
    reading.catch(failure.reject);
  });

  const finished = once(parser, "finish");
  finished.catch(() => undefined);
  // The request stays open when the form is refused, for the answer.
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const written = new Promise<void>((resolve) => {
      parser.write(chunk, () => {
        resolve();
      });
    });
    await Promise.race([written, failure.promise]);
  }
  parser.end();
  await Promise.race([finished, failure.promise]);
  await Promise.race([reading, failure.promise]);
}

/**
 * What may be the beginning of a boundary, at the end of a chunk, the parser keeps, and gives out as it is when it was
 * none: memory that it looks at again later, while a sink may change what it gets. It is shorter than the boundary, and
 * that than what Node takes for headers, in bytes.
 */
const longestKept = 16 * 1024;

async function readPart(name: string, part: Readable, fields: FormFields): Promise<void> {
  const sink = fields.open(name, "plain");
  for await (const chunk of part as AsyncIterable<Buffer>) {
    sink?.write(chunk.length <= longestKept ? Buffer.from(chunk) : chunk);
    await fields.room();
  }
}

function createParser(contentType: string): InstanceType<typeof Busboy> {
  try {
    return new Busboy({ headers: { "content-type": contentType }, isPartAFile: () => true });
  } catch (cause) {
    throw new InputError(`Content-Type: ${messageOf(cause)}`, { cause });
  }
}
