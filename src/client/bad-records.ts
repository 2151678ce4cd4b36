import { open, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, parse } from "node:path";
import { InputError, messageOf } from "#errors.ts";
import type { CycleClient } from "./cycle.ts";
import type { Answer } from "#http/client.ts";
import { receiveBytes } from "./receive.ts";

/**
 * Saves the rejected rows of a cycle to a file that was not there. The load has ended: that they cannot be saved is
 * told, and is no error.
 * @param wanted the file's path; where that is taken, a number goes before the extension
 */
export async function saveBadRecords(
  cycle: CycleClient,
  wanted: string,
  signal: AbortSignal,
): Promise<{ badRecords?: string; badRecordsProblem?: string }> {
  try {
    const path = await cycle.badRecords((answer) => save(answer, wanted), signal);
    return path === undefined ? {} : { badRecords: path };
  } catch (error) {
    return { badRecordsProblem: messageOf(error) };
  }
}

async function save(answer: Answer, wanted: string): Promise<string> {
  const { path, file } = await openNew(wanted);
  try {
    await receiveBytes(answer, { file, folder: dirname(path) });
    return path;
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
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
