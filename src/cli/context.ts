import { userInfo } from "node:os";
import type { Logger } from "pino";
import { openEmbedded } from "./embedded.ts";
import type { Embedded } from "./embedded.ts";
import type { ClientOptions } from "#client/client.ts";
import type { Configuration } from "#config/configuration.ts";
import { loadConfiguration } from "#config/load.ts";
import { InputError } from "#errors.ts";
import type { Interruption } from "#sync/interruption.ts";
import type { Actor } from "#sync/record.ts";
import type { Composition } from "./composition.ts";
import type { Log } from "./log.ts";
import { exitCodes, listOf } from "./output.ts";
import type { Output } from "./output.ts";

/** What one call of a command works with. */
export interface Context {
  readonly configuration: Configuration;
  readonly embedded: Embedded;
  readonly interruption: Interruption;
  readonly log: Logger;
  readonly output: Output;
  /** False: this command has no channel of notifications told of what it does. */
  readonly notify?: boolean;
  /** Is told of every request to a target of a sync. */
  readonly observe?: ClientOptions["observe"];
}

/**
 * Loads the configuration. What it holds of secrets is neither logged nor said from then on.
 * @param known secrets of what was loaded before
 */
export async function load(
  file: string,
  composition: Composition,
  { log, output }: Voices,
  known: readonly string[] = [],
): Promise<Configuration> {
  const configuration = await loadConfiguration(file, {
    connectors: composition.connectors,
    load: (path, folder) => composition.loadConnector(path, folder),
  });
  const secrets = [...known, ...configuration.secrets];
  log.conceal(secrets);
  output.conceal(secrets);
  return configuration;
}

/** Where a command speaks. */
export interface Voices {
  readonly log: Log;
  readonly output: Output;
}

/** Opens what a command that works by itself needs, and closes it when `work` has ended. */
export async function withContext<Result>(
  file: string,
  composition: Composition,
  voices: Voices,
  work: (context: Context) => Promise<Result>,
  stopping: StoppingWords = applyStopping,
): Promise<Result> {
  const configuration = await load(file, composition, voices);
  const { output } = voices;
  const log = voices.log.logger;
  const interruption = interruptedBySignals(output, stopping);
  const embedded = openEmbedded(configuration, composition, {
    log,
    mayStart: true,
    announcePassword: (password) => {
      output.say(passwordNotice(configuration, password));
    },
  });
  try {
    return await work({ configuration, embedded, interruption, log, output });
  } finally {
    interruption.end();
    await embedded.close();
  }
}

export function passwordNotice(configuration: Configuration, password: string): string {
  return `The password of ${configuration.service?.administrator.name ?? "the administrator"} is ${password} (it is shown this once; set service.administrator.password to choose your own)`;
}

/** The syncs that a command is about: the one named, else all. */
export function chosenSyncs(configuration: Configuration, name: string | undefined): readonly string[] {
  const names = Object.keys(configuration.syncs);
  if (name === undefined) {
    if (names.length === 0) throw new InputError(`${configuration.file} has no \`syncs:\`: there is nothing to do`);
    return names;
  }
  if (!names.includes(name)) throw new InputError(`no sync is called ${name}: ${listOf(names)}`);
  return [name];
}

/** What is said when a command is interrupted. */
export interface StoppingWords {
  /** Why nothing came of it. */
  readonly reason: string;
  readonly notice: string;
}

const applyStopping: StoppingWords = {
  reason: "interrupted: nothing was applied",
  notice: "stopping; what is being applied is finished first (press Ctrl-C again to abandon it)",
};

/** How long what was abandoned has to end, in milliseconds. A connector of one's own need not listen. */
const patience = 10_000;

/** The first Ctrl-C (or SIGTERM) stops what can be stopped without harm; a second one abandons the rest. */
function interruptedBySignals(output: Output, words: StoppingWords): Interruption & { end(): void } {
  const stop = new AbortController();
  const abandon = new AbortController();
  let deadline: NodeJS.Timeout | undefined;
  const onSignal = (): void => {
    if (stop.signal.aborted) {
      abandon.abort(new InputError("abandoned"));
      deadline ??= setTimeout(() => {
        output.say("what was under way did not end in time");
        process.exit(exitCodes.failed);
      }, patience);
      return;
    }
    stop.abort(new InputError(words.reason));
    output.say(words.notice);
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  return {
    stop: stop.signal,
    abandon: abandon.signal,
    end: () => {
      clearTimeout(deadline);
      process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
    },
  };
}

/* What is said when a command is interrupted: why nothing came of it, and that it was heard. */

/** What Ctrl-C means to it. */
export const exportStopping = {
  reason: "interrupted",
  notice: "cancelling the export (press Ctrl-C again not to wait for it)",
};

/** What is said when a load is interrupted. */
export const loadStopping = {
  reason: "interrupted: nothing was loaded",
  notice: "cancelling the load (press Ctrl-C again not to wait for it)",
};

/** What is said when SQL is interrupted. */
export const sqlStopping = {
  reason: "interrupted: the statement that was running was undone",
  notice: "stopping (press Ctrl-C again not to wait)",
};

/** What is said when a command that only looks is interrupted. */
export const lookStopping = { reason: "interrupted", notice: "stopping (press Ctrl-C again not to wait)" };

/** The account of this machine that runs this process. */
export function localActor(): Actor {
  const from = "command line";
  try {
    return { name: userInfo().username, from };
  } catch {
    // A container's account need not have a name.
    return { name: `account ${process.getuid?.() ?? "unknown"}`, from };
  }
}
