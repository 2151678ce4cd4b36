import { createReadStream, createWriteStream } from "node:fs";
import { type FileHandle, open, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { unwritable } from "#files/disk.ts";
import { syncFolder } from "#files/durable.ts";
import { type Head, beginning, otherThan } from "./chain.ts";
import type { AuditFinding } from "./entry.ts";
import { auditFiles, called, currentName, earlierFile, pathOf, scanFile, stamp } from "./files.ts";
import type { AuditFile } from "./files.ts";

/** The current file, open for appending. */
export interface Opened {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly size: number;
  readonly head: Head;
  /** The number of the file's first entry. */
  readonly first: number;
  /** What the next entries are to tell. */
  readonly findings: readonly AuditFinding[];
}

/** Whether the path still leads to the open file, and nobody else has written to it. */
export async function isAsLeft(path: string, { inode, size }: Opened): Promise<boolean> {
  return stat(path).then(
    (now) => now.ino === inode && now.size === size,
    () => false,
  );
}

/** Opens the current file after what is left of the last line, or a broken chain, was put aside; `findings` says so. */
export async function openFile(folder: string, expected: Head | undefined): Promise<Opened> {
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

/** Where the chain stands. After it the current file, where there is one, ends with a good entry. */
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
        : [{ event: "audit damaged", ...otherThan(expected, head), lastGood: head, expected }];
    return { head, first, findings: [...torn, ...lost] };
  }
  const kept = earlierFile(first, new Date());
  await rename(join(folder, currentName), join(folder, kept));
  const wanted = asExpected || expected === undefined ? {} : { expected };
  const finding = { event: "audit damaged", ...broken, kept, lastGood: head, ...wanted } as const;
  return { head, first: head.sequence + 1, findings: [finding] };
}

/** The last good entry of the files before the current one; 0 when it cannot be told and the current one is to be believed. */
async function endOf(folder: string, files: readonly AuditFile[], mayBelieve: boolean): Promise<Head | number> {
  const last = files.at(-1);
  if (last === undefined) return beginning;
  // What was put aside counts from the entry that it should have continued.
  const start = last.kind === "damaged" ? await endOf(folder, files.slice(0, -1), false) : 0;
  const { head = start, broken } = await scanFile(pathOf(folder, last), start);
  return last.kind === "full" && broken !== undefined && mayBelieve ? 0 : head;
}

/** Keeps what comes after the last good entry in a file of its own, and cuts it off. */
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
