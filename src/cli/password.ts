import { join } from "node:path";
import type { Command } from "commander";
import { resetPassword } from "#client/sql.ts";
import { command } from "#commands.ts";
import type { Context } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { embeddedOptions } from "#daemon/targets.ts";
import { InputError } from "#errors.ts";
import { exists } from "#files/disk.ts";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";

export function declare(command: Command, runner: Runner): void {
  help(common(command), { examples: ["rollcall password"] }).action((options: CommonOptions) =>
    runner.runWithContext(options, password),
  );
}

/**
 * `rollcall password`: gives the service's administrator a new password and prints it; the old one ends. With `--json`:
 * `{"name", "password"}`.
 * @throws {InputError} when the configuration sets the password, or there is no administrator yet
 */
export async function password({ configuration, embedded, interruption, output }: Context): Promise<ExitCode> {
  const { file, service, data } = configuration;
  if (service === undefined) throw new InputError(`${file} has no \`service:\`, so it has no administrator`);
  if (service.administrator.password !== undefined)
    throw new InputError(
      "the configuration sets this password at every start: change `service.administrator.password`, and start again",
    );
  if (!(await exists(join(data, "service"))))
    throw new InputError(
      `the service has not started yet. \`${command("start")}\` creates the administrator and prints the password`,
    );
  const made = await resetPassword(await embeddedOptions("embedded", embedded), interruption.stop);
  const said = `The password of ${made.name} is now ${made.password} (it is shown only this once)\n`;
  await output.write(output.json ? `${JSON.stringify(made)}\n` : said);
  return exitCodes.done;
}
