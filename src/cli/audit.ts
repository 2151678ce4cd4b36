import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import type { Configuration } from "#config/configuration.ts";
import type { Counts, KindCounts } from "#plan/change.ts";
import type { Selection } from "#plan/selection.ts";
import type { Sealed } from "#sync/audit/chain.ts";
import type { Head } from "#sync/audit/entry.ts";
import type { AuditEntry } from "#sync/audit/entry.ts";
import { verifyAudit } from "#sync/audit/verify.ts";
import type { Verification } from "#sync/audit/verify.ts";
import type { Actor } from "#sync/record.ts";
import { pluralize, formatNumber, visible } from "#text.ts";
import { daemonFolder } from "./data-folder.ts";
import { exactly } from "#times.ts";
import { exitCodes } from "./output.ts";
import type { ExitCode, Output } from "./output.ts";

/** Which entries to list. */
export interface AuditFilter {
  /** In epoch milliseconds. */
  readonly since?: number;
  readonly run?: string;
  readonly from?: number;
}

/** `rollcall audit`: lists the audit log. Only reads, also while a daemon runs. */
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
  const { broken, files } = await verifyAudit(folder, { from, visit: show });
  if (output.json) await output.write(`\n]${broken === undefined ? "" : `,"broken":${JSON.stringify(broken)}`}}\n`);
  else if (files.length === 0) output.say(`there is no audit log in ${folder} yet`);
  else if (shown === 0) output.say("no entry matches");
  if (broken === undefined) return exitCodes.done;
  output.say(`${oneLine(broken)} (--from NUMBER lists the entries from that one on)`);
  return exitCodes.failed;
}

/** `rollcall audit verify`: checks that every entry is as it was written. Only reads, also while a daemon runs. */
export async function auditVerify(
  configuration: Configuration,
  output: Output,
  { head, from = 1 }: { readonly head?: Head; readonly from?: number },
): Promise<ExitCode> {
  const folder = daemonFolder(configuration);
  // The journal first: the log, read later, has at least the head that the journal knows.
  const expected = head ?? (await headInJournal(folder));
  const result = await verifyAudit(folder, { from, expected });
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
  const what = `${pluralize(entries, "entry", "entries")} in ${pluralize(files.length, "file")}`;
  const lines: string[] = [];
  if (broken !== undefined) lines.push(`BROKEN: ${oneLine(broken)}`, `Up to there: ${what}.`);
  else if (files.length === 0) return `There is no audit log in ${folder} yet.\n`;
  else if (damages.length > 0) lines.push(`${what} form an unbroken chain, but something was lost before:`);
  else lines.push(`${what}: everything is as it was written${from > 1 ? ` from entry ${from} on` : ""}.`);
  for (const each of damages) lines.push(describeEntry(each).trimEnd());
  if (damages.length > 0) {
    const next = (damages.at(-1)?.sequence ?? 0) + 1;
    lines.push(`Once somebody has looked into it, --from ${next} checks what was written since.`);
  }
  if (head.sequence > 0) lines.push(`The last good entry: ${head.sequence}:${head.hash}`);
  if (expected === undefined)
    lines.push("Newer entries may have been cut off: the journal does not say which was the last one.");
  return lines.map((line) => `${line}\n`).join("");
}

const journal = z.object({ audit: z.object({ sequence: z.int(), hash: z.string() }) });

/** The newest entry that the journal knows; undefined if it knows none, or cannot be read. */
async function headInJournal(folder: string): Promise<Head | undefined> {
  try {
    return journal.parse(JSON.parse(await readFile(join(folder, "journal.json"), "utf8"))).audit;
  } catch {
    return undefined;
  }
}

/** An entry for a person: a line, with details indented below. */
function describeEntry({ sequence, at, event, facts }: Sealed): string {
  const [first, ...rest] = wordsOf({ event, ...facts } as AuditEntry);
  const by = "by" in facts ? ` ${actor(facts["by"] as Actor)}:` : "";
  return [`${sequence}  ${exactly(at)} ${by} ${first ?? event}`, ...rest.map((line) => `      ${line}`)]
    .map((line) => `${visible(line)}\n`)
    .join("");
}

/** A break in the chain, for a person. */
function oneLine({ file, line, what, reason }: NonNullable<Verification["broken"]>): string {
  return `${file}, line ${line} (${what}): ${reason}`;
}

function actor({ name, from }: Actor): string {
  return name === "rollcall" ? `rollcall (${from})` : `${name} from ${from}`;
}

function wordsOf(entry: AuditEntry): readonly string[] {
  switch (entry.event) {
    case "asked":
      return [`requested run ${entry.run} of ${entry.sync}`, ...list("only for", entry.for), ...digest(entry.digest)];
    case "approved":
      return [
        `approved run ${entry.run} of ${entry.sync}`,
        ...digest(entry.digest),
        ...list("limits ignored", entry.overrides),
        ...selection(entry.selection),
        ...reason(entry.reason),
      ];
    case "rejected":
      return [`rejected run ${entry.run} of ${entry.sync}`, ...digest(entry.digest), ...reason(entry.reason)];
    case "overridden":
      return [
        `overrode limits for run ${entry.run} of ${entry.sync}`,
        ...digest(entry.digest),
        ...list("limits ignored", entry.overrides),
      ];
    case "undone":
      return [`requested the undo of run ${entry.undoes} of ${entry.sync}: run ${entry.run}`];
    case "ended":
      return [
        `run ${entry.run} of ${entry.sync} ended: ${entry.result}${entry.heldBy === undefined ? "" : ` by ${entry.heldBy}`}`,
        ...digest(entry.digest),
        ...(entry.counts === undefined ? [] : [counts(entry.counts)]),
        ...list("held by limits", entry.waiting),
        ...reason(entry.error),
      ];
    case "recovered":
      return [
        `run ${entry.run} of ${entry.sync}, whose process had been killed: ${entry.result}`,
        ...digest(entry.digest),
        ...reason(entry.finding),
      ];
    case "configuration":
      return [
        entry.before === undefined
          ? `configuration ${entry.file}, with no earlier one to compare`
          : `changed configuration: ${entry.file}`,
        ...digest(entry.digest),
        ...entry.differences,
      ];
    case "started":
      return [`started the daemon (process ${entry.process})`];
    case "stopped":
      return [`stopped the daemon (process ${entry.process}): ${entry.reason}`];
    case "journal damaged":
      return ["the journal was damaged, and was moved aside", ...reason(entry.reason), `stored as ${entry.kept}`];
    case "audit torn":
      return [`line ${entry.line} was incomplete, and was cut off`, `stored as ${entry.kept}`];
    case "audit damaged":
      return [
        `the audit log is damaged: ${entry.what}${entry.line === undefined ? "" : `, line ${entry.line}`}`,
        entry.reason,
        ...(entry.kept === undefined ? [] : [`stored as ${entry.kept}; intact up to entry ${entry.lastGood.sequence}`]),
      ];
    default: {
      // Written by a newer Rollcall.
      const { event, ...facts } = entry as { event: string };
      return [event, JSON.stringify(facts)];
    }
  }
}

function digest(value: string | undefined): string[] {
  return value === undefined ? [] : [`digest ${value}`];
}

function reason(text: string | undefined): string[] {
  return text === undefined ? [] : [text];
}

function list(title: string, values: readonly string[] | undefined): string[] {
  return values === undefined || values.length === 0 ? [] : [`${title}: ${values.join(", ")}`];
}

function selection({ only, except }: Selection = {}): string[] {
  return [
    ...list("only", only),
    ...list(
      "all but",
      except?.map(({ kind, name }) => `${kind} ${name}`),
    ),
  ];
}

function counts({ users, groups, membershipsAdded, membershipsRemoved }: Counts): string {
  const memberships = `memberships: ${formatNumber(membershipsAdded)} added, ${formatNumber(membershipsRemoved)} removed`;
  return [`users: ${kindCounts(users)}`, `groups: ${kindCounts(groups)}`, memberships].join("; ");
}

function kindCounts({ create, update, delete: gone }: KindCounts): string {
  return `${formatNumber(create)} created, ${formatNumber(update)} changed, ${formatNumber(gone)} deleted`;
}
