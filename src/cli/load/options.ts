import type { FormatOptions } from "#exports/format/options.ts";
import { InvalidArgumentError, Option } from "commander";
import type { Command } from "commander";
import type { Load } from "#client/loads.ts";
import { atLeastOne, wholeNumber } from "#cli/arguments.ts";

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

/** Declares the options of `load`. Those of the format have the names of the interface (specification 2.2); absent ones are not sent. */
export function addLoadOptions(command: Command): Command {
  const flag = (flags: string, description: string, parse?: (text: string, previous: unknown) => unknown): Command =>
    command.addOption(
      parse === undefined ? new Option(flags, description) : new Option(flags, description).argParser(parse),
    );
  command.addOption(
    new Option("-t, --table <table>", "database.schema.table, or database.table in the default schema")
      .argParser(tableName)
      .makeOptionMandatory(),
  );
  flag("--target <name>", "the target to load into (default: the only one, or the embedded one)");
  flag("--node <host>", "another host that the service may direct the data to; may be repeated", several);
  flag("--bad-records <file>", "where to save rejected rows (default: beside the first file, as FILE.bad)");
  flag("--chunk-size <MiB>", "send larger files in parts of about this size (default: 1024)", atLeastOne);
  flag("--guess", "guess the options of the format that are not given from the first file (default at a terminal)");
  flag("--no-guess", "guess nothing: options that are not given have their defaults");
  flag("-y, --yes", "at a terminal: load what was guessed without asking");
  flag("--type <type>", "csv or delimited (default: csv)", typeName);
  flag("--field_separator <character>", "between two fields; \\t is a tab (default: ,)", character);
  flag("--trailing_field_separator", "rows end with a separator");
  flag("--enclosing_character <character>", 'csv: encloses fields; "" is none (default: ")', characterOrNone);
  flag(
    "--escape_character <character>",
    'delimited: makes the next character data; "" is none (default: none)',
    characterOrNone,
  );
  flag("--null_value <text>", "the text for null (default: (null))");
  flag("--has_header_row", "do not load the first row");
  flag("--no-has_header_row", "load the first row, too (default)");
  flag("--flexible", "drop excess fields, and load missing ones as null");
  flag("--converted_to_epoch", "csv: dates and datetimes are seconds since 1970 (default, unless a format is given)");
  flag("--no-converted_to_epoch", "csv: dates and datetimes are written in their formats");
  flag("--date_time_format <format>", "of datetimes, as for strptime (default: %Y%m%d %H:%M:%S)");
  flag("--date_format <format>", "of dates (default: %Y%m%d)");
  flag("--time_format <format>", "of times (default: %H:%M:%S)");
  flag("--skip_second_fraction", "drop fractions of seconds");
  flag("--second_fraction_start <character>", "between seconds and fraction (default: .)", character);
  flag("--use_bit_values", "csv: booleans are 0x1 and 0x0");
  flag("--true_format <text>", "the text for true (default: T)");
  flag("--false_format <text>", "the text for false (default: F)");
  flag("--empty_target", "empty the table first; readers see the old rows until the load is complete");
  flag("--max_ignored_rows <number>", "how many rejected rows are tolerated (default: 0)", wholeNumber);
  flag("--max_reported_parsing_errors <number>", "how many errors are reported (default: 100)", wholeNumber);
  return command;
}

/** The options as they are written on a command line, but for those about guessing. */
export function flagsOf({ guess: _guess, yes: _yes, table, ...options }: LoadOptions): string[] {
  const others = Object.entries(options)
    .filter(([, value]) => value !== undefined)
    .flatMap(([key, value]: [string, unknown]) => {
      const flag = `--${key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
      if (value === true) return [flag];
      if (value === false) return [flag.replace("--", "--no-")];
      return [value].flat().flatMap((each) => [flag, each === "\t" ? "\\t" : String(each)]);
    });
  return ["--table", tableText(Object.values(table)), ...others];
}

function several(value: string, previous: unknown): string[] {
  return [...(Array.isArray(previous) ? (previous as string[]) : []), value];
}

/** `a.b.c`, `a.c`; names with dots or quotes in them are written `"a.b"`. */
function tableName(text: string): Load["into"] {
  const name = /(?:"(?<quoted>(?:[^"]|"")+)"|(?<plain>[^".]+))(?<end>\.|$)/gy;
  const parts: string[] = [];
  let isComplete = false;
  for (const { groups } of text.matchAll(name)) {
    parts.push(groups?.["plain"] ?? groups?.["quoted"]?.replaceAll('""', '"') ?? "");
    isComplete = groups?.["end"] === "";
  }
  const [database, second, third] = parts;
  if (!isComplete || parts.length > 3 || database === undefined || second === undefined) {
    throw new InvalidArgumentError('expected DATABASE.SCHEMA.TABLE or DATABASE.TABLE; "a.b" is a name with a dot.');
  }
  return third === undefined ? { database, table: second } : { database, schema: second, table: third };
}

/** The name of a table as `--table` takes it. */
export function tableText(parts: readonly string[]): string {
  return parts.map((part) => (/[."]/.test(part) ? `"${part.replaceAll('"', '""')}"` : part)).join(".");
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
