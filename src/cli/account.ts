import type { Command } from "commander";
import { Argument, Option } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import { writeTable } from "./format.ts";
import { passwordOf } from "./password-prompt.ts";
import type { PasswordOptions } from "./password-prompt.ts";
import type { Runner } from "./runner.ts";
import { withDaemonOrStore } from "#cli/coordinator.ts";
import { Accounts, generatePassword, listed } from "#control/accounts.ts";
import { accountsOver, listedOver } from "#control/client.ts";
import type { ListedAccount } from "#control/accounts.ts";
import type { AccountChanges } from "#control/client.ts";
import { listedTokens, Sessions } from "#control/sessions.ts";
import type { ListedToken } from "#control/sessions.ts";
import { daemonElsewhere } from "./known-runs.ts";
import { localActor } from "#daemon/context.ts";
import type { Context, ReadingContext } from "#daemon/context.ts";
import { readState } from "#daemon/data-folder.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { roles } from "#roles.ts";
import type { Role } from "#roles.ts";
import { exactly } from "#times.ts";

type Flags = CommonOptions & PasswordOptions & { readonly role?: Role };

export function declare(command: Command, runner: Runner): void {
  const below = (name: string, description: string): Command => common(command.command(name)).description(description);
  const named = (name: string, description: string): Command =>
    below(name, description).argument("<name>", "its name, or its id");

  const adding = withPassword(named("add", "add an account; its password is asked for, generated or read"));
  adding.addOption(new Option("--role <role>", "what it may do").choices(roles).makeOptionMandatory());
  help(adding, {
    examples: ["rollcall account add ada --role approver", "rollcall account add ci --role viewer --generate"],
  }).action((name: string, flags: Flags) =>
    runner.runWithContext(flags, async (context) => {
      const { role = "viewer" } = flags;
      const password = await passwordOf(context, flags, generatePassword);
      return changed(context, name, { role, ...password }, (accounts) =>
        accounts.add({ name, role, password: password.password }),
      );
    }),
  );
  help(below("list", "list the accounts, and the people of the OpenID provider who have signed in"), {
    examples: ["rollcall account list", "rollcall account list --json"],
  }).action((flags: Flags) => runner.runWithState(flags, list));
  for (const [name, disabled, description] of [
    ["disable", true, "end the sessions of an account, and stop its tokens, until it is enabled"],
    ["enable", false, "let a disabled account sign in again"],
  ] as const)
    help(named(name, description), { examples: [`rollcall account ${name} ada`] }).action((who: string, flags: Flags) =>
      runner.runWithContext(flags, (context) => change(context, who, { disabled })),
    );
  help(named("role", "give an account another role, at once").addArgument(new Argument("<role>").choices(roles)), {
    examples: ["rollcall account role ada administrator"],
  }).action((who: string, role: Role, flags: Flags) =>
    runner.runWithContext(flags, (context) => change(context, who, { role })),
  );
  help(withPassword(named("password", "give an account a new password, and end its sessions")), {
    examples: ["rollcall account password ada", "rollcall account password ada --generate"],
  }).action((who: string, flags: Flags) =>
    runner.runWithContext(flags, async (context) =>
      change(context, who, await passwordOf(context, flags, generatePassword)),
    ),
  );
  help(named("remove", "remove an account with its sessions and tokens"), {
    examples: ["rollcall account remove ada"],
  }).action((who: string, flags: Flags) =>
    runner.runWithContext(flags, (context) =>
      changed(context, who, { removed: true }, (accounts) => accounts.remove(who)),
    ),
  );
  help(below("tokens", "list the access tokens, with their last use"), {
    examples: ["rollcall account tokens"],
  }).action((flags: Flags) => runner.runWithState(flags, tokens));
  help(below("revoke", "revoke an access token").argument("<token>", "its id; the beginning is enough"), {
    examples: ["rollcall account revoke 6f1c2b"],
  }).action((id: string, flags: Flags) =>
    runner.runWithContext(flags, (context) =>
      changed(context, id, { revoked: true }, (accounts) => accounts.revoke(id)),
    ),
  );
}

function withPassword(command: Command): Command {
  return command
    .option("--password-file <file>", "read the password from this file; - for standard input")
    .option("--generate", "generate the password, and show it once");
}

function change(context: Context, name: string, changes: Changes): Promise<ExitCode> {
  return changed(context, name, changes, (accounts) => accounts.change(name, changes));
}

/** What a command has changed, as `--json` shows it. */
interface Changes {
  readonly role?: Role | undefined;
  readonly disabled?: boolean | undefined;
  readonly password?: string | undefined;
  /** Nobody else knows the password: it is shown. */
  readonly isGenerated?: boolean | undefined;
  readonly removed?: true;
  readonly revoked?: true;
}

async function changed(
  context: Context,
  name: string,
  { password, isGenerated = false, ...changes }: Changes,
  work: (accounts: AccountChanges) => Promise<unknown>,
): Promise<ExitCode> {
  await withDaemonOrStore(context, {
    daemon: (daemon) => work(accountsOver(daemon, context.interruption.stop)),
    store: (store) => work(inStore(new Accounts(store), new Sessions(store))),
  });
  const { output } = context;
  const shown = isGenerated ? { password } : {};
  if (output.json) await output.write(`${JSON.stringify({ account: name, ...changes, ...shown })}\n`);
  else {
    await output.write(`${name}: ${words(changes, password !== undefined)}\n`);
    if (isGenerated) await output.write(`The password is ${password} (it is shown only this once)\n`);
  }
  return exitCodes.done;
}

function words({ role, disabled, removed, revoked }: Changes, hasPassword: boolean): string {
  if (removed) return "removed, with its sessions and tokens";
  if (revoked) return "revoked";
  if (disabled !== undefined) return disabled ? "disabled; its sessions have ended" : "enabled";
  if (role === undefined) return "has a new password; its sessions have ended";
  return hasPassword ? `added, with the role ${role}` : `has the role ${role} now`;
}

function inStore(accounts: Accounts, sessions: Sessions): AccountChanges {
  const by = localActor();
  return {
    add: (account) => accounts.add(account, by),
    change: (name, changes) => accounts.change(name, changes, by),
    remove: (name) => accounts.remove(name, by),
    revoke: (id) => sessions.revoke(id, by),
  };
}

/** The accounts and tokens, as they are stored; whoever cannot read the data folder asks the daemon that they have logged in to. */
async function known(
  context: ReadingContext,
): Promise<{ readonly accounts: readonly ListedAccount[]; readonly tokens: readonly ListedToken[] }> {
  const daemon = await daemonElsewhere(context);
  if (daemon !== undefined) return listedOver(daemon, context.interruption.stop);
  await using state = await readState(context.configuration);
  const access = await state.access.read();
  return { accounts: listed(access), tokens: listedTokens(access) };
}

/** `rollcall account list`: only reads, also while a daemon runs. */
async function list(context: ReadingContext): Promise<ExitCode> {
  const { output } = context;
  const { accounts } = await known(context);
  if (output.json) await output.write(`${JSON.stringify({ accounts }, undefined, 2)}\n`);
  else if (accounts.length === 0)
    output.say("there are no accounts yet: `rollcall account add NAME --role administrator` adds one");
  else
    await writeTable(
      output,
      ["name", "role", "signs in by", "state", "signed in", "tokens", "id"],
      accounts.map(({ id, name, role, via, disabled, signedIn, tokens: count }) => [
        name,
        role ?? "none",
        via === "oidc" ? "single sign-on" : "password",
        disabled ? "disabled" : "enabled",
        signedIn === undefined ? "never" : exactly(signedIn),
        count,
        id,
      ]),
      { flexible: [1], expendable: [] },
    );
  return exitCodes.done;
}

/** `rollcall account tokens`: only reads, also while a daemon runs. */
async function tokens(context: ReadingContext): Promise<ExitCode> {
  const { output } = context;
  const { tokens: all } = await known(context);
  if (output.json) await output.write(`${JSON.stringify({ tokens: all }, undefined, 2)}\n`);
  else if (all.length === 0) output.say("there are no access tokens: people create them on the page Your account");
  else
    await writeTable(
      output,
      ["id", "name", "account", "last used", "expires"],
      all.map(({ id, name, owner, used, expires }) => [
        id,
        name,
        owner,
        used === undefined ? "never" : exactly(used),
        exactly(expires),
      ]),
      { flexible: [1], expendable: [] },
    );
  return exitCodes.done;
}
