import { get as getPlain } from "node:http";
import { get as getTls } from "node:https";
import { readDaemonPresence } from "#control/presence.ts";
import { UnavailableError, messageOf } from "#errors.ts";
import type { Composition } from "./composition.ts";
import { load } from "./context.ts";
import type { Voices } from "./context.ts";
import { exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";
import { readPresence } from "./data-folder.ts";

/** How long an answer is waited for, in milliseconds. */
const patience = 4000;

/**
 * `rollcall health`: asks the service of this data folder, or the daemon where that runs alone, whether it is ready,
 * wherever it listens: for Docker and others that run a command to find out.
 * @throws {UnavailableError} when it does not run, or is not ready
 */
export async function health(file: string, composition: Composition, voices: Voices): Promise<ExitCode> {
  const { data } = await load(file, composition, voices);
  const present = (await readPresence(data)) ?? (await readDaemonPresence(data));
  if (present === undefined)
    throw new UnavailableError(`no service is running on the data folder ${data}, and no daemon`);
  const url = new URL("/readyz", present.url);
  const { status, body } = await ask(url).catch((error: unknown) => {
    throw new UnavailableError(`${url.href} does not answer: ${messageOf(error)}`, { cause: error });
  });
  if (status !== 200) throw new UnavailableError(`${url.href} answers ${status}: ${body.slice(0, 1000)}`);
  await voices.output.write(voices.output.json ? `${JSON.stringify({ url: url.href, ready: true })}\n` : "ready\n");
  return exitCodes.done;
}

function ask(url: URL): Promise<{ readonly status: number; readonly body: string }> {
  const get = url.protocol === "https:" ? getTls : getPlain;
  return new Promise((resolve, reject) => {
    // It is this machine's own service, and nothing is told it: whose certificate it has does not matter here.
    const request = get(url, { timeout: patience, rejectUnauthorized: false }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (text: string) => (body += text));
      response.once("error", reject).once("end", () => {
        resolve({ status: response.statusCode ?? 0, body });
      });
    });
    request.once("timeout", () => request.destroy(new Error(`nothing came within ${patience / 1000} s`)));
    request.once("error", reject);
  });
}
