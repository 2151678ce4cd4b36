import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { chmod, open, readlink, rename, rm, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Format } from "./arguments.ts";
import { firstLineOf, InputError } from "#errors.ts";
import { obstacleOf, unwritable } from "#files/disk.ts";
import { modeForOthers } from "#files/private.ts";
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
import { exactly, forCaller, lasting, relatively } from "#times.ts";
import { exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";
import { causeOf, decisionWords, shortCounts, stateOf, tones } from "#sync/run-text.ts";
import { asCalledAnywhere, command } from "#commands.ts";
import { chosenRun, knownRuns, openStoredChanges } from "./stored-runs.ts";
import type { StoredChanges } from "./stored-runs.ts";

export interface ShowOptions {
  readonly kind?: Filter["kind"];
  readonly action?: Filter["actions"];
  readonly name?: Filter["names"];
  readonly cause?: Filter["causes"];
  readonly attribute?: Filter["aspects"];
  /** Text by default, or JSON with `--json`. */
  readonly format?: Format;
  /** A file, instead of standard output. */
  readonly output?: string;
  /** How many changes of each kind; by default 20 in text and Markdown, and all in HTML. */
  readonly limit?: number | undefined;
}

/**
 * `rollcall show RUN`: everything that is known about a run, and the changes that it made or would make. As JSON:
 * `{"run": RunRecord, "plan"?}`, where `plan` is the output of `renderJson`; it is absent if the changes are not stored.
 * @throws {InputError} when there is no such run, or the journal or the stored changes are damaged
 */
export async function show(context: Context, wanted: string, options: ShowOptions): Promise<ExitCode> {
  const { output } = context;
  const runs = await knownRuns(context);
  const run = chosenRun(runs, wanted);
  const format = options.format ?? (output.json ? "json" : "text");
  const { kind, action: actions, name: names, cause: causes, attribute: aspects } = options;
  const filter = { kind, actions, names, causes, aspects };
  const stored = await openStoredChanges(context);
  try {
    // A plan that was found again is stored with the run that found it first.
    const file = (await stored.file(run)) ?? (await fileOfSame(run, runs, stored));
    const plan = await planOf(run, file, stored, filter);
    const nothing = file === undefined ? notStored : "no change matches";
    const isForTerminal = format === "text" && options.output === undefined;
    // A report in another format, or in a file, is read later and elsewhere.
    const shown = isForTerminal ? forCaller : asCalledAnywhere;
    const stands = { ...run, kept: file !== undefined };
    const next = possibilities(stands);
    const facts = factsOf(stands, runs, isForTerminal ? Date.now() : undefined);
    // At a terminal it comes last, below a long plan.
    if (!isForTerminal) facts.push(...fact("you can", ...next));
    const { colour, width } = options.output === undefined ? output : { colour: false, width: 100 };
    const parts = rendered(format, run, plan, {
      title: `${run.sync} → ${run.target}, run ${run.id}`,
      facts: [
        ...facts.map(({ label, lines, tone }) => ({ label, lines: lines.map(shown), tone })),
        ...filterFact(filter),
      ],
      limits: run.limits,
      notes: run.notes.map(shown),
      causes: run.causes,
      expectations: run.expectations,
      leaving: run.leaving,
      next: next.map(shown),
      nothing,
      colour,
      width,
      limit: options.limit,
    });
    const stopping = untilStopped(context, parts);
    if (options.output === undefined) for await (const part of stopping) await output.write(part, contentOf[format]);
    else await writeReport(options.output, stopping);
    if (format === "csv" && file === undefined) output.say(plan === undefined ? "this run has no plan" : notStored);
    return exitCodes.done;
  } catch (error) {
    throw stored.problem(error);
  } finally {
    await stored.close();
  }
}

const contentOf = { text: "lines", markdown: "lines", html: "data", csv: "data", json: "json" } as const;
const notStored = "the changes of this run are no longer stored (`journal.lists` sets for how many runs they are)";
const nobody = { before: 0, after: 0, create: 0, update: 0, delete: 0 };
const none: Counts = { users: nobody, groups: nobody, membershipsAdded: 0, membershipsRemoved: 0 };

async function fileOfSame(
  { sameAs }: RunRecord,
  runs: readonly RunRecord[],
  stored: StoredChanges,
): Promise<string | undefined> {
  const same = runs.find(({ id }) => id === sameAs);
  return same === undefined ? undefined : stored.file(same);
}

/** Tells the reader of a report that it does not show everything. */
function filterFact({ kind, actions, names, causes, aspects }: Filter): Fact[] {
  const words = [
    ...(kind === undefined ? [] : [`${kind}s`]),
    ...(actions === undefined ? [] : [actions.join(", ")]),
    ...(names === undefined ? [] : [`called ${names.map(formatName).join(", ")}`]),
    ...(causes === undefined ? [] : [`explained by ${causes.join(", ")}`]),
    ...(aspects === undefined ? [] : [`changing ${aspects.join(", ")}`]),
  ];
  return words.length === 0 ? [] : [{ label: "shown", lines: [`only: ${words.join("; ")}`], tone: "waiting" }];
}

/** The plan of the run; only its counts, if the changes are not stored. */
async function planOf(
  { digest, counts }: RunRecord,
  file: string | undefined,
  { connection }: StoredChanges,
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
    ...fact("cause", causeOf(run)),
    ...(run.undoes === undefined ? [] : fact("undoes", `run ${run.undoes}`)),
    ...(run.for === undefined ? [] : fact("only", ...run.for)),
    ...(run.sameAs === undefined ? [] : fact("found before", `by run ${run.sameAs}, which counts for both`)),
    ...fact("undone by", ...undoing.map((each) => `run ${each.id}, ${stateOf(each)}`)),
    ...fact("time", `began ${moment(run.startedAt)}`, ...end),
    ...fact("stages", ...run.stages.map(stageLine)),
    ...(run.counts === undefined ? [] : fact("changes", shortCounts(run.counts) || "none")),
    ...fact("decisions", ...run.decisions.map((each) => `${decisionWords(each)} (${moment(each.at)})`)),
    ...(foundAgain === undefined
      ? []
      : fact("found again", `${pluralize(foundAgain.count, "time")}, last ${moment(foundAgain.lastAt)}`)),
    ...(recovery === undefined ? [] : fact("recovery", recovery)),
    ...(expiresAt === undefined || !isOpen(run) ? [] : fact("expires", moment(expiresAt))),
  ];
}

function fact(label: string, ...lines: readonly string[]): Fact[] {
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

/**
 * Writes a report to a file, completely or not at all; an older report is replaced. What is not an ordinary file, like a
 * pipe, is written to directly.
 * @throws {InputError} when it cannot be written, or is a symbolic link: somebody else may have put it there
 */
export async function writeReport(path: string, parts: AsyncIterable<string>): Promise<void> {
  const isOrdinary = await stat(path).then(
    (found) => found.isFile(),
    () => true,
  );
  const link = await readlink(path).catch(() => undefined);
  // The system's own links, such as /dev/stdout, are meant to be followed.
  if (isOrdinary && link !== undefined && !resolve(path).startsWith("/dev/")) {
    throw new InputError(
      `the report cannot be written to ${path}: it is a symbolic link to ${link}; name that file, or remove the link`,
    );
  }
  if (isOrdinary && link === undefined) await replaceReport(path, parts);
  else await writeDirectly(path, parts);
}

/** The rename takes the place of whatever has the name by then, and follows no link. */
async function replaceReport(path: string, parts: AsyncIterable<string>): Promise<void> {
  const file = resolve(path);
  const partial = join(dirname(file), `.${basename(file)}.${randomUUID()}`);
  try {
    await writeTo(await open(partial, "wx"), parts);
    await chmod(partial, modeForOthers());
    await rename(partial, file);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    throw unusable(path, error);
  }
}

async function writeDirectly(path: string, parts: AsyncIterable<string>): Promise<void> {
  try {
    await writeTo(await open(path, constants.O_WRONLY), parts);
  } catch (error) {
    throw unusable(path, error);
  }
}

async function writeTo(handle: FileHandle, parts: AsyncIterable<string>): Promise<void> {
  try {
    for await (const part of parts) await handle.writeFile(part);
  } finally {
    await handle.close();
  }
}

function unusable(path: string, cause: unknown): unknown {
  if (!(cause instanceof Error && "syscall" in cause)) return cause;
  return obstacleOf(cause) === undefined
    ? new InputError(`the report cannot be written to ${path}: ${firstLineOf(cause)}`, { cause })
    : unwritable(`the report ${path}`, cause);
}
