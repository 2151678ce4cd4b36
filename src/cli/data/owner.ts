import { stat } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "#errors.ts";

/**
 * Root can write into everybody's data folder, but what it leaves there the account of the service cannot read, and so
 * would not start again.
 * @param own the account of this process, by its number; absent: this system has none
 * @throws {InputError} when this is root, and what is in the data folder belongs to another account
 */
export async function refuseForeignFolder(data: string, own: number | undefined = process.getuid?.()): Promise<void> {
  if (own !== 0) return;
  for (const file of [join(data, "service", "service.duckdb"), join(data, "daemon", "journal.json")]) {
    const owner = await stat(file).catch(() => undefined);
    if (owner === undefined || owner.uid === own) continue;
    throw new InputError(
      `the data folder ${data} belongs to account ${owner.uid}, which could not read what root leaves there: ` +
        "do this while the service runs, which then does it itself, or as that account",
    );
  }
}
