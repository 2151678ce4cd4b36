import { asCalledAnywhere, command } from "#commands.ts";
import type { Counts, Plan } from "#plan/change.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { renderJson } from "#plan/render/json.ts";
import { renderMarkdown } from "#plan/render/markdown.ts";
import type { Fact, PlanFormat } from "#plan/render/shared.ts";
import { renderText } from "#plan/render/text.ts";
import type { TextOptions } from "#plan/render/text.ts";
import type { Filter } from "#plan/stored.ts";
import { formatName, pluralize } from "#text.ts";
import { exactly, forCaller, lasting, relatively } from "#times.ts";
import { approvalsWords } from "#sync/coordinator/approvals.ts";
import { limitsToOverride } from "#sync/coordinator/refusals.ts";
import { isOpen, planAgain, runDocument, stateName } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { causeOf, decisionWords, shortCounts, stateOf, tones } from "#state/run-text.ts";
import { mapNotes } from "#plan/note.ts";

/** What a report is about. */
export interface Report {
  readonly run: RunRecord;
  /** All known runs: another one may have undone it. */
  readonly runs: readonly RunRecord[];
  /** Its plan, or only the counts where the changes are no longer stored; absent: it has none. */
  readonly plan?: Plan | undefined;
  /** What of the plan is shown, where it is not everything: `only: users`. */
  readonly only?: string | undefined;
  /** Said where the plan has changes, but none to show. */
  readonly nothing: string;
  /** What a person can do next, a command each. */
  readonly next?: readonly string[] | undefined;
  /** How many changes of each section are shown; absent: 20 in text and Markdown, otherwise all. */
  readonly limit?: number | undefined;
}

/** For a terminal, where it is read now. */
export type Terminal = Pick<TextOptions, "colour" | "width">;

/** A report about a run. The HTML one is a page of the console. */
export async function* renderReport(
  format: Exclude<PlanFormat, "html">,
  report: Report,
  terminal?: Terminal,
): AsyncIterable<string> {
  const { run, plan } = report;
  switch (format) {
    case "json":
      yield `{"run":${JSON.stringify(runDocument(run))}`;
      if (plan !== undefined) yield ',"plan":';
      if (plan !== undefined) yield* renderJson(plan);
      yield "}\n";
      break;
    case "text":
      yield* renderText(plan, textOptions(report, terminal));
      break;
    case "markdown":
      yield* renderMarkdown(plan, textOptions(report, terminal));
      break;
    case "csv":
      yield* renderCsv(plan);
  }
}

function textOptions(
  { run, runs, only, next: commands = [], nothing, limit }: Report,
  terminal?: Terminal,
): TextOptions {
  // What is not for a terminal is read later and elsewhere.
  const shown = terminal === undefined ? asCalledAnywhere : forCaller;
  const facts = factsOf(run, runs, terminal === undefined ? undefined : Date.now());
  // At a terminal it comes last, below a long plan.
  if (terminal === undefined) facts.push(...factOf("you can", ...commands));
  if (only !== undefined) facts.push({ label: "shown", lines: [only], tone: "waiting" });
  const { sync, target, id, notes, limits, causes, expectations, leaving } = run;
  return {
    colour: false,
    ...terminal,
    title: `${sync} → ${target}, run ${id}`,
    facts: facts.map(({ label, lines, tone }) => ({ label, lines: lines.map(shown), tone })),
    notes: mapNotes(notes, shown),
    limits,
    causes,
    expectations,
    leaving,
    next: commands.map(shown),
    nothing,
    limit,
  };
}

const nobody = { before: 0, after: 0, create: 0, update: 0, delete: 0 };
/** The counts of what is shown of a plan whose changes are no longer stored. */
export const nothingShown: Counts = { users: nobody, groups: nobody, membershipsAdded: 0, membershipsRemoved: 0 };

/** Tells the reader of a report that it does not show everything: `only: users`. */
export function filterWords({ kind, actions, names, sources, causes, groups, aspects }: Filter): string | undefined {
  const words = [
    ...(kind === undefined ? [] : [`${kind}s`]),
    ...(actions === undefined ? [] : [actions.join(", ")]),
    ...(names === undefined ? [] : [`called ${names.map(formatName).join(", ")}`]),
    ...(sources === undefined ? [] : [`from ${sources.map(formatName).join(", ")}`]),
    ...(causes === undefined ? [] : [`explained by ${causes.join(", ")}`]),
    ...(groups === undefined ? [] : [`in or of the groups ${groups.map(formatName).join(", ")}`]),
    ...(aspects === undefined ? [] : [`changing ${aspects.join(", ")}`]),
  ];
  return words.length === 0 ? undefined : `only: ${words.join("; ")}`;
}

/**
 * A run for a person, except its changes, limits and notes.
 * @param runs all known runs: another one may have undone it
 * @param now in epoch milliseconds, to say how long ago moments are; absent in what is read later
 */
export function factsOf(run: RunRecord, runs: readonly RunRecord[], now?: number): Fact[] {
  const moment = (iso: string): string =>
    now === undefined ? exactly(iso) : `${exactly(iso)}, ${relatively(iso, now)}`;
  const tone = tones[stateName(run)];
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
    ...factOf("approvals", ...approvalLines(run)),
    ...(foundAgain === undefined
      ? []
      : factOf("found again", `${pluralize(foundAgain.count, "time")}, last ${moment(foundAgain.lastAt)}`)),
    ...(recovery === undefined ? [] : factOf("recovery", recovery)),
    ...(expiresAt === undefined || !isOpen(run) ? [] : factOf("expires", moment(expiresAt))),
  ];
}

/** How many have approved it, and who. */
function approvalLines(run: RunRecord): string[] {
  const { approvals = [] } = run;
  const words = approvalsWords(run);
  return [...(words === undefined ? [] : [words]), ...approvals.map((each) => decisionWords(each))];
}

/** Nothing without a line. */
function factOf(label: string, ...lines: readonly string[]): Fact[] {
  return lines.length === 0 ? [] : [{ label, lines }];
}

function stageLine({ stage, milliseconds, records }: RunRecord["stages"][number]): string {
  const took = milliseconds === undefined ? "not finished" : lasting(milliseconds);
  return `${stage.padEnd(7)} ${took}${records === undefined ? "" : `, ${pluralize(records, "record")}`}`;
}

/** The commands that a person can use now. */
export function possibilities(run: RunRecord): string[] {
  const { id, state, kept } = run;
  if (isOpen(run)) {
    const beyond = limitsToOverride(run);
    const override = beyond.length === 0 ? [] : ["--override", beyond.join(",")];
    return [command("approve", id, ...override), command("reject", id, "--reason", "…")];
  }
  if (state === "held" || state === "failed" || state === "expired") return [planAgain(run)];
  if (state === "applied" && kept) return [command("undo", id)];
  return [];
}
