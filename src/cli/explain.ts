import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { chosenSyncs } from "#daemon/context.ts";
import { explain as explainBy } from "#sync/explain/explain.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import { foreignInWords, indented, outcomeInWords, recordInWords } from "#sync/explain/text.ts";
import { command } from "#commands.ts";
import { atOnce } from "#daemon/people.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import type { KeyedQueue } from "#queue.ts";
import { painter } from "#plan/render/text.ts";
import type { Paint } from "#plan/render/text.ts";
import { lastChangeOf } from "./history.ts";
import { formatName } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { forCaller } from "#times.ts";
import { eachSync, failuresTo, withSync } from "./syncs.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("<name>", "a name, mail address or record id, with user: or group: in front if only that is meant")
    .option("--sync <sync>", "only this sync (default: all)");
  help(command, {
    examples: ["rollcall explain ada", "rollcall explain group:Sales", "rollcall explain ada@example.com --sync staff"],
    exits: { 1: "failed, or no user or group matches" },
  }).action((wanted: string, options: CommonOptions & { readonly sync?: string }) =>
    runner.runWithContext(options, (context) => explain(context, wanted, options.sync)),
  );
}

/**
 * `rollcall explain NAME [--sync S]`: every step from the record of a source to what a run would do. With `--json`:
 * `{"explanations": [{"sync", "target", "records", "outcomes", "foreign", "nearest"} | {"sync", "error"}]}`. Exit code 1 when
 * nothing has that name. Several syncs are asked at a time, and each answer is shown as it comes; `--json` has them in order.
 */
export async function explain(context: Context, wanted: string, name: string | undefined): Promise<ExitCode> {
  const { output } = context;
  const documents: { readonly sync: string; readonly history?: string | undefined }[] = [];
  const syncs = chosenSyncs(context.configuration, name);
  const waiting = new Set(syncs);
  /** A sync has answered: says which ones have not. */
  const answered = (sync: string): void => {
    waiting.delete(sync);
    if (waiting.size > 0) output.progress(`waiting for ${[...waiting].join(", ")} …`);
  };
  const show = failuresTo(output, output.json ? documents : undefined);
  const failed: typeof show = async (sync, error) => {
    await show(sync, error);
    answered(sync);
  };
  const [explaining, ofTarget, ledgers] = [
    createQueue(atOnce.all),
    createKeyedQueue(atOnce.ofTarget),
    createKeyedQueue(),
  ];
  const inTurn = <Result>(sync: string, work: () => Promise<Result>): Promise<Result> =>
    ofTarget(context.configuration.syncs[sync]?.to ?? sync, () => explaining(work));
  let found = false;
  const each = async (sync: string): Promise<ExitCode> => {
    const explanation = await explainOne(context, sync, { wanted, ledgers });
    found ||= explanation.records.length + explanation.outcomes.length + explanation.foreign.length > 0;
    const history = await historyOf(context, explanation, wanted);
    documents.push({ ...explanation, history });
    const paint = painter(output.colour);
    const lines = [...linesOf(explanation, wanted, paint), ...(history === undefined ? [] : [forCaller(history)])];
    if (!output.json) await output.write(`${lines.join("\n")}\n`);
    answered(sync);
    return exitCodes.done;
  };
  const code = await eachSync(context, syncs, failed, each, inTurn);
  const explanations = documents.toSorted((one, other) => syncs.indexOf(one.sync) - syncs.indexOf(other.sync));
  if (output.json) await output.write(`${JSON.stringify({ explanations }, undefined, 2)}\n`);
  return found ? code : exitCodes.failed;
}

/** @param ledgers a lock on a ledger ends when another part of the process closes it, so each is read by one at a time */
function explainOne(
  context: Context,
  name: string,
  { wanted, ledgers }: { readonly wanted: string; readonly ledgers: KeyedQueue },
): Promise<Explanation> {
  const approval = context.configuration.syncs[name]?.approval ?? "automatic";
  return withSync(context, name, (sync, looking) =>
    explainBy(sync, wanted, { ...looking, approval, inTurn: (work) => ledgers(sync.place, work) }),
  );
}

/** Where to look for somebody who was in the target and is no more; undefined: there is nobody like that. */
async function historyOf(
  context: Context,
  { sync, outcomes }: Explanation,
  wanted: string,
): Promise<string | undefined> {
  if (outcomes.some(({ actual }) => actual !== undefined)) return undefined;
  for (const name of new Set([wanted, ...outcomes.map(({ name }) => name)])) {
    const last = await lastChangeOf(context, name, sync);
    if (last === undefined) continue;
    const { run, change } = last;
    const did = change.action === "delete" ? "deleted" : "last changed";
    return `the ${change.kind} ${formatName(name)} was ${did} by run ${run.id} at ${run.endedAt ?? run.startedAt}: \`${command("history", name)}\``;
  }
  return undefined;
}

function linesOf(explanation: Explanation, wanted: string, paint: Paint): string[] {
  const { sync, target, records, outcomes, foreign, nearest } = explanation;
  const title = `${sync} → ${target}`;
  if (records.length + outcomes.length + foreign.length === 0) {
    const hint = nearest.length === 0 ? "" : `; similar names: ${nearest.map(formatName).join(", ")}`;
    return [`${title}: nothing is called ${formatName(wanted)}${hint}`];
  }
  const parts = [
    ...records.map((record) => recordInWords(record, paint)),
    ...outcomes.map(outcomeInWords),
    ...foreign.map(foreignInWords),
  ];
  return [title, ...parts.flatMap((part) => [""].concat(indented(part, forCaller)))];
}
