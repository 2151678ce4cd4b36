import { actions } from "#plan/change.ts";
import { Option } from "commander";
import type { Command } from "commander";
import { common, help, withLimit, limitOf, parseCauses, repeated, listOfWords } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { openStored } from "#plan/stored.ts";
import { planFormats } from "#plan/render/shared.ts";
import type { Action, Plan } from "#plan/change.ts";
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { chmod, open, readlink, rename, rm, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { firstLineOf, InputError } from "#errors.ts";
import { obstacleOf, unwritable } from "#files/disk.ts";
import { modeForOthers } from "#files/private.ts";
import type { Filter } from "#plan/stored.ts";
import { quarantinedHeader, quarantinedRow, storedRecords } from "#state/quarantined.ts";
import type { StoredRecord } from "#state/quarantined.ts";
import type { RunRecord } from "#state/record.ts";
import type { ReadingContext } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { filterWords, nothingShown, possibilities, renderReport } from "#sync/report.ts";
import type { PlanFormat } from "#plan/render/shared.ts";
import { chosenRun, knownRuns, refuseElsewhere } from "./known-runs.ts";
import { StoredChanges } from "#daemon/stored-changes.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("<run>", "the run: (the start of) its id, latest, latest:SYNC or pending")
    .addOption(new Option("--kind <kind>", "only changes to these").choices(["user", "group"]))
    .option("--action <actions>", "only these actions, like create,delete", parseActions)
    .option("--name <pattern>", "only this name; * stands for any characters; may be repeated", repeated)
    .option("--source <source>", "only users and groups of this source; may be repeated", repeated)
    .option("--cause <causes>", "only what these causes explain, like c1", parseCauses)
    .option("--attribute <names>", "only changes to these attributes, like displayName, or to groups", parseAspects)
    .option("--quarantined", "list quarantined records instead of changes, as CSV, or as JSON with --json")
    .addOption(new Option("--format <format>", "the output format (default: text)").choices(planFormats))
    .option("-o, --output <file>", "write to this file, and replace it if it exists");
  help(withLimit(command), {
    examples: [
      "rollcall show latest",
      "rollcall show pending --action delete --all",
      "rollcall show latest:staff --format html --output report.html",
      "rollcall show latest --quarantined > in-doubt.csv",
    ],
  }).action((wanted: string, { all, ...options }: CommonOptions & ShowOptions & { readonly all?: boolean }) =>
    runner.runWithState(options, (context) =>
      show(context, wanted, { ...options, limit: limitOf({ all, limit: options.limit }) }),
    ),
  );
}

/** `mail,groups` */
export function parseAspects(value: string, before: readonly string[] = []): string[] {
  return [...before, ...value.split(",").map((each) => each.trim())];
}

/** `create,delete`, and `creates,deletes` as well. */
function parseActions(value: string, before: readonly Action[] = []): Action[] {
  return listOfWords(actions)(value.replaceAll(/s(?=\s*(?:,|$))/g, ""), before);
}

export interface ShowOptions {
  readonly kind?: Filter["kind"];
  readonly action?: Filter["actions"];
  readonly name?: Filter["names"];
  readonly source?: Filter["sources"];
  readonly cause?: Filter["causes"];
  readonly attribute?: Filter["aspects"];
  /** The quarantined records, instead of the run: as CSV by default. */
  readonly quarantined?: boolean;
  /** Text by default, or JSON with `--json`. */
  readonly format?: PlanFormat;
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
export async function show(context: ReadingContext, wanted: string, options: ShowOptions): Promise<ExitCode> {
  if (options.quarantined === true) return showQuarantined(context, wanted, options);
  const { output } = context;
  const runs = await knownRuns(context);
  const run = chosenRun(runs, wanted);
  await refuseElsewhere(context, `/runs/${run.id}/plan`);
  const format = options.format ?? (output.json ? "json" : "text");
  const { kind, action: actions, name: names, source: sources, cause: causes, attribute: aspects } = options;
  const filter = { kind, actions, names, sources, causes, aspects };
  return StoredChanges.read(context, async (stored) => {
    // A plan that was found again is stored with the run that found it first.
    const file = (await stored.file(run)) ?? (await fileOfSame(run, runs, stored));
    const plan = await planOf(run, file, stored, filter);
    const nothing = file === undefined ? notStored : "no change matches";
    const stands = { ...run, kept: file !== undefined };
    const { limit } = options;
    const next = possibilities(stands);
    const report = { run: stands, runs, plan, only: filterWords(filter), nothing, next, limit };
    const terminal = format === "text" && options.output === undefined ? output : undefined;
    const parts =
      format === "html"
        ? (await import("#console/pages/report.ts")).renderHtml(report)
        : renderReport(format, report, terminal);
    const stopping = untilStopped(context, parts);
    if (options.output === undefined) for await (const part of stopping) await output.write(part, contentOf[format]);
    else await writeReport(options.output, stopping);
    if (format === "csv" && file === undefined) output.say(plan === undefined ? "this run has no plan" : notStored);
    return exitCodes.done;
  });
}

/**
 * `rollcall show RUN --quarantined`: every record that the run has quarantined, as CSV for whoever keeps the source, or as a
 * JSON array of `StoredRecord`.
 * @throws {InputError} when they are not stored
 */
async function showQuarantined(
  context: ReadingContext,
  wanted: string,
  { format = context.output.json ? "json" : "csv", output: path }: ShowOptions,
): Promise<ExitCode> {
  if (format !== "csv" && format !== "json")
    throw new InputError(`--quarantined lists records, as csv or json: not as ${format}`);
  const runs = await knownRuns(context);
  const run = chosenRun(runs, wanted);
  await refuseElsewhere(context, `/runs/${run.id}/plan`);
  return StoredChanges.read(context, async (stored) => {
    const file = (await stored.file(run, "quarantined")) ?? (await fileOfSame(run, runs, stored, "quarantined"));
    if (file === undefined && run.quarantined !== 0)
      throw new InputError(
        `the quarantined records of run ${run.id} are not stored: they are with its plan, and of the last run of each sync`,
      );
    const records = file === undefined ? none() : storedRecords(stored.connection, file);
    const parts = untilStopped(context, format === "csv" ? asCsv(run, records) : asJson(records));
    if (path === undefined) for await (const part of parts) await context.output.write(part, contentOf[format]);
    else await writeReport(path, parts);
    return exitCodes.done;
  });
}

async function* none(): AsyncIterable<StoredRecord[]> {}

async function* asCsv({ sync, startedAt }: RunRecord, records: AsyncIterable<StoredRecord[]>): AsyncIterable<string> {
  yield quarantinedHeader;
  for await (const batch of records) yield batch.map((each) => quarantinedRow(sync, startedAt, each)).join("");
}

async function* asJson(records: AsyncIterable<StoredRecord[]>): AsyncIterable<string> {
  let separator = "[";
  for await (const batch of records) {
    yield separator + batch.map((each) => JSON.stringify(each)).join(",\n");
    separator = ",\n";
  }
  yield separator === "[" ? "[]\n" : "]\n";
}

const contentOf = { text: "lines", markdown: "lines", html: "data", csv: "data", json: "json" } as const;
const notStored = "the changes of this run are no longer stored (`journal.lists` sets for how many runs they are)";
async function fileOfSame(
  { sameAs }: RunRecord,
  runs: readonly RunRecord[],
  stored: StoredChanges,
  table?: "quarantined",
): Promise<string | undefined> {
  const same = runs.find(({ id }) => id === sameAs);
  return same === undefined ? undefined : stored.file(same, table);
}

/** The plan of the run; only its counts, if the changes are not stored. */
async function planOf(
  { digest, counts }: RunRecord,
  file: string | undefined,
  { connection }: StoredChanges,
  filter: Filter,
): Promise<Plan | undefined> {
  if (digest === undefined || counts === undefined) return undefined;
  if (file === undefined) return { digest, counts, shown: nothingShown, changes: async function* () {} };
  return openStored(connection, file, { digest, counts }, filter);
}

async function* untilStopped({ interruption }: ReadingContext, parts: AsyncIterable<string>): AsyncIterable<string> {
  for await (const part of parts) {
    interruption.stop.throwIfAborted();
    yield part;
  }
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

async function writeTo(opened: FileHandle, parts: AsyncIterable<string>): Promise<void> {
  await using handle = opened;
  for await (const part of parts) await handle.writeFile(part);
}

function unusable(path: string, cause: unknown): unknown {
  if (!(cause instanceof Error && "syscall" in cause)) return cause;
  return obstacleOf(cause) === undefined
    ? new InputError(`the report cannot be written to ${path}: ${firstLineOf(cause)}`, { cause })
    : unwritable(`the report ${path}`, cause);
}
