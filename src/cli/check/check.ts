import type { Context } from "#cli/context.ts";
import { openConfiguredTarget } from "#cli/open/sync.ts";
import { describeError, exitCodes } from "#cli/output.ts";
import type { ExitCode } from "#cli/output.ts";
import { loadPinboards } from "#config/pinboards.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import { checkChannel } from "#sync/notify/sender.ts";
import { number, sizes, visible } from "#text.ts";
import { checkSource } from "./source.ts";
import type { SourceCheck, SyncCheck } from "./source.ts";

/** What was reached behind one name of the configuration. */
interface Finding extends Partial<SourceCheck> {
  readonly what: "pinboards" | "source" | "target" | "channel";
  readonly name: string;
  readonly error?: unknown;
}

/**
 * `rollcall check`: the configuration, the pinboards, every source and target in it, each read or logged in to for real,
 * and the channels of notifications, as far as that sends nothing.
 */
export async function check(context: Context): Promise<ExitCode> {
  const { configuration, output } = context;
  const findings: Finding[] = [];
  const tell = async (finding: Finding): Promise<void> => {
    findings.push(finding);
    if (!output.json) await output.write(describe(finding));
  };
  if (!output.json) await output.write(`configuration ${configuration.file}: valid\n`);
  const folder = configuration.service?.pinboards;
  if (folder !== undefined) await tell(await checkPinboards(folder));
  for (const name of Object.keys(configuration.sources)) await tell(await findSource(context, name));
  for (const name of Object.keys(configuration.targets)) await tell(await checkTarget(context, name));
  for (const [name, channel] of Object.entries(configuration.notifications)) {
    const attempt = await checkChannel(channel, context.interruption.stop);
    const result =
      "accepted" in attempt ? { reached: [attempt.accepted] } : { error: new UnavailableError(attempt.problem) };
    await tell({ what: "channel", name, ...result });
  }
  if (output.json) {
    const documents = findings.map(({ error, ...rest }) =>
      error === undefined ? rest : { ...rest, error: errorDocument(error) },
    );
    await output.write(`${JSON.stringify({ configuration: configuration.file, checked: documents }, undefined, 2)}\n`);
  }
  return findings.some(({ error }) => error !== undefined) ? exitCodes.failed : exitCodes.done;
}

async function checkPinboards(folder: string): Promise<Finding> {
  try {
    const pinboards = await loadPinboards(folder);
    return { what: "pinboards", name: folder, reached: pinboards.map(({ id, name }) => `${name} (${id})`) };
  } catch (error) {
    return { what: "pinboards", name: folder, error };
  }
}

async function findSource(context: Context, name: string): Promise<Finding> {
  try {
    return { what: "source", name, ...(await checkSource(context, name)) };
  } catch (error) {
    return { what: "source", name, error };
  }
}

async function checkTarget(context: Context, name: string): Promise<Finding> {
  try {
    const target = await openConfiguredTarget(context.configuration, name, context.embedded);
    try {
      return { what: "target", name, reached: await target.check(context.interruption.stop) };
    } finally {
      await target.close();
    }
  } catch (error) {
    return { what: "target", name, error };
  }
}

function describe({
  what,
  name,
  users = 0,
  groups = 0,
  samples = [],
  syncs = [],
  reached = [],
  error,
}: Finding): string {
  const title = `${what} ${name}`;
  if (error !== undefined) {
    const description = describeError(error);
    return `${description.startsWith(title) ? "" : `${title}: `}${description}\n`;
  }
  if (what === "channel") return `${title}: ${reached.join("; ")}\n`;
  if (what !== "source") return `${[`${title}: reached`, ...reached].join("\n  ")}\n`;
  // Where rules make principals of the records, those are what a person looks for.
  const records = syncs.some(({ principals }) => principals.length > 0) ? [] : samples;
  return `${[`${title}: ${sizes(users, groups)}`, ...reached, ...records, ...syncs.flatMap(syncLines)].join("\n  ")}\n`;
}

function syncLines({ sync, users, groups, excluded, quarantined, principals, problems }: SyncCheck): string[] {
  const lines = [...principals.map((principal) => JSON.stringify(principal)), ...problems];
  return [
    `sync ${sync}: ${sizes(users, groups)}, ${number(excluded)} excluded, ${number(quarantined)} quarantined`,
    ...lines.map((line) => `  ${visible(line)}`),
  ];
}
