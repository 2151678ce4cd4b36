import { connectCoordinator, findDaemon } from "#control/client.ts";
import type { FoundDaemon } from "#control/client.ts";
import { configurationDigest } from "#control/configuration-digest.ts";
import { InputError } from "#errors.ts";
import type { Coordinator } from "#sync/coordinator/coordinator.ts";
import { localActor } from "#cli/actor.ts";
import type { Context } from "#cli/context.ts";

/** The daemon of the data folder, where one is alive. @throws {UnavailableError} when it does not answer */
export function findOwnDaemon({ configuration, interruption }: Context): Promise<FoundDaemon | undefined> {
  return findDaemon(configuration.data, localActor().name, interruption.stop);
}

/** Works with the coordinator of a daemon. Says when that works with another configuration. */
export async function withDaemon<Result>(
  { configuration, interruption, output }: Context,
  daemon: FoundDaemon,
  work: (coordinator: Coordinator) => Promise<Result>,
): Promise<Result> {
  const { connection, status } = daemon;
  const { pid, token } = connection.presence;
  if (status.configuration.digest !== configurationDigest(configuration, token)) {
    output.say(
      `note: the daemon (process ${pid}) goes by another configuration than ${configuration.file} has now: ` +
        `\`kill -HUP ${pid}\` makes it read ${status.configuration.file} again`,
    );
  }
  const leaving = new AbortController();
  const leave = (): void => {
    leaving.abort(
      new InputError(
        `interrupted: the daemon (process ${pid}) goes on with what it was asked for; \`rollcall runs\` tells how that ends`,
      ),
    );
  };
  interruption.stop.addEventListener("abort", leave);
  const options = { data: configuration.data, account: localActor().name, signal: leaving.signal };
  const coordinator = await connectCoordinator(daemon, options);
  try {
    return await work(coordinator);
  } finally {
    interruption.stop.removeEventListener("abort", leave);
    coordinator.close();
  }
}
