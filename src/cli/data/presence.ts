import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { InputError } from "#errors.ts";
import { lockHolder } from "#plan/database.ts";

/**
 * What a running service tells the commands on the same data folder: `service.json`, readable by its owner alone.
 * It holds the cookie of a session that ends with the process.
 */
const presence = z.object({ pid: z.int(), url: z.url(), startedAt: z.iso.datetime(), session: z.string() });
export type Presence = z.infer<typeof presence>;

/**
 * What a second process on a data folder is told of the first, as far as that is known.
 * @param advice what to do about it
 */
export async function dataFolderInUse(
  data: string,
  cause: unknown,
  holder = lockHolder(cause)?.pid,
  advice = "stop it first, or give this one another `service.data`",
): Promise<InputError> {
  const present = await readPresence(data);
  const pid = holder ?? present?.pid;
  const process = pid === undefined ? "" : `process ${pid}`;
  const known = present === undefined || pid !== present.pid ? "" : `, ${present.url}, started ${present.startedAt}`;
  return new InputError(
    `another Rollcall${process === "" ? "" : ` (${process}${known})`} is using the data folder ${data}: ${advice}`,
    { cause },
  );
}

function fileOf(data: string): string {
  return join(data, "service.json");
}

export async function announce(data: string, value: Presence): Promise<void> {
  const temporary = `${fileOf(data)}.${process.pid}`;
  await writeFile(temporary, `${JSON.stringify(value)}\n`, { mode: 0o600 });
  await rename(temporary, fileOf(data));
}

export async function withdraw(data: string): Promise<void> {
  const current = await readPresence(data);
  if (current?.pid === process.pid) await rm(fileOf(data), { force: true });
}

/** What the file says, whether or not that process still runs; undefined when there is none or it cannot be read. */
export async function readPresence(data: string): Promise<Presence | undefined> {
  try {
    return presence.parse(JSON.parse(await readFile(fileOf(data), "utf8")));
  } catch {
    return undefined;
  }
}
