import type { Counts, Plan } from "#plan/change.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { renderHtml } from "#plan/render/html.ts";
import { renderJson } from "#plan/render/json.ts";
import { renderMarkdown } from "#plan/render/markdown.ts";
import type { Fact } from "#plan/render/sections.ts";
import { renderText } from "#plan/render/text.ts";
import type { TextOptions } from "#plan/render/text.ts";
import { quoteIfNeeded } from "#text.ts";
import { openStored } from "#plan/stored.ts";
import type { Filter } from "#plan/stored.ts";
import type { RunRecord } from "#sync/record.ts";
import { chosenRun } from "./chosen-run.ts";
import type { Context } from "#cli/context.ts";
import { openKeptChanges } from "./kept-changes.ts";
import type { KeptChanges } from "./kept-changes.ts";
import { exitCodes } from "#cli/output.ts";
import type { ExitCode } from "#cli/output.ts";
import type { Format } from "./formats.ts";
import { writeReport } from "./report-file.ts";
import { factsOf } from "./facts.ts";
import { knownRuns } from "./runs.ts";

export interface ShowOptions {
  readonly filter: Filter;
  /** Text when absent, or JSON with `--json`. */
  readonly format?: Format;
  /** A file, instead of standard output. */
  readonly output?: string;
  /** How many changes of each kind; 20 when absent for text and Markdown, all of them for HTML. */
  readonly limit?: number;
}

/**
 * `rollcall show RUN`: everything that is known of a run, and the changes that it made or would make. As JSON:
 * `{"run": RunRecord, "plan"?}`, where `plan` is what `renderJson` gives; it is absent where the changes are not kept.
 * @throws {InputError} when there is no such run, the journal is damaged, or what was kept of the changes is
 */
export async function show(context: Context, wanted: string, options: ShowOptions): Promise<ExitCode> {
  const { output } = context;
  const runs = await knownRuns(context);
  const run = chosenRun(runs, wanted);
  const format = options.format ?? (output.json ? "json" : "text");
  const kept = await openKeptChanges(context);
  try {
    // The same plan, found again, is kept with the run that stands for both.
    const file = (await kept.file(run)) ?? (await keptAsTwin(run, runs, kept));
    const plan = await planOf(run, file, kept, options.filter);
    const nothing = file === undefined ? gone : "none of its changes is asked for";
    const isForNow = format === "text" && options.output === undefined;
    const { colour, width } = options.output === undefined ? output : { colour: false, width: 100 };
    const parts = rendered(format, run, plan, {
      title: `${run.sync} → ${run.target}, run ${run.id}`,
      facts: [
        ...factsOf({ ...run, kept: file !== undefined }, runs, isForNow ? Date.now() : undefined),
        ...chosenFact(options.filter),
      ],
      limits: run.limits,
      notes: run.notes,
      nothing,
      colour,
      width,
      ...(options.limit === undefined ? {} : { limit: options.limit }),
    });
    const stopping = untilStopped(context, parts);
    if (options.output === undefined) for await (const part of stopping) await output.write(part);
    else await writeReport(options.output, stopping);
    if (format === "csv" && file === undefined) output.say(plan === undefined ? "this run has no plan" : gone);
    return exitCodes.done;
  } catch (error) {
    throw kept.problem(error);
  } finally {
    await kept.close();
  }
}

const gone = "the changes of this run are no longer kept (journal.lists says of how many runs they are)";
const nobody = { before: 0, after: 0, create: 0, update: 0, delete: 0 };
const none: Counts = { users: nobody, groups: nobody, membershipsAdded: 0, membershipsRemoved: 0 };

function keptAsTwin({ sameAs }: RunRecord, runs: readonly RunRecord[], kept: KeptChanges): Promise<string | undefined> {
  const twin = runs.find(({ id }) => id === sameAs);
  return twin === undefined ? Promise.resolve(undefined) : kept.file(twin);
}

/** Who is sent a report should know that it is not of everything. */
function chosenFact({ kind, actions, names, aspects }: Filter): Fact[] {
  const words = [
    ...(kind === undefined ? [] : [`${kind}s`]),
    ...(actions === undefined ? [] : [actions.join(", ")]),
    ...(names === undefined ? [] : [`called ${names.map(quoteIfNeeded).join(", ")}`]),
    ...(aspects === undefined ? [] : [`with another ${aspects.join(", ")}`]),
  ];
  return words.length === 0 ? [] : [{ label: "shown", lines: [`only: ${words.join("; ")}`], tone: "waiting" }];
}

/** What the run has planned; where its changes are not kept, what they amount to. */
async function planOf(
  { digest, counts }: RunRecord,
  file: string | undefined,
  { connection }: KeptChanges,
  filter: Filter,
): Promise<Plan | undefined> {
  if (digest === undefined || counts === undefined) return undefined;
  if (file === undefined) return { digest, counts, shown: none, changes: async function* () {} };
  return openStored(connection, file, { digest, counts }, filter);
}

async function* rendered(
  format: Format,
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

async function* untilStopped({ interruption }: Context, parts: AsyncIterable<string>): AsyncIterable<string> {
  for await (const part of parts) {
    interruption.stop.throwIfAborted();
    yield part;
  }
}
