import { once } from "node:events";
import { PassThrough } from "node:stream";
import type { Readable } from "node:stream";
import { csvLine } from "#plan/render/csv.ts";
import { withoutCase } from "#text.ts";
import type { Sealed } from "./chain.ts";
import type { Verification, VerifyOptions } from "./verify.ts";
import { actorOf, breakWords, entryWords } from "./words.ts";

/** Which entries to list; one must match all of it. */
export interface AuditFilter {
  readonly event?: string | undefined;
  /** A part of the name of who did it. */
  readonly by?: string | undefined;
  readonly sync?: string | undefined;
  /** The run that it is about, or that it undoes. */
  readonly run?: string | undefined;
  /** In epoch milliseconds: from then on. */
  readonly since?: number | undefined;
  /** In epoch milliseconds: before then. */
  readonly until?: number | undefined;
}

export function matching({ event, by, sync, run, since, until }: AuditFilter): (entry: Sealed) => boolean {
  const part = by === undefined ? undefined : withoutCase(by);
  return (entry) => {
    const { facts } = entry;
    const at = Date.parse(entry.at);
    return (
      (event === undefined || entry.event === event) &&
      (sync === undefined || facts["sync"] === sync) &&
      (run === undefined || facts["run"] === run || facts["undoes"] === run) &&
      (since === undefined || at >= since) &&
      (until === undefined || at < until) &&
      (part === undefined || withoutCase(actorOf(entry)?.name ?? "").includes(part))
    );
  };
}

/** Reads the audit log, and checks it against the last entry that the journal knows. */
export type ReadAudit = (options: Omit<VerifyOptions, "expected">) => Promise<Verification>;

export interface AuditPageOptions {
  readonly filter: AuditFilter;
  /** Only entries with lower numbers. */
  readonly before?: number | undefined;
  readonly limit: number;
  /** The first entry that counts, as for `verifyAudit`. Absent: all that there are are listed, and checked from the first. */
  readonly from?: number | undefined;
}

/** A page of the audit log. */
export interface AuditPage {
  /** The newest first. */
  readonly entries: readonly Sealed[];
  /** There are earlier ones that match. */
  readonly more: boolean;
  /** The number of the first entry that is there. */
  readonly first?: number | undefined;
  /** Every sync that the log has something about. */
  readonly syncs: readonly string[];
  readonly verification: Verification;
}

/** The newest entries that match. Every entry is checked for it. @throws {InputError} when a file cannot be read */
export async function listAudit(
  read: ReadAudit,
  { filter, before = Number.POSITIVE_INFINITY, limit, from }: AuditPageOptions,
): Promise<AuditPage> {
  const isChosen = matching(filter);
  const syncs = new Set<string>();
  const found: Sealed[] = [];
  let first: number | undefined;
  const visit = (entry: Sealed): void => {
    const { sequence, facts } = entry;
    first ??= sequence;
    if (typeof facts["sync"] === "string") syncs.add(facts["sync"]);
    if (sequence >= before || !isChosen(entry)) return;
    found.push(entry);
    if (found.length > limit + 1) found.shift();
  };
  const listed = await read({ from: from ?? 0, visit });
  // What is listed begins with the first entry that is there; what is checked, with the first that was written.
  const verification = from === undefined && first !== 1 ? await read({ from: 1 }) : listed;
  return {
    entries: found.slice(-limit).reverse(),
    more: found.length > limit,
    first,
    syncs: [...syncs].sort(),
    verification,
  };
}

/** `jsonl`: the lines as they were written, which others can check. `csv`: a row for each entry, for a spreadsheet. */
export const auditFormats = ["jsonl", "csv"] as const;
export type AuditFormat = (typeof auditFormats)[number];

const columns = ["number", "time", "event", "name", "from", "sync", "run", "what", "details"] as const;

/**
 * The entries that match, the oldest first. Where the chain is broken, a last line says so: `{"broken": {…}}`, or a row
 * with `BROKEN`. The stream fails with what reading the log throws.
 * @param from the first entry that counts, as for `verifyAudit`; 0: the first that is there
 */
export function renderAudit(
  format: AuditFormat,
  read: ReadAudit,
  { filter, from = 0 }: { readonly filter: AuditFilter; readonly from?: number | undefined },
): Readable {
  const stream = new PassThrough();
  const isChosen = matching(filter);
  const closed = finished(stream);
  const write = async (piece: string | Buffer): Promise<void> => {
    if (!stream.write(piece)) await Promise.race([once(stream, "drain"), closed]);
    if (stream.destroyed) throw new Error("nobody reads this any more");
  };
  const visit = async (entry: Sealed, line: Buffer): Promise<void> => {
    if (!isChosen(entry)) return;
    await write(format === "csv" ? row(entry) : Buffer.concat([line, newline]));
  };
  const writeAll = async (): Promise<void> => {
    if (format === "csv") await write(`\uFEFF${csvLine(columns)}`);
    const { broken } = await read({ from, visit });
    if (broken !== undefined)
      await write(
        format === "csv"
          ? csvLine(["", "", "BROKEN", "", "", "", "", breakWords(broken)])
          : `${JSON.stringify({ broken })}\n`,
      );
    stream.end();
  };
  writeAll().catch((error: unknown) => stream.destroy(error instanceof Error ? error : new Error(String(error))));
  return stream;
}

const newline = Buffer.from("\n");

/** Resolves when it is closed, however: `once` would reject when it fails. */
function finished(stream: Readable): Promise<void> {
  return new Promise((resolve) => {
    stream.once("close", resolve);
  });
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function row(entry: Sealed): string {
  const { sequence, at, event, facts } = entry;
  const by = actorOf(entry);
  const [what, ...details] = entryWords(entry);
  const of = [text(facts["sync"]), text(facts["run"])];
  return csvLine([String(sequence), at, event, by?.name, by?.from, ...of, what, details.join("; ")]);
}
