import { Option } from "commander";
import type { Command } from "commander";
import { history, runs, show } from "#cli/commands.ts";
import type { Context } from "#cli/context.ts";
import { lookStopping } from "#cli/context.ts";
import { momentText, wholeNumber } from "#cli/format.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";
import type { ExitCode } from "#cli/output.ts";
import { actionList, aspectList, patternList, runsOptionsOf, showOptionsOf, stateList } from "#cli/arguments.ts";
import type { RunsFlags, ShowFlags } from "#cli/arguments.ts";
import { formats } from "./formats.ts";

/** The commands that look at runs: they read what is kept, and need no daemon and no lock. */
export function addLookCommands(program: Command, { within }: Frame): void {
  const look = (options: CommonOptions, work: (context: Context) => Promise<ExitCode>): Promise<void> =>
    within(options, work, lookStopping);

  common(program.command("runs"))
    .argument("[sync]", "the sync (default: all)")
    .description("list the runs, the newest first; those without change, one after the other, in one line")
    .option("--state <states>", "only those that stand like this, like pending,held,failed", stateList)
    .option("--since <moment>", "only those since then: 24h, 7d, 2026-11-21 or 2026-11-21T08:00Z", momentText)
    .option("--all", "every run, each on a line of its own")
    .option("--limit <number>", "how many are shown (default: 20)", wholeNumber)
    .action((sync: string | undefined, options: CommonOptions & RunsFlags) =>
      look(options, (context) => runs(context, sync, runsOptionsOf(options))),
    );
  common(program.command("show"))
    .argument("<run>", "the beginning of its id, latest, latest:SYNC or pending")
    .description("show a run and what it changed, or would change")
    .addOption(new Option("--kind <kind>", "only changes of these").choices(["user", "group"]))
    .option("--action <actions>", "only these, like create,delete", actionList)
    .option(
      "--name <pattern>",
      "only of this name; * stands for any characters; may be given several times",
      patternList,
    )
    .option("--attribute <names>", "only changes of these: displayName, description, mail, groups", aspectList)
    .addOption(new Option("--format <format>", "how it is shown (default: text)").choices(formats))
    .option("-o, --output <file>", "write it to this file, which is replaced")
    .option("--all", "show every change, however many")
    .option("--limit <number>", "how many changes of each kind are shown", wholeNumber)
    .action((wanted: string, options: CommonOptions & ShowFlags) =>
      look(options, (context) => show(context, wanted, showOptionsOf(options))),
    );
  common(program.command("history"))
    .argument("<name>", "the name of a user or group; * stands for any characters")
    .description("show everything that happened to a user or group, as far as it is kept")
    .option("--sync <sync>", "only what this sync did (default: all)")
    .action((name: string, options: CommonOptions & { sync?: string }) =>
      look(options, (context) => history(context, name, options.sync)),
    );
}
