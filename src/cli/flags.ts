import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { asCalled } from "#commands.ts";
import { isExpectation, overridable } from "#plan/limits.ts";
import type { Overridable } from "#plan/limits.ts";
import { duration } from "#values.ts";

/* Options that several commands have, and what their values mean. Lists may be given in one value or by repeating the option. */

/** Options of every command. */
export interface CommonOptions {
  readonly config?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
  readonly color?: boolean;
}

/** Adds the options of every command. */
export function common(command: Command): Command {
  return command
    .option(
      "-c, --config <file>",
      "the configuration (default: $ROLLCALL_CONFIG, rollcall.yaml, config/rollcall.yaml or /etc/rollcall/rollcall.yaml)",
    )
    .option("--json", "one JSON document on standard output")
    .option("-v, --verbose", "log every stage of a run and the requests of the embedded service")
    .option("--no-color", "no colours at a terminal");
}

/** What the help of a command says after its options. */
export interface Help {
  /** Command lines that can be pasted. */
  readonly examples: readonly string[];
  /** When the command ends with these exit codes; the usual ones are added. */
  readonly exits?: Readonly<Record<number, string>>;
}

/** Adds examples and exit codes to the help of a command. */
export function help(command: Command, { examples, exits = {} }: Help): Command {
  const codes = Object.entries<string>({ 0: "done", 1: "failed", ...exits });
  return command.addHelpText("after", () =>
    [
      "",
      examples.length === 1 ? "Example:" : "Examples:",
      ...examples.map((example) => asCalled(`  ${example}`)),
      "",
      "Exit codes:",
      ...codes.map(([code, meaning]) => `  ${code}  ${meaning}`),
    ].join("\n"),
  );
}

export interface LimitOptions {
  readonly all?: boolean;
  readonly limit?: number;
}

/** For a command that shows changes. */
export function withLimit(command: Command): Command {
  return command
    .option("--all", "show every change")
    .option("--limit <number>", "how many changes of each kind to show", wholeNumber);
}

export function limitOf({ all, limit }: LimitOptions): number | undefined {
  return all === true ? Number.POSITIVE_INFINITY : limit;
}

export interface NotifyOptions {
  readonly notify?: boolean;
}

/** For a command that does the work of a daemon where none is running. */
export function withNotify(command: Command): Command {
  return command.option("--no-notify", "send no notifications (a running daemon still does)");
}

export interface OverrideOptions {
  readonly override?: readonly Overridable[];
}

export interface ForOptions {
  readonly for?: readonly string[];
}

/** For a command that may be about some users and groups alone. */
export function withFor(command: Command): Command {
  return command.option(
    "--for <name>",
    "only this user or group, as `explain` finds it, or group:NAME; may be repeated",
    repeated,
  );
}

export const allSyncs = "the sync (default: all)";
export const waitingRun = "a run that is pending or held; the beginning of its id is enough";

/** The formats of a report that is no list of changes. */
export const reportFormats = ["text", "json", "markdown"] as const;

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("expected a whole number.");
  return Number(text);
}

export function atLeastOne(text: string): number {
  const number = wholeNumber(text);
  if (number === 0) throw new InvalidArgumentError("expected a whole number, at least 1.");
  return number;
}

/** `24h` ago, or a date or moment of ISO 8601, in UTC unless it says otherwise; in epoch milliseconds. */
export function parseMoment(value: string): number {
  const ago = duration.safeParse(value);
  if (ago.success) return Date.now() - ago.data;
  const parts = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(value);
  const moment =
    parts === null
      ? Number.NaN
      : Date.parse(value.replace(" ", "T") + (value.length > 10 && parts[1] === undefined ? "Z" : ""));
  if (Number.isNaN(moment))
    throw new InvalidArgumentError(
      "expected a duration like 24h or 7d, or a moment like 2026-11-21 or 2026-11-21T08:00Z.",
    );
  return moment;
}

/** `c1,c3` */
export function parseCauses(value: string, before: readonly string[] = []): string[] {
  const ids = value.split(",").map((id) => id.trim().toLowerCase());
  if (!ids.every((id) => /^c\d+$/.test(id)))
    throw new InvalidArgumentError("expected the ids of causes, as the plan shows them, like c1 or c1,c3.");
  return [...before, ...ids];
}

/** `deletes,updates`, and expectations by their names: `expectation:no guests in finance` */
export function parseLimits(value: string, before: readonly Overridable[] = []): Overridable[] {
  const names = value.split(",").map((each) => each.trim());
  return [
    ...before,
    ...names.flatMap((name) =>
      isExpectation(name) ? [name] : listOfWords([...overridable, "expectation:NAME"])(name),
    ),
  ];
}

/** A value that may contain commas. */
export function repeated(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** `pending,held`; `no-change` needs no quotes. */
export function listOfWords<Word extends string>(
  words: readonly Word[],
  spelled = (text: string): string => text.replace("-", " "),
): (value: string, before?: readonly Word[]) => Word[] {
  return (value, before = []) => [
    ...before,
    ...value.split(",").map((each) => {
      const text = spelled(each.trim().toLowerCase());
      const word = words.find((known) => known.toLowerCase() === text);
      if (word === undefined) throw new InvalidArgumentError(`expected some of ${words.join(", ")}.`);
      return word;
    }),
  ];
}
