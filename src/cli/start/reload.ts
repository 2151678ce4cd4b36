import type { Configuration } from "#config/configuration.ts";
import { keysForRestart } from "#config/differences.ts";
import { InputError, messageOf } from "#errors.ts";
import type { Actor } from "#sync/record.ts";
import type { Composition, RunningService } from "#cli/composition.ts";
import { load } from "#cli/context.ts";
import type { Voices } from "#cli/context.ts";

/** What was wrong, one line each; empty: it was taken over. */
export interface Reloaded {
  readonly problems: readonly string[];
}

export interface ReloadOptions {
  readonly file: string;
  readonly composition: Composition;
  readonly voices: Voices;
  /** What it runs with. */
  readonly running: Configuration;
  /** Its pinboards are read again. Absent: there is no service in this process. */
  readonly service?: RunningService | undefined;
  /** Takes another configuration over, or says with an error why it cannot. */
  readonly take: (configuration: Configuration, by: Actor) => Promise<void>;
}

/**
 * Makes what reads the configuration again, and is called at every SIGHUP and by the API. It is taken over as a whole: when anything is
 * wrong with it, or with a pinboard, or what differs cannot change while Rollcall runs, all stays as it is, and the log
 * says why.
 */
export function createReload({
  file,
  composition,
  voices,
  service,
  take,
  ...rest
}: ReloadOptions): (by: Actor) => Promise<Reloaded> {
  const { logger } = voices.log;
  let { running } = rest;
  /** Of every configuration so far: a run may still be under way with any of them. */
  const secrets = new Set(running.secrets);
  let turn: Promise<unknown> = Promise.resolve();

  const refuse = (message: string, problems: readonly string[]): Reloaded => {
    logger.error({ problems }, `the configuration from before stays: ${[message, ...problems].join("\n  ")}`);
    return { problems: problems.length > 0 ? problems : [message] };
  };
  const reload = async (by: Actor): Promise<Reloaded> => {
    let next: Configuration;
    try {
      next = await load(file, composition, voices, [...secrets]);
    } catch (error) {
      return refuse(messageOf(error), error instanceof InputError ? error.problems : []);
    }
    for (const secret of next.secrets) secrets.add(secret);
    const fixed = keysForRestart(running, next);
    if (fixed.length > 0) {
      return refuse(
        "some of what has changed needs a restart; nothing of it was taken over",
        fixed.map((key) => `${file}: ${key} cannot change while Rollcall runs`),
      );
    }
    const problems = (await service?.reload()) ?? [];
    if (problems.length > 0) return refuse("something is wrong with the pinboards", problems);
    try {
      await take(next, by);
    } catch (error) {
      return refuse(messageOf(error), []);
    }
    running = next;
    logger.info(`the configuration was read again: ${file}`);
    return { problems: [] };
  };
  return (by) => {
    const turned = turn.then(() => reload(by));
    turn = turned.catch(() => undefined);
    return turned;
  };
}
