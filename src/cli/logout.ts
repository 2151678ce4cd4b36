import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import { daemonAt } from "./login.ts";
import type { Runner } from "./runner.ts";
import { logOutOf } from "#control/client.ts";
import { Connection } from "#control/connection.ts";
import { loginFor, readLogins, saveLogin } from "#control/logins.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import { InputError, messageOf } from "#errors.ts";

export function declare(command: Command, runner: Runner): void {
  common(command).argument("[url]", "where the daemon or its console is (default: the daemon of the configuration)");
  help(command, { examples: ["rollcall logout"] }).action((url: string | undefined, options: CommonOptions) =>
    runner.run(options, (file, { output }) => logout(file, output, url)),
  );
}

/** `rollcall logout`: revokes the access token that `rollcall login` has stored, and removes it. `--json`: `{"logout": URL}`. */
async function logout(file: string, output: Output, given: string | undefined): Promise<ExitCode> {
  const [only, ...others] = await readLogins();
  const { presence } = await daemonAt(file, given ?? (others.length === 0 ? only?.url : undefined));
  const login = await loginFor(undefined, presence.url);
  if (login === undefined) throw new InputError(`nobody is logged in at ${presence.url}`);
  const signal = new AbortController().signal;
  await logOutOf(new Connection(presence, "", login), signal).catch((error: unknown) => {
    output.say(`the access token could not be revoked: ${messageOf(error)}`);
  });
  await saveLogin(presence.url, undefined);
  if (output.json) await output.write(`${JSON.stringify({ logout: presence.url })}\n`);
  else await output.write(`${presence.url}: ${login.name} is logged out\n`);
  return exitCodes.done;
}
