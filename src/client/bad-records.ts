import { open, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { parse } from "node:path";
import { InputError, messageOf } from "#errors.ts";
import type { CycleClient } from "./cycle.ts";
import { receiveBytes } from "./receive.ts";

/**
 * Saves the rejected rows of a cycle, if there are any, to a file that was not there.
 * @param wanted its path; where that is taken, a number goes before the extension
 * @returns the path it got
 */
export async function saveBadRecords(
  cycle: CycleClient,
  wanted: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  return cycle.badRecords(async (answer) => {
    const { path, file } = await openNew(wanted);
    try {
      await receiveBytes(answer, file);
      return path;
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    } finally {
      await file.close();
    }
  }, signal);
}

async function openNew(wanted: string): Promise<{ path: string; file: FileHandle }> {
  const { dir, name, ext } = parse(wanted);
  for (let number = 1; ; number += 1) {
    const path = number === 1 ? wanted : `${dir === "" ? "" : `${dir}/`}${name}.${number}${ext}`;
    try {
      return { path, file: await open(path, "wx", 0o600) };
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "EEXIST") continue;
      throw new InputError(`the rejected rows cannot be saved to ${path}: ${messageOf(error)}`, { cause: error });
    }
  }
}
