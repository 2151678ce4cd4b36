import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Connection } from "#duckdb/database.ts";
import type { Sync } from "#sync/sync.ts";
import { findSnapshot, replaceDocument, storeSnapshot } from "./snapshot.ts";

/** What the last run of a sync knew of its target's list: a snapshot for each sync, in the folder `lists`. */
interface Stored {
  /** `Sync.place`. */
  readonly place: string;
  /** The entity tag of the list. */
  readonly tag: string;
  /** When the list was read, ISO 8601. */
  readonly listedAt: string;
  /** Whether the service has said, in a preview, that a plan without changes has none there. */
  readonly agreed: boolean;
}

/** A list that is in the workbench without having been read again. */
export interface LastList {
  readonly tag: string;
  /** The service has said of it that a plan without changes has none: the same list and the same target again. */
  readonly isAgreed: boolean;
}

/** In milliseconds. Whatever sources and target say of what is new, everything is read once a day. */
export const day = 86_400_000;

const folderOf = (daemonFolder: string): string => join(daemonFolder, "lists");

/**
 * Makes `actual`, `actual_foreign` and `actual_extra` of the list that the last run left, if the target says that its list
 * is still that one.
 * @returns undefined where the target has to be listed
 * @throws {UnavailableError | RefusedError} from the target
 */
export async function loadLastList(
  { name, place, target }: Pick<Sync, "name" | "place" | "target">,
  connection: Connection,
  daemonFolder: string,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
): Promise<LastList | undefined> {
  if (target.isStill === undefined) return undefined;
  const snapshot = await findSnapshot<Stored>(folderOf(daemonFolder), name);
  if (snapshot === undefined || snapshot.document.place !== place) return undefined;
  const { tag, listedAt, agreed } = snapshot.document;
  const age = now - Date.parse(listedAt);
  if (!(age >= 0 && age < day) || !(await target.isStill(tag, signal))) return undefined;
  for (const table of ["actual", "actual_foreign", "actual_extra"])
    if (!(await snapshot.load(connection, table, table))) return undefined;
  return { tag, isAgreed: agreed };
}

/**
 * Stores a list that was read, for the next run.
 * @param table the one that was read last
 */
export function storeLastList(
  { name, place }: Pick<Sync, "name" | "place">,
  connection: Connection,
  daemonFolder: string,
  {
    table,
    tag,
    agreed,
    now,
  }: { readonly table: "actual" | "arrived"; readonly now: number } & Pick<Stored, "tag" | "agreed">,
): Promise<void> {
  return storeSnapshot(
    connection,
    { folder: folderOf(daemonFolder), name, what: "the folder of the lists" },
    { actual: `FROM ${table}`, actual_foreign: `FROM ${table}_foreign`, actual_extra: `FROM ${table}_extra` },
    { place, tag, listedAt: new Date(now).toISOString(), agreed } satisfies Stored,
  );
}

/** The next run lists the target, whatever it says. */
export async function forgetLastList(daemonFolder: string, sync: string): Promise<void> {
  await rm(join(folderOf(daemonFolder), `${sync}.json`), { force: true });
}

/** Notes that the service has said of the stored list that nothing is to change. */
export async function agreeOnLastList(daemonFolder: string, sync: string): Promise<void> {
  const snapshot = await findSnapshot<Stored>(folderOf(daemonFolder), sync);
  if (snapshot !== undefined)
    await replaceDocument(folderOf(daemonFolder), sync, { ...snapshot.document, agreed: true });
}
