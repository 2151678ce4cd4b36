import { actions, changes } from "#plan/change.ts";
import { createInterface } from "node:readline/promises";
import { command } from "#commands.ts";
import { errorDocument } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import type { Counts, KindCounts, Plan } from "#plan/change.ts";
import { leavingCounts } from "#plan/departures.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { renderJson } from "#plan/render/json.ts";
import { describeCheck, leavingWords, totalsOf } from "#plan/render/shared.ts";
import { renderText } from "#plan/render/text.ts";
import type { Selection } from "#plan/selection.ts";
import { openStored } from "#plan/stored.ts";
import { approvalsWords } from "#sync/coordinator/approvals.ts";
import type { Begun, CommandCoordinator } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#state/record.ts";
import type { Report, RunResult } from "#sync/context.ts";
import { printable, visible } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { describeExported } from "#daemon/export.ts";
import type { ExportDocument } from "#daemon/export.ts";
import { forCaller } from "#times.ts";
import { describeFailure, exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import { selectionWords } from "#state/run-text.ts";
import { eachSync } from "./syncs.ts";
import { daemonElsewhere } from "./known-runs.ts";
import { StoredChanges } from "#daemon/stored-changes.ts";
import { mapNotes, noteLines } from "#plan/note.ts";

/** How a run ended, as a command shows it. */
interface Ending {
  readonly outcome: RunResult["outcome"] | "declined";
  /** The run's id, if it is in the journal. */
  readonly run?: string;
  /** Until when it can be approved. */
  readonly expiresAt?: string | undefined;
  /** For a person: the command that applies what was planned. */
  readonly next?: string | undefined;
  /** How many have approved it, where that is not enough: `1 of 2 approved; needs one more`. */
  readonly approvals?: string | undefined;
  /** For a person: what follows from an approval that changes nothing yet. */
  readonly accepted?: string | undefined;
  /** What was exported after it. */
  readonly exported?: ExportDocument | undefined;
}

/** A failed run that is in the journal. */
interface FailedRun {
  readonly run: string;
  /** What was found out later about how it ended. */
  readonly recovery?: string | undefined;
}

/** Shows one run while it goes on. */
export interface RunDocument {
  readonly warn: (message: string) => void;
  readonly report: (report: Report & { readonly leaving?: LeavingCounts | undefined }) => Promise<void>;
  readonly end: (ending: Ending) => Promise<void>;
  readonly fail: (error: ErrorDocument, failed?: FailedRun) => Promise<void>;
}

/** The output of a command about several syncs. */
interface Documents {
  next(sync: string): RunDocument;
  end(): Promise<void>;
}

interface LimitOption {
  /** How many changes of each kind are shown. */
  readonly limit?: number | undefined;
}

/**
 * Shows runs on the terminal, or with `--json` as one document:
 * `{"runs": [{"sync", "target"?, "notes"?, "plan"?, "causes"?, "expectations"?, "departures"?, "waiting"?, "warnings", "run"?, "outcome"? | "error"?, "recovery"?, "expiresAt"?, "export"?}]}`,
 * where `plan` is the output of `renderJson`, and `waiting` what limits left out of it. It is written piece by piece: no
 * list of changes is held in memory.
 */
export function openDocuments(output: Output, options: LimitOption): Documents {
  return output.json ? jsonDocuments(output) : textDocuments(output, options);
}

/** Shows a run of each of these syncs. What `work` throws is shown as its failure. @param failed what is known of that */
export async function withRunDocuments(
  context: Context,
  syncs: readonly string[],
  options: LimitOption,
  work: (document: RunDocument, sync: string) => Promise<ExitCode>,
  failed?: FailedRun,
): Promise<ExitCode> {
  const documents = openDocuments(context.output, options);
  let document: RunDocument | undefined;
  const fail = (_: string, error: unknown) => document?.fail(errorDocument(error), failed);
  const code = await eachSync(context, syncs, fail, (sync) => {
    document = documents.next(sync);
    return work(document, sync);
  });
  await documents.end();
  return code;
}

/** Shows one run, as `withRunDocuments` does. */
export function withRunDocument(
  context: Context,
  run: RunRecord,
  options: LimitOption,
  work: (document: RunDocument) => Promise<ExitCode>,
): Promise<ExitCode> {
  return withRunDocuments(context, [run.sync], options, work, { run: run.id });
}

/** Shows the stored plan of a run, if it has one. */
export async function showStoredPlan(
  context: Context,
  run: RunRecord,
  document: Pick<RunDocument, "report">,
): Promise<void> {
  const { sync, target, digest, counts, limits, expectations, waiting, notes, causes, leaving, kept: isStored } = run;
  if (digest === undefined || counts === undefined) return;
  const report = (plan: Plan): Promise<void> =>
    document.report({ sync, target, plan, limits, expectations, waiting, notes, causes, leaving });
  if (changes(counts) === 0) return report({ digest, counts, changes: async function* () {} });
  if (!isStored) return;
  const elsewhere = await daemonElsewhere(context);
  if (elsewhere !== undefined)
    return context.output.say(`the plan: ${elsewhere.connection.presence.url}/runs/${run.id}/plan`);
  await StoredChanges.read(context, async (stored) => {
    const file = await stored.file(run);
    if (file !== undefined) await report(await openStored(stored.connection, file, { digest, counts }));
  });
}

/** Waits for a run to end, then shows its plan, unless that is shown already, and how it ended. */
export async function showRun(
  context: Context,
  coordinator: CommandCoordinator,
  document: RunDocument,
  { begun, isShown }: { readonly begun: Begun; readonly isShown: () => boolean },
): Promise<ExitCode> {
  const run = await begun.ended;
  context.output.progress();
  const others = coordinator.runs();
  if (!isShown()) await showStoredPlan(context, others.find(({ id }) => id === run.sameAs) ?? run, document);
  return showEnd(document, run, others);
}

/**
 * Shows how a run ended.
 * @param others the runs of the journal: a run that found the same plan as an earlier one is shown as that
 */
export async function showEnd(
  document: RunDocument,
  run: RunRecord,
  others: readonly RunRecord[] = [],
): Promise<ExitCode> {
  const { id, state, sameAs, error, waiting, expiresAt, recovery } = run;
  const same = sameAs === undefined ? undefined : others.find((other) => other.id === sameAs);
  if (same !== undefined) return showEnd(document, same);
  const approvals = approvalsWords(run);
  if (approvals !== undefined && (run.approvals ?? []).length > 0) {
    await document.end({ outcome: "pending", run: id, expiresAt, approvals });
    return exitCodes.held;
  }
  if (error !== undefined) {
    await document.fail(error, { run: id, recovery });
    // A pending run whose approval failed stays pending, and waits for a person.
    const isHeld = state === "held" || (state === "pending" && error.advice === "stop");
    return isHeld ? exitCodes.held : exitCodes.failed;
  }
  if (state === "pending") {
    await document.end({ outcome: state, run: id, expiresAt });
    return exitCodes.held;
  }
  if (state !== "applied" && state !== "no change") {
    await document.fail({ message: `run ${id} is ${state}`, problems: [], advice: "stop" }, { run: id });
    return exitCodes.failed;
  }
  const exported = run.export as ExportDocument | undefined;
  const { decisions, leaving } = run;
  const isAccepted = state === "no change" && decisions.length > 0 && leaving !== undefined;
  await document.end({ outcome: state, run: id, exported, accepted: isAccepted ? leavingWords(leaving) : undefined });
  if (exported?.error !== undefined) return exitCodes.failed;
  return waiting.length > 0 ? exitCodes.held : exitCodes.done;
}

/** Asks at the terminal; no answer means no. @throws the reason when the command is interrupted */
export async function confirmed(context: Context, question: string): Promise<boolean> {
  return /^y(es)?$/i.test(await answerTo(context, `${question} [y/N]`));
}

/** Asks at the terminal why. @returns undefined where nobody can be asked, or `--json` is wanted */
export async function askedReason(context: Context): Promise<string | undefined> {
  return context.output.interactive ? answerTo(context, "Reason:") : undefined;
}

/** What somebody answers at the terminal; nothing for Ctrl-D. @throws the reason when the command is interrupted */
async function answerTo({ interruption, output }: Context, question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // While it asks, the terminal is in raw mode: Ctrl-C is a key, not a signal.
  terminal.on("SIGINT", () => process.emit("SIGINT"));
  try {
    return (await terminal.question(`${printable(question)} `, { signal: interruption.stop })).trim();
  } catch {
    output.say("");
    interruption.stop.throwIfAborted();
    // Ctrl-D.
    return "";
  } finally {
    terminal.close();
  }
}

/** A plan that a person is asked about. */
interface Proposal {
  readonly target: string;
  readonly counts?: Counts | undefined;
  readonly limits: readonly LimitCheck[];
  readonly leaving?: LeavingCounts | undefined;
}

/** Asks with what decides: the totals of what would be applied, and the limits that it is beyond. */
export function approvalQuestion({ target, counts, limits, leaving }: Proposal, selection: Selection = {}): string {
  const beyond = limits.filter(({ tripped }) => tripped).map(describeCheck);
  const limit = beyond.length === 0 ? "" : `Beyond the limits: ${beyond.join("; ")}. `;
  const part = selectionWords(selection);
  const question = part.length === 0 ? "Apply?" : `Apply this part of it (${part.join("; ")})?`;
  const totals =
    counts === undefined ? "" : `${visible(target)}: ${totalsOf(selected(counts, selection), { leaving })}. `;
  return totals + limit + question;
}

/** Without the actions that are not selected, and without memberships, whose actions are not counted apart; whoever is excepted still counts. */
function selected(counts: Counts, { only }: Selection): Counts {
  if (only === undefined) return counts;
  const of = (kind: KindCounts): KindCounts => ({
    ...kind,
    ...Object.fromEntries(actions.filter((action) => !only.includes(action)).map((action) => [action, 0])),
  });
  return { users: of(counts.users), groups: of(counts.groups), membershipsAdded: 0, membershipsRemoved: 0 };
}

function textDocuments(output: Output, { limit }: LimitOption): Documents {
  return {
    next: (sync) => ({
      warn: (message) => {
        output.say(`${sync}: ${message}`);
      },
      report: async (report) => {
        const { colour, width } = output;
        const { limits, causes, expectations } = report;
        const notes = mapNotes(report.notes, forCaller);
        const leaving = report.departures === undefined ? report.leaving : leavingCounts(report.departures);
        const title = `${report.sync} → ${report.target}`;
        for await (const part of renderText(report.plan, {
          title,
          colour,
          width,
          limits,
          notes,
          causes,
          expectations,
          leaving,
          limit,
        }))
          await output.write(part);
      },
      end: async ({ outcome, run = "", expiresAt, exported, next, accepted, approvals }) => {
        if (next !== undefined) await output.write(forCaller(`  apply exactly this: \`${next}\`\n`));
        if (outcome === "applied") await output.write(`${sync}: applied and verified\n`);
        if (accepted !== undefined) await output.write(`${sync}: accepted; ${accepted}\n`);
        if (outcome === "declined") await output.write(`${sync}: nothing was applied\n`);
        if (approvals !== undefined) {
          const until = expiresAt === undefined ? "" : ` until ${expiresAt}`;
          await output.write(`${sync}: ${approvals}: nothing was applied, run ${run} waits for approval${until}\n`);
        } else if (outcome === "pending") {
          const until = expiresAt === undefined ? "" : ` until ${expiresAt}`;
          const next = `  ${command("approve", run)}\n  ${command("reject", run)}\n`;
          await output.write(forCaller(`${sync}: nothing was applied: run ${run} waits for approval${until}\n${next}`));
        }
        if (exported === undefined) return;
        await output.write(describeExported(sync, exported));
        if (exported.error !== undefined)
          output.say(`${sync}: the run succeeded, but its export failed: ${describeFailure(exported.error)}`);
      },
      fail: async (error, failed) => {
        output.say(`${sync}: ${describeFailure(error)}`);
        if (failed?.recovery !== undefined) output.say(`  ${failed.recovery}`);
      },
    }),
    end: async () => {},
  };
}

function jsonDocuments(output: Output): Documents {
  let runs = 0;
  return {
    next: (sync) => {
      const warnings: string[] = [];
      const opening = `${runs++ === 0 ? '{"runs":[' : ","}\n{"sync":${JSON.stringify(sync)}`;
      let opened = false;
      const open = async (): Promise<void> => {
        if (!opened) await output.write(opening);
        opened = true;
      };
      const close = async (rest: object): Promise<void> => {
        await open();
        await output.write(`,${JSON.stringify({ warnings, ...rest }).slice(1)}`);
      };
      return {
        warn: (message) => {
          warnings.push(message);
        },
        report: async (report) => {
          await open();
          await output.write(
            `,"target":${JSON.stringify(report.target)},"notes":${JSON.stringify(noteLines(report.notes))},"plan":`,
          );
          for await (const part of renderJson(report.plan, report.limits)) await output.write(part);
          if (report.causes !== undefined) await output.write(`,"causes":${JSON.stringify(report.causes)}`);
          if (report.expectations !== undefined)
            await output.write(`,"expectations":${JSON.stringify(report.expectations)}`);
          if (report.departures !== undefined) await output.write(`,"departures":${JSON.stringify(report.departures)}`);
          if (report.waiting.length > 0) await output.write(`,"waiting":${JSON.stringify(report.waiting)}`);
        },
        end: ({ outcome, run, expiresAt, exported, approvals }) =>
          close({ outcome, run, expiresAt, approvals, export: exported }),
        fail: (error, failed) => close({ ...failed, error }),
      };
    },
    end: async () => {
      await output.write(runs === 0 ? '{"runs":[]}\n' : "\n]}\n");
    },
  };
}
