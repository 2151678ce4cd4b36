import { open } from "node:fs/promises";
import { join } from "node:path";
import { decode, placesIn, unfinished } from "./encoding.ts";
import { createGatheringFile } from "./gathering.ts";
import { decodeElements, readElements } from "./kept-elements.ts";
import type { KeptList } from "./kept-list.ts";
import { createMatching } from "./matching.ts";
import type { Stretch } from "./matching.ts";

/** How a list differs from the one that was applied last. Both files hold an element a line. */
export interface Difference {
  /** The elements that the list before does not have. */
  readonly changed: string;
  /** The elements of the list before that this one does not have. */
  readonly departed: string;
}

/** Who reads what of a list is not found in the list before. */
export interface DifferingReader {
  /**
   * Scans bytes of the list, decoded.
   * @returns how many of them were scanned: not all of them, when `isFound` said so of an element
   */
  scan(bytes: Buffer): number;
  /** Here, the list has these elements of the list before. They begin at the byte `at` of the list, as it is sent. */
  found(same: Stretch, at: number): void;
  /** What is scanned has an element that begins at the byte `at` of the list, as it is sent. */
  begun(at: number): void;
}

/** Finds out how a list differs from the one that was applied last, as it arrives. */
export interface Differing {
  /** The next bytes of the list, as they are sent. They must not be changed any more. */
  take(bytes: Buffer): void;
  /** Asked by `scan`: whether the element that begins at `from` of what it scans was found in the list before. */
  isFound(from: number): boolean;
  /** Resolves when there is room for more. @throws {Error} when the list before is damaged */
  room(): Promise<void>;
  /** The bytes that have come and were neither found nor scanned, as more were needed to tell. */
  rest(): Buffer;
  /** Scans the rest: nothing follows. `room` was waited for. */
  flush(): void;
  /** Nothing follows, and all is scanned. @throws {Error} when the list before is damaged */
  end(): Promise<Difference>;
  /**
   * All of the list but for the rest, an element a line: read out of the list before and what differs from it.
   * @returns how many bytes what was found stands for
   */
  whole(write: (lines: Buffer) => Promise<void>): Promise<number>;
  /** Stops wherever it stands: resolves when nothing of it is open. */
  close(): Promise<void>;
  /** How many elements were found in the list before. */
  readonly found: number;
  /** How many elements of the list before this one is known not to have. */
  readonly departed: number;
}

/** How many bytes are decoded at a time: more each time, until an element is found. */
const step = { first: 1024, most: 16 * 1024 };

/** How much is read again at a time, in bytes. */
const most = 1024 * 1024;

const none: Stretch = { first: 0, behind: 0, from: 0, to: 0 };

/**
 * @param kept the list before: closed at the end
 * @param folder for the two files
 */
export function createDiffering(kept: KeptList, folder: string, reader: DifferingReader): Differing {
  const { encoding } = kept;
  const files = { changed: join(folder, "changed"), departed: join(folder, "departed") };
  const changed = createGatheringFile(files.changed);
  const departed = createGatheringFile(files.departed);
  const matching = createMatching(kept, {
    found: (same) => {
      reader.found(same, foundAt);
      foundAt += same.to - same.from;
      addFound(same);
    },
    departed: (gone, bytes) => departed.write(decodeElements(bytes, gone, kept).lines),
  });
  /** What the list is made of: some of the list before, and then `changed` up to a byte. */
  const parts: Part[] = [];
  let written = 0;

  /** What came before there was anything to find it in. */
  const waiting: Buffer[] = [];
  let isReady = false;
  /** What is looked at, which begins at the byte `base` of the list. */
  let current: Buffer = Buffer.alloc(0);
  let base = 0;
  /** What may be the beginning of an escape, at the end of it. */
  let escape: Buffer = Buffer.alloc(0);
  /** At which byte of the list elements begin that are found next. */
  let foundAt = 0;
  /** Where the element is in `current` that was asked for last, and how others are found. */
  let element = 0;
  let placeOf = placesIn(current, 0, encoding, 0);
  let isLast = false;

  function write(bytes: Buffer): void {
    if (bytes.length === 0) return;
    written += bytes.length;
    changed.write(bytes);
    const last = parts.at(-1);
    if (last === undefined) parts.push({ same: none, changed: written });
    else last.changed = written;
  }

  function addFound(same: Stretch): void {
    const last = parts.at(-1);
    if (last !== undefined && last.same.to === same.from && last.changed === (parts.at(-2)?.changed ?? 0)) {
      last.same = { ...same, first: last.same.first, from: last.same.from };
    } else {
      parts.push({ same, changed: written });
    }
  }

  /** Scans what is looked at from `from` to `to`. @returns where to go on */
  function scan(from: number, to: number): number {
    const decoded = decode(Buffer.from(current.subarray(from, to)), encoding);
    placeOf = placesIn(current, from, encoding, 0);
    const scanned = reader.scan(decoded);
    write(decoded.subarray(0, scanned));
    return scanned < decoded.length ? matching.goOn(current, element) : to;
  }

  function scanFrom(from: number): void {
    let size = step.first;
    for (let at = from; at < current.length;) {
      const to = Math.min(at + size, current.length);
      const whole = to - unfinished(current.subarray(at, to), encoding);
      if (whole === at) {
        escape = current.subarray(at);
        return;
      }
      const next = scan(at, whole);
      size = next === whole ? Math.min(2 * size, step.most) : step.first;
      at = next;
    }
  }

  function take(bytes: Buffer): void {
    base += current.length - escape.length;
    current = escape.length === 0 ? bytes : Buffer.concat([escape, bytes]);
    escape = Buffer.alloc(0);
    let at = matching.isOn ? matching.goOn(current, 0) : 0;
    if (at < 0) {
      current = Buffer.concat([matching.begun(-at), current]);
      base += at;
      at = 0;
    }
    scanFrom(at);
  }

  function rest(): Buffer {
    if (isLast) return Buffer.alloc(0);
    return Buffer.concat([matching.isOn ? matching.begun() : escape, ...waiting]);
  }

  return {
    take: (bytes) => {
      if (isReady) take(bytes);
      else waiting.push(bytes);
    },
    isFound: (from) => {
      element = placeOf(from);
      const isFound = !isLast && matching.begin(current, element);
      if (isFound) foundAt = base + element;
      else reader.begun(base + element);
      return isFound;
    },
    room: async () => {
      await matching.fill();
      isReady = true;
      for (const bytes of waiting.splice(0)) take(bytes);
      await changed.room();
      await departed.room();
    },
    rest,
    flush: () => {
      const left = rest();
      base += current.length - left.length;
      current = left;
      isLast = true;
      if (left.length > 0) scan(0, left.length);
    },
    end: async () => {
      await matching.end();
      changed.write(Buffer.from("\n"));
      await Promise.all([changed.end(), departed.end()]);
      return files;
    },
    whole: async (take) => {
      await changed.end();
      await using file = await open(files.changed, "r");
      let found = 0;
      let before = 0;
      for (const part of parts) {
        for await (const { lines, length } of readElements(kept, part.same)) {
          found += length;
          await take(lines);
        }
        while (before < part.changed) {
          const bytes = Buffer.allocUnsafeSlow(Math.min(part.changed - before, most));
          const { bytesRead } = await file.read(bytes, 0, bytes.length, before);
          if (bytesRead === 0) throw new Error(`${files.changed} is shorter than it was`);
          await take(bytes.subarray(0, bytesRead));
          before += bytesRead;
        }
      }
      return found;
    },
    close: async () => {
      kept.close();
      await Promise.all([changed.close(), departed.close()]);
    },
    get found() {
      return matching.found;
    },
    get departed() {
      return matching.departed;
    },
  };
}

interface Part {
  same: Stretch;
  changed: number;
}
