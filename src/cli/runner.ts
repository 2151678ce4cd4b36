import { existsSync } from "node:fs";
import type { Logger } from "pino";
import { setCall } from "#commands.ts";
import { InputError, errorDocument } from "#errors.ts";
import type { Composition } from "#daemon/composition.ts";
import { withContext, withState } from "#daemon/context.ts";
import type { Context, InterruptMessages, ReadingContext, Sinks } from "#daemon/context.ts";
import { openLog } from "#daemon/log.ts";
import type { LogOptions } from "#daemon/log.ts";
import { describeError, exitCodeOf, exitCodes, openOutput } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import type { CommonOptions } from "./flags.ts";

/** Where the configuration is looked for without `--config`. */
const usualPlaces = ["rollcall.yaml", "config/rollcall.yaml", "/etc/rollcall/rollcall.yaml"];

/** Runs a command: shows what it throws, and makes its exit code the program's. */
export class Runner {
  readonly composition: Composition;
  /** What the process was called with. */
  readonly argv: readonly string[];
  code: ExitCode = exitCodes.done;

  constructor(composition: Composition, argv: readonly string[]) {
    this.composition = composition;
    this.argv = argv;
  }

  /** @param logging where the log goes; by default to standard error, and only with `--verbose` */
  async run(
    options: CommonOptions,
    work: (file: string, sinks: Sinks) => Promise<ExitCode>,
    logging: Pick<LogOptions, "level" | "destination"> = { level: "silent", destination: 2 },
  ): Promise<void> {
    setCall(options.config, this.argv, process.env);
    // Every library that colours reads it.
    if (options.color === false) process.env["NO_COLOR"] = "1";
    const output = openOutput({ json: options.json === true });
    try {
      if (options.config === "") throw new InputError("--config is empty: name a file");
      const log = await logOf(options, output, logging);
      this.code = await work(configurationFile(options.config), { output, log });
    } catch (error) {
      this.code = exitCodeOf(error);
      output.progress();
      const said = output.json
        ? output.write(`${JSON.stringify({ error: errorDocument(error) })}\n`)
        : Promise.reject(error);
      // Also where the error is that standard output cannot be written.
      await said.catch(() => {
        output.say(`rollcall: ${describeError(error)}`);
      });
    }
  }

  /** The same for a command that only reads what runs have left. */
  runWithState(options: CommonOptions, work: (context: ReadingContext) => Promise<ExitCode>): Promise<void> {
    return this.run(options, (file, sinks) => withState(file, sinks, work));
  }

  /** The same for a command that needs the configuration. */
  runWithContext(
    options: CommonOptions,
    work: (context: Context, sinks: Sinks) => Promise<ExitCode>,
    messages?: InterruptMessages,
  ): Promise<void> {
    return this.run(options, (file, sinks) =>
      withContext(file, this.composition, sinks, (context) => work(context, sinks), messages),
    );
  }
}

/** Where the configuration is, with this value of `--config`. */
export function configurationFile(config: string | undefined): string {
  const { ROLLCALL_CONFIG: fromEnvironment } = process.env;
  // As a unit or a container sets it that leaves it to its user.
  const named = config ?? (fromEnvironment === "" ? undefined : fromEnvironment);
  return named ?? usualPlaces.find((place) => existsSync(place)) ?? "rollcall.yaml";
}

function logOf(
  { verbose }: CommonOptions,
  output: Output,
  { level, destination }: Pick<LogOptions, "level" | "destination">,
): Promise<Logger> {
  return openLog({
    level: verbose === true ? "debug" : level,
    destination,
    beforeLine: output.interactive ? () => output.progress() : undefined,
  });
}
