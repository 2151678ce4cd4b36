import { once } from "node:events";
import type { Readable } from "node:stream";
import { Busboy } from "@fastify/busboy";

/** One part of a `multipart/form-data` body. */
export interface Part {
  readonly name: string;
  /** Undefined when the part has none. */
  readonly filename: string | undefined;
  readonly content: Readable;
}

export interface PartReader {
  /** Reads one part to its end. Called in order, one part at a time. */
  readonly take: (part: Part) => Promise<void>;
  /** Makes the error for a malformed body. */
  readonly malformed: (cause: unknown) => Error;
}

/**
 * Reads a `multipart/form-data` body as it arrives. Resolves when the body has ended and the last part is taken. When
 * it throws, every part is destroyed and the last `take` is over: nothing of the body outlives this call.
 * @throws what `malformed` makes, and what `take` throws
 */
export async function readMultipart(
  body: Readable,
  contentType: string,
  { take, malformed }: PartReader,
): Promise<void> {
  const parser = createParser(contentType, malformed);
  const failure = new Failure();
  parser.on("error", (cause: unknown) => {
    failure.set(malformed(cause));
  });

  /** The parser announces a part while the one before it is still being read. */
  const announced = new Set<Readable>();
  let taken = Promise.resolve();
  parser.on("file", (name: string | undefined, content: Readable, filename: string | undefined) => {
    content.on("error", (cause) => {
      // `take` has destroyed the part and reports why itself.
      if (!content.destroyed) failure.set(malformed(cause));
    });
    announced.add(content);
    const part = { name: name ?? "", filename, content };
    const takeAfter = async (before: Promise<void>): Promise<void> => {
      await before;
      // A part that waited for the one before it must not be taken any more: nobody would end its reader.
      failure.check();
      await take(part);
      announced.delete(content);
    };
    taken = takeAfter(taken);
    taken.catch((cause: unknown) => failure.set(cause));
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
    failure.set(error);
    // Ends its reader with an error.
    for (const content of announced) content.destroy();
    await taken.catch(() => undefined);
    throw error;
  }
}

/** The first failure. Racing one promise against every piece of a body would make that promise remember them all. */
class Failure {
  #failed: { readonly cause: unknown } | undefined;
  #fail: ((cause: unknown) => void) | undefined;

  set(cause: unknown): void {
    this.#failed ??= { cause };
    this.#fail?.(cause);
  }

  /** @throws what failed, if anything has */
  check(): void {
    if (this.#failed !== undefined) throw this.#failed.cause;
  }

  /** Waits until `work` calls `done`, or rejects as soon as anything fails. */
  unless(work: (done: () => void) => void): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      this.#fail = reject;
      if (this.#failed === undefined) work(resolve);
      else reject(this.#failed.cause);
    });
  }
}

function createParser(contentType: string, malformed: PartReader["malformed"]): InstanceType<typeof Busboy> {
  try {
    return new Busboy({ headers: { "content-type": contentType }, fileHwm: 2 ** 20, isPartAFile: () => true });
  } catch (cause) {
    throw malformed(cause);
  }
}
