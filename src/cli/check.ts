import { openConfiguredTarget, openSource } from "./wiring.ts";
import { loadPinboards } from "#config/pinboards.ts";
import type { Entry, WantedAttributes } from "#connector.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import { compileRules } from "#principals/compile.ts";
import type { CompiledRules, Verdict } from "#principals/compile.ts";
import { checkChannel } from "#sync/notify/notifier.ts";
import { formatNumber, formatSizes, visible } from "#text.ts";
import type { Context } from "./context.ts";
import { describeError, exitCodes } from "./output.ts";
import type { ExitCode } from "./output.ts";

/** The result for one name of the configuration. */
interface Finding extends Partial<SourceCheck> {
  readonly what: "pinboards" | "source" | "target" | "channel";
  readonly name: string;
  readonly error?: unknown;
}

/**
 * `rollcall check`: tries the configuration, the pinboards, every source and target, each read or logged in to for real,
 * and the notification channels, as far as possible without sending anything.
 */
export async function check(context: Context): Promise<ExitCode> {
  const { configuration, output } = context;
  const findings: Finding[] = [];
  const add = async (finding: Finding): Promise<void> => {
    findings.push(finding);
    if (!output.json) await output.write(describe(finding));
  };
  if (!output.json) await output.write(`configuration ${configuration.file}: valid\n`);
  const folder = configuration.service?.pinboards;
  if (folder !== undefined) await add(await checkPinboards(folder));
  for (const name of Object.keys(configuration.sources)) await add(await findSource(context, name));
  for (const name of Object.keys(configuration.targets)) await add(await checkTarget(context, name));
  for (const [name, channel] of Object.entries(configuration.notifications)) {
    const attempt = await checkChannel(channel, context.interruption.stop);
    const result =
      "accepted" in attempt ? { reached: [attempt.accepted] } : { error: new UnavailableError(attempt.problem) };
    await add({ what: "channel", name, ...result });
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
  // If rules make principals of the records, show these instead.
  const records = syncs.some(({ principals }) => principals.length > 0) ? [] : samples;
  return `${[`${title}: ${formatSizes(users, groups)}`, ...reached, ...records, ...syncs.flatMap(syncLines)].join("\n  ")}\n`;
}

function syncLines({ sync, users, groups, excluded, quarantined, principals, problems }: SyncCheck): string[] {
  const lines = [...principals.map((principal) => JSON.stringify(principal)), ...problems];
  return [
    `sync ${sync}: ${formatSizes(users, groups)}, ${formatNumber(excluded)} excluded, ${formatNumber(quarantined)} quarantined`,
    ...lines.map((line) => `  ${visible(line)}`),
  ];
}

/** What a source delivers, and what each of its syncs would make of it. */
export interface SourceCheck {
  /** What was reached, how the connection is protected, and the account; absent if the connector does not say. */
  readonly reached?: readonly string[] | undefined;
  readonly users: number;
  readonly groups: number;
  /** The first records, as they are. */
  readonly samples: readonly string[];
  readonly syncs: readonly SyncCheck[];
}

/** What a sync's rules make of the records of one source. */
export interface SyncCheck {
  readonly sync: string;
  readonly users: number;
  readonly groups: number;
  readonly excluded: number;
  readonly quarantined: number;
  /** The first principals. */
  readonly principals: readonly { readonly kind: string; readonly name: string; readonly [key: string]: unknown }[];
  /** For a person to look at. */
  readonly problems: readonly string[];
}

/** How many records, principals and problems are shown. */
const shown = 3;

/**
 * Reads a source once, and applies the rules of each of its syncs.
 * @throws what the source throws
 */
export async function checkSource(context: Context, name: string): Promise<SourceCheck> {
  const { configuration, interruption, output } = context;
  const source = openSource(configuration, name);
  const warn = (message: string): void => {
    output.say(`source ${name}: ${message}`);
  };
  const signal = interruption.stop;
  const reached = await source.describe?.({ signal, warn });
  const judges = Object.entries(configuration.syncs)
    .filter(([, { from }]) => from.includes(name))
    .map(([sync, { rules }]) => judgeFor(sync, compileRules(rules)));
  const attributes = wantedBy(judges.map(({ rules }) => rules));
  const counts = { user: 0, group: 0 };
  const samples: Entry[] = [];
  for await (const batch of source.read({ signal, warn, attributes })) {
    for (const record of batch) {
      if (record.kind === "membership") continue;
      counts[record.kind] += 1;
      if (samples.length < shown) samples.push(record);
      for (const { judge } of judges) judge(record);
    }
    output.progress(`source ${name}: ${formatNumber(counts.user + counts.group)} records …`);
  }
  return {
    reached,
    users: counts.user,
    groups: counts.group,
    samples: samples.map(sampleOf),
    syncs: judges.map(({ result }) => result()),
  };
}

/** The attributes that all rules together need, as in a run. */
function wantedBy(rules: readonly CompiledRules[]): WantedAttributes | undefined {
  const wanted = rules.map((each) => each.attributes());
  if (wanted.length === 0 || wanted.includes(undefined)) return undefined;
  return {
    users: [...new Set(wanted.flatMap((each) => each?.users ?? []))],
    groups: [...new Set(wanted.flatMap((each) => each?.groups ?? []))],
  };
}

interface SyncJudge {
  readonly rules: CompiledRules;
  readonly judge: (entry: Entry) => void;
  readonly result: () => SyncCheck;
}

function judgeFor(sync: string, rules: CompiledRules): SyncJudge {
  const counts = { user: 0, group: 0, excluded: 0, quarantined: 0 };
  const principals: SyncCheck["principals"][number][] = [];
  const problems: string[] = [];
  const judged = (entry: Entry, verdict: Verdict): void => {
    if (verdict.verdict !== "included") {
      counts[verdict.verdict] += 1;
      if (verdict.verdict === "quarantined" && problems.length < shown)
        problems.push(`${entry.kind} ${entry.id} (${entry.origin}): ${verdict.reason}`);
      return;
    }
    counts[entry.kind] += 1;
    const { verdict: _, ...principal } = verdict;
    if (principals.length < shown) principals.push({ kind: entry.kind, ...principal });
  };
  return {
    rules,
    judge: (entry) => {
      judged(entry, rules.judge(entry));
    },
    result: () => ({
      sync,
      users: counts.user,
      groups: counts.group,
      excluded: counts.excluded,
      quarantined: counts.quarantined,
      principals,
      problems: [
        ...problems,
        ...rules.neverSet().map((each) => `rule ${each} has a value for no record; is the attribute's name right?`),
        ...(rules.joins ? ["its records are joined with those of other sources, which `check` does not do"] : []),
      ],
    }),
  };
}

function sampleOf(entry: Entry): string {
  return `${entry.kind} ${entry.id} (${entry.origin}): ${JSON.stringify(entry.attributes)}`;
}
