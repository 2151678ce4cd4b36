import { usualWords } from "#plan/change.ts";
import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import type { Change } from "#plan/change.ts";
import { changeLine, painter } from "#plan/render/text.ts";
import { pluralize, formatNumber, formatName, visible } from "#text.ts";
import { stateName } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { chosenSyncs } from "#daemon/context.ts";
import type { ReadingContext } from "#daemon/context.ts";
import { StoredChanges } from "#daemon/stored-changes.ts";
import { exactly, relatively } from "#times.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { historyOf, isApplied, momentOf } from "#sync/explain/history.ts";
import type { HistoryEntry } from "#sync/explain/history.ts";
import { causeOf, decisionWords, stateOf, toneStyles, tones } from "#state/run-text.ts";
import { knownRuns, refuseElsewhere } from "./known-runs.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument(
      "<name>",
      "the name of a user or group, with user: or group: in front if only that is meant; * stands for any characters",
    )
    .option("--sync <sync>", "only this sync (default: all)");
  help(command, {
    examples: ["rollcall history ada", "rollcall history 'ada*' --sync staff"],
    exits: { 1: "failed, or nothing was found" },
  }).action((name: string, options: CommonOptions & { readonly sync?: string }) =>
    runner.runWithState(options, (context) => history(context, name, options.sync)),
  );
}

/**
 * `rollcall history NAME [--sync S]`: everything that happened to a user or group, newest first: from the stored changes,
 * and the notes of all runs. With `--json`:
 * `{"name", "entries": [{"run", "sync", "target", "at", "state", "applied", "decisions", "changes", "notes"}], "kept", "runs"}`;
 * `kept` is for how many of the `runs` changes are stored. Exit code 1 when nothing is known.
 * @param name in which `*` stands for any characters
 * @throws {InputError} when the journal or the stored changes are damaged
 */
export async function history(context: ReadingContext, name: string, sync: string | undefined): Promise<ExitCode> {
  const { configuration, interruption, output } = context;
  await refuseElsewhere(context, `/people?text=${encodeURIComponent(name)}`);
  const known = await knownRuns(context);
  if (sync !== undefined && !known.some((run) => run.sync === sync)) chosenSyncs(configuration, sync);
  const runs = known.filter((run) => sync === undefined || run.sync === sync);
  return StoredChanges.read(context, async (stored) => {
    const files = await stored.files(runs);
    let found = 0;
    const now = Date.now();
    if (output.json) await output.write(`{"name":${JSON.stringify(name)},"entries":[`);
    for await (const entry of historyOf(stored.connection, runs, files, name)) {
      interruption.stop.throwIfAborted();
      await output.write(
        output.json ? `${found === 0 ? "" : ","}\n${JSON.stringify(documentOf(entry))}` : linesOf(entry, context, now),
      );
      found++;
    }
    if (output.json) await output.write(`\n],"kept":${files.length},"runs":${runs.length}}\n`);
    else await output.write(footer(name, found, files.length, runs.length));
    return found === 0 ? exitCodes.failed : exitCodes.done;
  });
}

/** The newest change of a user or group that a sync is known to have made, and its run. */
export async function lastChangeOf(
  context: ReadingContext,
  name: string,
  sync: string,
): Promise<{ readonly run: RunRecord; readonly change: Change } | undefined> {
  const runs = (await knownRuns(context)).filter((run) => run.sync === sync);
  return StoredChanges.read(context, async (stored) => {
    const files = await stored.files(runs);
    for await (const { run, changes } of historyOf(stored.connection, runs, files, name)) {
      const [change] = changes;
      if (change !== undefined && isApplied(run) === true) return { run, change };
    }
    return undefined;
  });
}

function documentOf({ run, changes, notes }: HistoryEntry): object {
  const { id, sync, target, state, decisions } = run;
  return {
    run: id,
    sync,
    target,
    at: momentOf(run),
    state,
    applied: isApplied(run) ?? null,
    decisions,
    changes,
    notes,
  };
}

function linesOf({ run, changes, notes }: HistoryEntry, { output }: ReadingContext, now: number): string {
  const paint = painter(output.colour);
  const tone = tones[stateName(run)];
  const state = tone === undefined ? stateOf(run) : paint(toneStyles[tone], stateOf(run));
  const at = momentOf(run);
  const doubt =
    run.state === "pending" ? "to be " : { true: "", false: "not ", undefined: "perhaps " }[`${isApplied(run)}`];
  const lines = [
    `${paint("bold", exactly(at))}  ${relatively(at, now)}  ${state}  ${paint("dim", `run ${run.id}, ${run.sync} → ${run.target}, ${causeOf(run)}`)}`,
    ...changes.map((change) => {
      const what = `${change.kind} ${doubt}${usualWords[change.action]}: `;
      return `  ${what}${changeLine(change, paint, output.width - what.length - 2)}`;
    }),
    ...notes.map((note) => `  ${visible(note)}`),
    ...run.decisions.map((decision) => `  ${paint("dim", visible(decisionWords(decision)))}`),
  ];
  return `${lines.join("\n")}\n`;
}

function footer(name: string, found: number, kept: number, runs: number): string {
  const extent = `the changes of ${pluralize(kept, "run")} are stored`;
  const rest = kept < runs ? `, and of ${formatNumber(runs - kept)} more only the notes` : "";
  return found === 0 ? `nothing was found about ${formatName(name)}: ${extent}${rest}\n` : `(${extent}${rest})\n`;
}
