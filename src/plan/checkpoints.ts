import { stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { DuckDBConnection } from "@duckdb/node-api";

/**
 * Called before a commit, or what may be one.
 * @param isLarge what is committed may just have taken a lot of the disk
 */
export type BeforeCommit = (connection: DuckDBConnection, isLarge: boolean) => Promise<void>;

/** From how many bytes on the log is moved into its file: as DuckDB has it by itself, and as never happens. */
const thresholds = { usual: "16MiB", never: "1024GiB" };

/** What must be free, in bytes: what is there, should all of it be written anew, or so much, and something to go on with. */
const reserve = { most: 2 ** 30, rest: 16 * 2 ** 20 };

/** How long it is believed that there is room, or none, in milliseconds. */
const belief = 1000;

/**
 * With a commit, DuckDB moves what is in the log into the database's file when the log is large. Where the disk is full
 * meanwhile, all databases of the instance are of no use until the process has ended. So it does not while there is little
 * room: the log grows, and a commit for which that has no room is rolled back.
 * @param files of the databases, as they are at the moment: all of them in one folder
 */
export function whereThereIsRoom(files: () => readonly string[]): BeforeCommit {
  let looked = -Infinity;
  let current: string | undefined;
  return async (connection, isLarge) => {
    const now = performance.now();
    if (!isLarge && now - looked < belief) return;
    looked = now;
    const wanted = (await hasRoom(files())) ? thresholds.usual : thresholds.never;
    if (wanted === current) return;
    await connection.run(`SET GLOBAL checkpoint_threshold = '${wanted}'`);
    current = wanted;
  };
}

async function hasRoom(files: readonly string[]): Promise<boolean> {
  const [first] = files;
  if (first === undefined) return true;
  const sizes = await Promise.all(files.flatMap((file) => [sizeOf(file), sizeOf(`${file}.wal`)]));
  const all = sizes.reduce((sum, size) => sum + size, 0);
  // Where the folder is gone, what is to be written says so.
  const free = await statfs(dirname(first)).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => Infinity,
  );
  return free >= Math.min(all, reserve.most) + reserve.rest;
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}
