import { join } from "node:path";
import { z } from "zod";
import { InputError } from "#errors.ts";
import { lockHolder } from "#duckdb/database.ts";
import { presenceFile } from "#files/presence.ts";

/**
 * What a running service tells the commands on the same data folder: `service.json`, readable by its owner alone.
 * It holds the cookie of a session that ends with the process.
 */
const presence = z.object({ pid: z.int(), url: z.url(), startedAt: z.iso.datetime(), session: z.string() });

export const { announce, withdraw, read: readPresence } = presenceFile(presence, (data) => join(data, "service.json"));

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
