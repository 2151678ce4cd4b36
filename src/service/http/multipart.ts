import { once } from "node:events";
import type { Readable } from "node:stream";
import { Busboy } from "@fastify/busboy";

/** One part of a `multipart/form-data` body. */
export interface Part {
  readonly name: string;
  /** Undefined: it carries none. */
  readonly filename: string | undefined;
  readonly content: Readable;
}

export interface PartReader {
  /** Is given one part after the other, in order, and reads each to its end. */
  take(part: Part): Promise<void>;
  /** What is thrown when the body is not what it must be. */
  malformed(cause: unknown): Error;
}

/**
 * Reads a `multipart/form-data` body as it arrives. It ends when the body has, and the last part is taken; when it throws, the
 * part that is being taken is destroyed, and its `take` may still be running.
 * @throws what `malformed` makes, and what `take` throws
 */
export async function readMultipart(
  body: Readable,
  contentType: string,
  { take, malformed }: PartReader,
): Promise<void> {
  const parser = createParser(contentType, malformed);
  const failure = createFailure();
  parser.once("error", (cause: unknown) => {
    failure.set(malformed(cause));
  });

  /** A part is announced while the one before it is still being read. */
  let current: Readable | undefined;
  let taken = Promise.resolve();
  parser.on("file", (name: string | undefined, content: Readable, filename: string | undefined) => {
    content.on("error", (cause) => {
      // A part that is destroyed was given up by `take`, which says why itself.
      if (!content.destroyed) failure.set(malformed(cause));
    });
    taken = taken.then(() => {
      current = content;
      return take({ name: name ?? "", filename, content });
    });
    taken.catch(failure.set);
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
    await Promise.race([failure.unless(() => undefined), taken]);
  } catch (error) {
    // Its reader ends, with an error.
    current?.destroy();
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

function createParser(contentType: string, malformed: PartReader["malformed"]): InstanceType<typeof Busboy> {
  try {
    return new Busboy({ headers: { "content-type": contentType }, fileHwm: 2 ** 20, isPartAFile: () => true });
  } catch (cause) {
    throw malformed(cause);
  }
}
