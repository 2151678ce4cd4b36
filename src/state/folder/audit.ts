import { createReadStream, createWriteStream } from "node:fs";
import { open, rename, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { command } from "#commands.ts";
import { messageOf } from "#errors.ts";
import { makeFolder, unwritable } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import { createQueue } from "#queue.ts";
import { beginning, currentName, mismatch, scan, sealed } from "#state/audit/chain.ts";
import type { AuditFile } from "#state/audit/chain.ts";
import { redacted } from "#state/audit/entry.ts";
import type { AuditEntry, AuditFinding, Head } from "#state/audit/entry.ts";
import type { AuditLog } from "#state/store.ts";
import { auditFiles, called, contentOf, earlierFile, stamp, writeHead } from "./chain.ts";

export interface AuditOptions {
  /** The last entry that is known to have been written, as `readHead` gives it. */
  readonly expected?: Head | undefined;
  /** Called with what is wrong with the file, when it is opened or later. */
  readonly warn?: (message: string) => void;
  /** A file of this many bytes is full, and the next one begins. Default: 4 MiB, about 7,000 entries. */
  readonly fullAt?: number;
}

/** In bytes. */
const usuallyFullAt = 4 * 1024 * 1024;

/** The audit log in the daemon's folder, open for appending. Only the process that holds the lock of the folder may open it. */
export class FolderAudit implements AuditLog {
  readonly #folder: string;
  readonly #options: AuditOptions;
  #opened: Opened;
  readonly #queue = createQueue();
  #isClosed = false;

  private constructor(folder: string, options: AuditOptions, opened: Opened) {
    this.#folder = folder;
    this.#options = options;
    this.#opened = opened;
  }

  /**
   * Opens `audit.jsonl`, or creates it. An incomplete last line is cut off, stored beside the file and reported in an entry.
   * Any other break of the chain puts the file aside as it is: a new file continues from the last good entry, and its first
   * entry says what is wrong where. A broken chain is never continued as if it were whole.
   * @throws {InputError} when a file cannot be read or written
   */
  static async open(folder: string, options: AuditOptions = {}): Promise<FolderAudit> {
    await makeFolder(folder, "the daemon's folder");
    const audit = new FolderAudit(folder, options, await openFile(folder, options.expected));
    try {
      await audit.#writeFindings();
    } catch (error) {
      await audit.#opened.handle.close();
      throw error;
    }
    return audit;
  }

  append(entry: AuditEntry): Promise<void> {
    if (this.#isClosed) return Promise.reject(new Error("the audit log is closed"));
    return this.#queue(() => this.#appendNext(entry));
  }

  /** The last entry, which is stored beside the log as well (`readHead`). */
  head(): Head {
    return this.#opened.head;
  }

  /** Waits for the appends under way. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#queue.idle();
    await this.#opened.handle.close();
  }

  get #path(): string {
    return join(this.#folder, currentName);
  }

  async #appendNext(entry: AuditEntry): Promise<void> {
    // After a failed write, or when somebody else has touched the file, look at it again as at the start.
    if (!(await isUnchanged(this.#path, this.#opened))) await this.#reopen();
    if (this.#opened.size >= (this.#options.fullAt ?? usuallyFullAt)) {
      await rename(this.#path, join(this.#folder, earlierFile(this.#opened.first)));
      await this.#reopen();
    }
    await this.#writeFindings();
    await this.#write(entry);
  }

  async #reopen(): Promise<void> {
    const { handle, head, findings } = this.#opened;
    const next = await openFile(this.#folder, head);
    this.#opened = { ...next, findings: [...findings, ...next.findings] };
    await handle.close();
  }

  async #writeFindings(): Promise<void> {
    for (let [finding] = this.#opened.findings; finding !== undefined; [finding] = this.#opened.findings) {
      await this.#write(finding);
      this.#options.warn?.(describe(finding));
      this.#opened = { ...this.#opened, findings: this.#opened.findings.slice(1) };
    }
  }

  async #write(entry: AuditEntry): Promise<void> {
    const { handle, size } = this.#opened;
    const { line, head } = sealed(redacted(entry), this.#opened.head, new Date());
    const bytes = Buffer.from(`${line}\n`);
    try {
      await handle.appendFile(bytes);
      await handle.datasync();
    } catch (error) {
      // Removes the part of the line that the disk had room for. If it stays, it is put aside like what a kill leaves.
      await handle.truncate(size).catch(() => undefined);
      throw unwritable(called(this.#path), error);
    }
    this.#opened = { ...this.#opened, head, size: size + bytes.length };
    // After the entry: a crash between them leaves a log that is newer than what is known of it.
    await writeHead(this.#folder, head).catch((error: unknown) => {
      this.#options.warn?.(
        `entry ${head.sequence} of the audit log was written, but not recorded as its last: ${messageOf(error)}`,
      );
    });
  }
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
interface Opened {
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
  const scanned = isThere
    ? await scan(contentOf(join(folder, currentName)), before, ({ sequence, hash }) => {
        if (sequence === expected?.sequence) asExpected = hash === expected.hash;
      })
    : { lines: 0, bytes: 0 };
  const head = scanned.head ?? known ?? beginning;
  const first = head.sequence - scanned.lines + 1;
  const { broken } = scanned;
  if (broken === undefined || broken.what === "torn") {
    const torn = broken === undefined ? [] : [await cutOff(folder, scanned.bytes, broken.line)];
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
  const { head = start, broken } = await scan(contentOf(join(folder, last.name)), start);
  return last.kind === "full" && broken !== undefined && mayBelieve ? 0 : head;
}

/** Moves what comes after the last good entry into a file of its own. */
async function cutOff(folder: string, from: number, line: number): Promise<AuditFinding> {
  const path = join(folder, currentName);
  const kept = `audit.torn-${stamp(new Date())}`;
  try {
    const copy = createWriteStream(join(folder, kept), { mode: 0o600, flags: "wx", flush: true });
    await pipeline(createReadStream(path, { start: from }), copy);
    await using handle = await open(path, "r+");
    const { size } = await handle.stat();
    await handle.truncate(from);
    await handle.sync();
    return { event: "audit torn", kept, line, bytes: size - from };
  } catch (error) {
    throw unwritable(called(path), error);
  }
}
