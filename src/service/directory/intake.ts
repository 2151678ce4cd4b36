import { mkdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "#errors.ts";
import { isDiskFull } from "#files/disk.ts";
import { pause } from "./array-scanner.ts";
import { createDiffering } from "./difference.ts";
import type { Differing } from "./difference.ts";
import { decode, placesIn, unfinished } from "./encoding.ts";
import type { Encoding } from "./encoding.ts";
import type { FieldSink } from "./form.ts";
import { createArrayScanner } from "./json-array.ts";
import type { KeepableList, KeptList } from "./kept-list.ts";
import { createListCopy } from "./list-copy.ts";
import { createListObserver } from "./list-traits.ts";
import type { ListTraits } from "./list-traits.ts";
import { longestElement } from "./matching.ts";
import type { Stretch } from "./matching.ts";
import { createPieces } from "./pieces.ts";
import type { Piece } from "./pieces.ts";

/**
 * A list on its way in: checked, and written down an element a line and loaded piece by piece while the rest arrives, or only
 * what of it differs from the list that was applied last.
 */
export interface Intake extends FieldSink {
  /** Resolves when there is room for more. Whoever writes has to wait for it from time to time. */
  room(): Promise<void>;
  /**
   * The list is complete: resolves when all of it is loaded, or what differs from the list that was applied last.
   * @returns whether all of it is loaded
   * @throws {InputError} when it is not a JSON array (B.5)
   */
  finish(): Promise<boolean>;
  /** Loads all of it after all, where it is not loaded yet. */
  loadAll(): Promise<void>;
  /** What can be kept once the list is applied; undefined when it must not be kept. */
  copy(): Promise<KeepableList | undefined>;
  /** Stops wherever it stands and removes what is on disk. */
  close(): Promise<void>;
}

/** Where pieces go. Called one at a time, in order. */
export interface Loader {
  /** Forgets what another list has left: called before anything else. */
  clear(): Promise<void>;
  load(piece: Piece): Promise<void>;
  /** All pieces are there. */
  complete(): Promise<void>;
  /** Instead of all pieces: what differs from the list before. */
  loadDifference(changed: Piece, departed: Piece): Promise<void>;
}

export interface IntakeOptions {
  /** For all that is written: it is created, readable by its owner alone, since a list may hold passwords. */
  readonly folder: string;
  readonly encoding: Encoding;
  readonly loader: Loader;
  /** Whether the list may be kept: then there is a copy of it as it is sent, in a folder of its own. */
  readonly isCopied: boolean;
  /** The list that was applied last, where there is one: closed when it is of no use any more. */
  readonly kept?: KeptList | undefined;
  /** What has to end before anything is loaded. */
  readonly after?: Promise<void>;
}

/** How many elements may differ from the list before, besides a quarter of them, until a list is loaded as a whole. */
const few = 1000;

/** Where a list's copy is in its folder. */
const copyFolder = "copy";

export function createIntake({ folder, encoding, loader, isCopied, kept, after }: IntakeOptions): Intake {
  const before = kept?.encoding === encoding ? kept : undefined;
  if (before === undefined) kept?.close();
  mkdirSync(join(folder, copyFolder), { recursive: true, mode: 0o700 });
  const observer = createListObserver();
  const scanner = createArrayScanner({ element, value: observer.value, string: observer.string });
  const pieces = createPieces({ folder, scanner, traits, take: loadPiece });
  const copy = isCopied ? createListCopy(join(folder, copyFolder), encoding) : undefined;
  let loading = after ?? Promise.resolve();
  /** How many bytes have come, as they were sent. */
  let sent = 0;
  /** While the list is compared with the one that was applied last. */
  let differing: Differing | undefined;
  /** What may be the beginning of an escape, at the end of what has come, when it is not compared. */
  let rest: Buffer = Buffer.alloc(0);
  /** At which byte, as it was sent, something is that has a place in what is scanned. */
  let sentAt = placesIn(rest, 0, encoding, 0);

  if (before !== undefined) {
    const scan = (bytes: Buffer): number => scanner.scan(bytes);
    differing = createDiffering(before, folder, { scan, found, begun: (at) => copy?.begin(at) });
  }

  function element(bytes: Buffer, from: number): number {
    if (differing === undefined) copy?.begin(sentAt(from));
    else if (differing.isFound(from)) return pause;
    return observer.element(bytes, from);
  }

  function found({ first, behind }: Stretch, at: number): void {
    scanner.skip(behind - first, 0);
    observer.skip(behind - first);
    copy?.begin(at);
    if (before !== undefined) copy?.follow(before.lengths.subarray(first, behind - 1));
  }

  function traits(): ListTraits {
    const { ordered, ...others } = observer.traits();
    return { ...others, ordered: ordered && (before?.ordered ?? true) };
  }

  function then(step: () => Promise<void>): void {
    loading = loading.then(step);
    loading.catch(() => undefined);
  }

  function loadPiece(piece: Piece, written: Promise<void>): void {
    then(async () => {
      await written;
      await loader.load(piece);
    });
  }

  /** Scans and writes down what comes next, when it is not compared. */
  function take(bytes: Buffer, isLast: boolean): void {
    const all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    const whole = all.subarray(0, all.length - (isLast ? 0 : unfinished(all, encoding)));
    rest = Buffer.from(all.subarray(whole.length));
    if (copy !== undefined) sentAt = placesIn(whole, 0, encoding, sent - all.length);
    // What is copied is not to be changed.
    const decoded = decode(copy === undefined ? whole : Buffer.from(whole), encoding);
    scanner.scan(decoded);
    if (scanner.problem === undefined) pieces.write(decoded);
  }

  function isHopeless({ found, departed }: Differing): boolean {
    const most = few + (before?.lengths.length ?? 0) / 4;
    return scanner.elements - found + departed > most || !observer.traits().plain;
  }

  /** From here on the list is read like one that nothing is known of, and what has come is written down as if it had been. */
  async function giveUp(): Promise<void> {
    if (differing === undefined) return;
    const given = differing;
    differing = undefined;
    try {
      const length = await given.whole(async (lines) => {
        pieces.insert(lines);
        await pieces.room();
      });
      scanner.skip(0, length);
    } catch (error) {
      // What was found in it is nowhere else: this list is lost, but not the next one.
      if (!isDiskFull(error)) await before?.forget(error);
      throw error;
    } finally {
      await given.close();
    }
    take(given.rest(), false);
  }

  /** @returns undefined when the list before is of no use */
  async function compare<Result>(work: (it: Differing) => Promise<Result>): Promise<Result | undefined> {
    if (differing === undefined) return undefined;
    try {
      const result = await work(differing);
      if (!isHopeless(differing)) return result;
    } catch (error) {
      if (isDiskFull(error)) throw error;
      await before?.forget(error);
    }
    await giveUp();
    return undefined;
  }

  /** All of the list has been taken. */
  function flush(): void {
    if (differing === undefined) take(Buffer.alloc(0), true);
    else differing.flush();
    scanner.end();
  }

  async function check(): Promise<void> {
    // Only now it matters how much of the list was not scanned.
    if (scanner.problem !== undefined) await giveUp().catch(() => undefined);
    if (scanner.problem !== undefined) throw new InputError(`principals: ${scanner.problem}`);
    if (observer.duplicate !== undefined) throw new InputError(`${observer.duplicate}: is given twice`);
  }

  async function loadWhole(): Promise<void> {
    pieces.end();
    then(() => loader.complete());
    await loading;
  }

  then(() => loader.clear());
  return {
    write: (bytes) => {
      sent += bytes.length;
      copy?.write(bytes);
      if (differing === undefined) take(bytes, false);
      else differing.take(bytes);
    },
    room: async () => {
      await compare((it) => it.room());
      await pieces.room();
      await copy?.room();
    },
    finish: async () => {
      await compare((it) => it.room());
      flush();
      await check();
      const files = await compare((it) => it.end());
      if (files === undefined || differing === undefined) {
        await loadWhole();
        return true;
      }
      const { found, departed } = differing;
      const { longestLine, elements } = scanner;
      const changed = { ...observer.traits(), file: files.changed, first: 0, behind: elements - found, longestLine };
      const gone = { plain: true, ordered: false, open: true, first: 0, behind: departed, longestLine: longestElement };
      then(() => loader.loadDifference(changed, { ...gone, file: files.departed }));
      await loading;
      return false;
    },
    loadAll: async () => {
      if (differing === undefined) return;
      await giveUp();
      await loadWhole();
    },
    copy: async () => {
      const { plain, ordered, open } = traits();
      const index = plain && open ? await copy?.end() : undefined;
      return index && { folder: join(folder, copyFolder), index: { ...index, ordered } };
    },
    close: async () => {
      await Promise.all([pieces.close(), copy?.close(), differing?.close()]);
      await loading.catch(() => undefined);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
