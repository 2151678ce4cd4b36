import { randomUUID } from "node:crypto";
import { open, realpath, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Format } from "#cli/look/formats.ts";
import { firstLineOf, InputError } from "#errors.ts";
import type { RollcallError } from "#errors.ts";
import { obstacleOf, unwritable } from "#files/disk.ts";
import type { Counts, Plan } from "#plan/change.ts";
import { renderCsv } from "#plan/render/csv.ts";
import { renderHtml } from "#plan/render/html.ts";
import { renderJson } from "#plan/render/json.ts";
import { renderMarkdown } from "#plan/render/markdown.ts";
import type { Fact } from "#plan/render/shared.ts";
import { renderText } from "#plan/render/text.ts";
import type { TextOptions } from "#plan/render/text.ts";
import { openStored } from "#plan/stored.ts";
import type { Filter } from "#plan/stored.ts";
import { isOpen } from "#sync/record.ts";
import { trippedLimits } from "#sync/coordinator/refusals.ts";
import type { RunRecord } from "#sync/record.ts";
import { pluralize, formatName } from "#text.ts";
import type { Context } from "./context.ts";
import { exactly, lasting, relatively } from "./format.ts";
import { exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";
import { causeOf, decisionWords, shortCounts, stateOf, tones } from "./run-text.ts";
import { knownRuns } from "./runs.ts";
import { chosenRun, openKeptChanges } from "./stored-runs.ts";
import type { KeptChanges } from "./stored-runs.ts";

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
    ...(names === undefined ? [] : [`called ${names.map(formatName).join(", ")}`]),
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

/**
 * A run for a person, but for its changes, limits and notes.
 * @param runs all that are known: another one may have taken it back
 * @param now in epoch milliseconds, to say how far away moments are; absent: what is read later says when alone
 */
export function factsOf(run: RunRecord, runs: readonly RunRecord[], now?: number): Fact[] {
  const moment = (iso: string): string =>
    now === undefined ? exactly(iso) : `${exactly(iso)}, ${relatively(iso, now)}`;
  const tone = tones[run.state];
  const { error, expiresAt, foundAgain, recovery } = run;
  const end = run.endedAt === undefined ? [] : [`ended ${moment(run.endedAt)}`];
  const taking = runs.filter(({ undoes }) => undoes === run.id);
  return [
    {
      label: "state",
      lines: [run.state === "applied" ? "applied and verified" : stateOf(run)],
      ...(tone === undefined ? {} : { tone }),
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
    ...fact("cause", causeOf(run)),
    ...(run.undoes === undefined ? [] : fact("takes back", `run ${run.undoes}`)),
    ...(run.sameAs === undefined ? [] : fact("found before", `by run ${run.sameAs}, which stands for both`)),
    ...fact("taken back by", ...taking.map((each) => `run ${each.id}, ${stateOf(each)}`)),
    ...fact("time", `began ${moment(run.startedAt)}`, ...end),
    ...fact("stages", ...run.stages.map(stageLine)),
    ...(run.counts === undefined ? [] : fact("changes", shortCounts(run.counts) || "none")),
    ...fact("decisions", ...run.decisions.map((each) => `${decisionWords(each)} (${moment(each.at)})`)),
    ...(foundAgain === undefined
      ? []
      : fact("found again", `${pluralize(foundAgain.count, "time")}, last ${moment(foundAgain.lastAt)}`)),
    ...(recovery === undefined ? [] : fact("recovery", recovery)),
    ...(expiresAt === undefined || !isOpen(run) ? [] : fact("expires", moment(expiresAt))),
    ...fact("you can", ...possibilities(run)),
  ];
}

/** Nothing, where there is nothing to say. */
function fact(label: string, ...lines: readonly string[]): Fact[] {
  return lines.length === 0 ? [] : [{ label, lines }];
}

function stageLine({ stage, milliseconds, records }: RunRecord["stages"][number]): string {
  const took = milliseconds === undefined ? "not finished" : lasting(milliseconds);
  return `${stage.padEnd(7)} ${took}${records === undefined ? "" : `, ${pluralize(records, "record")}`}`;
}

/** The commands that make sense now. */
function possibilities(run: RunRecord): string[] {
  const { id, sync, state, kept } = run;
  if (isOpen(run)) {
    const beyond = run.state === "held" ? trippedLimits(run) : [];
    const override = beyond.length === 0 ? "" : ` --override ${beyond.join(",")}`;
    return [`rollcall approve ${id}${override}`, `rollcall reject ${id} --reason "…"`];
  }
  if (state === "held" || state === "failed" || state === "expired") return [`rollcall plan ${sync}`];
  if (state === "applied" && kept) return [`rollcall undo ${id}`];
  return [];
}

/**
 * Writes a report to a file, which is there whole or as it was before: an older report is replaced, as by a shell's `>`.
 * What is no ordinary file, like a pipe, is written to as it is.
 * @throws {InputError} when it cannot be written
 */
export async function writeReport(path: string, parts: AsyncIterable<string>): Promise<void> {
  const file = await realpath(path).catch(() => resolve(path));
  const isOrdinary = await stat(file).then(
    (found) => found.isFile(),
    () => true,
  );
  const partial = isOrdinary ? join(dirname(file), `.${basename(file)}.${randomUUID()}`) : file;
  const handle = await open(partial, isOrdinary ? "wx" : "w").catch((error: unknown) => {
    throw unusable(path, error);
  });
  try {
    try {
      for await (const part of parts) await handle.writeFile(part);
    } finally {
      await handle.close();
    }
    if (isOrdinary) await rename(partial, file);
  } catch (error) {
    if (isOrdinary) await rm(partial, { force: true });
    if (!(error instanceof Error && "syscall" in error)) throw error;
    throw unusable(path, error);
  }
}

function unusable(path: string, cause: unknown): RollcallError {
  return obstacleOf(cause) === undefined
    ? new InputError(`the report cannot be written to ${path}: ${firstLineOf(cause)}`, { cause })
    : unwritable(`the report ${path}`, cause);
}
