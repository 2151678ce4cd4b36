import { messageOf } from "#errors.ts";
import type { Context } from "#cli/context.ts";
import type { LocalCoordinator } from "#sync/coordinator/coordinate.ts";
import { openNotices } from "./notices.ts";
import type { Notices } from "./notices.ts";

/** How long a command tells people at its end, in milliseconds. */
const patience = 10_000;

/** Until when, in the time of `performance`: a command that works several times does not wait as often. */
const ends = new WeakMap<Context["interruption"], number>();

/**
 * Has the channels of notifications, and whoever watches for heartbeats, told of what a command does where no daemon
 * does that. To be called before anything happens; what it returns ends it, after a last try of some seconds. What could
 * not be sent is kept for the next process, and said. Never rejects: no run fails for it.
 */
export async function tellOf(
  coordinator: Pick<LocalCoordinator, "subscribe">,
  { configuration, interruption, log, output, notify = true }: Context,
): Promise<() => Promise<void>> {
  const { notifications, syncs } = configuration;
  const isWanted =
    Object.keys(notifications).length > 0 || Object.values(syncs).some(({ heartbeat }) => heartbeat !== undefined);
  if (!notify || !isWanted) return async () => {};
  const { stop } = interruption;
  let notices: Notices;
  try {
    notices = await openNotices(configuration, log, {
      isStopping: () => stop.aborted,
      // A command tries nothing again.
      settle: 0,
      closing: () => {
        const now = performance.now();
        const end = ends.get(interruption) ?? now + patience;
        ends.set(interruption, end);
        return Math.max(0, end - now);
      },
      giveUp: stop,
      ended: (channel, sent) => {
        if (!sent) output.say(`channel ${channel}: a notice is given up; with --verbose the log says why`);
      },
      left: (channel, count) => {
        output.say(
          `channel ${channel}: ${count === 1 ? "a notice has" : `${count} notices have`} not gone out yet; the next command or start tries again`,
        );
      },
    });
  } catch (error) {
    output.say(`nobody is told by the channels of notifications: ${messageOf(error)}`);
    return async () => {};
  }
  coordinator.subscribe(notices.listener);
  return async () => {
    output.progress();
    await notices.close().catch((error: unknown) => {
      output.say(`what people are told cannot be kept: ${messageOf(error)}`);
    });
  };
}
