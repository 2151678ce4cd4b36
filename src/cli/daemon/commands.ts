import { Option } from "commander";
import type { Command } from "commander";
import { start } from "#cli/commands.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";
import type { Only } from "#cli/start/start.ts";

/** The command that stays: it logs to standard output. */
export function addStartCommand(program: Command, { composition, act }: Frame): void {
  common(program.command("start"))
    .description("run the service and the daemon until interrupted")
    .addOption(new Option("--only <part>", "run only one of them").choices(["service", "daemon"]))
    .action(({ only, ...options }: CommonOptions & { only?: Only }) =>
      act(options, (file, voices) => start(file, composition, { ...voices, ...(only === undefined ? {} : { only }) }), {
        level: "info",
        destination: 1,
      }),
    );
}
