import { loadPinboards } from "#config/pinboards.ts";
import type { Entry } from "#connector.ts";
import type { Context } from "./context.ts";
import { openConfiguredTarget, openSource } from "./open-sync.ts";
import { describeError, errorDocument, exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";

/** What was reached behind one name of the configuration. */
interface Finding {
  readonly what: "pinboards" | "source" | "target";
  readonly name: string;
  readonly users?: number;
  readonly groups?: number;
  readonly samples?: readonly string[];
  /** Of a target: where, how and as whom. Of pinboards: which. */
  readonly reached?: readonly string[];
  readonly error?: unknown;
}

/** `rollcall check`: the configuration, the pinboards, and every source and target in it, each read or logged in to for real. */
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
  for (const name of Object.keys(configuration.sources)) await tell(await checkSource(context, name));
  for (const name of Object.keys(configuration.targets)) await tell(await checkTarget(context, name));
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

async function checkSource(context: Context, name: string): Promise<Finding> {
  const { interruption, output } = context;
  const counts = { user: 0, group: 0 };
  const samples: Entry[] = [];
  try {
    const source = openSource(context.configuration, name);
    const warn = (message: string): void => {
      output.say(`source ${name}: ${message}`);
    };
    for await (const batch of source.read({ signal: interruption.stop, warn })) {
      for (const record of batch) {
        if (record.kind === "membership") continue;
        counts[record.kind] += 1;
        if (samples.length < 3) samples.push(record);
      }
      output.progress(`source ${name}: ${(counts.user + counts.group).toLocaleString("en")} records …`);
    }
    return { what: "source", name, users: counts.user, groups: counts.group, samples: samples.map(sampleOf) };
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

function sampleOf(entry: Entry): string {
  return `${entry.kind} ${entry.id} (${entry.origin}): ${JSON.stringify(entry.attributes)}`;
}

function describe({ what, name, users, groups, samples, reached, error }: Finding): string {
  const title = `${what} ${name}`;
  if (error !== undefined) {
    const description = describeError(error);
    return `${description.startsWith(title) ? "" : `${title}: `}${description}\n`;
  }
  if (reached !== undefined) return `${[`${title}: reached`, ...reached].join("\n  ")}\n`;
  const counts = `${(users ?? 0).toLocaleString("en")} users, ${(groups ?? 0).toLocaleString("en")} groups`;
  return `${[`${title}: ${counts}`, ...(samples ?? [])].join("\n  ")}\n`;
}
