import type { Entry, WantedAttributes } from "#connector.ts";
import { number } from "#text.ts";
import { compileRules } from "#principals/compile.ts";
import type { CompiledRules, Verdict } from "#principals/compile.ts";
import type { Context } from "#cli/context.ts";
import { openSource } from "#cli/open/sync.ts";

/** What a source delivers, and what each sync from it would make of that. */
export interface SourceCheck {
  /** What was reached, how it is protected and as whom; absent: the connector has nothing to say. */
  readonly reached?: readonly string[];
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
  /** What a person should look at. */
  readonly problems: readonly string[];
}

/** So many records, principals and problems of each sort are shown. */
const shown = 3;

/**
 * Reads a source once, and shows each record to the rules of every sync from it.
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
  for await (const batch of source.read({ signal, warn, ...(attributes === undefined ? {} : { attributes }) })) {
    for (const record of batch) {
      if (record.kind === "membership") continue;
      counts[record.kind] += 1;
      if (samples.length < shown) samples.push(record);
      for (const { judge } of judges) judge(record);
    }
    output.progress(`source ${name}: ${number(counts.user + counts.group)} records …`);
  }
  return {
    ...(reached === undefined ? {} : { reached }),
    users: counts.user,
    groups: counts.group,
    samples: samples.map(sampleOf),
    syncs: judges.map(({ result }) => result()),
  };
}

/** What everybody together asks of a source: what a run would ask of it. */
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
        ...rules.neverSet().map((each) => `rule ${each} is set in no record: is that the attribute's name?`),
        ...(rules.joins ? ["its records are joined with those of other sources, which was not done here"] : []),
      ],
    }),
  };
}

function sampleOf(entry: Entry): string {
  return `${entry.kind} ${entry.id} (${entry.origin}): ${JSON.stringify(entry.attributes)}`;
}
