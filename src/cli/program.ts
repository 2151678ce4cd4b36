import { existsSync } from "node:fs";
import { Command } from "commander";
import type { Logger } from "pino";
import { setCall } from "#commands.ts";
import { InputError, errorDocument, messageOf } from "#errors.ts";
import { addCommands } from "./command-line.ts";
import type { CommonOptions, Runner } from "./command-line.ts";
import type { Composition } from "#daemon/composition.ts";
import { withContext, withState } from "#daemon/context.ts";
import { openLog } from "#daemon/log.ts";
import type { LogOptions } from "#daemon/log.ts";
import { describeError, exitCodeOf, exitCodes, openOutput } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";

/** Where the configuration is looked for without `--config`. */
const usualPlaces = ["rollcall.yaml", "config/rollcall.yaml"];

/** Runs the command line. Returns the exit code: 0 done, 1 failed, 2 there are changes (`plan`), 3 held. */
export async function runProgram(argv: readonly string[], composition: Composition): Promise<ExitCode> {
  let code: ExitCode = exitCodes.done;
  const json = argv.includes("--json");
  const program = new Command("rollcall")
    .description(
      "Keeps the users and groups of an analytics service in step with the directories a company already has.",
    )
    .version(`${composition.version} (Node.js ${process.versions.node})`)
    .showHelpAfterError("(see --help)")
    .configureOutput(json ? { writeErr: () => {} } : {})
    .exitOverride();
  const run: Runner["run"] = async (options, work, logging = { level: "silent", destination: 2 }) => {
    setCall(options.config, argv, process.env);
    const output = openOutput({ json: options.json === true });
    try {
      code = await work(configurationFile(options.config), { output, log: await logOf(options, output, logging) });
    } catch (error) {
      code = exitCodeOf(error);
      output.progress();
      if (output.json) await output.write(`${JSON.stringify({ error: errorDocument(error) })}\n`);
      else output.say(`rollcall: ${describeError(error)}`);
    }
  };
  await addCommands(program, {
    composition,
    argv,
    configurationFile,
    run,
    runWithState: (options, work) => run(options, (file, sinks) => withState(file, sinks, work)),
    runWithContext: (options, work, messages) =>
      run(options, (file, sinks) => withContext(file, composition, sinks, (context) => work(context, sinks), messages)),
  });

  try {
    await program.parseAsync([...argv]);
  } catch (error) {
    // Commander has printed the help that was asked for, or what is wrong with the command line.
    if ((error as { exitCode?: number }).exitCode === 0) return exitCodes.done;
    if (json) {
      // Without a known command, Commander's message is only "(outputHelp)".
      const said = messageOf(error).startsWith("(") ? "no command, or an unknown one" : messageOf(error);
      const problem = new InputError(`${said.replace(/^error: /, "")} (see --help)`);
      await openOutput({ json }).write(`${JSON.stringify({ error: errorDocument(problem) })}\n`);
    }
    return exitCodes.failed;
  }
  return code;
}

function configurationFile(config: string | undefined): string {
  const { ROLLCALL_CONFIG: fromEnvironment } = process.env;
  return config ?? fromEnvironment ?? usualPlaces.find((place) => existsSync(place)) ?? "rollcall.yaml";
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
