import { rename } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "#errors.ts";
import { makeFolder, unwritable } from "#files/disk.ts";
import { createQueue } from "#queue.ts";
import { longestLine, sealed, type Head } from "./chain.ts";
import type { AuditEntry, AuditFinding } from "./entry.ts";
import { called, currentName, earlierFile } from "./files.ts";
import { isAsLeft, openFile } from "./open.ts";

/** The audit file, open for appending. One process at a time may have it: it holds the lock of the daemon's folder. */
export interface Audit {
  /**
   * Appends an entry; entries come in the order of the calls. When it resolves, the entry survives a power failure.
   * @throws {RollcallError} when it could not be written; then nothing is known to be in the file
   */
  append(entry: AuditEntry): Promise<void>;
  /** The last entry. To be kept outside of the file too: cutting off the newest entries leaves a chain that is whole. */
  head(): Head;
  /** Waits for what is being appended. */
  close(): Promise<void>;
}

export interface AuditOptions {
  /** The last entry that is known to have been written. */
  readonly expected?: Head;
  /** Removes secrets from what people and other systems say: reasons, errors, findings. */
  readonly redact?: (text: string) => string;
  /** Is told what was found to be wrong with the file, when it is opened or later. */
  readonly warn?: (message: string) => void;
  /** A file that has so many bytes is full, and another one is begun. Default: 4 MiB, some 7,000 entries. */
  readonly fullAt?: number;
}

/** The facts that are not Rollcall's own words. */
const free: ReadonlySet<string> = new Set(["reason", "error", "finding", "differences"]);

/**
 * Opens `audit.jsonl` in the daemon's folder, or begins it. A last line that was not written to its end is cut off, kept
 * beside it and told of in an entry. Where the chain is broken otherwise, the file is put aside as it is, a new one
 * continues from the last good entry, and its first entry says what is wrong where. Never is a broken chain continued
 * as if it were whole.
 * @throws {InputError} when a file cannot be read or written
 */
export async function openAudit(folder: string, options: AuditOptions = {}): Promise<Audit> {
  const { redact = (text) => text, warn, fullAt = 4 * 1024 * 1024 } = options;
  const path = join(folder, currentName);
  await makeFolder(folder, "the daemon's folder");
  let opened = await openFile(folder, options.expected);

  const write = async (entry: AuditEntry): Promise<void> => {
    const { line, head } = sealed(redacted(entry, redact), opened.head, new Date());
    const bytes = Buffer.from(`${line}\n`);
    if (bytes.length > longestLine)
      throw new InputError(
        `what is to be written to the audit file is too long: ${bytes.length} bytes; at most ${longestLine} are allowed`,
      );
    try {
      await opened.handle.appendFile(bytes);
      await opened.handle.datasync();
    } catch (error) {
      // What there was room for of the line. Where it stays, it is put aside as what a killed process has left.
      await opened.handle.truncate(opened.size).catch(() => undefined);
      throw unwritable(called(path), error);
    }
    opened = { ...opened, head, size: opened.size + bytes.length };
  };
  const tellFindings = async (): Promise<void> => {
    for (let [finding] = opened.findings; finding !== undefined; [finding] = opened.findings) {
      await write(finding);
      warn?.(described(finding));
      opened = { ...opened, findings: opened.findings.slice(1) };
    }
  };
  const reopen = async (): Promise<void> => {
    const { handle, head, findings } = opened;
    const next = await openFile(folder, head);
    opened = { ...next, findings: [...findings, ...next.findings] };
    await handle.close();
  };
  const append = async (entry: AuditEntry): Promise<void> => {
    // What failed half way before, or somebody else did to the file, is found out as at the start.
    if (!(await isAsLeft(path, opened))) await reopen();
    if (opened.size >= fullAt) {
      await rename(path, join(folder, earlierFile(opened.first)));
      await reopen();
    }
    await tellFindings();
    await write(entry);
  };

  try {
    await tellFindings();
  } catch (error) {
    await opened.handle.close();
    throw error;
  }
  const queue = createQueue();
  let closed = false;
  return {
    append: (entry) => {
      if (closed) return Promise.reject(new Error("the audit file is closed"));
      return queue(() => append(entry));
    },
    head: () => opened.head,
    close: async () => {
      if (closed) return;
      closed = true;
      await queue.idle();
      await opened.handle.close();
    },
  };
}

/** The entry without secrets in what is not Rollcall's own words. */
function redacted(entry: AuditEntry, redact: (text: string) => string): AuditEntry {
  const facts = Object.entries(entry).map(([key, value]: [string, unknown]) => {
    if (!free.has(key)) return [key, value];
    return [key, Array.isArray(value) ? value.map((each) => redact(String(each))) : redact(String(value))];
  });
  return Object.fromEntries(facts) as AuditEntry;
}

function described(finding: AuditFinding): string {
  if (finding.event === "audit torn")
    return `the last line of the audit file was not written to its end, and was cut off; it is kept as ${finding.kept}`;
  const { what, line, reason, kept, lastGood } = finding;
  const where = line === undefined ? "" : `, line ${line}`;
  const rest =
    kept === undefined ? "" : `; it is kept as ${kept}, and a new one continues after entry ${lastGood.sequence}`;
  return `the audit file is damaged (${what}${where}): ${reason}${rest}. A person must look: see \`rollcall audit verify\``;
}
