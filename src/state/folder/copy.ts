import { createWriteStream } from "node:fs";
import { open, readdir, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { InputError } from "#errors.ts";
import { makeFolder } from "#files/disk.ts";
import { syncFolder, writeDurably } from "#files/durable.ts";
import { copyInbox, sourcesIn } from "#state/inbox/copy.ts";
import { noAccess } from "#state/access.ts";
import { copiedFiles, isPutAside } from "#state/copy.ts";
import type { Contents, Copyable } from "#state/copy.ts";
import { hashesOf, partSize, readPart, writePart } from "#state/parts.ts";
import { readAccess, writeAccess } from "./access.ts";
import { chainIn, writeHead } from "./chain.ts";
import { FolderInboxes } from "./inbox.ts";
import { initialState, readJournal, textOf } from "./journal.ts";

/** What a folder with a state has. */
const ofState = /^(?:journal|audit|access|configuration|ledgers|runs|baselines|exports|outbox|inboxes|aside)/;

/**
 * The state in a folder, whose lock the caller has.
 * @param syncs those of the configuration: a journal that was damaged is cautious about all that it does not know
 * @param signal stops a copy
 */
export function copyableFolder(folder: string, syncs: readonly string[], signal: AbortSignal): Copyable {
  return {
    read: async (work) => {
      await using inboxes = new FolderInboxes(folder);
      const contents = await contentsOf(folder, syncs, inboxes);
      if (contents.runs.length > 0 || (await contents.audit.files()).length > 0) return await work(contents);
      throw new InputError(`there is nothing to copy: no daemon has written a state into the folder ${folder}`);
    },
    write: async (contents, check) => {
      await makeFolder(folder, "the daemon's folder");
      const namesOfState = async (): Promise<string[]> => (await readdir(folder)).filter((name) => ofState.test(name));
      const [present] = await namesOfState();
      if (present !== undefined)
        throw new InputError(
          `the folder ${folder} has the state of a daemon (${present}) already: rename the folder, then copy again`,
        );
      const inboxes = new FolderInboxes(folder);
      try {
        await writeInboxes(inboxes, contents, signal);
        await writeAll(folder, contents, signal);
        await check(await contentsOf(folder, syncs, inboxes));
        await inboxes.close();
      } catch (error) {
        await inboxes.close();
        for (const name of await namesOfState()) await rm(join(folder, name), { recursive: true, force: true });
        throw error;
      }
    },
  };
}

async function contentsOf(folder: string, configured: readonly string[], inboxes: FolderInboxes): Promise<Contents> {
  const document = await readJournal(folder);
  const unknown = configured.filter((sync) => document.damaged?.ofAll === true && document.syncs[sync] === undefined);
  const aside = (await readdir(folder)).filter(isPutAside);
  return {
    runs: document.runs,
    syncs: { ...document.syncs, ...Object.fromEntries(unknown.map((sync) => [sync, initialState(document)])) },
    audit: chainIn(folder),
    access: await readAccess(folder),
    files: await hashesOf(folder, [...copiedFiles, ...aside]),
    part: async (path, part) => {
      await using handle = await open(join(folder, path));
      return await readPart(handle, part);
    },
    inboxes: {
      sources: await sourcesOf(inboxes),
      read: (source, work) => inboxes.readDatabase(source, work),
    },
    untold: 0,
  };
}

/** A file may have nothing. */
async function sourcesOf(inboxes: FolderInboxes): Promise<string[]> {
  const found = await Promise.all(
    (await inboxes.sources()).map((source) => inboxes.readDatabase(source, (database) => sourcesIn(database))),
  );
  return found.flat();
}

async function writeInboxes(to: FolderInboxes, { inboxes }: Contents, signal: AbortSignal): Promise<void> {
  for (const source of inboxes.sources) {
    signal.throwIfAborted();
    await inboxes.read(source, (from) => to.changeDatabase(source, (database) => copyInbox(source, from, database)));
  }
}

/** The journal comes last: without it, the folder has no state. */
async function writeAll(folder: string, contents: Contents, signal: AbortSignal): Promise<void> {
  const { runs, syncs, audit, access, files } = contents;
  const chain = await audit.files();
  for (const [path, parts] of files) {
    signal.throwIfAborted();
    if (chain.some(({ name }) => name === path)) continue;
    const file = join(folder, isPutAside(path) ? join("aside", basename(path)) : path);
    await makeFolder(dirname(file), "the daemon's folder");
    await using handle = await open(file, "wx", 0o600);
    for (const part of parts.keys()) await writePart(handle, await contents.part(path, part), part * partSize);
    await handle.sync();
    await syncFolder(dirname(file));
  }
  for (const file of chain)
    await pipeline(audit.read(file), createWriteStream(join(folder, file.name), { mode: 0o600, flush: true }));
  const head = await audit.head();
  if (head !== undefined) await writeHead(folder, head);
  if (access !== noAccess) await writeAccess(folder, access);
  await writeDurably(join(folder, "journal.json"), textOf({ version: 1, runs, syncs, ...(head && { audit: head }) }));
}
