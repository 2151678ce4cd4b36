import type { OpenContext, ReadContext } from "#connector.ts";
import { LdifFiles } from "./ldif-files.ts";
import type { Options } from "./options.ts";
import { searchWithReferrals } from "./referrals.ts";
import type { Trail } from "./referrals.ts";
import { lookUp as lookUpAtServer } from "./search.ts";
import type { Query } from "./search.ts";
import { openSession } from "./session.ts";
import type { Session } from "./session.ts";

/** What is searched: a server, or LDIF files. */
export type Directory = Session | LdifFiles;

/** Entries, as the messages of a search, and what holds them. */
export interface Batch {
  readonly directory: Directory;
  readonly entries: readonly Buffer[];
}

/** @throws what `openSession` or `LdifFiles.open` throws */
export function openDirectory(options: Options, open: OpenContext, context: ReadContext): Promise<Directory> {
  return options.file !== undefined ? LdifFiles.open(options, open, context) : openSession(options, open, context);
}

/** Everything that a query finds. @throws what `searchWithReferrals` or `LdifFiles.search` throws */
export async function* search(directory: Directory, query: Query, trail: Trail): AsyncGenerator<Batch> {
  if (directory instanceof LdifFiles) {
    for await (const entries of directory.search(query)) yield { directory, entries };
    return;
  }
  for await (const { session, entries } of searchWithReferrals(directory, query, trail))
    yield { directory: session, entries };
}

/** The few entries that a query finds, whatever else is being searched. */
export async function lookUp(directory: Directory, query: Query): Promise<readonly Buffer[]> {
  return directory instanceof LdifFiles
    ? (await Array.fromAsync(directory.search(query))).flat()
    : lookUpAtServer(directory, query);
}
