import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { get as getPlain } from "node:http";
import { get as getTls } from "node:https";
import { readDaemonPresence } from "#control/presence.ts";
import { UnavailableError, messageOf } from "#errors.ts";
import { loadState } from "#daemon/context.ts";
import type { Sinks } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { assertReadable, readPresence } from "#daemon/data-folder.ts";

export function declare(command: Command, runner: Runner): void {
  help(common(command), {
    examples: ["rollcall health", "rollcall health --config /etc/rollcall/rollcall.yaml"],
    exits: { 0: "ready", 1: "not ready, or not running" },
  }).action((options: CommonOptions) => runner.run(options, health));
}

/** In milliseconds. */
const timeout = 4000;

/**
 * `rollcall health`: asks the service of this data folder, or the daemon if it runs alone, whether it is ready, wherever
 * it listens: for Docker and other health checks that run a command.
 * @throws {UnavailableError} when nothing is running, or it is not ready
 */
export async function health(file: string, sinks: Sinks): Promise<ExitCode> {
  const { data } = await loadState(file);
  const present = (await readPresence(data)) ?? (await readDaemonPresence(data));
  if (present === undefined) {
    await assertReadable(data);
    throw new UnavailableError(`neither a service nor a daemon is running on the data folder ${data}`);
  }
  const url = new URL("/readyz", present.url);
  const { status, body } = await ask(url).catch((error: unknown) => {
    throw new UnavailableError(`${url.href} does not answer: ${messageOf(error)}`, { cause: error });
  });
  if (status !== 200) throw new UnavailableError(`${url.href} answers ${status}: ${body.slice(0, 1000)}`);
  await sinks.output.write(sinks.output.json ? `${JSON.stringify({ url: url.href, ready: true })}\n` : "ready\n");
  return exitCodes.done;
}

function ask(url: URL): Promise<{ readonly status: number; readonly body: string }> {
  const get = url.protocol === "https:" ? getTls : getPlain;
  return new Promise((resolve, reject) => {
    // A local service that is sent no secret: any certificate will do.
    const request = get(url, { timeout, rejectUnauthorized: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => (body += text));
      response.once("error", reject).once("end", () => {
        resolve({ status: response.statusCode ?? 0, body });
      });
    });
    request.once("timeout", () => request.destroy(new Error(`no answer within ${timeout / 1000} s`)));
    request.once("error", reject);
  });
}
