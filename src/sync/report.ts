import { command } from "#commands.ts";
import type { Counts, Plan } from "#plan/change.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { renderHtml } from "#plan/render/html.ts";
import { renderJson } from "#plan/render/json.ts";
import { renderMarkdown } from "#plan/render/markdown.ts";
import type { Fact, PlanFormat } from "#plan/render/shared.ts";
import { renderText } from "#plan/render/text.ts";
import type { TextOptions } from "#plan/render/text.ts";
import type { Filter } from "#plan/stored.ts";
import { formatName, pluralize } from "#text.ts";
import { exactly, lasting, relatively } from "#times.ts";
import { trippedLimits } from "#sync/coordinator/refusals.ts";
import { isOpen } from "./record.ts";
import type { RunRecord } from "./record.ts";
import { causeOf, decisionWords, shortCounts, stateOf, tones } from "./run-text.ts";

/** A run and its plan as a report. */
export async function* renderReport(
  format: PlanFormat,
  run: RunRecord,
  plan: Plan | undefined,
  options: TextOptions,
): AsyncIterable<string> {
  switch (format) {
    case "json":
      yield `{"run":${JSON.stringify(run)}`;
      if (plan !== undefined) yield ',"plan":';
      if (plan !== undefined) yield* renderJson(plan);
      yield "}\n";
      break;
    case "text":
      yield* renderText(plan, options);
      break;
    case "markdown":
      yield* renderMarkdown(plan, options);
      break;
    case "html":
      yield* renderHtml(plan, options);
      break;
    case "csv":
      yield* renderCsv(plan);
  }
}

const nobody = { before: 0, after: 0, create: 0, update: 0, delete: 0 };
/** The counts of what is shown of a plan whose changes are no longer stored. */
export const nothingShown: Counts = { users: nobody, groups: nobody, membershipsAdded: 0, membershipsRemoved: 0 };

/** Tells the reader of a report that it does not show everything. */
export function filterFact({ kind, actions, names, causes, groups, aspects }: Filter): Fact[] {
  const words = [
    ...(kind === undefined ? [] : [`${kind}s`]),
    ...(actions === undefined ? [] : [actions.join(", ")]),
    ...(names === undefined ? [] : [`called ${names.map(formatName).join(", ")}`]),
    ...(causes === undefined ? [] : [`explained by ${causes.join(", ")}`]),
    ...(groups === undefined ? [] : [`in or of the groups ${groups.map(formatName).join(", ")}`]),
    ...(aspects === undefined ? [] : [`changing ${aspects.join(", ")}`]),
  ];
  return words.length === 0 ? [] : [{ label: "shown", lines: [`only: ${words.join("; ")}`], tone: "waiting" }];
}

/**
 * A run for a person, except its changes, limits and notes.
 * @param runs all known runs: another one may have undone it
 * @param now in epoch milliseconds, to say how long ago moments are; absent in what is read later
 */
export function factsOf(run: RunRecord, runs: readonly RunRecord[], now?: number): Fact[] {
  const moment = (iso: string): string =>
    now === undefined ? exactly(iso) : `${exactly(iso)}, ${relatively(iso, now)}`;
  const tone = tones[run.state];
  const { error, expiresAt, foundAgain, recovery } = run;
  const end = run.endedAt === undefined ? [] : [`ended ${moment(run.endedAt)}`];
  const undoing = runs.filter(({ undoes }) => undoes === run.id);
  return [
    {
      label: "state",
      lines: [run.state === "applied" ? "applied and verified" : stateOf(run)],
      tone,
    },
    ...(error === undefined
      ? []
      : [
          {
            label: "error",
            lines: [error.message, ...error.problems.map((each) => `  ${each}`)],
            tone: "bad" as const,
          },
        ]),
    ...factOf("cause", causeOf(run)),
    ...(run.undoes === undefined ? [] : factOf("undoes", `run ${run.undoes}`)),
    ...(run.for === undefined ? [] : factOf("only", ...run.for)),
    ...(run.sameAs === undefined ? [] : factOf("found before", `by run ${run.sameAs}, which counts for both`)),
    ...factOf("undone by", ...undoing.map((each) => `run ${each.id}, ${stateOf(each)}`)),
    ...factOf("time", `began ${moment(run.startedAt)}`, ...end),
    ...factOf("stages", ...run.stages.map(stageLine)),
    ...(run.counts === undefined ? [] : factOf("changes", shortCounts(run.counts) || "none")),
    ...factOf("decisions", ...run.decisions.map((each) => `${decisionWords(each)} (${moment(each.at)})`)),
    ...(foundAgain === undefined
      ? []
      : factOf("found again", `${pluralize(foundAgain.count, "time")}, last ${moment(foundAgain.lastAt)}`)),
    ...(recovery === undefined ? [] : factOf("recovery", recovery)),
    ...(expiresAt === undefined || !isOpen(run) ? [] : factOf("expires", moment(expiresAt))),
  ];
}

/** Nothing without a line. */
export function factOf(label: string, ...lines: readonly string[]): Fact[] {
  return lines.length === 0 ? [] : [{ label, lines }];
}

function stageLine({ stage, milliseconds, records }: RunRecord["stages"][number]): string {
  const took = milliseconds === undefined ? "not finished" : lasting(milliseconds);
  return `${stage.padEnd(7)} ${took}${records === undefined ? "" : `, ${pluralize(records, "record")}`}`;
}

/** The commands that a person can use now. */
export function possibilities(run: RunRecord): string[] {
  const { id, sync, state, kept } = run;
  if (isOpen(run)) {
    const beyond = run.state === "held" ? trippedLimits(run) : [];
    const override = beyond.length === 0 ? [] : ["--override", beyond.join(",")];
    return [command("approve", id, ...override), command("reject", id, "--reason", "…")];
  }
  if (state === "held" || state === "failed" || state === "expired") return [command("plan", sync)];
  if (state === "applied" && kept) return [command("undo", id)];
  return [];
}
