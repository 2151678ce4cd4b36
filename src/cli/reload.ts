import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { localActor } from "#daemon/context.ts";
import { command } from "#commands.ts";
import { findDaemon, reloadDaemon } from "#control/client.ts";
import { InputError, UnavailableError } from "#errors.ts";
import { isAlive } from "#files/durable.ts";
import type { Context } from "#daemon/context.ts";
import { assertReadable, readPresence } from "#daemon/data-folder.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  help(common(command), {
    examples: ["rollcall reload"],
    exits: { 1: "not running, or the new configuration is invalid: the old one stays" },
  }).action((options: CommonOptions) => runner.runWithContext(options, reload));
}

/**
 * `rollcall reload`: makes the running daemon read its configuration again, or the service where it runs alone. All of the
 * new one is taken, or nothing. With `--json`: `{"reloaded": FILE}`, or `{"asked": PID}` for a service alone, whose log
 * says whether it could.
 * @throws {InputError} what is wrong with the new configuration, or needs a restart
 * @throws {UnavailableError} when neither runs
 */
export async function reload({ configuration, interruption, output }: Context): Promise<ExitCode> {
  const { data } = configuration;
  const daemon = await findDaemon(data, localActor().name, interruption.stop);
  if (daemon !== undefined) {
    const file = await reloadDaemon(daemon, interruption.stop);
    await output.write(output.json ? `${JSON.stringify({ reloaded: file })}\n` : `reloaded: ${file} is in force\n`);
    return exitCodes.done;
  }
  const service = await readPresence(data);
  if (service === undefined) await assertReadable(data);
  if (service === undefined || !isAlive(service.pid))
    throw new UnavailableError(
      `neither a service nor a daemon is running on the data folder ${data}; \`${command("start")}\` starts them`,
    );
  if (process.platform === "win32")
    throw new InputError(`the service (process ${service.pid}) runs without a daemon: restart it to reload`);
  process.kill(service.pid, "SIGHUP");
  await output.write(
    output.json
      ? `${JSON.stringify({ asked: service.pid })}\n`
      : `asked the service (process ${service.pid}) to reload; its log says whether it could\n`,
  );
  return exitCodes.done;
}
