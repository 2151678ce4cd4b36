import { createQueue } from "#queue.ts";
import type { Configuration } from "#config/configuration.ts";
import { keysForRestart } from "#config/differences.ts";
import { InputError, messageOf } from "#errors.ts";
import type { Actor } from "#state/record.ts";
import type { Composition, RunningService } from "#daemon/composition.ts";
import { load } from "#daemon/context.ts";
import type { Sinks } from "#daemon/context.ts";

/** What was wrong, one line each; empty: the new configuration is in use. */
export interface Reloaded {
  readonly problems: readonly string[];
}

export interface ReloadOptions {
  readonly file: string;
  readonly composition: Composition;
  readonly sinks: Sinks;
  /** The current configuration. */
  readonly running: Configuration;
  /** Its pinboards and its certificate are reloaded. Absent: there is no service in this process. */
  readonly service?: RunningService | undefined;
  /** Switches to another configuration, or throws why it cannot. */
  readonly take: (configuration: Configuration, by: Actor) => Promise<void>;
}

/**
 * Returns the function that reloads the configuration, at SIGHUP and by the API. All of it is replaced or none: if
 * anything is wrong with it, with a pinboard or with the certificate, or a change needs a restart, all stays as it is, and the log says why.
 */
export function createReload({
  file,
  composition,
  sinks,
  service,
  take,
  ...rest
}: ReloadOptions): (by: Actor) => Promise<Reloaded> {
  const { log: logger } = sinks;
  let { running } = rest;
  const reloads = createQueue();

  const refuse = (message: string, problems: readonly string[]): Reloaded => {
    logger.error({ problems }, `the old configuration stays: ${[message, ...problems].join("\n  ")}`);
    return { problems: problems.length > 0 ? problems : [message] };
  };
  const reload = async (by: Actor): Promise<Reloaded> => {
    let next: Configuration;
    try {
      next = await load(file, composition);
    } catch (error) {
      return refuse(messageOf(error), error instanceof InputError ? error.problems : []);
    }
    const fixed = keysForRestart(running, next);
    if (fixed.length > 0) {
      return refuse(
        "part of it needs a restart, so nothing changes",
        fixed.map((key) => `${file}: ${key} cannot change while Rollcall runs`),
      );
    }
    const problems = (await service?.reload()) ?? [];
    if (problems.length > 0) return refuse("the service could not take it", problems);
    try {
      await take(next, by);
    } catch (error) {
      return refuse(messageOf(error), []);
    }
    running = next;
    for (const warning of next.warnings) logger.warn(warning);
    logger.info(`the configuration was reloaded: ${file}`);
    return { problems: [] };
  };
  return (by) => reloads(() => reload(by));
}
