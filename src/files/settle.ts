import { createHash, type Hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { IncompleteReadError, InputError } from "#errors.ts";
import { patience } from "#values.ts";

/** The part of a file's stat that is compared. Times in milliseconds. */
export interface State {
  readonly size: bigint;
  readonly mtimeMs: bigint;
  readonly ctimeMs: bigint;
}

/** A file that still changes after so many times the wait fails the read. */
const longestWait = 10;

/**
 * Waits until a file has not changed for `wait` milliseconds, by its own timestamps or while it was watched.
 * @throws {IncompleteReadError} it keeps changing
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
    // If the file system's clock is ahead of ours, only watching helps.
    const quiet = Math.max(Date.now() - newest, performance.now() - watchedSince);
    if (quiet >= wait) return;
    if (performance.now() - start >= wait * longestWait) {
      throw new IncompleteReadError(
        `${name} is still being written to after ${Math.round((wait * longestWait) / 1000)} s; read it again when it is complete`,
        { transient: true },
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

/** How to know that a file is complete. All optional. */
export interface Checks {
  /** Waits until the file has not been written to for so long. In milliseconds. */
  readonly settled?: number | undefined;
  /** Each file has a file with its checksum beside it: `people.csv.sha256`. */
  readonly checksum?: Algorithm | undefined;
}

const algorithms = { md5: 32, sha1: 40, sha256: 64, sha512: 128 } as const;
type Algorithm = keyof typeof algorithms;

/** The schemas of `Checks`. */
export const checks = {
  settled: patience
    .optional()
    .describe(
      "Wait until a file has not changed for this long, such as 30s; after ten times as long the read fails. Default: do not wait.",
    ),
  checksum: z
    .enum(["md5", "sha1", "sha256", "sha512"], { error: "expected md5, sha1, sha256 or sha512" })
    .optional()
    .describe("The kind of checksum stored beside each file, such as people.csv.sha256. Default: none."),
};

/** Passes the bytes of a file on. @throws {IncompleteReadError} at the end, when they do not have the expected checksum */
export async function* checked(
  bytes: AsyncIterable<Buffer>,
  { name, algorithm, expected }: { name: string; algorithm: Algorithm; expected: string },
): AsyncGenerator<Buffer> {
  const hash: Hash = createHash(algorithm);
  for await (const chunk of bytes) {
    hash.update(chunk);
    yield chunk;
  }
  if (hash.digest("hex") === expected) return;
  throw new IncompleteReadError(
    `${name} does not have the checksum that ${name}.${algorithm} holds; it is not complete, or only one of the two was replaced`,
    { transient: true },
  );
}

/**
 * The checksum in the file beside a file, in lower case: alone, or before a file name as `sha256sum` writes it.
 * @throws {IncompleteReadError} there is no such file
 * @throws {InputError} it holds no checksum
 */
export async function expectedChecksum(name: string, folder: string, algorithm: Algorithm): Promise<string> {
  const place = `${name}.${algorithm}`;
  const text = await readFile(resolve(folder, place), "utf8").catch(() => {
    throw new IncompleteReadError(
      `${place} cannot be read; it must hold the checksum of ${name} (or leave out the setting checksum)`,
    );
  });
  const found = text.split(/\r?\n/).flatMap((line) => {
    const [, digest = "", file = ""] = /^\s*\\?([0-9a-f]+)(?:\s+\*?(.*?))?\s*$/i.exec(line) ?? [];
    return digest.length === algorithms[algorithm] ? [{ digest, file }] : [];
  });
  const own =
    found.find(({ file }) => basename(file) === basename(name)) ?? (found.length === 1 ? found[0] : undefined);
  if (own !== undefined) return own.digest.toLowerCase();
  throw new InputError(
    `${place}: holds no ${algorithm} checksum of ${basename(name)}: ${algorithms[algorithm]} hexadecimal digits`,
  );
}
