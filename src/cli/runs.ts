import type { Command } from "commander";
import { common, help, allSyncs, wholeNumber, parseMoment, listOfWords } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { runDocument, stateName, stateNames } from "#state/record.ts";
import { chosenSyncs } from "#daemon/context.ts";
import type { ReadingContext } from "#daemon/context.ts";
import { writeTable } from "./format.ts";
import { exactly, lasting, relatively } from "#times.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { painter } from "#plan/render/text.ts";
import type { RunRecord, StateName } from "#state/record.ts";
import { leavingWords } from "#plan/render/shared.ts";
import { pluralize } from "#text.ts";
import { knownRuns } from "./known-runs.ts";
import { causeOf, shortCounts, stateOf, tones, toneStyles, tookOf } from "#state/run-text.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("[sync]", allSyncs)
    .option("--state <states>", "only runs in these states, like pending,held,failed", parseStates)
    .option(
      "--since <moment>",
      "only runs since then: 24h, 7d, 2026-11-21 (of UTC) or 2026-11-21T08:00+01:00",
      parseMoment,
    )
    .option("--all", "show every run on a line of its own")
    .option("--limit <number>", "how many lines (default: 20)", wholeNumber);
  help(command, {
    examples: ["rollcall runs", "rollcall runs staff --state pending,held", "rollcall runs --since 7d --json"],
  }).action((sync: string | undefined, options: CommonOptions & RunsOptions) =>
    runner.runWithState(options, (context) => runs(context, sync, options)),
  );
}

/** `pending,held`; `no-change` needs no quotes. */
export const parseStates = listOfWords(stateNames);

export interface RunsOptions {
  readonly state?: readonly StateName[];
  /** How many lines, 20 by default; with `--json` how many runs, all by default. */
  readonly limit?: number;
  /** Only runs that began then or later, in epoch milliseconds. */
  readonly since?: number;
  /** Every run, each on its own line. */
  readonly all?: boolean;
}

/**
 * `rollcall runs [sync]`: the known runs, newest first. With `--json`: `{"runs": [RunRecord]}`. Only reads the journal:
 * needs neither a daemon nor a lock.
 * @throws {InputError} when the journal is damaged, or there is no such sync
 */
export async function runs(context: ReadingContext, sync: string | undefined, options: RunsOptions): Promise<ExitCode> {
  const { configuration, output } = context;
  const known = await knownRuns(context);
  if (sync !== undefined && !known.some((run) => run.sync === sync)) chosenSyncs(configuration, sync);
  const { state: states, since } = options;
  const wanted = known.filter(
    (run) =>
      (sync === undefined || run.sync === sync) &&
      (states === undefined || states.includes(stateName(run))) &&
      (since === undefined || Date.parse(run.startedAt) >= since),
  );
  if (output.json) {
    let separator = '{"runs":[\n';
    for (const run of wanted.slice(0, options.limit)) {
      await output.write(separator + JSON.stringify(runDocument(run)));
      separator = ",\n";
    }
    await output.write(wanted.length === 0 || options.limit === 0 ? '{"runs":[]}\n' : "\n]}\n");
    return exitCodes.done;
  }
  if (wanted.length === 0) {
    await output.write(known.length === 0 ? "there has been no run yet\n" : "no run matches\n");
    return exitCodes.done;
  }
  const { all = false, limit = all ? Number.POSITIVE_INFINITY : 20 } = options;
  const lines = all || states?.includes("no change") === true ? wanted.map((run) => [run]) : collapsed(wanted);
  const paint = painter(output.colour);
  const now = Date.now();
  const rows = lines.slice(0, limit).map((group) => lineOf(group, now));
  await writeTable(output, columns, rows, {
    ...fitting,
    paint: (text, column, row) => {
      const tone = column === stateColumn ? tones[String(row[column]).replace(/ by .*$/, "") as StateName] : undefined;
      return tone === undefined ? text : paint(toneStyles[tone], text);
    },
  });
  const left = lines.slice(limit).flat().length;
  if (left > 0) await output.write(paint("dim", `… and ${pluralize(left, "older run")} (use --limit or --all)\n`));
  return exitCodes.done;
}

/** Groups consecutive runs without changes. */
function collapsed(runs: readonly RunRecord[]): RunRecord[][] {
  const lines: RunRecord[][] = [];
  for (const run of runs) {
    const last = lines.at(-1);
    if (run.state === "no change" && last?.[0]?.state === "no change") last.push(run);
    else lines.push([run]);
  }
  return lines;
}

const columns = ["run", "sync", "began", "", "state", "changes", "took", "why", "note"] as const;
const stateColumn = columns.indexOf("state");
const at = (...names: readonly (typeof columns)[number][]): number[] => names.map((name) => columns.indexOf(name));
/** The beginning of an id says the time, too. */
const fitting = { flexible: at("note", "why", "sync"), expendable: at("took", "began", "why", "changes", "note") };

function lineOf(group: readonly RunRecord[], now: number): string[] {
  const [run] = group;
  if (run === undefined) return [];
  const when = [exactly(run.startedAt), relatively(run.startedAt, now, "narrow")];
  const oldest = group.at(-1) ?? run;
  if (group.length > 1) {
    const syncs = [...new Set(group.map(({ sync }) => sync))].join(", ");
    return [
      "",
      syncs,
      ...when,
      "no change",
      "",
      "",
      "",
      `${pluralize(group.length, "run")} since ${exactly(oldest.startedAt)}`,
    ];
  }
  const took = tookOf(run);
  const changes = run.counts === undefined ? "" : shortCounts(run.counts);
  return [
    run.id,
    run.sync,
    ...when,
    stateOf(run),
    changes,
    took === undefined ? "" : lasting(took),
    causeOf(run),
    noteOf(run, now),
  ];
}

const longestNote = 100;

/** The last column: what a person wants to know next. */
export function noteOf(run: RunRecord, now: number): string {
  const { state, error, expiresAt, foundAgain, undoes, decisions, caution, sameAs, leaving } = run;
  const last = decisions.at(-1)?.decision;
  const same = decisions.filter(({ decision }) => decision === last);
  const deciders = new Set(same.map(({ by }) => by.name));
  const overridden = new Set(same.flatMap(({ overrides = [] }) => overrides));
  const parts = [
    ...(state === "pending" && expiresAt !== undefined ? [`expires ${relatively(expiresAt, now)}`] : []),
    ...(state === "pending" && caution !== undefined ? [caution] : []),
    ...(last === undefined ? [] : [`${last} by ${[...deciders].join(", ")}`]),
    ...(overridden.size === 0 ? [] : [`overriding ${[...overridden].join(", ")}`]),
    ...(leaving === undefined ? [] : [leavingWords(leaving, run.state === "held")]),
    ...(undoes === undefined ? [] : [`undoes ${undoes}`]),
    ...(run.for === undefined ? [] : [`only ${run.for.join(", ")}`]),
    ...(sameAs === undefined ? [] : [`same as ${sameAs}`]),
    ...(foundAgain === undefined ? [] : [`found again ${pluralize(foundAgain.count, "time")}`]),
    ...(error === undefined ? [] : [error.message]),
  ];
  const note = Array.from(parts.join("; "));
  return note.length <= longestNote ? note.join("") : `${note.slice(0, longestNote - 1).join("")}…`;
}
