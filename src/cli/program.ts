import { existsSync } from "node:fs";
import { Command } from "commander";
import { addAuditCommands } from "#cli/audit/commands.ts";
import { addCheckCommands } from "#cli/check/commands.ts";
import { addStartCommand } from "#cli/daemon/commands.ts";
import { addExportCommand } from "#cli/export/commands.ts";
import { addInitCommand } from "#cli/init/commands.ts";
import { addTableCommands } from "#cli/load/commands.ts";
import { addLookCommands } from "#cli/look/commands.ts";
import { addRunCommands } from "#cli/run/commands.ts";
import { InputError, errorDocument, messageOf } from "#errors.ts";
import type { Composition } from "./composition.ts";
import { withContext } from "./context.ts";
import type { CommonOptions, Frame } from "./frame.ts";
import { openLog } from "./log.ts";
import type { Log, LogOptions } from "./log.ts";
import { describeError, exitCodeOf, exitCodes, openOutput } from "./output.ts";
import type { ExitCode, Output } from "./output.ts";

/** Where the configuration is looked for when `--config` does not say. */
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
  const act: Frame["act"] = async (options, work, logging = { level: "silent", destination: 2 }) => {
    const output = openOutput({ json: options.json === true });
    try {
      code = await work(configurationFile(options), { output, log: await logOf(options, output, logging) });
    } catch (error) {
      code = exitCodeOf(error);
      output.progress();
      if (output.json) await output.write(`${JSON.stringify({ error: errorDocument(error) })}\n`);
      else output.say(`rollcall: ${describeError(error)}`);
    }
  };
  const frame: Frame = {
    composition,
    act,
    within: (options, work, stopping) =>
      act(options, (file, voices) =>
        withContext(file, composition, voices, (context) => work(context, voices), stopping),
      ),
  };

  addStartCommand(program, frame);
  addRunCommands(program, frame);
  addExportCommand(program, frame);
  addAuditCommands(program, frame);
  addLookCommands(program, frame);
  addCheckCommands(program, frame);
  addInitCommand(program, frame);
  addTableCommands(program, frame);

  try {
    await program.parseAsync([...argv]);
  } catch (error) {
    // Commander has shown the help that was asked for, or said already what is wrong with the command line.
    if ((error as { exitCode?: number }).exitCode === 0) return exitCodes.done;
    if (json) {
      // Where no command is named, it has shown the help: its message is nobody's words.
      const said = messageOf(error).startsWith("(") ? "no command, or one that is not known" : messageOf(error);
      const problem = new InputError(`${said.replace(/^error: /, "")} (see --help)`);
      await openOutput({ json }).write(`${JSON.stringify({ error: errorDocument(problem) })}\n`);
    }
    return exitCodes.failed;
  }
  return code;
}

function configurationFile({ config }: CommonOptions): string {
  const { ROLLCALL_CONFIG: fromEnvironment } = process.env;
  return config ?? fromEnvironment ?? usualPlaces.find((place) => existsSync(place)) ?? "rollcall.yaml";
}

function logOf(
  { verbose }: CommonOptions,
  output: Output,
  { level, destination }: Pick<LogOptions, "level" | "destination">,
): Promise<Log> {
  const readable = (): void => {
    output.progress();
  };
  return openLog({
    level: verbose === true ? "debug" : level,
    destination,
    ...(output.interactive ? { readable } : {}),
  });
}
