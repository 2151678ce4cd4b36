import { chmod, cp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { refuseForeignFolder } from "#daemon/data-folder.ts";
import { InputError } from "#errors.ts";
import { exists, makeFolder, unwritable } from "#files/disk.ts";
import { modeForOthers } from "#files/private.ts";
import { root } from "#root.ts";
import { schemaLine } from "./file.ts";

const source = fileURLToPath(new URL("config/", root));

/**
 * Writes the sample company: the configuration, and `sample/` beside it. Never over anything that is there.
 * @returns what was written
 * @throws {InputError} something is there already, or nothing can be written
 */
export async function writeSample(file: string): Promise<readonly string[]> {
  const folder = dirname(resolve(file));
  const sample = join(folder, "sample");
  for (const path of [file, sample])
    if (await exists(path))
      throw new InputError(`${relative("", resolve(path)) || path} already exists: use an empty folder`);
  await refuseForeignFolder(folder, { what: "folder" });
  await makeFolder(folder, "the configuration's folder");
  const text = await readFile(join(source, "rollcall.yaml"), "utf8");
  try {
    await cp(join(source, "sample"), sample, { recursive: true });
    await writeFile(file, inFolder(text, folder), { flag: "wx" });
    await chmod(file, modeForOthers());
  } catch (error) {
    await rm(sample, { recursive: true, force: true });
    throw unwritable(file, error);
  }
  return [file, sample];
}

/** The text of `config/rollcall.yaml` for a folder that is no checkout. */
function inFolder(text: string, folder: string): string {
  return text.replace(/^# yaml-language-server: .*\n/, schemaLine(folder)).replace("data: ../data", "data: data");
}
