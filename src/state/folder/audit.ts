import { command } from "#commands.ts";
import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { makeFolder, unwritable } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import { messageOf } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { redact } from "#redact.ts";
import {
  auditFiles,
  beginning,
  called,
  currentName,
  earlierFile,
  mismatch,
  pathOf,
  scanFile,
  sealed,
  stamp,
} from "#state/audit/chain.ts";
import type { AuditFile } from "#state/audit/chain.ts";
import type { AuditEntry, AuditFinding, Head } from "#state/audit/entry.ts";
import { writeHead } from "./audit-head.ts";

/** The audit log, open for appending. Only the process that holds the lock of the daemon's folder may open it. */
export interface Audit {
  /**
   * Appends an entry; entries come in the order of the calls. When it resolves, the entry survives a power failure.
   * @throws {RollcallError} when it could not be written; then nothing is known to be in the file
   */
  append(entry: AuditEntry): Promise<void>;
  /** The last entry, which is stored beside the log as well (`readHead`). */
  head(): Head;
  /** Waits for the appends under way. */
  close(): Promise<void>;
}

export interface AuditOptions {
  /** The last entry that is known to have been written, as `readHead` gives it. */
  readonly expected?: Head | undefined;
  /** Called with what is wrong with the file, when it is opened or later. */
  readonly warn?: (message: string) => void;
  /** A file of this many bytes is full, and the next one begins. Default: 4 MiB, about 7,000 entries. */
  readonly fullAt?: number;
}

/** The facts that are not in Rollcall's own words. */
const free: ReadonlySet<string> = new Set(["reason", "error", "finding", "differences"]);

/**
 * Opens `audit.jsonl` in the daemon's folder, or creates it. An incomplete last line is cut off, stored beside the file and
 * reported in an entry. Any other break of the chain puts the file aside as it is: a new file continues from the last good
 * entry, and its first entry says what is wrong where. A broken chain is never continued as if it were whole.
 * @throws {InputError} when a file cannot be read or written
 */
export async function openAudit(folder: string, options: AuditOptions = {}): Promise<Audit> {
  const { warn, fullAt = 4 * 1024 * 1024 } = options;
  const path = join(folder, currentName);
  await makeFolder(folder, "the daemon's folder");
  let opened = await openFile(folder, options.expected);

  const write = async (entry: AuditEntry): Promise<void> => {
    const { line, head } = sealed(redacted(entry), opened.head, new Date());
    const bytes = Buffer.from(`${line}\n`);
    try {
      await opened.handle.appendFile(bytes);
      await opened.handle.datasync();
    } catch (error) {
      // Removes the part of the line that the disk had room for. If it stays, it is put aside like what a kill leaves.
      await opened.handle.truncate(opened.size).catch(() => undefined);
      throw unwritable(called(path), error);
    }
    opened = { ...opened, head, size: opened.size + bytes.length };
    // After the entry: a crash between them leaves a log that is newer than what is known of it.
    await writeHead(folder, head).catch((error: unknown) => {
      warn?.(
        `that entry ${head.sequence} of the audit log was written cannot be stored beside it: ${messageOf(error)}`,
      );
    });
  };
  const writeFindings = async (): Promise<void> => {
    for (let [finding] = opened.findings; finding !== undefined; [finding] = opened.findings) {
      await write(finding);
      warn?.(describe(finding));
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
    // After a failed write, or when somebody else has touched the file, look at it again as at the start.
    if (!(await isUnchanged(path, opened))) await reopen();
    if (opened.size >= fullAt) {
      await rename(path, join(folder, earlierFile(opened.first)));
      await reopen();
    }
    await writeFindings();
    await write(entry);
  };

  try {
    await writeFindings();
  } catch (error) {
    await opened.handle.close();
    throw error;
  }
  const queue = createQueue();
  let closed = false;
  return {
    append: (entry) => {
      if (closed) return Promise.reject(new Error("the audit log is closed"));
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

/** The entry without secrets in the words of others. */
export function redacted(entry: AuditEntry): AuditEntry {
  const facts = Object.entries(entry).map(([key, value]: [string, unknown]) => {
    if (!free.has(key)) return [key, value];
    if (typeof value === "string") return [key, redact(value)];
    return [key, Array.isArray(value) ? value.map((each) => redact(String(each))) : value];
  });
  return Object.fromEntries(facts) as AuditEntry;
}

function describe(finding: AuditFinding): string {
  if (finding.event === "audit torn")
    return `the last line of the audit log was incomplete and was removed; it is stored as ${finding.kept}`;
  const { what, line, reason, kept, lastGood } = finding;
  const where = line === undefined ? "" : `, line ${line}`;
  const rest =
    kept === undefined ? "" : `; it is stored as ${kept}, and a new one continues after entry ${lastGood.sequence}`;
  return `the audit log is damaged (${what}${where}): ${reason}${rest}. Look into it: \`${command("audit verify")}\``;
}

/** The current file, open for appending. */
export interface Opened {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly size: number;
  readonly head: Head;
  /** The number of the file's first entry. */
  readonly first: number;
  /** What the next entries must report. */
  readonly findings: readonly AuditFinding[];
}

/** Whether the path still leads to the open file, and nobody else has written to it. */
async function isUnchanged(path: string, { inode, size }: Opened): Promise<boolean> {
  return stat(path).then(
    (now) => now.ino === inode && now.size === size,
    () => false,
  );
}

/** Opens the current file, after putting an incomplete last line or a broken chain aside; `findings` says so. */
async function openFile(folder: string, expected: Head | undefined): Promise<Opened> {
  const path = join(folder, currentName);
  const { head, first, findings } = await inspect(folder, expected);
  try {
    const handle = await open(path, "a", 0o600);
    await syncFolder(folder);
    const { ino, size } = await handle.stat();
    return { handle, inode: ino, size, head, first, findings };
  } catch (error) {
    throw unwritable(called(path), error);
  }
}

/** Where the chain ends. Afterwards the current file, if there is one, ends with a good entry. */
async function inspect(
  folder: string,
  expected: Head | undefined,
): Promise<Pick<Opened, "head" | "first" | "findings">> {
  const files = await auditFiles(folder);
  const isThere = files.at(-1)?.kind === "current";
  const before = await endOf(folder, isThere ? files.slice(0, -1) : files, isThere);
  const known = typeof before === "number" ? undefined : before;
  let asExpected = expected === undefined || known === undefined || expected.sequence < known.sequence;
  if (expected?.sequence === known?.sequence) asExpected = expected?.hash === known?.hash;
  const scan = isThere
    ? await scanFile(join(folder, currentName), before, ({ sequence, hash }) => {
        if (sequence === expected?.sequence) asExpected = hash === expected.hash;
      })
    : { lines: 0, bytes: 0 };
  const head = scan.head ?? known ?? beginning;
  const first = head.sequence - scan.lines + 1;
  const { broken } = scan;
  if (broken === undefined || broken.what === "torn") {
    const torn = broken === undefined ? [] : [await cutOff(folder, scan.bytes, broken.line)];
    const lost: AuditFinding[] =
      asExpected || expected === undefined
        ? []
        : [{ event: "audit damaged", ...mismatch(expected, head), lastGood: head, expected }];
    return { head, first, findings: [...torn, ...lost] };
  }
  const kept = earlierFile(first, new Date());
  await rename(join(folder, currentName), join(folder, kept));
  const finding = {
    event: "audit damaged",
    ...broken,
    kept,
    lastGood: head,
    expected: asExpected ? undefined : expected,
  } as const;
  return { head, first: head.sequence + 1, findings: [finding] };
}

/** The last good entry of the files before the current one; 0 if it is unknown and the current file is to be believed. */
async function endOf(folder: string, files: readonly AuditFile[], mayBelieve: boolean): Promise<Head | number> {
  const last = files.at(-1);
  if (last === undefined) return beginning;
  // A file that was put aside counts from the entry that it should have continued.
  const start = last.kind === "damaged" ? await endOf(folder, files.slice(0, -1), false) : 0;
  const { head = start, broken } = await scanFile(pathOf(folder, last), start);
  return last.kind === "full" && broken !== undefined && mayBelieve ? 0 : head;
}

/** Moves what comes after the last good entry into a file of its own. */
async function cutOff(folder: string, from: number, line: number): Promise<AuditFinding> {
  const path = join(folder, currentName);
  const kept = `audit.torn-${stamp(new Date())}`;
  try {
    const copy = createWriteStream(join(folder, kept), { mode: 0o600, flags: "wx", flush: true });
    await pipeline(createReadStream(path, { start: from }), copy);
    const handle = await open(path, "r+");
    try {
      const { size } = await handle.stat();
      await handle.truncate(from);
      await handle.sync();
      return { event: "audit torn", kept, line, bytes: size - from };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw unwritable(called(path), error);
  }
}
