import { dirname, resolve } from "node:path";
import { InvalidArgumentError, Option } from "commander";
import type { Command } from "commander";
import { atLeastOne, common, help, repeated, wholeNumber } from "#cli/flags.ts";
import type { CommonOptions } from "#cli/flags.ts";
import type { Runner } from "#cli/runner.ts";
import { interruptMessages } from "#daemon/context.ts";
import type { FormatOptions } from "#exports/format/options.ts";
import type { Load, Loaded, Progress } from "#client/loads.ts";
import type { Context } from "#daemon/context.ts";
import { loadFormatOf } from "#exports/format/options.ts";
import { findInputs } from "./inputs.ts";
import { workFolder } from "#daemon/data-folder.ts";
import { confirmed } from "#cli/run-output.ts";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import { isFolder } from "#files/disk.ts";
import type { Guess, TableColumn } from "#exports/format/guess.ts";
import type { LoadInputs, Sample } from "./inputs.ts";
import { columnsOfTable, tableName, tableText } from "./tables.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import { openConfiguredLoads } from "#daemon/targets.ts";
import { inBytes, pluralize, quote, visible } from "#text.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("<file...>", "CSV or delimited text, plain, gzip or zstd; a pattern; - is standard input")
    .addOption(
      new Option("-t, --table <table>", "database.schema.table, or database.table in the default schema")
        .argParser(tableName)
        .makeOptionMandatory(),
    )
    .option("--target <name>", "the target to load into (default: the only one, or the embedded one)")
    .option("--node <host>", "another host the service may redirect data to; may be repeated", repeated)
    .option("--bad-records <file>", "where to save rejected rows (default: beside the first file, as FILE.bad)")
    .option("--chunk-size <MiB>", "send larger files in parts of about this size (default: 1024)", atLeastOne)
    .option("--guess", "guess missing format options from the first file (default at a terminal)")
    .option("--no-guess", "do not guess: missing format options have their defaults")
    .option("-y, --yes", "load with the guessed options without asking");
  for (const each of formatFlags) addFormatFlag(command, each);
  help(command, {
    examples: [
      "rollcall load people.csv --table hr.people --has-header-row --date-format %Y-%m-%d",
      "rollcall load 'export/*.csv.gz' --table hr.people --empty-target",
      "zstd -dc people.csv.zst | rollcall load - --table hr.people --max-ignored-rows 10",
    ],
    exits: { 0: "loaded: every row except ignored ones is in the table", 1: "failed; the table is unchanged" },
  }).action((files: string[], { config, json, verbose, color, ...options }: CommonOptions & LoadOptions) =>
    runner.runWithContext(
      { config, json, verbose, color },
      (context) => loadCommand(context, files, options),
      interruptMessages.load,
    ),
  );
}

type FormatFlag = readonly [flags: string, description: string, parse?: (text: string) => unknown];

/** The options of the format (specification 2.2), with hyphens; absent ones are not sent. */
const formatFlags: readonly FormatFlag[] = [
  ["--type <type>", "csv or delimited (default: csv)", typeName],
  ["--field-separator <character>", "between two fields; \\t is a tab (default: ,)", character],
  ["--trailing-field-separator", "rows end with a separator"],
  ["--enclosing-character <character>", 'csv: encloses fields; "" is none (default: ")', characterOrNone],
  [
    "--escape-character <character>",
    'delimited: makes the next character data; "" is none (default: none)',
    characterOrNone,
  ],
  ["--null-value <text>", "the text for null (default: (null))"],
  ["--has-header-row", "do not load the first row"],
  ["--no-has-header-row", "load the first row too (default)"],
  ["--flexible", "drop excess fields, and load missing ones as null"],
  ["--converted-to-epoch", "csv: dates and datetimes are seconds since 1970 (default, unless a format is given)"],
  ["--no-converted-to-epoch", "csv: dates and datetimes are written in their formats"],
  ["--date-time-format <format>", "of datetimes, as for strptime (default: %Y%m%d %H:%M:%S)"],
  ["--date-format <format>", "of dates (default: %Y%m%d)"],
  ["--time-format <format>", "of times (default: %H:%M:%S)"],
  ["--skip-second-fraction", "drop fractions of seconds"],
  ["--second-fraction-start <character>", "between seconds and fraction (default: .)", character],
  ["--use-bit-values", "csv: booleans are 0x1 and 0x0"],
  ["--true-format <text>", "the text for true (default: T)"],
  ["--false-format <text>", "the text for false (default: F)"],
  ["--empty-target", "empty the table first; readers see the old rows until the load is complete"],
  ["--max-ignored-rows <number>", "how many rejected rows are tolerated (default: 0)", wholeNumber],
  ["--max-reported-parsing-errors <number>", "how many errors are reported (default: 100)", wholeNumber],
];

/** Adds an option under its name with hyphens and, unlisted, under the one of the interface, which earlier versions had. */
function addFormatFlag(command: Command, [flags, description, parse]: FormatFlag): void {
  const [long = ""] = flags.split(" ", 1);
  const key = long.replace(/^--(?:no-)?/, "").replaceAll("-", "_");
  const spellings = [long, long.startsWith("--no-") ? `--no-${key}` : `--${key}`];
  for (const spelling of new Set(spellings)) {
    const option = new Option(flags.replace(long, spelling), description).hideHelp(spelling !== long);
    option.attributeName = () => key;
    command.addOption(parse === undefined ? option : option.argParser(parse));
  }
}

/** The options of `load`. */
export interface LoadOptions extends FormatOptions {
  readonly table: Load["into"];
  readonly target?: string;
  readonly node?: readonly string[];
  readonly badRecords?: string;
  /** In MiB. */
  readonly chunkSize?: number;
  readonly guess?: boolean;
  readonly yes?: true;
}

/** The options as they are written on a command line, but for those about guessing. */
export function flagsOf({ guess: _guess, yes: _yes, table, ...options }: LoadOptions): string[] {
  const others = Object.entries(options)
    .filter(([, value]) => value !== undefined)
    .flatMap(([key, value]: [string, unknown]) => {
      const flag = `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll("_", "-")}`;
      if (value === true) return [flag];
      if (value === false) return [flag.replace("--", "--no-")];
      return [value].flat().flatMap((each) => [flag, each === "\t" ? "\\t" : String(each)]);
    });
  return ["--table", tableText(Object.values(table)), ...others];
}

function typeName(text: string): string {
  if (!/^(?:csv|delimited)$/i.test(text)) throw new InvalidArgumentError("expected csv or delimited.");
  return text;
}

function character(text: string): string {
  const found = text === "\\t" ? "\t" : text;
  if (Array.from(found).length !== 1 || /[\r\n]/.test(found)) {
    throw new InvalidArgumentError("expected one character; \\t is a tab.");
  }
  return found;
}

function characterOrNone(text: string): string {
  return text === "" ? "" : character(text);
}

/** How many rejected rows are shown; `--json` has them all. */
const shownErrors = 10;

/** How often the progress line is updated, in milliseconds. */
const renewal = 200;

/** `rollcall load FILE…`: loads files into a table, all or nothing. Exit code 1 when the load failed. */
export async function loadCommand(context: Context, files: readonly string[], flags: LoadOptions): Promise<ExitCode> {
  const { configuration, embedded, interruption, output } = context;
  // A given separator means that somebody has looked at the file.
  const mayBeJson = flags.type?.toLowerCase() === "delimited" || flags.field_separator !== undefined;
  await checkBadRecords(flags.badRecords);
  const inputs = await findInputs(files, process.stdin, mayBeJson);
  const { loads, target, isEmbedded } = await openConfiguredLoads(configuration, flags.target, embedded, {
    log: (message) => {
      output.say(message);
    },
    nodes: flags.node,
    fileChunk: flags.chunkSize === undefined ? undefined : flags.chunkSize * 2 ** 20,
  });
  const table = Object.values(flags.table).join(".");
  let meter: ReturnType<typeof showProgress> | undefined;
  try {
    const columns = isEmbedded ? await columnsOfTable(context, flags.table) : undefined;
    const options = await formatFor(context, files, inputs, flags, columns);
    if (options === undefined) {
      output.say("Nothing was loaded.");
      return exitCodes.failed;
    }
    meter = showProgress(output, inputs.total);
    const loaded = await loads.load(
      {
        into: flags.table,
        ...loadFormatOf(options),
        sources: inputs.sources,
        badRecords: flags.badRecords ?? inputs.badRecords,
        onProgress: meter.onProgress,
      },
      { signal: interruption.stop, abandon: interruption.abandon },
    );
    const seconds = meter.end();
    if (output.json) {
      const document = { target, table, ...loaded, seconds };
      await output.write(`${JSON.stringify(document, undefined, 2)}\n`);
    } else if (loaded.code === "OK") {
      await output.write(`${summaryOf(table, loaded, seconds)}\n${notesOf(loaded)}`);
    } else {
      const { message = loaded.code } = loaded;
      output.say(`rollcall: the load into ${table} failed: ${message}`);
      // The message tells the first one.
      const told = loaded.errors.findIndex((error) => message.includes(error));
      const errors = told === 0 ? loaded.errors.slice(1) : loaded.errors;
      output.say(`${notesOf({ ...loaded, errors })}Nothing was loaded; the table is unchanged.`);
      const separation = await unseparated(options, inputs, columns);
      if (separation !== undefined) output.say(separation);
      // Only the format is guessed: a key that the table refuses has nothing to do with it.
      if (flags.guess === undefined && !output.interactive && loaded.errors.length > 0)
        output.say("`--guess` guesses the format from the file, and shows the options that say the same.");
    }
    return loaded.code === "OK" ? exitCodes.done : exitCodes.failed;
  } finally {
    meter?.end();
    await loads.close();
  }
}

/** @throws {InputError} when rejected rows could not be saved: after the load, it would be too late to say so */
async function checkBadRecords(file: string | undefined): Promise<void> {
  if (file === "") throw new InputError("--bad-records is empty: name a file");
  const folder = dirname(resolve(file ?? ""));
  if (file !== undefined && !(await isFolder(folder)))
    throw new InputError(`--bad-records ${file}: there is no folder ${folder}; make it first`);
}

/** Says so when the separator is missing in the first line: then every row lacks it. */
async function unseparated(
  { field_separator: separator = "," }: LoadOptions,
  { samples }: LoadInputs,
  columns: readonly TableColumn[] = [],
): Promise<string | undefined> {
  const sample = columns.length < 2 ? undefined : await samples[0]?.(4096);
  const line = firstLine(sample?.sample ?? Buffer.alloc(0));
  if (line === "" || line.includes(separator)) return undefined;
  return `The first line has no separator ${quote(separator)}: ${quote(line)}. --field-separator says what separates its fields.`;
}

/** The options with those of the format that are guessed; undefined: the person at the terminal does not want that. */
async function formatFor(
  context: Context,
  files: readonly string[],
  { samples }: LoadInputs,
  flags: LoadOptions,
  columns: readonly TableColumn[] | undefined,
): Promise<LoadOptions | undefined> {
  const { configuration, output } = context;
  const { guess: wanted = output.interactive } = flags;
  // Only CSV has quotes, by which the ends of fields are found.
  if (!wanted || flags.type?.toLowerCase() === "delimited") return flags;
  const sample = await samples[0]?.();
  if (sample === undefined) {
    if (flags.guess === undefined) return flags;
    throw new InputError("--guess needs a file: standard input and pipes can be read only once");
  }
  const { guessFormat } = await import("#exports/format/guess.ts");
  const { Workbench } = await import("#duckdb/workbench.ts");
  await using workbench = await Workbench.open({
    folder: await workFolder(configuration),
    memory: configuration.memory,
  });
  const guess = await guessFormat(workbench, sample, columns, flags);
  const options = { ...flags, ...guess.options };
  const doubts = [...guess.doubts, ...(options.has_header_row ? await repeatedHeaders(sample, samples.slice(1)) : [])];
  output.say(describeGuess(files, options, { ...guess, doubts }));
  const isAsked = output.interactive && flags.yes !== true;
  if (!isAsked && doubts.length > 0)
    throw new InputError(
      "the format cannot be guessed completely, and nothing was loaded: do what the notes say, or load with the defaults with `--no-guess`",
      { problems: doubts },
    );
  return isAsked && !(await confirmed(context, "Load it like this?")) ? undefined : options;
}

/** Only the first row of the first file is a header to the service. */
async function repeatedHeaders({ sample: first }: Sample, others: LoadInputs["samples"]): Promise<string[]> {
  const header = firstLine(first);
  for (const other of others) {
    const sample = await other(4096);
    if (sample !== undefined && firstLine(sample.sample) === header)
      return [`${sample.name} begins with the header, too, which would be loaded as a row; load the files one by one`];
  }
  return [];
}

function firstLine(bytes: Buffer): string {
  return bytes.subarray(0, 4096).toString().split(/\r?\n/, 1)[0] ?? "";
}

/** What was guessed, and the command that says the same. */
function describeGuess(
  files: readonly string[],
  options: LoadOptions,
  { columns, notes, doubts, doubtful, options: guessed }: Guess,
): string {
  const width = (cell: 0 | 1): number => Math.max(...columns.map((column) => Array.from(visible(column[cell])).length));
  const [names, types] = [width(0), width(1)];
  const lines = columns.map(
    ([name, type, values]) => `  ${visible(name).padEnd(names)}  ${type.padEnd(types)}  ${visible(values)}`,
  );
  const clear = { ...options, ...Object.fromEntries(doubtful.map((option) => [option, undefined])) };
  return [
    `${files[0] ?? ""}, by its first rows:`,
    ...lines.map((line) => line.trimEnd()),
    ...[...notes, ...doubts].map((note) => `  note: ${note}`),
    doubts.length > 0
      ? "As far as it could be guessed; first do what the notes say:"
      : Object.keys(guessed).length === 0
        ? "Its format has the defaults. The same without guessing:"
        : "The same without guessing:",
    `  ${command("load", ...files.map(asArgument), ...flagsOf(clear), doubts.length > 0 ? "--guess" : "--no-guess")}`,
  ].join("\n");
}

/** A file whose name would be taken for an option. */
function asArgument(file: string): string {
  return file.length > 1 && file.startsWith("-") ? `./${file}` : file;
}

function summaryOf(table: string, { written, ignored, bytes }: Loaded, seconds: number): string {
  const rows = `${pluralize(written, "row")} loaded${ignored === 0 ? "" : `, ${pluralize(ignored, "row")} ignored`}`;
  return `${table}: ${rows}; ${inBytes(bytes)} in ${seconds.toFixed(1)} s (${rateOf(bytes, seconds)})`;
}

function notesOf({ errors, badRecords, badRecordsProblem }: Loaded): string {
  const shown = errors.slice(0, shownErrors).map((error) => `  ${error}\n`);
  const rest = errors.length - shown.length;
  if (rest > 0) shown.push(`  … and ${rest} more; --json shows all\n`);
  if (badRecords !== undefined) shown.push(`The rejected rows are in ${badRecords}\n`);
  if (badRecordsProblem !== undefined) shown.push(`The rejected rows could not be saved: ${badRecordsProblem}\n`);
  return shown.join("");
}

function rateOf(bytes: number, seconds: number): string {
  return `${(bytes / 1e6 / Math.max(seconds, 0.001)).toFixed(1)} MB/s`;
}

/** Shows the progress of a load at a terminal. `end` returns how long it took, in seconds. */
function showProgress(
  output: Output,
  total: number | undefined,
): { onProgress: (progress: Progress) => void; end: () => number } {
  const began = performance.now();
  let latest: Progress | undefined;
  let committed = 0;
  const show = (): void => {
    if (latest === undefined) return;
    const { phase, bytes } = latest;
    const seconds = ((phase === "upload" ? performance.now() : committed) - began) / 1000;
    const part =
      total === undefined || total === 0 ? "" : ` of ${inBytes(total)} (${Math.floor((bytes / total) * 100)} %)`;
    const waited = phase === "upload" ? "" : `; loading for ${((performance.now() - committed) / 1000).toFixed(0)} s`;
    output.progress(`sent ${inBytes(bytes)}${part}, ${rateOf(bytes, seconds)}${waited} …`);
  };
  const timer = setInterval(show, renewal);
  let seconds: number | undefined;
  return {
    onProgress: (progress) => {
      if (progress.phase === "commit" && latest?.phase !== "commit") committed = performance.now();
      latest = progress;
    },
    end: () => {
      clearInterval(timer);
      output.progress();
      seconds ??= (performance.now() - began) / 1000;
      return seconds;
    },
  };
}
