import { beginning, currentName, mismatch, scan } from "./chain.ts";
import type { AuditChain, AuditFile, Break, Sealed } from "./chain.ts";
import type { Head } from "./entry.ts";

export interface VerifyOptions {
  /** An entry that is known to have been written: without its newest entries the chain still looks whole. */
  readonly expected?: Head;
  /**
   * The first entry that counts; earlier ones may be damaged or missing. 0: the first one that is there. Default: 1.
   */
  readonly from?: number;
  /** Called with every good entry, in order. */
  readonly visit?: (entry: Sealed, line: Buffer) => void | Promise<void>;
}

/** The state of the audit log. It is as it was written if there is neither `broken` nor any `damages`. */
export interface Verification {
  /** How many entries were checked, up to the break. */
  readonly entries: number;
  /** The names of the files, in order. */
  readonly files: readonly string[];
  /** The last good entry. */
  readonly head: Head;
  /** The entries that report earlier damage. */
  readonly damages: readonly Sealed[];
  /** The first break that no entry reports. */
  readonly broken?: Break & { readonly file: string };
}

/**
 * Checks every line of the audit log, all of its files. It only reads; appends meanwhile do no harm.
 * @throws {InputError} when a file cannot be read
 */
export async function verifyAudit(chain: AuditChain, options: VerifyOptions = {}): Promise<Verification> {
  let visited = 0;
  const visit = async (entry: Sealed, line: Buffer): Promise<void> => {
    if (entry.sequence <= visited) return;
    visited = entry.sequence;
    await options.visit?.(entry, line);
  };
  for (let attempt = 1; ; attempt++) {
    const files = await chain.files();
    const result = await check(chain, files, { ...options, visit }).catch((error: unknown) => ({ error }));
    // If the current file became full meanwhile, what was read under its name does not follow the others.
    const isLast = attempt === 3 || namesOf(files).join() === namesOf(await chain.files()).join();
    if (isLast && "error" in result) throw result.error;
    if (isLast && !("error" in result)) return result;
  }
}

function namesOf(files: readonly AuditFile[]): string[] {
  return files.map(({ name }) => name);
}

async function check(
  chain: AuditChain,
  files: readonly AuditFile[],
  { expected, from = 1, visit }: VerifyOptions,
): Promise<Verification> {
  const damages: Sealed[] = [];
  let entries = 0;
  let asExpected = expected === undefined || expected.sequence < Math.max(from, 1);
  let start: Head | number = from === 1 ? beginning : from;
  /** Where the next entry would be. */
  let end = { file: currentName, line: 1 };
  const onEntry = async (entry: Sealed, line: Buffer): Promise<void> => {
    if (entry.sequence < from) return;
    entries += 1;
    if (entry.sequence === expected?.sequence) asExpected = entry.hash === expected.hash;
    if (entry.event === "audit damaged") damages.push(entry);
    await visit?.(entry, line);
  };
  const result = (broken?: Verification["broken"]): Verification => ({
    entries,
    files: namesOf(files),
    head: headOf(start),
    damages,
    broken,
  });
  for (const [index, file] of files.entries()) {
    const next = files[index + 1]?.first;
    if (next !== undefined && next <= from) continue;
    // A file that was put aside is read from its own first entry: it counts up to its break.
    const here: Head | number = typeof start === "number" && file.kind === "damaged" ? (file.first ?? start) : start;
    const { head = start, broken, lines } = await scan(chain.read(file), here, onEntry);
    if (lines > 0 && (typeof head === "number" || head.sequence + 1 >= from)) start = head;
    end = { file: file.name, line: lines + 1 };
    // The file after one that was put aside reports the break, and continues the good part.
    if (broken !== undefined && file.kind !== "damaged") return result({ file: file.name, ...broken });
  }
  if (typeof start === "number" && start > 0)
    return result({ ...end, what: "removed", reason: `entry ${start} is not there` });
  return result(asExpected || expected === undefined ? undefined : { ...end, ...mismatch(expected, headOf(start)) });
}

function headOf(start: Head | number): Head {
  return typeof start === "number" ? beginning : start;
}
