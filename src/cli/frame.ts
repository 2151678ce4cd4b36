import type { Command } from "commander";
import type { Composition } from "./composition.ts";
import type { Context, StoppingWords, Voices } from "./context.ts";
import type { LogOptions } from "./log.ts";
import type { ExitCode } from "./output.ts";

/** The options of every command. */
export interface CommonOptions {
  readonly config?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** Adds the options of every command. */
export function common(command: Command): Command {
  return command
    .option(
      "-c, --config <file>",
      "the configuration (default: $ROLLCALL_CONFIG, rollcall.yaml or config/rollcall.yaml)",
    )
    .option("--json", "one JSON document on standard output")
    .option("-v, --verbose", "log every stage of a run, and what the embedded service does");
}

/** What the program lends to its commands. */
export interface Frame {
  readonly composition: Composition;
  /**
   * Runs a command: what it throws is shown, and its exit code becomes the program's.
   * @param logging where its log goes; absent: to standard error, and only when asked to
   */
  act(
    options: CommonOptions,
    work: (file: string, voices: Voices) => Promise<ExitCode>,
    logging?: Pick<LogOptions, "level" | "destination">,
  ): Promise<void>;
  /** The same for a command that works with a configuration. @param stopping what is said when it is interrupted */
  within(
    options: CommonOptions,
    work: (context: Context, voices: Voices) => Promise<ExitCode>,
    stopping?: StoppingWords,
  ): Promise<void>;
}
