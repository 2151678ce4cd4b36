import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import type { Head, Sealed } from "#sync/audit/chain.ts";
import { verifyAudit } from "#sync/audit/verify.ts";
import type { Verification } from "#sync/audit/verify.ts";
import { describeEntry, oneLine } from "./words.ts";
import { daemonFolder } from "#cli/context.ts";
import { counted } from "#text.ts";
import { exitCodes } from "#cli/output.ts";
import type { ExitCode, Output } from "#cli/output.ts";

/** Which entries are listed. */
export interface AuditFilter {
  /** In milliseconds since 1970. */
  readonly since?: number;
  readonly run?: string;
  readonly from?: number;
}

/** `rollcall audit`: the entries of the audit file. Only reads, also while a daemon runs. */
export async function audit(
  configuration: Configuration,
  output: Output,
  { since = Number.NEGATIVE_INFINITY, run, from = 0 }: AuditFilter,
): Promise<ExitCode> {
  const folder = daemonFolder(configuration);
  let shown = 0;
  const isChosen = ({ at, facts }: Sealed): boolean =>
    Date.parse(at) >= since && (run === undefined || facts["run"] === run || facts["undoes"] === run);
  const show = (entry: Sealed, line: Buffer): Promise<void> | undefined => {
    if (!isChosen(entry)) return undefined;
    shown += 1;
    if (output.json) return output.write(`${shown === 1 ? "" : ","}\n${line.toString()}`);
    return output.write(describeEntry(entry));
  };
  if (output.json) await output.write('{"entries":[');
  const { broken, files } = await verifyAudit(folder, { from, tell: show });
  if (output.json) await output.write(`\n]${broken === undefined ? "" : `,"broken":${JSON.stringify(broken)}`}}\n`);
  else if (files.length === 0) output.say(`there is no audit file in ${folder} yet`);
  else if (shown === 0) output.say("there is no such entry");
  if (broken === undefined) return exitCodes.done;
  output.say(`${oneLine(broken)} (with --from NUMBER, entries are shown from that one on)`);
  return exitCodes.failed;
}

/** `rollcall audit verify`: whether every entry is as it was written. Only reads, also while a daemon runs. */
export async function auditVerify(
  configuration: Configuration,
  output: Output,
  { head, from = 1 }: { readonly head?: Head; readonly from?: number },
): Promise<ExitCode> {
  const folder = daemonFolder(configuration);
  // The journal first: what the file is to have at least, when it is read after it.
  const expected = head ?? (await headInJournal(folder));
  const result = await verifyAudit(folder, { from, ...(expected === undefined ? {} : { expected }) });
  const good = result.broken === undefined && result.damages.length === 0;
  if (output.json) {
    const damages = result.damages.map(({ sequence, at, facts }) => ({ sequence, at, ...facts }));
    await output.write(`${JSON.stringify({ whole: good, ...result, ...(expected && { expected }), damages })}\n`);
  } else await output.write(verdict(result, { folder, from, expected }));
  return good ? exitCodes.done : exitCodes.failed;
}

function verdict(
  { entries, files, head, damages, broken }: Verification,
  { folder, from, expected }: { folder: string; from: number; expected: Head | undefined },
): string {
  const what = `${counted(entries, "entry").replace("entrys", "entries")} in ${counted(files.length, "file")}`;
  const lines: string[] = [];
  if (broken !== undefined) lines.push(`BROKEN: ${oneLine(broken)}`, `Up to there: ${what}.`);
  else if (files.length === 0) return `There is no audit file in ${folder} yet.\n`;
  else if (damages.length > 0) lines.push(`${what} are a whole chain, but something was lost before:`);
  else lines.push(`${what}: everything is as it was written${from > 1 ? ` from entry ${from} on` : ""}.`);
  for (const each of damages) lines.push(describeEntry(each).trimEnd());
  if (damages.length > 0) {
    const next = (damages.at(-1)?.sequence ?? 0) + 1;
    lines.push(`Once a person has looked at it: --from ${next} checks what was written after it.`);
  }
  if (head.sequence > 0) lines.push(`The last good entry: ${head.sequence}:${head.hash}`);
  if (expected === undefined)
    lines.push("Whether newer entries were cut off is not known: the journal does not say which was the last one.");
  return lines.map((line) => `${line}\n`).join("");
}

const journal = z.object({ audit: z.object({ sequence: z.int(), hash: z.string() }) });

/** The newest entry that the journal knows of; undefined where it knows of none, or cannot be read. */
async function headInJournal(folder: string): Promise<Head | undefined> {
  try {
    return journal.parse(JSON.parse(await readFile(join(folder, "journal.json"), "utf8"))).audit;
  } catch {
    return undefined;
  }
}
