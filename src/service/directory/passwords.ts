import { once } from "node:events";
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { hashPassword } from "#passwords.ts";

/** A thread takes as long to start as some hashes do: it is started for no fewer passwords than these. */
const fewest = 50;

/** How many passwords a thread is given at once. Giving them up waits for one hash. */
const piece = 4;

/**
 * Threads for many passwords, one for each processor, of lower priority than everything else: a login or a listing
 * meanwhile waits neither for them nor for their processors. A few passwords are hashed as those of logins are.
 */
export class Hashing {
  readonly #threads: readonly Worker[];
  readonly #broken = new AbortController();

  /** @param count how many passwords there are */
  constructor(count: number) {
    const width = Math.min(availableParallelism(), Math.floor(count / fewest));
    this.#threads = Array.from(
      { length: width },
      () => new Worker(new URL(import.meta.resolve("#service/directory/hashing.ts"))),
    );
    for (const thread of this.#threads) {
      thread.once("error", (error) => {
        this.#broken.abort(error);
      });
    }
  }

  /** The hashes in the order of the passwords. One call at a time. */
  async hash(passwords: readonly string[], signal?: AbortSignal): Promise<string[]> {
    if (this.#threads.length === 0) return Promise.all(passwords.map((password) => hashPassword(password, signal)));
    const over = signal === undefined ? this.#broken.signal : AbortSignal.any([signal, this.#broken.signal]);
    const hashes: string[] = [];
    let next = 0;
    const work = async (thread: Worker): Promise<void> => {
      while (next < passwords.length) {
        const from = next;
        next += piece;
        over.throwIfAborted();
        const answered = once(thread, "message", { signal: over });
        thread.postMessage(passwords.slice(from, next));
        const [made] = (await answered) as [string[]];
        for (const [index, each] of made.entries()) hashes[from + index] = each;
      }
    };
    try {
      await Promise.all(this.#threads.map(work));
    } catch (error) {
      over.throwIfAborted();
      throw error;
    }
    return hashes;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.terminate()));
  }
}
