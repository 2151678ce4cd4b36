import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import { writeTable } from "./format.ts";
import { daemonElsewhere } from "./known-runs.ts";
import type { Runner } from "./runner.ts";
import { withDaemonOrStore } from "#cli/coordinator.ts";
import { command } from "#commands.ts";
import { inboxesOver } from "#control/client.ts";
import type { InboxChanges } from "#control/client.ts";
import { InboxAccess } from "#control/inboxes.ts";
import { localActor } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { readState } from "#daemon/data-folder.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { inboxesOf } from "#daemon/wiring.ts";
import { InputError } from "#errors.ts";
import { brakeLine, inboxStatus } from "#state/inbox/status.ts";
import type { InboxStatus } from "#state/inbox/status.ts";
import { formatSizes } from "#text.ts";
import { exactly, relatively } from "#times.ts";

type Flags = CommonOptions & { readonly name?: string };

export function declare(command: Command, runner: Runner): void {
  help(common(command).enablePositionalOptions(), { examples: ["rollcall inbox", "rollcall inbox --json"] }).action(
    (flags: Flags) => runner.runWithContext(flags, show),
  );
  const tokens = command.command("token").description("add, revoke and list the tokens that providers push with");
  const below = (name: string, description: string): Command =>
    common(tokens.command(name)).description(description).argument("<source>", "the source whose inbox it is");
  help(
    below("add", "make a token for a provider, and show it once").option("--name <name>", "what to call the token"),
    {
      examples: ["rollcall inbox token add okta --name production"],
    },
  ).action((source: string, _, self: Command) => {
    const flags = self.optsWithGlobals<Flags>();
    return runner.runWithContext(flags, (context) => add(context, source, flags.name));
  });
  help(below("revoke", "refuse a token from now on").argument("<token>", "its name, or the beginning of its id"), {
    examples: ["rollcall inbox token revoke okta production"],
  }).action((source: string, key: string, _, self: Command) =>
    runner.runWithContext(self.optsWithGlobals<Flags>(), (context) => revoke(context, source, key)),
  );
  help(below("list", "list the tokens of an inbox, with their last use"), {
    examples: ["rollcall inbox token list okta"],
  }).action((source: string, _, self: Command) =>
    runner.runWithContext(self.optsWithGlobals<Flags>(), (context) => list(context, source)),
  );
}

function changing<Result>(context: Context, work: (inboxes: InboxChanges) => Promise<Result>): Promise<Result> {
  const { configuration, interruption, output } = context;
  return withDaemonOrStore(context, {
    daemon: (daemon) => work(inboxesOver(daemon, interruption.stop)),
    store: (store) => {
      const by = localActor();
      const inboxes = new InboxAccess({
        inboxes: store.inboxes,
        audit: store.audit,
        throttle: (limits) => store.throttle(limits),
        settings: () => inboxesOf(configuration),
        warn: output.say,
      });
      return work({
        add: (source, name) => inboxes.add(source, name, by),
        revoke: (source, token) => inboxes.revoke(source, token, by),
      });
    },
  });
}

async function add(context: Context, source: string, name: string | undefined): Promise<ExitCode> {
  const { output } = context;
  const added = await changing(context, (inboxes) => inboxes.add(source, name));
  if (output.json) await output.write(`${JSON.stringify({ source, ...added })}\n`);
  else
    await output.write(
      `${added.name}: added\nThe token is ${added.token} (it is shown only this once)\nThe provider sends it to ${pathOf(source)} of this Rollcall's address\n`,
    );
  return exitCodes.done;
}

async function revoke(context: Context, source: string, key: string): Promise<ExitCode> {
  const { output } = context;
  const { name } = await changing(context, (inboxes) => inboxes.revoke(source, key));
  await output.write(output.json ? `${JSON.stringify({ source, name, revoked: true })}\n` : `${name}: revoked\n`);
  return exitCodes.done;
}

function pathOf(source: string): string {
  return `/scim/v2/${encodeURIComponent(source)}`;
}

/** How every inbox stands: only reads, also while a daemon runs. Whoever cannot read the data folder asks the daemon that they have logged in to. */
export async function statusOfInboxes(context: Context): Promise<readonly InboxStatus[]> {
  const { configuration, interruption } = context;
  const all = Object.entries(inboxesOf(configuration));
  if (all.length === 0) return [];
  const daemon = await daemonElsewhere(context);
  if (daemon !== undefined) return inboxesOver(daemon, interruption.stop).status();
  await using state = await readState(configuration);
  return await Promise.all(
    all.map(([source, settings]) =>
      state.inboxes.read(source, async (inbox) => inboxStatus(inbox, source, settings, await inbox.now())),
    ),
  );
}

async function show(context: Context): Promise<ExitCode> {
  const { output } = context;
  const inboxes = await statusOfInboxes(context);
  if (output.json) await output.write(`${JSON.stringify({ inboxes }, undefined, 2)}\n`);
  else if (inboxes.length === 0) output.say("no source has an inbox: write `inbox:` below a source of connector scim");
  else
    for (const each of inboxes) {
      const [headline = "", ...lines] = inboxLines(each, Date.now());
      await output.write(`${[headline, ...lines].join("\n  ")}\n`);
    }
  return exitCodes.done;
}

/** How an inbox stands: what is in it, and what it waits for. */
export function inboxLines(status: InboxStatus, now: number): string[] {
  const { source, users, groups, last, waitsUntil, firstCycleUntil, losses, tokens } = status;
  const at = (iso: string): string => `${exactly(iso)}, ${relatively(iso, now)}`;
  const used = tokens
    .filter((each) => each.used !== undefined)
    .toSorted((a, b) => ((a.used ?? "") > (b.used ?? "") ? -1 : 1));
  return [
    `inbox    ${source}: ${last === undefined ? "nothing was pushed yet" : formatSizes(users, groups)}`,
    ...(last === undefined
      ? [`the provider pushes to ${pathOf(source)}; \`${command("inbox", "token", "add", source)}\` makes its token`]
      : [`last push ${at(last)}`]),
    ...used.slice(0, 5).map(({ name, used: when = "" }) => `token ${name}: used ${at(when)}`),
    ...(waitsUntil === undefined ? [] : [`a run waits for quiet until ${at(waitsUntil)}`]),
    ...(firstCycleUntil === undefined
      ? []
      : [`first cycle: nobody is deleted for being absent before ${at(firstCycleUntil)}`]),
    ...losses.map(brakeLine),
  ];
}

async function list(context: Context, source: string): Promise<ExitCode> {
  const { output } = context;
  const inbox = (await statusOfInboxes(context)).find((each) => each.source === source);
  if (inbox === undefined) throw new InputError(`no source called ${source} has an inbox`);
  const { tokens } = inbox;
  if (output.json) await output.write(`${JSON.stringify({ tokens }, undefined, 2)}\n`);
  else if (tokens.length === 0)
    output.say(`there are no tokens yet: \`${command("inbox", "token", "add", source)}\` makes one`);
  else {
    const names = ["name", "created", "last used", "id"];
    const rows = tokens.map(({ id, name, created, used }) => [
      name,
      exactly(created),
      used === undefined ? "never" : exactly(used),
      id,
    ]);
    await writeTable(output, names, rows, { flexible: [0], expendable: [] });
  }
  return exitCodes.done;
}
