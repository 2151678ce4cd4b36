import { existsSync } from "node:fs";
import { hostname } from "node:os";
import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import { givenPassword } from "./password-prompt.ts";
import type { Runner } from "./runner.ts";
import { prompts } from "#cli/init/answers.ts";
import { logInTo, logOutOf, presenceAt } from "#control/client.ts";
import { Connection } from "#control/connection.ts";
import { loginFor, saveLogin } from "#control/logins.ts";
import { readDaemonPresence } from "#control/presence.ts";
import type { DaemonPresence } from "#control/presence.ts";
import { loadState } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import { InputError } from "#errors.ts";
import { isAlive } from "#files/durable.ts";

interface LoginOptions extends CommonOptions {
  readonly name?: string;
  readonly passwordFile?: string;
  readonly tokenFile?: string;
}

export function declare(command: Command, runner: Runner): void {
  common(command)
    .argument("[url]", "where the daemon or its console is (default: the daemon of the configuration)")
    .option("--name <name>", "the account; by default it is asked for")
    .option("--password-file <file>", "read the password from this file; - for standard input")
    .option("--token-file <file>", "use the access token in this file; - for standard input");
  help(command, {
    examples: ["rollcall login", "rollcall login https://rollcall.example.com --token-file token"],
  }).action((url: string | undefined, options: LoginOptions) =>
    runner.run(options, (file, { output }) => login(file, output, url, options)),
  );
}

/**
 * `rollcall login`: stores an access token for a daemon in the folder of this account. From then on, commands that talk to
 * the daemon act as its owner, with their role. `--json`: `{"login": URL, "name", "role"}`.
 */
async function login(
  file: string,
  output: Output,
  given: string | undefined,
  options: LoginOptions,
): Promise<ExitCode> {
  const { presence, data } = await daemonAt(file, given);
  const signal = new AbortController().signal;
  const { tokenFile, passwordFile } = options;
  const known = tokenFile === undefined ? undefined : (await givenPassword(output, tokenFile, "Access token:")).trim();
  const credentials = known === undefined ? await credentialsFrom(output, options.name, passwordFile) : undefined;
  const { token, name, role } = await logInTo(
    presence,
    known === undefined ? { ...credentials, token: hostname() } : { secret: known },
    signal,
  );
  const before = await loginFor(data, presence.url);
  await saveLogin(presence.url, { url: presence.url, ...(data !== undefined && { data }), name, token });
  // It is no use any more.
  if (before !== undefined && before.token !== token)
    await logOutOf(new Connection(presence, "", before), signal).catch(() => undefined);
  if (output.json) await output.write(`${JSON.stringify({ login: presence.url, name, role })}\n`);
  else await output.write(`${presence.url}: logged in as ${name}, with the role ${role}\n`);
  return exitCodes.done;
}

async function credentialsFrom(
  output: Output,
  name: string | undefined,
  passwordFile: string | undefined,
): Promise<{ readonly name: string; readonly password: string }> {
  if (name === undefined && !output.interactive)
    throw new InputError("there is no terminal to ask for the name: give --name and --password-file, or --token-file");
  const { input } = await prompts();
  const asked = name ?? (await input({ message: "Name:" })).trim();
  return { name: asked, password: await givenPassword(output, passwordFile, "Password:") };
}

/**
 * The daemon that somebody means, and the data folder of the configuration, where there is one.
 * @throws {InputError} nobody knows which, or the password would cross a network in the open
 */
export async function daemonAt(
  file: string,
  given: string | undefined,
): Promise<{ readonly presence: DaemonPresence; readonly data: string | undefined }> {
  const data = existsSync(file) ? (await loadState(file)).data : undefined;
  const own = data === undefined ? undefined : await readDaemonPresence(data);
  const present = own !== undefined && isAlive(own.pid) ? own : undefined;
  if (given === undefined) {
    const stored = await loginFor(data, undefined);
    const presence = present ?? (stored === undefined ? undefined : presenceAt(stored.url));
    if (presence !== undefined) return { presence, data };
    throw new InputError(
      "no daemon of this configuration is running here: say where one is, as in `rollcall login URL`",
    );
  }
  const url = URL.parse(given);
  const isHere = ["127.0.0.1", "[::1]", "localhost"].includes(url?.hostname ?? "");
  if (url === null || !["http:", "https:"].includes(url.protocol))
    throw new InputError(`${given}: expected a URL like https://rollcall.example.com`);
  if (url.protocol === "http:" && !isHere)
    throw new InputError(
      `${given}: over http:// the password and the token would cross the network in the open; use https://`,
    );
  const address = (url.origin + url.pathname).replace(/\/+$/, "");
  return { presence: present?.url === address ? present : presenceAt(address), data };
}
