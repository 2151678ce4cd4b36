import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { interruptMessages } from "#daemon/context.ts";
import type { Configuration } from "#config/configuration.ts";
import { command } from "#commands.ts";
import { InputError } from "#errors.ts";
import { readTarget } from "#postgres/options.ts";
import type { PostgresSettings } from "#postgres/options.ts";
import { breakWords } from "#state/audit/words.ts";
import { copyState } from "#state/copy.ts";
import { copyableFolder } from "#state/folder/copy.ts";
import { copyableDatabase } from "#state/postgres/copy.ts";
import { formatNumber, pluralize } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { holdLock, stateFolder } from "#daemon/data-folder.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  const copy = common(command.command("copy"))
    .description(
      "copy journal, audit log, ledgers, stored plans and inboxes into the database of daemon.state, and compare what arrived",
    )
    .option(
      "--to <url>",
      "the database, while daemon.state is still folder: postgres://user@host/database; the password may be in PGPASSWORD",
    )
    .option("--sslrootcert <file>", "with --to: a PEM file with the certificate authorities to trust")
    .option("--back", "copy from the database into the data folder, which must be empty of state");
  help(copy, {
    examples: ["rollcall state copy --to postgres://rollcall@db.example.com/rollcall", "rollcall state copy --back"],
  }).action((options: CommonOptions & StateCopyOptions) =>
    runner.runWithContext(options, (context) => stateCopy(context, options), interruptMessages.copy),
  );
}

export interface StateCopyOptions {
  /** The database, where `daemon.state` names none. */
  readonly to?: string;
  readonly sslrootcert?: string;
  /** From the database into the folder. */
  readonly back?: boolean;
}

/**
 * `rollcall state copy`: copies the daemon's state from the data folder into the database of `daemon.state`, or of `--to`; with
 * `--back` from the database into the data folder. Compares what arrived. What is copied is only read.
 */
export async function stateCopy(
  { configuration, interruption, output }: Pick<Context, "configuration" | "interruption" | "output">,
  options: StateCopyOptions,
): Promise<ExitCode> {
  const folder = stateFolder(configuration);
  const signal = interruption.stop;
  const database = copyableDatabase(databaseOf(configuration, options), signal);
  const lock = await holdLock(configuration);
  try {
    const inFolder = copyableFolder(folder, Object.keys(configuration.syncs), signal);
    const isBack = options.back === true;
    const { parts, broken, untold } = await (isBack ? copyState(database, inFolder) : copyState(inFolder, database));
    const found = isBack ? { untold, ...(broken && { broken }) } : {};
    if (output.json) await output.write(`${JSON.stringify({ copied: parts, ...found })}\n`);
    else {
      for (const part of parts)
        await output.write(`${part.what}: ${formatNumber(part.count)}, digest ${part.digest}\n`);
      await output.write(isBack ? afterwardsBack(folder) : afterwards(configuration, folder));
    }
    if (untold > 0)
      output.say(
        `${pluralize(untold, "end of a run was", "ends of runs were")} not told to anybody yet, and will not be`,
      );
    if (broken === undefined) return exitCodes.done;
    output.say(`${breakWords(broken)}. The copy has the same damage; the next start sets it aside and says so`);
    return exitCodes.failed;
  } finally {
    lock.release();
  }
}

/** @throws {InputError} when there is none, or two */
function databaseOf({ shared }: Configuration, { to, sslrootcert, back }: StateCopyOptions): PostgresSettings {
  if (shared !== undefined) {
    if (to === undefined && sslrootcert === undefined) return shared.postgres;
    throw new InputError("daemon.state is PostgreSQL already: leave out --to and --sslrootcert");
  }
  if (back === true)
    throw new InputError("daemon.state is `folder` already; copy back while it is still the database, then change it");
  if (to === undefined)
    throw new InputError("set daemon.state to postgres, or say which database with --to postgres://user@host/database");
  return readTarget({ postgres: to, sslrootcert });
}

function afterwards({ shared }: Configuration, folder: string): string {
  const next =
    shared === undefined ? "set daemon.state to this database in every daemon, and start them" : "start the daemons";
  return (
    `Everything arrived unchanged. Now ${next}. ` +
    `The folder ${folder} is as it was: with \`daemon.state: folder\` a daemon would continue from there and miss what the others ` +
    `have done since. \`${command("state copy")} --back\` copies the state back.\n`
  );
}

function afterwardsBack(folder: string): string {
  return (
    `Everything arrived unchanged in ${folder}. Now set daemon.state to folder in this daemon, leave the others stopped, and ` +
    "start it. The database is as it was.\n"
  );
}
