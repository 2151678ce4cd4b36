import { auditFiles, beginning, currentName, otherThan, pathOf, scanFile } from "./chain.ts";
import type { AuditFile, Break, Sealed } from "./chain.ts";
import type { Head } from "./entry.ts";

export interface VerifyOptions {
  /** What is known from elsewhere to have been written: cutting off the newest entries leaves a chain that is whole. */
  readonly expected?: Head;
  /**
   * The first entry that counts; what came before it may be damaged, or elsewhere. 0: the first one that is there.
   * Default: 1.
   */
  readonly from?: number;
  /** Is called with every good entry, in order. */
  readonly tell?: (entry: Sealed, line: Buffer) => void | Promise<void>;
}

/** What was found of the audit file. It is as it was written when there is neither `broken` nor any `damages`. */
export interface Verification {
  /** How many entries were checked, up to the break. */
  readonly entries: number;
  /** The names of the files, in their order. */
  readonly files: readonly string[];
  /** The last good entry. */
  readonly head: Head;
  /** The entries that tell of earlier damage. */
  readonly damages: readonly Sealed[];
  /** The first break that no entry tells of. */
  readonly broken?: Break & { readonly file: string };
}

/**
 * Checks every line of the audit file, and of those before it. Only reads; what is appended meanwhile does no harm.
 * @param folder the daemon's
 * @throws {InputError} when a file cannot be read
 */
export async function verifyAudit(folder: string, options: VerifyOptions = {}): Promise<Verification> {
  let told = 0;
  const tell = async (entry: Sealed, line: Buffer): Promise<void> => {
    if (entry.sequence <= told) return;
    told = entry.sequence;
    await options.tell?.(entry, line);
  };
  for (let attempt = 1; ; attempt++) {
    const files = await auditFiles(folder);
    const result = await check(folder, files, { ...options, tell }).catch((error: unknown) => ({ error }));
    // When the current file became full meanwhile, what was read under its name is not what follows the others.
    const isLast = attempt === 3 || namesOf(files).join() === namesOf(await auditFiles(folder)).join();
    if (isLast && "error" in result) throw result.error;
    if (isLast && !("error" in result)) return result;
  }
}

function namesOf(files: readonly AuditFile[]): string[] {
  return files.map(({ name }) => name);
}

async function check(
  folder: string,
  files: readonly AuditFile[],
  { expected, from = 1, tell }: VerifyOptions,
): Promise<Verification> {
  const damages: Sealed[] = [];
  let entries = 0;
  let asExpected = expected === undefined || expected.sequence < Math.max(from, 1);
  let start: Head | number = from === 1 ? beginning : from;
  /** Where a further entry would be. */
  let end = { file: currentName, line: 1 };
  const onEntry = async (entry: Sealed, line: Buffer): Promise<void> => {
    if (entry.sequence < from) return;
    entries += 1;
    if (entry.sequence === expected?.sequence) asExpected = entry.hash === expected.hash;
    if (entry.event === "audit damaged") damages.push(entry);
    await tell?.(entry, line);
  };
  const result = (broken?: Verification["broken"]): Verification => ({
    entries,
    files: namesOf(files),
    head: headOf(start),
    damages,
    ...(broken === undefined ? {} : { broken }),
  });
  for (const [index, file] of files.entries()) {
    const next = files[index + 1]?.first;
    if (next !== undefined && next <= from) continue;
    // What was put aside has to be read from its own beginning: only what comes before its break counts.
    const here: Head | number = typeof start === "number" && file.kind === "damaged" ? (file.first ?? start) : start;
    const { head = start, broken, lines } = await scanFile(pathOf(folder, file), here, onEntry);
    if (lines > 0 && (typeof head === "number" || head.sequence + 1 >= from)) start = head;
    end = { file: file.name, line: lines + 1 };
    // Where one was put aside because of its break, the next one says so and continues what was good.
    if (broken !== undefined && file.kind !== "damaged") return result({ file: file.name, ...broken });
  }
  if (typeof start === "number" && start > 0)
    return result({ ...end, what: "removed", reason: `entry ${start} is not there` });
  return result(asExpected || expected === undefined ? undefined : { ...end, ...otherThan(expected, headOf(start)) });
}

function headOf(start: Head | number): Head {
  return typeof start === "number" ? beginning : start;
}
