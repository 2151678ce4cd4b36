import { once } from "node:events";
import { PassThrough } from "node:stream";
import type { Readable } from "node:stream";
import { csvLine } from "#plan/render/csv.ts";
import type { Sealed } from "./chain.ts";
import { matching } from "./list.ts";
import type { AuditFilter, ReadAudit } from "./list.ts";
import { actorOf, breakWords, entryWords } from "./words.ts";

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
