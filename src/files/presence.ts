import { access, constants, rm } from "node:fs/promises";
import type { z } from "zod";
import { exists } from "./disk.ts";
import { readJson, writeDurably } from "./durable.ts";

/**
 * A file in which a running process tells the commands on the same data folder how it is reached.
 * @param fileOf where it is, below a data folder
 */
export function presenceFile<Presence extends { readonly pid: number }>(
  schema: z.ZodType<Presence>,
  fileOf: (data: string) => string,
) {
  /** What the file says, whether or not that process still runs; undefined when there is none or it cannot be read. */
  const read = async (data: string): Promise<Presence | undefined> =>
    schema.safeParse(await readJson(fileOf(data))).data;
  return {
    read,
    /** @throws the system's error when this account may not read a file that there may be */
    assertReadable: async (data: string): Promise<void> => {
      if (await exists(fileOf(data))) await access(fileOf(data), constants.R_OK);
    },
    /** Writes the file, readable by its owner alone. A concurrent reader finds the one from before, or none. */
    announce: (data: string, value: Presence): Promise<void> =>
      writeDurably(fileOf(data), `${JSON.stringify(value)}\n`),
    /** Changes the file, when it is this process's. */
    renew: async (data: string, change: Partial<Presence>): Promise<void> => {
      const found = await read(data);
      if (found?.pid === process.pid) await writeDurably(fileOf(data), `${JSON.stringify({ ...found, ...change })}\n`);
    },
    /** Removes the file, when it is this process's. */
    withdraw: async (data: string): Promise<void> => {
      if ((await read(data))?.pid === process.pid) await rm(fileOf(data), { force: true });
    },
  };
}
