import { Option } from "commander";
import type { Command } from "commander";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import type { Head } from "#state/audit/entry.ts";
import { planFormats } from "#plan/render/shared.ts";
import {
  atLeastOne,
  parseActions,
  parseCauses,
  parseAspects,
  parseDigest,
  parseHead,
  parseIncidents,
  parseLimits,
  parseMoment,
  parseOnly,
  parsePrincipals,
  parseStates,
  repeated,
  reportFormats,
  wholeNumber,
} from "./arguments.ts";
import type { AuditOptions } from "./audit.ts";
import type { Composition } from "#daemon/composition.ts";
import { interruptMessages, load, loadState } from "#daemon/context.ts";
import type { Context, InterruptMessages, ReadingContext, Sinks } from "#daemon/context.ts";
import { approvals } from "#cli/init/draft.ts";
import type { InitOptions } from "#cli/init/init.ts";
import { addLoadOptions } from "#cli/load/options.ts";
import type { LoadOptions } from "#cli/load/options.ts";
import type { LogOptions } from "#daemon/log.ts";
import type { EngineCopyOptions } from "./engine-copy.ts";
import type { StateCopyOptions } from "./state-copy.ts";
import type { DrillOptions } from "./drill.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import type { RunsOptions } from "./runs.ts";
import type { ShowOptions } from "./show.ts";
import type { Only } from "#cli/start/start.ts";

/** Options of every command. */
export interface CommonOptions {
  readonly config?: string;
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/** Runs the commands: shows what they throw, and makes their exit code the program's. */
export interface Runner {
  readonly composition: Composition;
  /** What the process was called with. */
  readonly argv: readonly string[];
  /** Where the configuration is, with this value of `--config`. */
  readonly configurationFile: (config: string | undefined) => string;
  /** @param logging where the log goes; absent: to standard error, and only with `--verbose` */
  run(
    options: CommonOptions,
    work: (file: string, sinks: Sinks) => Promise<ExitCode>,
    logging?: Pick<LogOptions, "level" | "destination">,
  ): Promise<void>;
  /** The same for a command that only reads what runs have left. */
  runWithState(options: CommonOptions, work: (context: ReadingContext) => Promise<ExitCode>): Promise<void>;
  /** The same for a command that needs the configuration. */
  runWithContext(
    options: CommonOptions,
    work: (context: Context, sinks: Sinks) => Promise<ExitCode>,
    messages?: InterruptMessages,
  ): Promise<void>;
}

/**
 * Declares every command. The code of each is imported when it is called: a process needs nothing of the others, least
 * of all one that stays.
 */
export async function addCommands(program: Command, runner: Runner): Promise<void> {
  addStart(program, runner);
  addRuns(program, runner);
  addDecisions(program, runner);
  addJournal(program, runner);
  addTables(program, runner);
  addChecks(program, runner);
  addInit(program, runner);
  addVersion(program, runner);
  // What was called by its name needs no list of the others, and does not complete them.
  if (program.commands.some((command) => command.name() === runner.argv[2])) return;
  const { addCompletion } = await import("./completion.ts");
  addCompletion(program, runner.argv, runner.configurationFile);
}

function addStart(program: Command, { composition, run }: Runner): void {
  common(program.command("start"))
    .description("run the service and the daemon until interrupted")
    .addOption(new Option("--only <part>", "run only one of them").choices(["service", "daemon"]))
    .action((options: CommonOptions & { only?: Only }) =>
      run(
        options,
        async (file, sinks) => {
          const { start } = await import("#cli/start/start.ts");
          return start(file, composition, sinks, options.only);
        },
        // It logs to standard output: it has no other result.
        { level: "info", destination: 1 },
      ),
    );
}

interface LimitOptions extends CommonOptions {
  readonly all?: boolean;
  readonly limit?: number;
}

interface OverrideOptions {
  readonly override?: readonly Overridable[];
}

interface ForOptions {
  readonly for?: readonly string[];
}

const forSome = "only this user or group, as `explain` finds it, or group:NAME; may be repeated";

interface NotifyOptions {
  readonly notify?: boolean;
}

function addRuns(program: Command, { composition, runWithContext }: Runner): void {
  withLimit(program.command("plan"))
    .description("show what a run would change; changes nothing (exit code 2: there are changes)")
    .option("--override <limits>", "plan as if these limits were not set, like deletes,updates", parseLimits)
    .option("--for <name>", forSome, repeated)
    .addOption(
      new Option("--compare <file>", "show what would change if this configuration replaced that one").conflicts("for"),
    )
    .action((sync: string | undefined, options: LimitOptions & OverrideOptions & ForOptions & { compare?: string }) =>
      runWithContext(
        options,
        async (context) => {
          const limit = limitOf(options);
          if (options.compare !== undefined) {
            const { compare } = await import("./compare.ts");
            const old = await load(options.compare, composition);
            return compare(context, old, sync, { limit });
          }
          const { plan } = await import("./plan.ts");
          return plan(context, sync, { limit, overrides: options.override, for: options.for });
        },
        interruptMessages.read,
      ),
    );
  withNotify(withLimit(program.command("apply")))
    .description("show what a run changes, apply it and verify that it arrived")
    .option("-y, --yes", "do not ask at a terminal")
    .option("--digest <digest>", "apply the plan whose digest this is, or begins with, or nothing", parseDigest)
    .option("--override <limits>", "ignore these limits, like deletes,updates, for that plan only", parseLimits)
    .option("--for <name>", forSome, repeated)
    .action(
      (
        sync: string | undefined,
        options: LimitOptions & OverrideOptions & ForOptions & NotifyOptions & { yes?: boolean; digest?: string },
      ) =>
        runWithContext(options, async (context) => {
          const { apply } = await import("./apply.ts");
          const { digest, override: overrides, for: people, yes = false } = options;
          const limit = limitOf(options);
          return apply(withNotifyOption(context, options), sync, { limit, overrides, digest, yes, for: people });
        }),
    );
  common(program.command("drift"))
    .argument("[sync]", "the sync (default: all)")
    .description(
      "show what somebody changed in the target since the last applied run (exit code 2: there is something)",
    )
    .action((sync: string | undefined, options: CommonOptions) =>
      runWithContext(
        options,
        async (context) => (await import("./drift.ts")).drift(context, sync),
        interruptMessages.read,
      ),
    );
  common(program.command("drill"))
    .argument("[sync]", "the sync (default: all)")
    .description(
      "rehearse what has hurt others, on a copy of what is there, and say what stops it (exit code 2: something would not be stopped)",
    )
    .option("--only <incidents>", "only these incidents, like half-ou,stale-export", parseIncidents)
    .addOption(new Option("--format <format>", "the output format (default: text)").choices(reportFormats))
    .option("--markdown", "the same as --format markdown")
    .action((sync: string | undefined, options: CommonOptions & DrillOptions) =>
      runWithContext(
        options,
        async (context) => (await import("./drill.ts")).drillCommand(context, sync, options),
        interruptMessages.read,
      ),
    );
  common(program.command("unmanaged"))
    .argument("[sync]", "the sync (default: all)")
    .description("list who is in the target and in no source; changes nothing (exit code 2: there is somebody)")
    .option("--csv", "everybody as CSV, for a spreadsheet")
    .action((sync: string | undefined, options: CommonOptions & { csv?: boolean }) =>
      runWithContext(
        options,
        async (context) => (await import("./unmanaged.ts")).unmanaged(context, sync, options),
        interruptMessages.read,
      ),
    );
  common(program.command("explain"))
    .description("show where a user or group was found, what the rules make of it, and what a run would do with it")
    .argument("<name>", "a name, a mail address, or the id of a record")
    .option("--sync <sync>", "only this sync (default: all)")
    .action((wanted: string, options: CommonOptions & { sync?: string }) =>
      runWithContext(
        options,
        async (context) => (await import("./explain.ts")).explain(context, wanted, options.sync),
        interruptMessages.read,
      ),
    );
}

interface CauseOptions {
  readonly onlyCause?: readonly string[];
  readonly exceptCause?: readonly string[];
}

function addDecisions(program: Command, { runWithContext }: Runner): void {
  const waiting = "a run that is pending or held; the beginning of its id is enough";
  withNotify(withLimit(program.command("approve"), "<run>", waiting))
    .description("apply what a run has planned, and nothing else")
    .option("-y, --yes", "do not ask at a terminal")
    .option("--only <actions>", "apply only a part: creates, updates, deletes", parseOnly)
    .option("--except <principal>", "leave out this user, or group:NAME; may be repeated", parsePrincipals)
    .option("--only-cause <causes>", "apply only what these causes explain, like c1,c3", parseCauses)
    .option("--except-cause <causes>", "leave out what these causes change", parseCauses)
    .option("--override <limits>", "ignore these limits, which held it, for this plan only", parseLimits)
    .option("--reason <text>", "why")
    .action(
      (
        run: string,
        options: LimitOptions &
          OverrideOptions &
          NotifyOptions &
          Selection &
          CauseOptions & { yes?: boolean; reason?: string },
      ) =>
        runWithContext(options, async (context) => {
          const { approve } = await import("./approve.ts");
          const { only, except, onlyCause, exceptCause, override: overrides, yes = false, reason } = options;
          const selection = { only, except, onlyCauses: onlyCause, exceptCauses: exceptCause };
          return approve(withNotifyOption(context, options), run, {
            limit: limitOf(options),
            overrides,
            selection,
            reason,
            yes,
          });
        }),
    );
  withNotify(common(program.command("reject")))
    .argument("<run>", waiting)
    .description("reject the plan of a waiting run, so that it is never applied")
    .option("--reason <text>", "why")
    .action((run: string, options: CommonOptions & NotifyOptions & { reason?: string }) =>
      runWithContext(options, async (context) =>
        (await import("./reject.ts")).reject(withNotifyOption(context, options), run, options.reason),
      ),
    );
  withNotify(withLimit(program.command("undo"), "<run>", "a run that was applied; the beginning of its id is enough"))
    .description("plan how to reverse the changes of a run; the plan waits for approval")
    .action((run: string, options: LimitOptions & NotifyOptions) =>
      runWithContext(options, async (context) =>
        (await import("./undo.ts")).undo(withNotifyOption(context, options), run, { limit: limitOf(options) }),
      ),
    );
}

/** The commands that read the journal and the audit log: they need no daemon and no lock. */
function addJournal(program: Command, { run, runWithState }: Runner): void {
  common(program.command("runs"))
    .argument("[sync]", "the sync (default: all)")
    .description("list the runs, newest first; consecutive runs without changes share a line")
    .option("--state <states>", "only runs in these states, like pending,held,failed", parseStates)
    .option("--since <moment>", "only runs since then: 24h, 7d, 2026-11-21 or 2026-11-21T08:00Z", parseMoment)
    .option("--all", "every run, each on its own line")
    .option("--limit <number>", "how many lines (default: 20)", wholeNumber)
    .action((sync: string | undefined, options: CommonOptions & RunsOptions) =>
      runWithState(options, async (context) => (await import("./runs.ts")).runs(context, sync, options)),
    );
  common(program.command("show"))
    .argument("<run>", "the beginning of its id, latest, latest:SYNC or pending")
    .description("show a run and what it changed, or would change")
    .addOption(new Option("--kind <kind>", "only changes to these").choices(["user", "group"]))
    .option("--action <actions>", "only these actions, like create,delete", parseActions)
    .option("--name <pattern>", "only this name; * stands for any characters; may be repeated", repeated)
    .option("--source <source>", "only users and groups of this source; may be repeated", repeated)
    .option("--cause <causes>", "only what these causes explain, like c1", parseCauses)
    .option("--attribute <names>", "only changes to these: displayName, description, mail, groups", parseAspects)
    .option("--quarantined", "every record in doubt, instead of the changes: as CSV, or JSON with --json")
    .addOption(new Option("--format <format>", "the output format (default: text)").choices(planFormats))
    .option("-o, --output <file>", "write to this file, and replace it if it exists")
    .option("--all", "show every change")
    .option("--limit <number>", "how many changes of each kind to show", wholeNumber)
    .action((wanted: string, { all, ...options }: CommonOptions & ShowOptions & { all?: boolean }) =>
      runWithState(options, async (context) =>
        (await import("./show.ts")).show(context, wanted, { ...options, limit: limitOf({ ...options, all }) }),
      ),
    );
  common(program.command("history"))
    .argument("<name>", "the name of a user or group; * stands for any characters")
    .description("show everything that happened to a user or group, as far as it is stored")
    .option("--sync <sync>", "only this sync (default: all)")
    .action((name: string, options: CommonOptions & { sync?: string }) =>
      runWithState(options, async (context) => (await import("./history.ts")).history(context, name, options.sync)),
    );

  const audit = common(program.command("audit"))
    .enablePositionalOptions()
    .description("list the audit log: who requested, decided and configured what, and the result")
    .option("--since <time>", "only since then: a date, a time, or 7d for a week ago", parseMoment)
    .option("--run <run>", "only entries about this run")
    .option("--from <number>", "only from this entry on, whatever precedes it", atLeastOne)
    .action((options: CommonOptions & AuditOptions) =>
      run(options, async (file, sinks) => {
        const { audit } = await import("./audit.ts");
        return audit(await loadState(file), sinks.output, options);
      }),
    );
  common(audit.command("verify"))
    .description("check that every entry of the audit log is as it was written (exit code 1: it is not)")
    .option("--head <number:hash>", "the last entry, if you know it from elsewhere than the journal", parseHead)
    .option("--from <number>", "only from this entry on, whatever precedes it", atLeastOne)
    .action((_, verify: Command) => {
      const options = verify.optsWithGlobals<CommonOptions & { head?: Head; from?: number }>();
      return run(options, async (file, sinks) => {
        const { auditVerify } = await import("./audit.ts");
        return auditVerify(await loadState(file), sinks.output, options);
      });
    });
}

function addTables(program: Command, { composition, runWithContext }: Runner): void {
  common(program.command("export"))
    .argument("[sync]", "the sync (default: all that have an `export:`)")
    .description("export the users, groups and memberships of a sync's target to tables or CSV files")
    .option("--to <folder>", "write CSV files for people there, instead of loading tables")
    .option("--raw", "with --to: values exactly as they are, even those a spreadsheet would run as formulas")
    .action((sync: string | undefined, options: CommonOptions & { to?: string; raw?: boolean }) =>
      runWithContext(
        options,
        async (context) => (await import("./export.ts")).exportCommand(context, sync, options),
        interruptMessages.export,
      ),
    );
  addLoadOptions(
    common(program.command("load"))
      .description("load files of rows into a table of a service")
      .argument("<file...>", "CSV or delimited text, plain, gzip or zstd; a pattern; - is standard input"),
  ).action((files: string[], options: CommonOptions & LoadOptions) =>
    runWithContext(
      options,
      async (context) => (await import("#cli/load/load.ts")).loadCommand(context, files, options),
      interruptMessages.load,
    ),
  );
  common(program.command("sql"))
    .description("run SQL as the administrator in the databases of the configuration's own service")
    .argument("<statements>", "SQL; - is standard input. The rows of the last statement are shown")
    .option("-d, --database <name>", "the current database (default: the only one)")
    .option("--csv", "rows as CSV")
    .action((statements: string, options: CommonOptions & { database?: string; csv?: boolean }) =>
      runWithContext(
        options,
        async (context) => (await import("./sql.ts")).sql(context, statements, options),
        interruptMessages.sql,
      ),
    );
  const engine = program.command("engine").description("move what the service has stored to another engine");
  common(engine.command("copy"))
    .description("copy users, groups, sessions and tables into a PostgreSQL database, and compare what arrived")
    .requiredOption("--to <url>", "postgres://user@host/database; the password may be in PGPASSWORD")
    .option("--sslrootcert <file>", "a PEM file with the authorities that may have issued the server's certificate")
    .action((options: CommonOptions & EngineCopyOptions) =>
      runWithContext(
        options,
        async (context) => (await import("./engine-copy.ts")).engineCopy(context, composition, options),
        interruptMessages.copy,
      ),
    );
  const state = program.command("state").description("move the daemon's state between the data folder and PostgreSQL");
  common(state.command("copy"))
    .description(
      "copy journal, audit log, ledgers and stored plans into the database of daemon.state, and compare what arrived",
    )
    .option(
      "--to <url>",
      "the database, while daemon.state is still folder: postgres://user@host/database; the password may be in PGPASSWORD",
    )
    .option(
      "--sslrootcert <file>",
      "with --to: a PEM file with the authorities that may have issued the server's certificate",
    )
    .option("--back", "copy from the database into the data folder, which must have no state")
    .action((options: CommonOptions & StateCopyOptions) =>
      runWithContext(
        options,
        async (context) => (await import("./state-copy.ts")).stateCopy(context, options),
        interruptMessages.copy,
      ),
    );
}

function addChecks(program: Command, { composition, run, runWithContext }: Runner): void {
  common(program.command("status"))
    .description("show whether the daemon runs, how every sync stands, and what waits for a person")
    .action((options: CommonOptions) =>
      runWithContext(options, async (context) => (await import("./status.ts")).status(context), interruptMessages.read),
    );
  common(program.command("reload"))
    .description("make the running daemon read its configuration again: all of it, or nothing if anything is wrong")
    .action((options: CommonOptions) =>
      runWithContext(options, async (context) => (await import("./reload.ts")).reload(context), interruptMessages.read),
    );
  common(program.command("validate"))
    .description("check the configuration and the pinboards without connecting to anything")
    .action((options: CommonOptions) =>
      run(options, async (file, sinks) => (await import("./validate.ts")).validate(file, composition, sinks)),
    );
  common(program.command("check"))
    .description("check the configuration, every source, every target and every notification channel")
    .action((options: CommonOptions) =>
      runWithContext(options, async (context) => (await import("./check.ts")).check(context), interruptMessages.read),
    );
  common(program.command("notify").description("notifications").command("test"))
    .argument("[channel]", "the channel (default: all)")
    .description("send a test through every notification channel, or through one")
    .action((channel: string | undefined, options: CommonOptions) =>
      runWithContext(
        options,
        async (context) => (await import("./notify.ts")).notifyTest(context, channel),
        interruptMessages.read,
      ),
    );
  common(program.command("health"))
    .description("ask the service that runs on the data folder, or the daemon alone, whether it is ready")
    .action((options: CommonOptions) =>
      run(options, async (file, sinks) => (await import("./health.ts")).health(file, sinks)),
    );
}

function addVersion(program: Command, { composition, run }: Runner): void {
  program
    .command("version")
    .option("--json", "one JSON document on standard output")
    .description("show the version of Rollcall, of Node.js and of the system")
    .action((options: CommonOptions) =>
      run(options, async (_file, { output }) => {
        const { version } = composition;
        const { versions, platform, arch } = process;
        await output.write(
          output.json
            ? `${JSON.stringify({ version, node: versions.node, platform, arch })}\n`
            : `rollcall ${version} (Node.js ${versions.node}, ${platform} ${arch})\n`,
        );
        return exitCodes.done;
      }),
    );
}

function addInit(program: Command, { composition, run }: Runner): void {
  common(program.command("init"))
    .description("write a first configuration: asks, and tries every connection on the way")
    .option("--force", "replace an existing configuration, and keep a backup beside it")
    .option("-y, --yes", "ask nothing: use the options, and defaults for the rest")
    .option("--source <kind>", "the kind of source; without a terminal: csv")
    .option("--users <file>", "a CSV file of users, relative to the configuration")
    .option("--groups <file>", "a CSV file of groups")
    .option("--id <column>", "the column that permanently identifies a user")
    .option("--login <column>", "the column that becomes the name of a user")
    .option("--group-id <column>", "the column that identifies a group")
    .option("--member-of <column>", "the column of the users that lists their groups")
    .option("--schedule <cron>", "when it runs (default: only on demand)")
    .addOption(new Option("--approval <by>", "who approves a plan (default: required)").choices(Object.keys(approvals)))
    .action(({ config, ...options }: CommonOptions & InitOptions) =>
      run({ config, ...options }, async (_file, sinks) => {
        const { init } = await import("#cli/init/init.ts");
        const { ROLLCALL_CONFIG: fromEnvironment } = process.env;
        return init(config ?? fromEnvironment ?? "rollcall.yaml", composition, sinks, options);
      }),
    );
}

/** Adds the options of every command. */
function common(command: Command): Command {
  return command
    .option(
      "-c, --config <file>",
      "the configuration (default: $ROLLCALL_CONFIG, rollcall.yaml or config/rollcall.yaml)",
    )
    .option("--json", "one JSON document on standard output")
    .option("-v, --verbose", "log every stage of a run, and what the embedded service does");
}

function withLimit(command: Command, argument = "[sync]", meaning = "the sync (default: all)"): Command {
  return common(command)
    .argument(argument, meaning)
    .option("--all", "show every change")
    .option("--limit <number>", "how many changes of each kind to show", wholeNumber);
}

function limitOf({ all, limit }: Pick<LimitOptions, "all" | "limit">): number | undefined {
  return all === true ? Number.POSITIVE_INFINITY : limit;
}

/** For a command that does the work of a daemon where none is running. */
function withNotify(command: Command): Command {
  return command.option("--no-notify", "send no notifications, if no daemon runs that sends them");
}

function withNotifyOption(context: Context, { notify = true }: NotifyOptions): Context {
  return { ...context, notify };
}
