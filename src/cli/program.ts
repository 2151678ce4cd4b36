import { existsSync } from "node:fs";
import { Command, Option } from "commander";
import { InputError, messageOf, errorDocument } from "#errors.ts";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Head } from "#sync/audit/chain.ts";
import { headText } from "#cli/audit/flags.ts";
import type { AuditFilter } from "#cli/audit/audit.ts";
import {
  apply,
  approve,
  audit,
  auditVerify,
  check,
  compare,
  explain,
  exportCommand,
  health,
  init,
  load,
  notifyTest,
  plan,
  reject,
  sql,
  start,
  undo,
} from "./commands.ts";
import type { Composition } from "./composition.ts";
import { load as loadConfigurationOf, withContext } from "./context.ts";
import { addLoadFlags } from "#cli/load/flags.ts";
import type { LoadFlags } from "#cli/load/flags.ts";
import { exceptList, onlyList } from "#cli/run/decide-flags.ts";
import { approvals } from "#cli/init/draft.ts";
import type { InitFlags } from "#cli/init/init.ts";
import { addLookCommands } from "#cli/look/commands.ts";
import { momentText } from "./moments.ts";
import { openLog } from "./log.ts";
import type { Log } from "./log.ts";
import { atLeastOne, wholeNumber } from "./numbers.ts";
import { digestText, limitList } from "#cli/run/overrides.ts";
import { describeError, exitCodeOf, exitCodes, openOutput } from "./output.ts";
import type { ExitCode, Output } from "./output.ts";
import { exportStopping, loadStopping, lookStopping, sqlStopping } from "./stopping.ts";
import type { Only } from "#cli/daemon/start.ts";

interface CommonOptions {
  readonly config?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** Where the configuration is looked for when `--config` does not say. */
const usualPlaces = ["rollcall.yaml", "config/rollcall.yaml"];

/** Runs the command line. Returns the exit code: 0 done, 1 failed, 2 there are changes (`plan`), 3 held. */
export async function runProgram(argv: readonly string[], composition: Composition): Promise<ExitCode> {
  let code: ExitCode = exitCodes.done;
  const json = argv.includes("--json");
  const program = new Command("rollcall")
    .description(
      "Keeps the users and groups of an analytics service in step with the directories a company already has.",
    )
    .version(`${composition.version} (Node.js ${process.versions.node})`)
    .configureHelp({ showGlobalOptions: true })
    .showHelpAfterError("(see --help)")
    .configureOutput(json ? { writeErr: () => {} } : {})
    .exitOverride();
  const act = async (options: CommonOptions, work: (file: string, output: Output, log: Log) => Promise<ExitCode>) => {
    const output = openOutput({ json: options.json === true });
    try {
      code = await work(configurationFile(options), output, await logOf(options, output, commandLog));
    } catch (error) {
      code = exitCodeOf(error);
      output.progress();
      if (output.json) await output.write(`${JSON.stringify({ error: errorDocument(error) })}\n`);
      else output.say(`rollcall: ${describeError(error)}`);
    }
  };

  common(program.command("start"))
    .description("run the service and the daemon until interrupted")
    .addOption(new Option("--only <part>", "run only one of them").choices(["service", "daemon"]))
    .action((options: CommonOptions & { only?: Only }) =>
      act(options, async (file, output) => {
        const log = await logOf(options, output, startLog);
        return start(file, composition, { log, output, ...(options.only === undefined ? {} : { only: options.only }) });
      }),
    );
  limited(program.command("plan"))
    .description("show what a run would change; changes nothing (exit code 2: there are changes)")
    .option("--override <limits>", "show it as if these limits were not there, like deletes,updates", limitList)
    .option("--compare <file>", "show what changes when this configuration takes the place of that one")
    .action((sync: string | undefined, options: LimitOptions & OverrideOptions & { compare?: string }) =>
      act(options, (file, output, log) =>
        withContext(file, composition, { output, log }, async (context) => {
          if (options.compare === undefined)
            return plan(context, sync, { ...limitOf(options), ...overridesOf(options) });
          const { secrets } = context.configuration;
          const old = await loadConfigurationOf(options.compare, composition, { output, log }, secrets);
          return compare(context, old, sync, limitOf(options));
        }),
      ),
    );
  limited(program.command("apply"))
    .description("show what a run changes, apply it and prove that it arrived")
    .option("-y, --yes", "do not ask at a terminal")
    .option("--digest <digest>", "apply the plan with this digest, or nothing", digestText)
    .option("--override <limits>", "pass over these limits, like deletes,updates, for that plan alone", limitList)
    .action((sync: string | undefined, options: LimitOptions & OverrideOptions & { yes?: boolean; digest?: string }) =>
      act(options, (file, output, log) =>
        withContext(file, composition, { output, log }, (context) => {
          const digest = options.digest === undefined ? {} : { digest: options.digest };
          return apply(context, sync, {
            ...limitOf(options),
            ...overridesOf(options),
            ...digest,
            yes: options.yes === true,
          });
        }),
      ),
    );
  limited(program.command("approve"), "<run>", "the run that awaits approval or is held; as much of its id as it takes")
    .description("apply what a run has planned, and nothing else")
    .option("-y, --yes", "do not ask at a terminal")
    .option("--only <actions>", "only a part of it: creates, updates, deletes", onlyList)
    .option("--except <principal>", "all but this user, or group:NAME; may be given several times", exceptList)
    .option("--override <limits>", "limits that held it and do not count for this plan", limitList)
    .action(
      (
        run: string,
        { only, except, yes = false, ...options }: LimitOptions & OverrideOptions & Selection & { yes?: boolean },
      ) =>
        act(options, (file, output, log) =>
          withContext(file, composition, { output, log }, (context) => {
            const selection = { ...(only === undefined ? {} : { only }), ...(except === undefined ? {} : { except }) };
            return approve(context, run, { ...limitOf(options), ...overridesOf(options), selection, yes });
          }),
        ),
    );
  common(program.command("reject"))
    .argument("<run>", "the run that awaits approval or is held; as much of its id as it takes")
    .description("say that what a run has planned is not to be applied")
    .option("--reason <text>", "why")
    .action((run: string, options: CommonOptions & { reason?: string }) =>
      act(options, (file, output, log) =>
        withContext(file, composition, { output, log }, (context) => reject(context, run, options.reason)),
      ),
    );
  limited(program.command("undo"), "<run>", "the run that was applied; as much of its id as it takes")
    .description("plan the way back to what the target was before a run; it awaits approval")
    .action((run: string, options: LimitOptions) =>
      act(options, (file, output, log) =>
        withContext(file, composition, { output, log }, (context) => undo(context, run, limitOf(options))),
      ),
    );
  common(program.command("export"))
    .argument("[sync]", "the sync (default: all that have an `export:`)")
    .description("put the users, groups and memberships of a sync's target into tables, or into CSV files")
    .option("--to <folder>", "write CSV files for people there, instead of loading tables")
    .option("--raw", "with --to: values exactly as they are, also those that a spreadsheet would run as formulas")
    .action((sync: string | undefined, options: CommonOptions & { to?: string; raw?: boolean }) =>
      act(options, (file, output, log) =>
        withContext(
          file,
          composition,
          { output, log },
          (context) => exportCommand(context, sync, options),
          exportStopping,
        ),
      ),
    );
  common(program.command("explain"))
    .description("show where a user or group was found, what the rules make of it, and what a run would do with it")
    .argument("<name>", "a name, a mail address, or the id of a record")
    .option("--sync <sync>", "only this sync (default: all)")
    .action((wanted: string, options: CommonOptions & { sync?: string }) =>
      act(options, (file, output, log) =>
        withContext(file, composition, { output, log }, (context) => explain(context, wanted, options.sync)),
      ),
    );
  const auditCommand = common(program.command("audit"))
    .enablePositionalOptions()
    .description("list what the audit file tells: who asked for, decided and configured what, and what came of it")
    .option("--since <time>", "only from then on: a date, a time, or 7d for a week ago", momentText)
    .option("--run <run>", "only what is about this run")
    .option("--from <number>", "only from this entry on, whatever came before it", atLeastOne)
    .action((options: CommonOptions & AuditFilter) =>
      act(options, async (file, output, log) =>
        audit(await loadConfigurationOf(file, composition, { output, log }), output, options),
      ),
    );
  common(auditCommand.command("verify"))
    .description("check that every entry of the audit file is as it was written (exit code 1: it is not)")
    .option("--head <number:hash>", "the last entry, where it is known from elsewhere than the journal", headText)
    .option("--from <number>", "only from this entry on, whatever came before it", atLeastOne)
    .action((_, command: Command) => {
      const options = command.optsWithGlobals<CommonOptions & { head?: Head; from?: number }>();
      return act(options, async (file, output, log) =>
        auditVerify(await loadConfigurationOf(file, composition, { output, log }), output, options),
      );
    });
  addLookCommands<CommonOptions>(program, {
    common,
    look: (options, work) =>
      act(options, (file, output, log) => withContext(file, composition, { output, log }, work, lookStopping)),
  });
  common(program.command("check"))
    .description("check the configuration, every source, every target and every channel of notifications")
    .action((options: CommonOptions) =>
      act(options, (file, output, log) => withContext(file, composition, { output, log }, (context) => check(context))),
    );
  common(program.command("notify").description("notifications").command("test"))
    .argument("[channel]", "the channel (default: all)")
    .description("send a test by every channel of notifications, or by one")
    .action((channel: string | undefined, options: CommonOptions) =>
      act(options, (file, output, log) =>
        withContext(file, composition, { output, log }, (context) => notifyTest(context, channel)),
      ),
    );
  common(program.command("health"))
    .description("ask the service that runs on the data folder whether it is ready")
    .action((options: CommonOptions) =>
      act(options, (file, output, log) => health(file, composition, { output, log })),
    );
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
      act(options, (_file, output, log) => {
        const { ROLLCALL_CONFIG: fromEnvironment } = process.env;
        return init(config ?? fromEnvironment ?? "rollcall.yaml", composition, { output, log }, options);
      }),
    );
  addLoadFlags(
    common(program.command("load"))
      .description("load files of rows into a table of a service")
      .argument("<file...>", "CSV or delimited text, also packed with gzip or zstd; a pattern; - is standard input"),
  ).action((files: string[], options: CommonOptions & LoadFlags) =>
    act(options, (file, output, log) =>
      withContext(file, composition, { output, log }, (context) => load(context, files, options), loadStopping),
    ),
  );

  common(program.command("sql"))
    .description("run SQL of an administrator in the databases of the configuration's own service")
    .argument("<statements>", "SQL; - is standard input. The rows of the last statement are shown")
    .option("-d, --database <name>", "the current database (default: the only one)")
    .option("--csv", "rows as CSV")
    .action((statements: string, { database, csv, ...options }: CommonOptions & { database?: string; csv?: boolean }) =>
      act(options, (file, output, log) => {
        const settings = { csv: csv === true, ...(database === undefined ? {} : { database }) };
        return withContext(
          file,
          composition,
          { output, log },
          (context) => sql(context, statements, settings),
          sqlStopping,
        );
      }),
    );

  try {
    await program.parseAsync([...argv]);
  } catch (error) {
    // Commander has shown the help that was asked for, or said already what is wrong with the command line.
    if ((error as { exitCode?: number }).exitCode === 0) return exitCodes.done;
    if (json) {
      const problem = new InputError(`${messageOf(error).replace(/^error: /, "")} (see --help)`);
      await openOutput({ json }).write(`${JSON.stringify({ error: errorDocument(problem) })}\n`);
    }
    return exitCodes.failed;
  }
  return code;
}

function common(command: Command): Command {
  return command
    .option(
      "-c, --config <file>",
      "the configuration (default: $ROLLCALL_CONFIG, rollcall.yaml or config/rollcall.yaml)",
    )
    .option("--json", "one JSON document on standard output")
    .option("-v, --verbose", "log every stage of a run, and what the embedded service does");
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

interface OverrideOptions {
  readonly override?: readonly Overridable[];
}

function overridesOf({ override }: OverrideOptions): { overrides?: readonly Overridable[] } {
  return override === undefined ? {} : { overrides: override };
}

function configurationFile({ config }: CommonOptions): string {
  const { ROLLCALL_CONFIG: fromEnvironment } = process.env;
  return config ?? fromEnvironment ?? usualPlaces.find((place) => existsSync(place)) ?? "rollcall.yaml";
}

/** A command logs to standard error, and only when asked to; `start` logs to standard output. */
const commandLog = { level: "silent", destination: 2 } as const;
const startLog = { level: "info", destination: 1 } as const;

function logOf({ verbose }: CommonOptions, output: Output, usual: typeof commandLog | typeof startLog): Promise<Log> {
  const readable = (): void => {
    output.progress();
  };
  return openLog({
    ...usual,
    level: verbose === true ? "debug" : usual.level,
    ...(output.interactive ? { readable } : {}),
  });
}
