import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { common, help, atLeastOne, parseMoment } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { loadState } from "#daemon/context.ts";
import type { StateConfiguration } from "#config/state.ts";
import type { Sealed } from "#state/audit/chain.ts";
import type { Head } from "#state/audit/entry.ts";
import { matching } from "#state/audit/list.ts";
import type { AuditFilter } from "#state/audit/list.ts";
import { verifyAudit } from "#state/audit/verify.ts";
import type { Verification } from "#state/audit/verify.ts";
import { actorOf, breakWords, entryWords, verdictWords } from "#state/audit/words.ts";
import type { Actor } from "#state/record.ts";
import { pluralize, visible } from "#text.ts";
import type { Reader } from "#state/store.ts";
import { readState } from "#daemon/data-folder.ts";
import { exactly } from "#times.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .enablePositionalOptions()
    .option(
      "--since <time>",
      "only entries since then: a date or a time, in UTC unless it has an offset, or 7d for a week ago",
      parseMoment,
    )
    .option("--run <run>", "only entries about this run")
    .option("--from <number>", "start at this entry", atLeastOne);
  help(command, {
    examples: ["rollcall audit --since 7d", "rollcall audit --run 20261121-0800 --json"],
    exits: { 1: "failed, or an entry has changed" },
  }).action((options: CommonOptions & AuditOptions) =>
    runner.run(options, async (file, { output }) => audit(await loadState(file), output, options)),
  );
  const verifying = common(command.command("verify"))
    .description("verify that no entry of the audit log has changed since it was written")
    .option("--head <number:hash>", "the last entry, if you have it from another source than the journal", parseHead)
    .option("--from <number>", "start at this entry", atLeastOne);
  help(verifying, {
    examples: ["rollcall audit verify", "rollcall audit verify --from 120"],
    exits: { 0: "no entry has changed", 1: "failed, or an entry has changed" },
  }).action((_, self: Command) => {
    const options = self.optsWithGlobals<CommonOptions & VerifyOptions>();
    return runner.run(options, async (file, { output }) => auditVerify(await loadState(file), output, options));
  });
}

/** The head of the audit log: `12:9f86d0…`, as `rollcall audit verify` prints it. */
function parseHead(text: string): Head {
  const { sequence, hash } = /^(?<sequence>\d{1,15}):(?<hash>[0-9a-f]{64})$/.exec(text)?.groups ?? {};
  if (sequence === undefined || hash === undefined)
    throw new InvalidArgumentError("expected NUMBER:HASH, as `rollcall audit verify` prints the last entry.");
  return { sequence: Number(sequence), hash };
}

/** Which entries to list. */
export interface AuditOptions extends Pick<AuditFilter, "since" | "run"> {
  readonly from?: number;
}

/** `rollcall audit`: lists the audit log. Only reads, also while a daemon runs. */
export async function audit(
  configuration: StateConfiguration,
  output: Output,
  { since, run, from = 0 }: AuditOptions,
): Promise<ExitCode> {
  await using state = await readState(configuration);
  let shown = 0;
  const isChosen = matching({ since, run });
  const show = (entry: Sealed, line: Buffer): Promise<void> | undefined => {
    if (!isChosen(entry)) return undefined;
    shown += 1;
    if (output.json) return output.write(`${shown === 1 ? "" : ","}\n${line.toString()}`);
    return output.write(describeEntry(entry));
  };
  if (output.json) await output.write('{"entries":[');
  const { broken, files } = await verifyAudit(state.audit, { from, visit: show });
  if (output.json) await output.write(`\n]${broken === undefined ? "" : `,"broken":${JSON.stringify(broken)}`}}\n`);
  else if (files.length === 0) output.say(`there is no audit log in ${state.place} yet`);
  else if (shown === 0) output.say("no entry matches");
  if (broken === undefined) return exitCodes.done;
  output.say(`${breakWords(broken)} (--from NUMBER lists the entries from that one on)`);
  return exitCodes.failed;
}

interface VerifyOptions {
  readonly head?: Head;
  readonly from?: number;
}

/** `rollcall audit verify`: checks that no entry has changed. Only reads, also while a daemon runs. */
export async function auditVerify(
  configuration: StateConfiguration,
  output: Output,
  { head, from = 1 }: VerifyOptions,
): Promise<ExitCode> {
  await using state = await readState(configuration);
  // First: the log, read later, has at least that entry.
  const expected = head ?? (await state.audit.head());
  const result = await verifyAudit(state.audit, { from, expected });
  const good = result.broken === undefined && result.damages.length === 0;
  if (output.json) {
    const damages = result.damages.map(({ sequence, at, facts }) => ({ sequence, at, ...facts }));
    await output.write(`${JSON.stringify({ whole: good, ...result, ...(expected && { expected }), damages })}\n`);
  } else await output.write(verdict(result, { place: state.place, from, expected }));
  return good ? exitCodes.done : exitCodes.failed;
}

function verdict(
  result: Verification,
  { place, from, expected }: { readonly from: number; readonly expected: Head | undefined } & Pick<Reader, "place">,
): string {
  const { entries, files, head, damages, broken } = result;
  if (broken === undefined && files.length === 0) return `There is no audit log in ${place} yet.\n`;
  const lines = [verdictWords(result, from)];
  if (broken !== undefined)
    lines.push(`Up to there: ${pluralize(entries, "entry", "entries")} in ${pluralize(files.length, "file")}.`);
  for (const each of damages) lines.push(describeEntry(each).trimEnd());
  if (damages.length > 0) {
    const next = (damages.at(-1)?.sequence ?? 0) + 1;
    lines.push(`When this has been investigated, --from ${next} checks the entries since.`);
  }
  if (head.sequence > 0) lines.push(`The last good entry: ${head.sequence}:${head.hash}`);
  if (expected === undefined)
    lines.push("Newer entries may be missing: neither the journal nor audit-head.json says which was the last.");
  return lines.map((line) => `${line}\n`).join("");
}

/** An entry for a person: a line, with details indented below. */
function describeEntry(entry: Sealed): string {
  const { sequence, at, event } = entry;
  const [first, ...rest] = entryWords(entry);
  const by = actorOf(entry);
  const who = by === undefined ? "" : ` ${actor(by)}:`;
  return [`${sequence}  ${exactly(at)} ${who} ${first ?? event}`, ...rest.map((line) => `      ${line}`)]
    .map((line) => `${visible(line)}\n`)
    .join("");
}

function actor({ name, from }: Actor): string {
  return name === "rollcall" ? `rollcall (${from})` : `${name} from ${from}`;
}
