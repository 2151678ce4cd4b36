import type { Command } from "commander";
import { digestText, exceptList, limitList, onlyList } from "#cli/arguments.ts";
import { apply, approve, compare, explain, plan, reject, undo } from "#cli/commands.ts";
import { load, lookStopping } from "#cli/context.ts";
import type { Context } from "#cli/context.ts";
import { wholeNumber } from "#cli/format.ts";
import { common } from "#cli/frame.ts";
import type { CommonOptions, Frame } from "#cli/frame.ts";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";

/** The commands that plan, apply and decide. */
export function addRunCommands(program: Command, { composition, within }: Frame): void {
  limited(program.command("plan"))
    .description("show what a run would change; changes nothing (exit code 2: there are changes)")
    .option("--override <limits>", "show it as if these limits were not there, like deletes,updates", limitList)
    .option("--compare <file>", "show what changes when this configuration takes the place of that one")
    .action((sync: string | undefined, options: LimitOptions & OverrideOptions & { compare?: string }) =>
      within(
        options,
        async (context, voices) => {
          if (options.compare === undefined)
            return plan(context, sync, { ...limitOf(options), ...overridesOf(options) });
          const old = await load(options.compare, composition, voices, context.configuration.secrets);
          return compare(context, old, sync, limitOf(options));
        },
        lookStopping,
      ),
    );
  telling(limited(program.command("apply")))
    .description("show what a run changes, apply it and prove that it arrived")
    .option("-y, --yes", "do not ask at a terminal")
    .option("--digest <digest>", "apply the plan with this digest, or nothing", digestText)
    .option("--override <limits>", "pass over these limits, like deletes,updates, for that plan alone", limitList)
    .action(
      (
        sync: string | undefined,
        {
          digest,
          yes = false,
          ...options
        }: LimitOptions & OverrideOptions & TellingOptions & { yes?: boolean; digest?: string },
      ) =>
        within(options, (context) => {
          const named = digest === undefined ? {} : { digest };
          return apply(told(context, options), sync, { ...limitOf(options), ...overridesOf(options), ...named, yes });
        }),
    );
  addDecisions(program, { within });
  common(program.command("explain"))
    .description("show where a user or group was found, what the rules make of it, and what a run would do with it")
    .argument("<name>", "a name, a mail address, or the id of a record")
    .option("--sync <sync>", "only this sync (default: all)")
    .action((wanted: string, options: CommonOptions & { sync?: string }) =>
      within(options, (context) => explain(context, wanted, options.sync), lookStopping),
    );
}

function addDecisions(program: Command, { within }: Pick<Frame, "within">): void {
  telling(
    limited(
      program.command("approve"),
      "<run>",
      "the run that awaits approval or is held; as much of its id as it takes",
    ),
  )
    .description("apply what a run has planned, and nothing else")
    .option("-y, --yes", "do not ask at a terminal")
    .option("--only <actions>", "only a part of it: creates, updates, deletes", onlyList)
    .option("--except <principal>", "all but this user, or group:NAME; may be given several times", exceptList)
    .option("--override <limits>", "limits that held it and do not count for this plan", limitList)
    .action(
      (
        run: string,
        {
          only,
          except,
          yes = false,
          ...options
        }: LimitOptions & OverrideOptions & TellingOptions & Selection & { yes?: boolean },
      ) =>
        within(options, (context) => {
          const selection = { ...(only === undefined ? {} : { only }), ...(except === undefined ? {} : { except }) };
          return approve(told(context, options), run, { ...limitOf(options), ...overridesOf(options), selection, yes });
        }),
    );
  telling(common(program.command("reject")))
    .argument("<run>", "the run that awaits approval or is held; as much of its id as it takes")
    .description("say that what a run has planned is not to be applied")
    .option("--reason <text>", "why")
    .action((run: string, options: CommonOptions & TellingOptions & { reason?: string }) =>
      within(options, (context) => reject(told(context, options), run, options.reason)),
    );
  telling(limited(program.command("undo"), "<run>", "the run that was applied; as much of its id as it takes"))
    .description("plan the way back to what the target was before a run; it awaits approval")
    .action((run: string, options: LimitOptions & TellingOptions) =>
      within(options, (context) => undo(told(context, options), run, limitOf(options))),
    );
}

function limited(command: Command, argument = "[sync]", meaning = "the sync (default: all)"): Command {
  return common(command)
    .argument(argument, meaning)
    .option("--all", "show every change, however many")
    .option("--limit <number>", "how many changes of each kind are shown", wholeNumber);
}

interface LimitOptions extends CommonOptions {
  readonly all?: boolean;
  readonly limit?: number;
}

function limitOf({ all, limit }: LimitOptions): { limit?: number } {
  if (all === true) return { limit: Number.POSITIVE_INFINITY };
  return limit === undefined ? {} : { limit };
}

/** A command that does what a daemon does, where there is none. */
function telling(command: Command): Command {
  return command.option("--no-notify", "tell no channel of notifications, where no daemon runs that does");
}

interface TellingOptions {
  readonly notify?: boolean;
}

function told(context: Context, { notify = true }: TellingOptions): Context {
  return { ...context, notify };
}

interface OverrideOptions {
  readonly override?: readonly Overridable[];
}

function overridesOf({ override }: OverrideOptions): { overrides?: readonly Overridable[] } {
  return override === undefined ? {} : { overrides: override };
}
