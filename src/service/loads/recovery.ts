import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import { messageOf } from "#errors.ts";
import type { Limits } from "./capacity.ts";
import { chunkOf } from "./chunks.ts";
import type { Chunk } from "./chunks.ts";
import { chunkFolder, openCycle } from "./cycle.ts";
import type { Cycle } from "./cycle.ts";
import { readRecord } from "./record.ts";

/** The cycles in a folder, as an earlier process left them (A.24). What never became a cycle or a chunk goes. */
export async function recoverCycles(folder: string, limits: Limits, log: Logger): Promise<Cycle[]> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const cycles: Cycle[] = [];
  for (const name of await readdir(folder)) {
    const place = join(folder, name);
    try {
      const cycle = await recover(place, limits);
      if (cycle === undefined) await rm(place, { recursive: true, force: true });
      else cycles.push(cycle);
    } catch (error) {
      // It is left where it is, for a person to look at; the other cycles go on.
      log.error({ err: error }, `the load cycle in ${place} cannot be read: ${messageOf(error)}`);
    }
  }
  return cycles;
}

async function recover(place: string, limits: Limits): Promise<Cycle | undefined> {
  const record = await readRecord(place);
  if (record === undefined) return undefined;
  if (record.stage === "DONE") {
    // A crash may have come between the end and the removal of what it no longer needs.
    await rm(chunkFolder(place), { recursive: true, force: true });
    return openCycle(place, record, [], limits);
  }
  return openCycle(place, record, await recoverChunks(chunkFolder(place)), limits);
}

async function recoverChunks(place: string): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for (const file of await readdir(place)) {
    const path = join(place, file);
    const { size, mtimeMs } = await stat(path);
    const chunk = chunkOf(file, size, mtimeMs);
    if (chunk === undefined) await rm(path);
    else chunks.push(chunk);
  }
  return chunks;
}
