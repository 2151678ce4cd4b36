import type { Command } from "commander";
import { check, health, notifyTest } from "#cli/commands.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";

/** The commands that try whether everything is well. */
export function addCheckCommands(program: Command, { composition, act, within }: Frame): void {
  common(program.command("check"))
    .description("check the configuration, every source, every target and every channel of notifications")
    .action((options: CommonOptions) => within(options, (context) => check(context)));
  common(program.command("notify").description("notifications").command("test"))
    .argument("[channel]", "the channel (default: all)")
    .description("send a test by every channel of notifications, or by one")
    .action((channel: string | undefined, options: CommonOptions) =>
      within(options, (context) => notifyTest(context, channel)),
    );
  common(program.command("health"))
    .description("ask the service, or the daemon alone, that runs on the data folder whether it is ready")
    .action((options: CommonOptions) => act(options, (file, voices) => health(file, composition, voices)));
}
