import { setTimeout as sleep } from "node:timers/promises";
import { IncompleteReadError } from "#errors.ts";

/** What a file's state is compared by. Times in milliseconds. */
export interface State {
  readonly size: bigint;
  readonly mtimeMs: bigint;
  readonly ctimeMs: bigint;
}

/** After so many times the wait a file that still changes is given up. */
const patience = 10;

/**
 * Waits until a file has not changed for `wait` milliseconds, by its own times or while it was watched.
 * @param state asks for the file's state now
 * @throws {IncompleteReadError} when it does not come to rest
 */
export async function settle(
  name: string,
  wait: number,
  state: () => Promise<State>,
  signal: AbortSignal,
): Promise<void> {
  const start = performance.now();
  let seen = await state();
  let watchedSince = performance.now();
  for (;;) {
    const newest = Number(seen.mtimeMs > seen.ctimeMs ? seen.mtimeMs : seen.ctimeMs);
    // A clock that is ahead of ours tells nothing; watching does.
    const quiet = Math.max(Date.now() - newest, performance.now() - watchedSince);
    if (quiet >= wait) return;
    if (performance.now() - start >= wait * patience) {
      throw new IncompleteReadError(
        `${name} is still being written to after ${Math.round((wait * patience) / 1000)} s; read it again when it is complete`,
      );
    }
    await sleep(Math.min(wait - quiet, 1_000), undefined, { signal }).catch((error: unknown) => {
      signal.throwIfAborted();
      throw error;
    });
    const now = await state();
    if (now.size !== seen.size || now.mtimeMs !== seen.mtimeMs || now.ctimeMs !== seen.ctimeMs) {
      seen = now;
      watchedSince = performance.now();
    }
  }
}
