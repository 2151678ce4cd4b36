import type { Stage, Actor } from "#state/record.ts";
import { pluralize } from "#text.ts";
import { userInfo } from "node:os";
import type { Logger } from "pino";
import type { ClientOptions } from "#client/client.ts";
import type { Configuration } from "#config/configuration.ts";
import type { StateConfiguration } from "#config/state.ts";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import type { Interruption } from "#sync/interruption.ts";
import type { Composition } from "./composition.ts";
import { EmbeddedService } from "./embedded.ts";
import type { Embedded } from "./embedded.ts";
import { listOf } from "./output.ts";
import type { Output } from "./output.ts";

/** The context of a command that only reads what runs have stored. */
export interface ReadingContext {
  readonly configuration: StateConfiguration;
  readonly interruption: CommandInterruption;
  readonly output: Output;
}

/** The context of every other command. */
export interface Context extends ReadingContext {
  readonly configuration: Configuration;
  readonly embedded: Embedded;
  readonly log: Logger;
  /** False: the command sends no notifications. */
  readonly notify?: boolean | undefined;
  /** Receives every request to the target of a sync. */
  readonly observe?: ClientOptions["observe"];
}

export interface CommandInterruption extends Interruption {
  /** Whether a run of this process is applying, and is finished before the process stops. */
  isApplying?: boolean;
}

/** Where a command writes. */
export interface Sinks {
  readonly log: Logger;
  readonly output: Output;
}

/** Loads the configuration. From then on its secrets appear in nothing that this process writes. */
export async function load(file: string, composition: Composition): Promise<Configuration> {
  // A command without a configuration needs none of the libraries that read one.
  const { loadConfiguration } = await import("#config/load.ts");
  return loadConfiguration(file, composition);
}

/** Loads of the configuration where the state is. From then on its secrets do not appear, as after `load`. */
export async function loadState(file: string): Promise<StateConfiguration> {
  const state = await import("#config/state.ts");
  return state.loadState(file);
}

/** Opens what a command needs that only reads what runs have left. */
export async function withState<Result>(
  file: string,
  sinks: Sinks,
  work: (context: ReadingContext) => Promise<Result>,
): Promise<Result> {
  const configuration = await loadState(file);
  const { output } = sinks;
  const interruption = interruptedBySignals(output, interruptMessages.read);
  try {
    return await work({ configuration, interruption, output });
  } catch (error) {
    throw cancelled(error, interruption.stop);
  } finally {
    interruption.end();
  }
}

/** Opens what a one-shot command needs, and closes it after `work`. */
export async function withContext<Result>(
  file: string,
  composition: Composition,
  sinks: Sinks,
  work: (context: Context) => Promise<Result>,
  messages: InterruptMessages = interruptMessages.read,
): Promise<Result> {
  const configuration = await load(file, composition);
  const { output } = sinks;
  const log = sinks.log;
  const interruption = interruptedBySignals(output, messages);
  const embedded = new EmbeddedService(configuration, composition, {
    log,
    mayStart: true,
    announcePassword: (password) => {
      output.say(passwordNotice(configuration, password));
    },
  });
  try {
    return await work({ configuration, embedded, interruption, log, output });
  } catch (error) {
    throw cancelled(error, interruption.stop);
  } finally {
    interruption.end();
    await embedded.close();
  }
}

/** What ended a command: when it was interrupted, that, instead of the error that Node makes of it. */
function cancelled(error: unknown, stop: AbortSignal): unknown {
  return stop.aborted && error instanceof Error && error.name === "AbortError" ? stop.reason : error;
}

export function passwordNotice(configuration: Configuration, password: string): string {
  return `The password of ${configuration.service?.administrator.name ?? "the administrator"} is ${password} (it is shown only this once; \`${command("password")}\` gives another, and service.administrator.password sets your own)`;
}

/** The syncs that a command is about: the named one, or all. */
export function chosenSyncs(
  configuration: Pick<StateConfiguration, "file" | "syncs">,
  name: string | undefined,
  people?: readonly string[],
): readonly string[] {
  const names = Object.keys(configuration.syncs);
  if (name === undefined) {
    if (people !== undefined && names.length > 1)
      throw new InputError(`--for is about one sync: add its name, one of ${names.join(", ")}`);
    if (names.length === 0) throw new InputError(`${configuration.file} has no \`syncs:\`, so there is nothing to do`);
    return names;
  }
  if (!names.includes(name)) throw new InputError(`no sync is called ${name}: ${listOf(names)}`);
  return [name];
}

/** The account of this machine that runs this process. */
export function localActor(): Actor {
  const way = { from: "command line", via: "command line" } as const;
  try {
    return { name: userInfo().username, ...way };
  } catch {
    // A container's account need not have a name.
    return { name: `account ${process.getuid?.() ?? "unknown"}`, ...way };
  }
}

/** A command's messages when it is interrupted: at once, and as its result. */
export interface InterruptMessages {
  readonly notice: string;
  readonly result: string;
}

const notToWait = "(press Ctrl-C again not to wait)";

export const interruptMessages = {
  apply: { notice: `cancelling ${notToWait}`, result: "Cancelled. Nothing was applied." },
  export: { notice: `cancelling the export ${notToWait}`, result: "Cancelled." },
  load: { notice: `cancelling the load ${notToWait}`, result: "Cancelled. Nothing was loaded." },
  sql: { notice: `cancelling ${notToWait}`, result: "Cancelled. The running statement was rolled back." },
  read: { notice: `cancelling ${notToWait}`, result: "Cancelled." },
  backup: { notice: `cancelling the backup ${notToWait}`, result: "Cancelled. There is no backup." },
  restore: { notice: `cancelling ${notToWait}`, result: "Cancelled. Nothing was restored." },
  copy: { notice: `cancelling ${notToWait}`, result: "Cancelled. Copy again: the copy starts over." },
} as const satisfies Record<string, InterruptMessages>;

/** How long a command may take to stop after the second signal, in milliseconds. */
const abandonLimit = 10_000;

/** The first Ctrl-C (or SIGTERM, or the end of the terminal) stops what can be stopped without harm; a second one abandons the rest. */
function interruptedBySignals(output: Output, messages: InterruptMessages): CommandInterruption & { end(): void } {
  const stop = new AbortController();
  const abandon = new AbortController();
  let deadline: NodeJS.Timeout | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) {
      abandon.abort(new InputError("abandoned"));
      deadline ??= exitAfter(abandonLimit, output.say);
      return;
    }
    stop.abort(new InputError(signal === "SIGHUP" ? ofClosedTerminal(messages.result) : messages.result));
    output.say(
      interruption.isApplying === true
        ? "finishing the changes under way (press Ctrl-C again to abandon them)"
        : messages.notice,
    );
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal).on("SIGHUP", onSignal);
  const interruption: CommandInterruption & { end(): void } = {
    stop: stop.signal,
    abandon: abandon.signal,
    end: () => {
      clearTimeout(deadline);
      process.off("SIGINT", onSignal).off("SIGTERM", onSignal).off("SIGHUP", onSignal);
    },
  };
  return interruption;
}

function ofClosedTerminal(result: string): string {
  return result.replace(/^Cancelled/, "Cancelled: the terminal was closed");
}

/**
 * Ends the process after a time, in milliseconds, whatever still runs: a connector of one's own may ignore signals, and
 * `process.exit` waits for the threads that work for Node, such as one whose statement or disk never answers.
 * @param report receives a message before
 */
export function exitAfter(limit: number, report: (message: string) => void): NodeJS.Timeout {
  return setTimeout(() => {
    report("the work under way did not stop in time; the process is killed");
    process.kill(process.pid, "SIGKILL");
  }, limit);
}

const doing: Record<Stage, string> = {
  read: "reading the sources",
  list: "listing the target",
  plan: "planning",
  preview: "asking the service for its preview",
  apply: "applying",
  verify: "verifying",
};

/** Shows the stage of a run on the terminal. */
export function progressOf(
  { log, output }: Pick<Context, "log"> & { readonly output: Pick<Context["output"], "progress"> },
  name: string,
): (stage: Stage, records?: number) => void {
  return (stage, records) => {
    if (records === undefined) log.debug({ sync: name, stage }, `sync ${name}: ${doing[stage]}`);
    const count = records === undefined ? "" : ` (${pluralize(records, stage === "apply" ? "change" : "record")})`;
    output.progress(`${name}: ${doing[stage]}${count} …`);
  };
}
