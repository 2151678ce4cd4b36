import { open, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";
import { messageOf } from "#errors.ts";

/*
 * A commit whose log has grown large makes DuckDB move the log into the database's file: a checkpoint. If that fails, DuckDB
 * refuses everything from then on ("invalidated") until the file is opened again. What was committed is in the log.
 */

/** Whether DuckDB refuses a database until its file is opened again: a checkpoint has failed, now or before. */
export function isInvalidated(error: unknown): boolean {
  if (/\bhas been invalidated because\b|\bThe database has been invalidated\b|^FATAL Error\b/.test(messageOf(error)))
    return true;
  return isCommitted(error) || (error instanceof Error && error.cause !== undefined && isInvalidated(error.cause));
}

/**
 * Whether a commit has failed only after it was made: DuckDB has written it to its log, and could not move that. Later errors
 * quote this one, and say nothing about their own commit.
 */
export function isCommitted(error: unknown): boolean {
  return /^(?:\w+ Error: )*(?:Failed to commit: )?Transaction COMMIT succeeded and is durable/.test(messageOf(error));
}

/** Whether DETACH has closed a file and left its log beside it: the next one to open it reads both. */
export function isDetached(error: unknown): boolean {
  return /\bDetached database .* but CHECKPOINT during DETACH failed/.test(messageOf(error));
}

/** The size of the log at which DuckDB moves it into its file: the default, and one that is never reached. */
export const thresholds = { usual: "16MiB", never: "1024GiB" };

/** What must be free, in bytes: as much as the databases have, in case all of it is rewritten, at most this; plus a rest. */
const reserve = { most: 2 ** 30, rest: 16 * 2 ** 20 };

/** How long the result of the last look is used, in milliseconds; after a failure, the first and the longest time. */
const interval = { usual: 1000, first: 500, longest: 5000 };

/** When the databases of an instance may be checkpointed: while there is little room the log grows, and a commit that does not fit is rolled back. */
export class Checkpoints {
  /** The current files of the databases, all in one folder. */
  readonly #files: () => readonly string[];
  #hasFailed: boolean;
  #wait = interval.first;
  #looked = -Infinity;
  #looking: Promise<boolean> | undefined;
  /** What the instance was told last. */
  #threshold: string | undefined;
  /** Somebody copies the files. */
  #isHeld = false;

  /** @param hasFailed one has failed in the process before this one */
  constructor(files: () => readonly string[], hasFailed = false) {
    this.#files = files;
    this.#hasFailed = hasFailed;
  }

  /** The threshold for a new instance. */
  threshold(): string {
    this.#threshold = this.#hasFailed ? thresholds.never : thresholds.usual;
    return this.#threshold;
  }

  /** Begins or ends a time without any, in which the files can be copied. @returns the threshold for it */
  hold(isHeld: boolean): string {
    this.#isHeld = isHeld;
    this.#threshold = isHeld || this.#hasFailed ? thresholds.never : thresholds.usual;
    return this.#threshold;
  }

  /** One has failed: there are none until a file can grow by as much as its log has. */
  fail(): void {
    this.#hasFailed = true;
    this.#wait = interval.first;
    this.#looked = performance.now();
  }

  /**
   * Called before a commit, or a statement that may be one.
   * @param isLarge the transaction may just have filled much of the disk
   */
  async beforeCommit(connection: DuckDBConnection, isLarge: boolean): Promise<void> {
    if (this.#isHeld) return;
    const { usual, never } = thresholds;
    const passed = performance.now() - this.#looked;
    if (this.#hasFailed ? passed < this.#wait : !isLarge && passed < interval.usual) return;
    const wanted = (await this.canGrow()) ? usual : never;
    if (wanted === this.#threshold) return;
    await connection.run(`SET GLOBAL checkpoint_threshold = '${wanted}'`);
    this.#threshold = wanted;
  }

  /** Whether one has failed and there is still no room for another. */
  async isStuck(): Promise<boolean> {
    if (!this.#hasFailed) return false;
    if (performance.now() - this.#looked < this.#wait) return true;
    return !(await this.canGrow());
  }

  /** Whether there is room for a checkpoint. After one has failed, a free disk proves nothing: there are quotas, and limits on files. */
  canGrow(): Promise<boolean> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async #look(): Promise<boolean> {
    const files = this.#files();
    this.#looked = performance.now();
    if (!(await hasRoom(files))) return false;
    if (!this.#hasFailed) return true;
    // Before they are attached nobody knows.
    if (files.length === 0 || !(await tryToGrow(files))) {
      this.#looked = performance.now();
      this.#wait = Math.min(this.#wait * 2, interval.longest);
      return false;
    }
    this.#hasFailed = false;
    return true;
  }
}

async function hasRoom(files: readonly string[]): Promise<boolean> {
  const [first] = files;
  if (first === undefined) return true;
  const sizes = await Promise.all(files.flatMap((file) => [sizeOf(file), sizeOf(`${file}.wal`)]));
  const all = sizes.reduce((sum, size) => sum + size, 0);
  // If the folder is gone, the write itself will say so.
  const free = await statfs(dirname(first)).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => Infinity,
  );
  return free >= Math.min(all, reserve.most) + reserve.rest;
}

const block = Buffer.alloc(2 ** 20);

/** Writes as much as the logs have, from where the largest of the files ends, to a file that is gone again. */
async function tryToGrow(files: readonly string[]): Promise<boolean> {
  const folder = dirname(files[0] ?? "");
  const sizes = await Promise.all(files.map(sizeOf));
  const logs = await Promise.all(files.map((file) => sizeOf(`${file}.wal`)));
  const start = Math.max(...sizes);
  const end =
    start +
    Math.max(
      reserve.rest,
      logs.reduce((sum, size) => sum + size, 0),
    );
  const trial = join(folder, `.room-${process.pid}`);
  try {
    await using written = await open(trial, "w", 0o600);
    await rm(trial, { force: true });
    for (let at = start; at < end; at += block.length)
      if ((await written.write(block, 0, block.length, at)).bytesWritten < block.length) return false;
    await written.sync();
    return true;
  } catch {
    return false;
  }
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}
