import { Command } from "commander";
import { setCall } from "#commands.ts";
import { InputError, errorDocument, messageOf } from "#errors.ts";
import type { Composition } from "#daemon/composition.ts";
import { exitCodes, openOutput } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { Runner, configurationFile } from "./runner.ts";

/** Adds the arguments, options, examples and action of a command to it. */
type Declare = (command: Command, runner: Runner) => void;

/**
 * Every command by the group it is listed in. Its file has its options, its help and what it does, and is loaded when it is called: a process
 * needs nothing of the others, least of all one that stays.
 */
const groups: Readonly<
  Record<string, Readonly<Record<string, readonly [string, () => Promise<{ declare: Declare }>]>>>
> = {
  "Run Rollcall:": {
    start: ["run the service and the daemon", () => import("#cli/start/start.ts")],
    status: ["show the daemon, every sync, and what needs attention", () => import("./status.ts")],
    reload: [
      "reload the configuration of the running daemon; if it is invalid, nothing changes",
      () => import("./reload.ts"),
    ],
    password: ["give the service's administrator a new password", () => import("./password.ts")],
    health: ["check that the running service or daemon is ready", () => import("./health.ts")],
  },
  "Plan and apply:": {
    plan: ["show what a run would change, without changing anything", () => import("./plan.ts")],
    apply: ["show the plan, apply it and verify the result", () => import("./apply.ts")],
    approve: ["approve a pending plan", () => import("./approve.ts")],
    reject: ["reject a pending plan", () => import("./reject.ts")],
    undo: ["plan the reversal of a run; the plan needs approval", () => import("./undo.ts")],
  },
  "Find out what happened:": {
    runs: ["list runs, newest first; consecutive runs without changes share a line", () => import("./runs.ts")],
    show: ["show a run and its changes", () => import("./show.ts")],
    history: ["show the history of a user or group", () => import("./history.ts")],
    explain: ["explain where a user or group comes from, and what the rules do with it", () => import("./explain.ts")],
    drift: ["show what changed in the target since the last applied run", () => import("./drift.ts")],
    unmanaged: ["list users and groups in the target that no source has", () => import("./unmanaged.ts")],
    leaving: ["list who is leaving: in grace, suspended, until when", () => import("./leaving.ts")],
    audit: ["list the audit log: who requested, approved and configured what", () => import("./audit.ts")],
  },
  "Set up and check:": {
    init: ["write a first configuration: asks questions and tests every connection", () => import("#cli/init/init.ts")],
    validate: ["check the configuration and the pinboards without any connection", () => import("./validate.ts")],
    check: [
      "check the configuration, and test every source, target and notification channel",
      () => import("./check.ts"),
    ],
    login: ["act as yourself on the command line: store an access token for a daemon", () => import("./login.ts")],
    logout: ["revoke and forget the access token of a login", () => import("./logout.ts")],
    account: ["add, list and change accounts and access tokens", () => import("./account.ts")],
    inbox: ["show what providers have pushed, and manage the tokens that they push with", () => import("./inbox.ts")],
    drill: ["rehearse known incidents on a copy, and report what stops them", () => import("./drill.ts")],
    notify: ["test the notification channels", () => import("./notify.ts")],
  },
  "Tables and stored data:": {
    export: ["export a target's users, groups and memberships to tables or CSV files", () => import("./export.ts")],
    load: ["load files into a table of a service", () => import("#cli/load/load.ts")],
    sql: ["run SQL in the databases of the embedded service", () => import("./sql.ts")],
    backup: ["back up the data folder to one file, while Rollcall runs", () => import("#cli/backup/backup.ts")],
    restore: ["restore a backup into an empty data folder", () => import("#cli/backup/restore.ts")],
    engine: ["move the service's data to another engine", () => import("./engine-copy.ts")],
    state: ["move the daemon's state between the data folder and PostgreSQL", () => import("./state-copy.ts")],
  },
  "Help:": {
    version: ["show the versions of Rollcall, Node.js and the system", () => import("./version.ts")],
  },
};

/** The names of all commands, as `rollcall --help` lists them. */
export const commandNames: readonly string[] = Object.values(groups).flatMap((commands) => Object.keys(commands));

/** Runs the command line. Returns the exit code: 0 done, 1 failed, 2 there are changes (`plan`), 3 held. */
export async function runProgram(argv: readonly string[], composition: Composition): Promise<ExitCode> {
  const json = argv.includes("--json");
  // Before Commander writes: from here on, a reader that is gone (`rollcall --help | head`) is no error.
  const output = openOutput({ json });
  const runner = new Runner(composition, argv);
  setCall(undefined, argv, process.env);
  const args = inOrder(argv.slice(2));
  const program = await programFor(args, runner);
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    // Commander has printed the help that was asked for, or what is wrong with the command line.
    if ((error as { exitCode?: number }).exitCode === 0) return exitCodes.done;
    if (json) {
      // Without a command, Commander's message is only "(outputHelp)".
      const said = messageOf(error).startsWith("(") ? "no command" : messageOf(error);
      const problem = new InputError(`${said.replace(/^error: /, "")} (see --help)`);
      await output.write(`${JSON.stringify({ error: errorDocument(problem) })}\n`);
    }
    return exitCodes.failed;
  }
  return runner.code;
}

/** The program with all commands, and the options of those that the arguments name. */
async function programFor(args: readonly string[], runner: Runner): Promise<Command> {
  const program = new Command("rollcall")
    .description(
      "Keeps the users and groups of an analytics service in step with the directories a company already has.",
    )
    .version(`${runner.composition.version} (Node.js ${process.versions.node})`)
    .commandsGroup("Help:")
    .helpCommand("help [command]", "show the help of a command")
    .addHelpText(
      "after",
      "\nEvery command takes --config FILE, --json, --verbose and --no-color, before or after its name.\n`rollcall COMMAND --help` shows its other options, examples and exit codes.",
    )
    .configureOutput(runner.argv.includes("--json") ? { writeErr: () => {} } : {})
    .showHelpAfterError("(see --help)")
    .exitOverride();
  const isKnown = commandNames.includes(args[0] ?? "");
  // At a tab, the command whose options are completed is among the words.
  const named = isKnown ? args[0] : args.find((word) => commandNames.includes(word));
  for (const [heading, commands] of Object.entries(groups))
    for (const [name, [summary, load]] of Object.entries(commands)) {
      const command = program.command(name).description(summary).helpGroup(heading);
      if (name !== named) continue;
      const { declare } = await load();
      declare(command, runner);
    }
  if (isKnown) return program;
  const { addCompletion } = await import("./completion.ts");
  addCompletion(program, args, configurationFile);
  return program;
}

/**
 * The arguments with the command first: options of every command that precede it follow it, and `help audit verify` is
 * `audit verify --help`.
 */
function inOrder(args: readonly string[]): string[] {
  let at = 0;
  for (; isCommon(args[at]); at++) if (takesValue(args[at])) at++;
  const [name, ...rest] = args.slice(at);
  if (name === undefined) return [];
  if (name === "help" && rest[0] !== undefined && !rest[0].startsWith("-"))
    // Commander suggests the command that an unknown name may mean.
    return commandNames.includes(rest[0]) || rest[0] === "completion" ? [...rest, "--help"] : rest;
  // Only some commands have others below them, which have the options.
  const own = name === "account" ? /^[a-z]+$/ : /^(?:verify|test|copy|token)$/;
  const below = !own.test(rest[0] ?? "") ? 0 : rest[0] === "token" && /^[a-z]+$/.test(rest[1] ?? "") ? 2 : 1;
  // Alone, they show their help.
  if (below === 0 && /^(?:account|notify|engine|state)$/.test(name))
    return [name, ...rest.filter((word, place) => !isCommon(word) && !takesValue(rest[place - 1]))];
  return [name, ...rest.slice(0, below), ...args.slice(0, at), ...rest.slice(below)];
}

/** Whether it is an option of every command. */
function isCommon(word = ""): boolean {
  return /^(?:-v|-c|--verbose|--json|--no-color|--config(?:=.*)?)$/.test(word);
}

function takesValue(word: string | undefined): boolean {
  return word === "-c" || word === "--config";
}
