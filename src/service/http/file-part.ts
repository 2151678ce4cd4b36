import { once } from "node:events";
import type { Readable } from "node:stream";
import { Busboy } from "@fastify/busboy";
import { dataTexts } from "#wire/errors.ts";
import { HttpError } from "./answers.ts";

/**
 * Reads a `multipart/form-data` body as it arrives, and gives the first part that has a filename to `take` (A.6).
 * It ends when the body has, and `take` too.
 * @throws {HttpError} 400 when it is no such body, or has no such part; and what `take` throws
 */
export async function readFilePart(
  body: Readable,
  contentType: string | undefined,
  take: (part: Readable) => Promise<void>,
): Promise<void> {
  const parser = createParser(contentType);
  const failure = createFailure();
  parser.once("error", (cause: unknown) => {
    failure.set(malformed(cause));
  });

  let file: { readonly part: Readable; readonly taken: Promise<void> } | undefined;
  parser.on("file", (_name: string | undefined, part: Readable) => {
    part.on("error", (cause) => {
      // A part that is destroyed was given up by `take`, which says why itself.
      if (!part.destroyed) failure.set(malformed(cause));
    });
    if (file === undefined) {
      file = { part, taken: take(part) };
      file.taken.catch(failure.set);
    } else {
      part.resume();
    }
  });

  const finished = once(parser, "finish");
  finished.catch(() => undefined);
  try {
    // The request stays open when it is refused, for the answer.
    for await (const bytes of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      await failure.unless((resolve) => {
        parser.write(bytes, () => {
          resolve();
        });
      });
    }
    parser.end();
    await Promise.race([failure.unless(() => undefined), finished]);
    if (file === undefined) throw new HttpError(400, [dataTexts.noFile]);
    await file.taken;
  } catch (error) {
    file?.part.destroy();
    await file?.taken.catch(() => undefined);
    throw error;
  }
}

interface Failure {
  set(cause: unknown): void;
  /** Waits for `work` to say that it is done, unless anything goes wrong before. */
  unless(work: (done: () => void) => void): Promise<void>;
}

/** What has gone wrong meanwhile. To race with one promise for every piece of a body would make it remember them all. */
function createFailure(): Failure {
  let failed: { readonly cause: unknown } | undefined;
  let fail: ((cause: unknown) => void) | undefined;
  return {
    set: (cause) => {
      failed ??= { cause };
      fail?.(cause);
    },
    unless: (work) =>
      new Promise<void>((resolve, reject) => {
        fail = reject;
        if (failed === undefined) work(resolve);
        else reject(failed.cause);
      }),
  };
}

function createParser(contentType: string | undefined): InstanceType<typeof Busboy> {
  if (contentType?.split(";", 1)[0]?.trim().toLowerCase() !== "multipart/form-data") {
    throw new HttpError(400, [dataTexts.noFile]);
  }
  try {
    return new Busboy({
      headers: { "content-type": contentType },
      fileHwm: 2 ** 20,
      isPartAFile: (_name, _type, filename) => filename !== undefined,
    });
  } catch (cause) {
    throw malformed(cause);
  }
}

function malformed(cause: unknown): HttpError {
  return new HttpError(400, [`The body is not valid multipart/form-data. ${dataTexts.noFile}`], { cause });
}
