import { Option } from "commander";
import type { Command } from "commander";
import { common, help } from "#cli/flags.ts";
import type { CommonOptions } from "#cli/flags.ts";
import type { Runner } from "#cli/runner.ts";
import { approvals, names, proposeRules, usualAttribute } from "./draft.ts";
import { dirname, relative, resolve } from "node:path";
import type { Composition } from "#daemon/composition.ts";
import { load } from "#daemon/context.ts";
import type { Sinks } from "#daemon/context.ts";
import { describeError, exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { readAuthorities } from "#files/certificates.ts";
import { asCalled, command } from "#commands.ts";
import { openTarget } from "#client/target.ts";
import { cron } from "#config/syncs.ts";
import type { BuiltInConnector } from "#connector.ts";
import { InputError, RollcallError } from "#errors.ts";
import { formatNumber, formatSizes } from "#text.ts";
import { askApproval, askRules, askSchedule, askSource, askTarget, memberOfIn } from "./ask.ts";
import type { Setting } from "./ask.ts";
import type { Approval, Draft, DraftSource, DraftTarget } from "./draft.ts";
import { refuseEarly, writeDraft } from "./file.ts";
import { writeSample } from "./sample.ts";
import { columnsOf } from "./csv-file.ts";
import { openDraft, probe } from "./probe.ts";
import type { Found } from "./probe.ts";

export function declare(command: Command, runner: Runner): void {
  common(command)
    .option("--force", "replace an existing configuration; a backup is kept beside it")
    .addOption(
      new Option("--sample", "write a sample company to try, with its files in sample/").conflicts([
        "force",
        "source",
        "users",
      ]),
    )
    .option("-y, --yes", "ask no questions: use the options and the defaults")
    .option("--source <kind>", "the kind of source (default without a terminal: csv)")
    .option("--users <file>", "a CSV file of users, relative to the configuration")
    .option("--groups <file>", "a CSV file of groups")
    .option("--id <column>", "the column that permanently identifies a user")
    .option("--login <column>", "the column that becomes the name of a user")
    .option("--group-id <column>", "the column that identifies a group")
    .option("--member-of <column>", "the column of the users that lists their groups")
    .option("--schedule <cron>", "when it runs (default: only on demand)")
    .addOption(
      new Option("--approval <by>", "when a plan needs approval (default: required)").choices(Object.keys(approvals)),
    );
  help(command, {
    examples: [
      "rollcall init",
      "rollcall init --sample",
      "rollcall init --yes --users people.csv --id id --login name",
    ],
  }).action(({ config, ...options }: CommonOptions & InitOptions) =>
    runner.run({ config, ...options }, (_file, sinks) =>
      init(config ?? (process.env["ROLLCALL_CONFIG"] || "rollcall.yaml"), runner.composition, sinks, options),
    ),
  );
}

/** The flags that answer the questions where there is no terminal. */
export interface InitOptions {
  readonly force?: boolean;
  readonly sample?: boolean;
  readonly yes?: boolean;
  readonly source?: string;
  readonly users?: string;
  readonly groups?: string;
  readonly id?: string;
  /** The column of the users that becomes their name. */
  readonly login?: string;
  readonly groupId?: string;
  readonly memberOf?: string;
  readonly schedule?: string;
  readonly approval?: Approval;
}

/**
 * `rollcall init`: writes a first configuration from answers at a terminal or, with `--yes`, from flags. It tries every
 * connection on the way, and writes nothing before the end.
 * @throws {InputError} the file exists, a flag is missing, or an answer cannot be used
 */
export async function init(
  file: string,
  composition: Composition,
  { output }: Sinks,
  flags: InitOptions,
): Promise<ExitCode> {
  if (flags.sample === true) return initSample(file, output);
  await refuseEarly(file, flags.force === true);
  const setting = settingOf(composition.connectors, dirname(resolve(file)), output);
  const read = (source: DraftSource): Promise<Found> => readDraft(setting, source, output);
  const asks = output.interactive && flags.yes !== true;
  const made = asks ? await askAll(setting, read) : await fromFlags(setting, read, flags);
  const { written, kept } = await writeDraft(file, made.draft, {
    force: flags.force === true,
    load: (temporary) => load(temporary, composition),
  });
  const shown = relative("", resolve(file)) || file;
  const next = ["check", "plan"].map((command) => `rollcall ${command} --config ${shown}`);
  if (output.json) {
    const { users, groups } = made.found;
    await output.write(
      `${JSON.stringify({ configuration: file, written, kept, users, groups, next }, undefined, 2)}\n`,
    );
  } else {
    await output.write(
      [
        ...written.map((path) => `written: ${path}`),
        ...kept.map((path) => `backup: ${path}`),
        "next:",
        `  ${asCalled(command("check"))}    # tests the whole configuration`,
        `  ${asCalled(command("plan"))}     # shows what a run would change`,
        `Nothing changes before ${asCalled(`\`${command("apply")}\` or \`${command("start")}\``)}.`,
        "",
      ].join("\n"),
    );
  }
  return exitCodes.done;
}

async function initSample(file: string, output: Sinks["output"]): Promise<ExitCode> {
  const written = await writeSample(file);
  const shown = relative("", resolve(file)) || file;
  const next = ["start", "plan"].map((name) => `rollcall ${name} --config ${shown}`);
  if (output.json) {
    await output.write(`${JSON.stringify({ configuration: file, written, next }, undefined, 2)}\n`);
    return exitCodes.done;
  }
  await output.write(
    [
      ...written.map((path) => `written: ${relative("", resolve(path)) || path}`),
      "next:",
      `  ${asCalled(command("start"))}    # the service and the daemon; prints the address and the password`,
      `  ${asCalled(command("plan"))}     # in another terminal, after a change to sample/people.csv`,
      "",
    ].join("\n"),
  );
  return exitCodes.done;
}

interface Made {
  readonly draft: Draft;
  readonly found: Found;
}

async function askAll(setting: Setting, read: (source: DraftSource) => Promise<Found>): Promise<Made> {
  try {
    const { source, found } = await askSource(setting, read);
    const rules = await askRules(setting, found, hasGroups(source, found));
    const target = await askTarget(setting, async (remote) => {
      const reached = await setting.interruptible((signal) => logIn(remote, setting.folder, signal));
      for (const line of reached ?? []) setting.say(`  ${line}`);
    });
    const schedule = await askSchedule(checkCron);
    const approval = await askApproval();
    return { draft: { source, rules, target, approval, schedule }, found };
  } catch (error) {
    // The prompts throw these at Ctrl-C, and when the terminal is closed.
    if (error instanceof Error && /^(?:ExitPrompt|AbortPrompt)Error$/.test(error.name))
      throw new InputError("interrupted: nothing was written", { cause: error });
    throw error;
  } finally {
    // The last prompt leaves it open, which would keep the process alive.
    process.stdin.pause().unref();
  }
}

async function logIn(remote: DraftTarget, folder: string, signal: AbortSignal): Promise<readonly string[]> {
  const { url, ca, username, secret } = remote;
  const target = openTarget({
    name: names.target,
    url,
    prefix: "",
    credentials: { username, password: secret.value },
    ca: ca === undefined ? undefined : readAuthorities(resolve(folder, ca), ca),
  });
  try {
    return await target.check(signal);
  } finally {
    await target.close();
  }
}

async function fromFlags(
  setting: Setting,
  read: (source: DraftSource) => Promise<Found>,
  flags: InitOptions,
): Promise<Made> {
  const { users, groups } = flags;
  if (flags.source !== undefined && flags.source !== "csv")
    throw new InputError(`--source ${flags.source}: flags can only set up csv; run \`rollcall init\` at a terminal`);
  if (users === undefined)
    throw new InputError(
      "there is no terminal for questions, and --users FILE is missing " +
        "(optional: --groups FILE, --id COLUMN, --login COLUMN, --group-id COLUMN, --member-of COLUMN, --schedule CRON)",
    );
  if (flags.schedule !== undefined) checkCron(flags.schedule);
  const part = async (file: string, id: string | undefined, usual: "id" | "groupId", flag: string): Promise<object> => {
    const { names: columns, dialect } = await columnsOf(file, setting);
    const column = id ?? usualAttribute(usual, columns);
    if (column === undefined || !columns.includes(column))
      throw new InputError(
        `${column === undefined ? `which column of ${file} identifies a record?` : `${file} has no column ${column}.`} ` +
          `Name one with ${flag}: ${columns.join(", ")}`,
      );
    return { file, ...dialect, id: column };
  };
  const columns = await columnsOf(users, setting);
  for (const [flag, column] of [
    ["--login", flags.login],
    ["--member-of", flags.memberOf],
  ] as const)
    if (column !== undefined && !columns.names.includes(column))
      throw new InputError(`${users} has no column ${column}. Name one with ${flag}: ${columns.names.join(", ")}`);
  const memberOf = flags.memberOf === undefined ? undefined : memberOfIn(columns, flags.memberOf);
  const source: DraftSource = {
    connector: "csv",
    options: {
      users: { ...(await part(users, flags.id, "id", "--id")), memberOf },
      groups: groups === undefined ? undefined : await part(groups, flags.groupId, "groupId", "--group-id"),
    },
    secrets: [],
  };
  const found = await read(source);
  const rules = proposeRules(found.seen, hasGroups(source, found), flags.login);
  const { approval = "required" } = flags;
  return { draft: { source, rules, target: "embedded", approval, schedule: flags.schedule }, found };
}

async function readDraft(setting: Setting, source: DraftSource, output: Sinks["output"]): Promise<Found> {
  const opened = await openDraft(setting.connectors, source, setting.folder);
  const found = await setting.interruptible((signal) =>
    probe(opened, { signal, warn: setting.say }, (records) => {
      output.progress(`reading: ${formatNumber(records)} records …`);
    }),
  );
  output.progress();
  if (found === undefined) throw new Error("the source was not read");
  if (output.json) return found;
  for (const line of [formatSizes(found.users, found.groups), ...found.reached]) setting.say(`  ${line}`);
  return found;
}

function settingOf(connectors: readonly BuiltInConnector[], folder: string, output: Sinks["output"]): Setting {
  return {
    connectors,
    folder,
    say: (line) => {
      if (!output.json) output.say(line);
    },
    refuse: (error) => {
      output.progress();
      const isExpected = error instanceof RollcallError && !(error.cause instanceof Interrupted);
      if (!isExpected) throw error;
      output.say(`  this does not work: ${describeError(error)}`);
    },
    interruptible: async (work) => {
      const stop = new AbortController();
      const onSignal = (): void => {
        stop.abort(new InputError("interrupted: nothing was written", { cause: new Interrupted() }));
      };
      process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
      try {
        return await work(stop.signal);
      } finally {
        process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
      }
    },
  };
}

/** Marks an error that must not lead to the same question again. */
class Interrupted extends Error {}

function hasGroups({ options }: DraftSource, { groups }: Found): boolean {
  return groups > 0 || options["groups"] !== undefined;
}

/** @throws {InputError} */
function checkCron(expression: string): void {
  const { success, error } = cron.safeParse(expression);
  if (!success)
    throw new InputError(`${JSON.stringify(expression)}: ${error.issues[0]?.message ?? "is not a schedule"}`);
}
