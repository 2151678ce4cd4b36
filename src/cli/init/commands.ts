import { Option } from "commander";
import type { Command } from "commander";
import { init } from "#cli/commands.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";
import { approvals } from "./draft.ts";
import type { InitFlags } from "./init.ts";

export function addInitCommand(program: Command, { composition, act }: Frame): void {
  common(program.command("init"))
    .description("write a first configuration by asking, trying every connection on the way")
    .option("--force", "replace a configuration that is there; the old one is kept beside it")
    .option("-y, --yes", "ask nothing: take what the flags say, and what is usual for the rest")
    .option("--source <kind>", "the kind of source; without a terminal: csv")
    .option("--users <file>", "a CSV file of users, relative to the configuration")
    .option("--groups <file>", "a CSV file of groups")
    .option("--id <column>", "the column that identifies a user for good")
    .option("--group-id <column>", "the column that identifies a group")
    .option("--member-of <column>", "the column of the users that says what groups they are in")
    .option("--schedule <cron>", "when it runs (default: only on demand)")
    .addOption(
      new Option("--approval <by>", "who lets a plan be applied (default: required)").choices(Object.keys(approvals)),
    )
    .action(({ config, ...options }: CommonOptions & InitFlags) =>
      act(options, (_file, voices) => {
        const { ROLLCALL_CONFIG: fromEnvironment } = process.env;
        return init(config ?? fromEnvironment ?? "rollcall.yaml", composition, voices, options);
      }),
    );
}
