import { constants, existsSync } from "node:fs";
import { access } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { checkSourcesAndSyncs, checkState, checkTarget, headlineOf } from "#daemon/check.ts";
import type { Checking, Finding } from "#daemon/check.ts";
import { loadPinboards } from "#config/pinboards.ts";
import { errorDocument, InputError, UnavailableError } from "#errors.ts";
import { unwritable } from "#files/disk.ts";
import { noteLines } from "#plan/note.ts";
import { asCalled, command } from "#commands.ts";
import type { Configuration } from "#config/configuration.ts";
import { runningService } from "#daemon/embedded.ts";
import { addressToListenOn, checkIsFree, readCertificate } from "#http/listening.ts";
import { painter } from "#plan/render/text.ts";
import { checkChannel } from "#notify/notifier.ts";
import { visible } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { describeError, exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";

export function declare(command: Command, runner: Runner): void {
  help(common(command), {
    examples: ["rollcall check"],
    exits: { 0: "everything works", 1: "something does not" },
  }).action((options: CommonOptions) => runner.runWithContext(options, check));
}

/**
 * `rollcall check`: tries the configuration, the pinboards, the database of the daemon's state, every source and target, each read or logged in to for real,
 * and the notification channels, as far as possible without sending anything. What the rules make of the records is what
 * a run would make of them.
 */
export async function check(context: Context): Promise<ExitCode> {
  const { configuration, embedded, log, interruption, output } = context;
  const checking: Checking = {
    configuration,
    embedded,
    log,
    signal: interruption.stop,
    warn: output.say,
    progress: (message) => {
      output.progress(message);
    },
  };
  const findings: Finding[] = [];
  const add = async (finding: Finding): Promise<void> => {
    findings.push(finding);
    if (!output.json) await output.write(describe(finding, output));
  };
  if (!output.json) await output.write(`configuration ${configuration.file}: valid\n`);
  for (const warning of configuration.warnings) output.say(warning);
  const folder = configuration.service?.pinboards;
  if (folder !== undefined) await add(await checkPinboards(folder));
  if (configuration.shared !== undefined) await add(await checkState(configuration.shared));
  const { sources, syncs } = await checkSourcesAndSyncs(checking);
  // Where rules make principals of the records, these are shown instead.
  const areMade = (source: string): boolean =>
    syncs.some(
      ({ name, principals = [] }) => principals.length > 0 && configuration.syncs[name]?.from.includes(source),
    );
  const hidden: Partial<Finding> = output.json ? {} : { samples: [] };
  for (const finding of sources) await add(Object.assign(finding, areMade(finding.name) ? hidden : {}));
  for (const finding of syncs) await add(finding);
  const isStopped = (await runningService(configuration.data)) === undefined;
  for (const [name, target] of Object.entries(configuration.targets))
    await add(
      isStopped && target === "embedded" ? await checkStopped(configuration, name) : await checkTarget(checking, name),
    );
  for (const [name, channel] of Object.entries(configuration.notifications)) {
    const attempt = await checkChannel(channel, context.interruption.stop);
    const result =
      "accepted" in attempt ? { reached: [attempt.accepted] } : { error: new UnavailableError(attempt.problem) };
    await add({ what: "channel", name, ...result });
  }
  if (output.json) {
    const documents = findings.map(({ error, problems, ...rest }) => ({
      ...rest,
      ...(problems !== undefined && { problems: noteLines(problems) }),
      ...(error !== undefined && { error: errorDocument(error) }),
    }));
    await output.write(`${JSON.stringify({ configuration: configuration.file, checked: documents }, undefined, 2)}\n`);
  }
  return findings.some(({ error }) => error !== undefined) ? exitCodes.failed : exitCodes.done;
}

/**
 * What would keep the service of the configuration from starting. Starts nothing, and makes no file. An error is in the
 * result.
 */
async function checkStopped(configuration: Configuration, name: string): Promise<Finding> {
  const about = { what: "target", name } as const;
  try {
    return { ...about, isStopped: true, reached: await tryToStart(configuration) };
  } catch (error) {
    return { ...about, error };
  }
}

async function tryToStart({ service, data }: Configuration): Promise<readonly string[]> {
  if (service === undefined) throw new InputError("the target `embedded` needs a `service:` in the configuration");
  const { listen, tls, engine } = service;
  await checkIsFree(await addressToListenOn(service), listen.port);
  if (tls !== undefined) await readCertificate(tls);
  await checkIsWritable(data);
  const found = existsSync(join(data, "service"))
    ? `its data folder is ${data}`
    : `its first start will fill the data folder ${data}`;
  const said = [`it can start: \`${command("start")}\``, found];
  if (engine === "duckdb") return said;
  // Only loaded where it is used, with its driver.
  const { Postgres } = await import("#postgres/database.ts");
  const { checkServer } = await import("#postgres/migrations.ts");
  const postgres = await Postgres.open(engine);
  try {
    await checkServer(postgres);
  } finally {
    await postgres.close();
  }
  return [...said, `PostgreSQL at ${postgres.place} answers`];
}

/** @throws {InputError} or {UnavailableError} when neither the folder nor the first one above it that is there can be written */
async function checkIsWritable(folder: string): Promise<void> {
  for (let place = folder; ; place = dirname(place)) {
    if (!existsSync(place) && dirname(place) !== place) continue;
    await access(place, constants.W_OK).catch((cause: unknown) => {
      throw unwritable(
        place === folder ? `the data folder ${folder}` : `${place}, which is to hold the data folder ${folder},`,
        cause,
      );
    });
    return;
  }
}

async function checkPinboards(folder: string): Promise<Finding> {
  try {
    const pinboards = await loadPinboards(folder);
    return { what: "pinboards", name: folder, reached: pinboards.map(({ id, name }) => `${name} (${id})`) };
  } catch (error) {
    return { what: "pinboards", name: folder, error };
  }
}

function describe(finding: Finding, { colour }: Output): string {
  const { what, name, samples = [], principals = [], problems = [], reached = [], quarantined = 0, error } = finding;
  const title = `${what} ${name}`;
  if (error !== undefined) {
    const description = describeError(error);
    return `${description.startsWith(title) ? "" : `${title}: `}${description}\n`;
  }
  if (what === "channel") return `${title}: ${reached.join("; ")}\n`;
  const paint = painter(colour && quarantined > 0);
  const lines = [
    `${title}: ${headlineOf(finding, (doubt) => paint("yellow", doubt))}`,
    ...reached,
    ...samples,
    ...principals.map(principalLine),
    ...noteLines(problems).map((problem) => paint("yellow", visible(problem))),
  ];
  return `${asCalled(lines.join("\n  "))}\n`;
}

/** A principal in one line, as JSON. */
export function principalLine(principal: Readonly<Record<string, unknown>>): string {
  return visible(JSON.stringify(principal));
}
