import { createHash, hash } from "node:crypto";
import { InputError } from "#errors.ts";
import { linesOf } from "#files/lines.ts";
import type { AuditEntry, Damage, Head } from "./entry.ts";

/** The head of an empty chain. */
export const beginning: Head = { sequence: 0, hash: "0".repeat(64) };

/** A line of the file. A newer Rollcall may have written it, with events that this one does not know. */
export interface Sealed extends Head {
  /** ISO 8601. */
  readonly at: string;
  readonly event: string;
  /** The hash of the entry before. */
  readonly previous: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** Longer than any entry, in bytes. */
const longestLine = 1024 * 1024;

/** `,"hash":"…"}`: the hash is of the line with `}` in this one's place. */
const seal = /,"hash":"([0-9a-f]{64})"\}$/;
const sealLength = 75;

/**
 * The line, without its newline, of an entry that follows `head`.
 * @throws {InputError} when it is too long
 */
export function sealed(entry: AuditEntry, head: Head, at: Date): { readonly line: string; readonly head: Head } {
  const { event, ...facts } = entry;
  const sequence = head.sequence + 1;
  const body = JSON.stringify({ sequence, at: at.toISOString(), event, ...facts, previous: head.hash });
  const hash = hashOf(body);
  const line = `${body.slice(0, -1)},"hash":"${hash}"}`;
  const bytes = Buffer.byteLength(line) + 1;
  if (bytes > longestLine)
    throw new InputError(`an entry of the audit log is too long: ${bytes} bytes; at most ${longestLine} are allowed`);
  return { line, head: { sequence, hash } };
}

/** A line as an entry; `unreadable` if it is none, `changed` if its hash is wrong. */
function unsealed(bytes: Buffer): Sealed | "unreadable" | "changed" {
  const [, hash] = seal.exec(bytes.toString("latin1", Math.max(0, bytes.length - sealLength))) ?? [];
  const value = parsed(bytes);
  if (value === undefined) return "unreadable";
  if (hash === undefined) return "changed";
  const body = bytes.subarray(0, bytes.length - sealLength);
  if (createHash("sha256").update(body).update("}").digest("hex") !== hash) return "changed";
  const { sequence, at, event, previous, hash: _, ...facts } = value;
  if (typeof sequence !== "number" || typeof at !== "string") return "changed";
  if (typeof event !== "string" || typeof previous !== "string") return "changed";
  return { sequence, at, event, previous, hash, facts };
}

function hashOf(text: string): string {
  return hash("sha256", text);
}

function parsed(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString("utf8"));
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}

/** The first place where a chain is not as it was written. */
export interface Break {
  readonly what: Damage;
  /** From 1. */
  readonly line: number;
  /** What is wrong: `its hash does not match its content`. */
  readonly reason: string;
}

/** The part of a chain that is in one file. */
export interface Scan {
  /** The last entry, or the last one before the break; without entries, `start`. Absent: the first wanted entry is not there. */
  readonly head?: Head;
  /** Where it ends, in lines and bytes. */
  readonly lines: number;
  readonly bytes: number;
  readonly broken?: Break;
}

/**
 * Reads a file of a chain up to its break. A last line that has no newline, or is no entry at all, is torn.
 * @param start the entry before the first one; or the number of the first entry that counts (0: whichever comes first):
 *   entries before it are skipped, and its `previous` is trusted
 * @param visit called with every good entry, in order
 */
export async function scan(
  chunks: AsyncIterable<Buffer>,
  start: Head | number,
  visit: (entry: Sealed, line: Buffer) => void | Promise<void> = () => {},
): Promise<Scan> {
  let head = typeof start === "number" ? undefined : start;
  let good = { lines: 0, bytes: 0 };
  let suspect: Suspect | undefined;
  for await (const { bytes, number, end, whole } of linesOf(chunks, longestLine)) {
    const found = unsealed(bytes);
    if (suspect !== undefined) {
      suspect = suspectAfter(suspect, found, head ?? beginning);
      continue;
    }
    if (head === undefined && typeof start === "number") {
      if (typeof found === "string" || found.sequence < start) continue;
      head = { sequence: (start || found.sequence) - 1, hash: found.previous };
    }
    if (!whole || typeof found === "string") {
      suspect = { line: number, found: whole ? found : "unreadable", last: true, continued: false };
      continue;
    }
    if (!follows(found, head ?? beginning)) {
      suspect = { line: number, found, last: true, continued: false };
      continue;
    }
    head = { sequence: found.sequence, hash: found.hash };
    good = { lines: number, bytes: end };
    await visit(found, bytes);
  }
  const result = head === undefined ? good : { head, ...good };
  return suspect === undefined ? result : { ...result, broken: breakOf(suspect, head ?? beginning) };
}

/** The first line that does not continue the chain, and what the lines after it say about it. */
interface Suspect {
  readonly line: number;
  readonly found: Sealed | "unreadable" | "changed";
  /** No line comes after it. */
  readonly last: boolean;
  /** The entry that belongs in its place comes later. */
  readonly continued: boolean;
}

function suspectAfter(suspect: Suspect, found: Sealed | string, head: Head): Suspect {
  const continued = suspect.continued || (typeof found !== "string" && follows(found, head));
  return { ...suspect, last: false, continued };
}

function follows({ sequence, previous }: Sealed, head: Head): boolean {
  return sequence === head.sequence + 1 && previous === head.hash;
}

function breakOf({ line, found, last, continued }: Suspect, { sequence }: Head): Break {
  const next = sequence + 1;
  if (found === "unreadable" && last) return { what: "torn", line, reason: "it is incomplete, as after a kill" };
  if (found === "unreadable") return { what: "changed", line, reason: "it is not an entry" };
  if (found === "changed") return { what: "changed", line, reason: "its hash does not match its content" };
  if (found.sequence > next) {
    if (continued)
      return { what: "reordered", line, reason: `it is entry ${found.sequence}, and entry ${next} comes after it` };
    const missing = found.sequence - next === 1 ? `entry ${next} is` : `entries ${next} to ${found.sequence - 1} are`;
    return { what: "removed", line, reason: `${missing} missing before it` };
  }
  if (continued) return { what: "inserted", line, reason: `entry ${next} comes after it` };
  if (found.sequence < next)
    return { what: "inserted", line, reason: `it is entry ${found.sequence}, after entry ${sequence}` };
  return { what: "changed", line, reason: "it does not follow the line before it: one of the two was replaced" };
}

/** What is wrong with a chain that is whole, but does not have the entry that is known to have been written. */
export function mismatch(expected: Head, { sequence }: Head): Omit<Break, "line"> {
  if (expected.sequence <= sequence)
    return { what: "changed", reason: `entry ${expected.sequence} is not the one that was written` };
  const last = sequence === 0 ? "there is none here" : `the last one here is ${sequence}`;
  return { what: "removed", reason: `entries up to ${expected.sequence} were written, and ${last}` };
}

/** The file that entries are appended to. */
export const currentName = "audit.jsonl";

/** One file of the chain. */
export interface AuditFile {
  readonly name: string;
  /** The number of its first entry; unknown of the current one. */
  readonly first?: number;
  /** `full`: the chain goes on in the next one. `damaged`: put aside; part of the chain up to its break. */
  readonly kind: "full" | "damaged" | "current";
}

/** The files of a chain, wherever they are. */
export interface AuditChain {
  /** In order, the current one last. Where there is no log there are none. */
  files(): Promise<readonly AuditFile[]>;
  /** The content of one. */
  read(file: AuditFile): AsyncIterable<Buffer>;
  /** The newest entry that is known to have been written; undefined where nobody knows. */
  head(): Promise<Head | undefined>;
}
