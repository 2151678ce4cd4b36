import { errorDocument } from "#errors.ts";
import { explain as explainBy } from "#sync/explain/explain.ts";
import type { Explanation, RecordExplanation } from "#sync/explain/explain.ts";
import type { ForeignPrincipal, Outcome } from "#sync/explain/outcome.ts";
import type { Wait } from "#sync/explain/waits.ts";
import { command } from "#commands.ts";
import { painter } from "#plan/render/text.ts";
import type { Paint } from "#plan/render/text.ts";
import { lastChangeOf } from "./history.ts";
import { describeCheck, nameLimits } from "#plan/render/shared.ts";
import { formatName, quote, visible } from "#text.ts";
import { chosenSyncs } from "./context.ts";
import { daemonFolder } from "./data-folder.ts";
import type { Context } from "./context.ts";
import { progressOf } from "./plan.ts";
import { exactly, forCaller } from "#times.ts";
import { openSync } from "./wiring.ts";
import { describeError, exitCodeOf, exitCodes, worstOf } from "./output.ts";
import type { ExitCode } from "./output.ts";

/**
 * `rollcall explain NAME [--sync S]`: every step from the record of a source to what a run would do. With `--json`:
 * `{"explanations": [{"sync", "target", "records", "outcomes", "foreign", "nearest"} | {"sync", "error"}]}`. Exit code 1 when
 * nothing has that name.
 */
export async function explain(context: Context, wanted: string, name: string | undefined): Promise<ExitCode> {
  const { output } = context;
  const documents: object[] = [];
  const codes: ExitCode[] = [];
  let found = false;
  for (const sync of chosenSyncs(context.configuration, name)) {
    try {
      const explanation = await explainOne(context, sync, wanted);
      found ||= explanation.records.length + explanation.outcomes.length + explanation.foreign.length > 0;
      const history = await historyOf(context, explanation, wanted);
      documents.push({ ...explanation, history });
      const paint = painter(output.colour);
      const lines = [...linesOf(explanation, wanted, paint), ...(history === undefined ? [] : [forCaller(history)])];
      if (!output.json) await output.write(`${lines.join("\n")}\n`);
    } catch (error) {
      codes.push(exitCodeOf(error));
      documents.push({ sync, error: errorDocument(error) });
      if (!output.json) output.say(`${sync}: ${describeError(error)}`);
      if (context.interruption.stop.aborted) break;
    }
  }
  if (output.json) await output.write(`${JSON.stringify({ explanations: documents }, undefined, 2)}\n`);
  return worstOf([...codes, found ? exitCodes.done : exitCodes.failed]);
}

async function explainOne(context: Context, name: string, wanted: string): Promise<Explanation> {
  const { configuration, interruption, output } = context;
  const sync = await openSync(configuration, name, context.embedded);
  try {
    return await explainBy(sync, wanted, {
      folder: daemonFolder(configuration),
      memory: configuration.memory,
      interruption,
      approval: configuration.syncs[name]?.approval ?? "automatic",
      progress: progressOf(context, name),
      warn: (message) => {
        output.say(`${name}: ${message}`);
      },
    });
  } finally {
    output.progress();
    await sync.target.close();
  }
}

/** Where to look for somebody who was in the target and is no more; undefined: there is nobody like that. */
async function historyOf(
  context: Context,
  { sync, outcomes }: Explanation,
  wanted: string,
): Promise<string | undefined> {
  if (outcomes.some(({ actual }) => actual !== undefined)) return undefined;
  for (const name of new Set([wanted, ...outcomes.map(({ name }) => name)])) {
    const last = await lastChangeOf(context, name, sync);
    if (last === undefined) continue;
    const { run, change } = last;
    const did = change.action === "delete" ? "deleted" : "last changed";
    return `the ${change.kind} ${formatName(name)} was ${did} by run ${run.id} at ${run.endedAt ?? run.startedAt}: \`${command("history", name)}\``;
  }
  return undefined;
}

function linesOf(explanation: Explanation, wanted: string, paint: Paint): string[] {
  const { sync, target, records, outcomes, foreign, nearest } = explanation;
  const title = `${sync} → ${target}`;
  if (records.length + outcomes.length + foreign.length === 0) {
    const hint = nearest.length === 0 ? "" : `; similar names: ${nearest.map(formatName).join(", ")}`;
    return [`${title}: nothing is called ${formatName(wanted)}${hint}`];
  }
  return [
    title,
    ...records.flatMap((record) => recordLines(record, paint)),
    ...outcomes.flatMap(outcomeLines),
    ...foreign.flatMap(foreignLines),
  ];
}

function recordLines(record: RecordExplanation, paint: Paint): string[] {
  const { source, kind, id, origin, scope, rules, verdict, name, reason, memberships } = record;
  return [
    "",
    `record of ${source}: ${kind} ${formatName(id)}, ${visible(origin)}`,
    ...scope.map(scopeLine),
    ...rules.flatMap(ruleLines),
    ...memberships.map(
      ({ group, by, origin, lost }) =>
        `  member of ${formatName(group)}: ${memberSource[by]}${origin === undefined ? "" : ` (${visible(origin)})`}${lost === undefined ? "" : `; left out: ${visible(lost)}`}`,
    ),
    `  ${verdict === "quarantined" ? paint("yellow", verdict) : verdict}${name === undefined ? "" : ` as ${formatName(name)}`}${reason === undefined ? "" : `: ${visible(reason)}`}`,
  ];
}

function scopeLine({ list, patterns, nested, ways, says }: RecordExplanation["scope"][number]): string {
  const verdict = { in: "in scope", out: "not in scope", unknown: "unknown" }[says];
  const by = ways.length === 0 ? "" : `, in ${ways.map((way) => way.map(formatName).join(" → ")).join(" and ")}`;
  return `  ${list}: ${patterns.map(formatName).join(", ")}${nested ? " (nested)" : ""} → ${verdict}${by}`;
}

function ruleLines({ rule, expression, attributes, value, error }: RecordExplanation["rules"][number]): string[] {
  const read = Object.entries(attributes ?? {}).map(
    ([attribute, value]) =>
      `    ${attribute.endsWith("(entry)") ? attribute : `entry.${visible(attribute)}`} ${value === null ? "is not set" : `= ${shown(value)}`}`,
  );
  const result = error === undefined ? `→ ${shown(value)}` : `fails: ${visible(error)}`;
  return [`  ${rule}: ${visible(expression)} ${result}`, ...read];
}

const memberSource: Readonly<Record<RecordExplanation["memberships"][number]["by"], string>> = {
  member: "the record says so",
  group: "the group says so",
  pair: "a record of its own says so",
  rule: "the rule groups says so",
  default: "every user is (defaultGroups)",
};

function outcomeLines({
  kind,
  name,
  action,
  why,
  actual,
  change,
  ownedFrom,
  groups,
  breaks = [],
  byHand,
  waits,
}: Outcome): string[] {
  const lists =
    change === undefined
      ? []
      : [
          ...change.groupsAdded.map((group) => `+${formatName(group)}`),
          ...change.groupsRemoved.map((group) => `−${formatName(group)}`),
        ];
  return [
    "",
    `${kind} ${formatName(name)}: ${action === "nothing" ? "nothing to do" : action}, ${visible(why)}`,
    `  ${actual === undefined ? "the target does not have it" : "the target has it"}; ${
      ownedFrom.length === 0
        ? "this sync does not own it"
        : `this sync owns it, from ${ownedFrom.map(({ source, sourceId }) => `${source} ${formatName(sourceId)}`).join(" and ")}`
    }`,
    ...(change?.attributes ?? []).map(
      ({ attribute, from, to }) =>
        `  ${attribute}: ${from === undefined ? "(unset)" : shown(from)} → ${to === undefined ? "(unset)" : shown(to)}`,
    ),
    ...(lists.length === 0 ? [] : [`  groups: ${lists.join(" ")}`]),
    ...groups.map((way) => {
      const note = way.length === 1 && byHand.includes(way[0] ?? "") ? keptWords : "";
      return `  in ${way.map(formatName).join(" → ")}${note}`;
    }),
    ...breaks.map(
      (check) =>
        `  breaks the expectation ${quote(check.name)}${check.already > 0 ? ", as it does already" : ""}: ${visible(check.expect)}`,
    ),
    ...waits.flatMap((wait) => waitLines(wait, action)),
  ];
}

function foreignLines({ type, name, groups }: ForeignPrincipal): string[] {
  return [
    "",
    `${visible(type)} ${formatName(name)}: nothing to do, it is left as the target has it: no sync manages this type`,
    ...groups.map((group) => `  in ${formatName(group)}`),
  ];
}

const keptWords = ": somebody added it in the target by hand, and it stays (memberships.keepManual)";

function waitLines(
  { how, limits, reason, since, run, action, expiresAt, next }: Wait,
  now: Outcome["action"],
): string[] {
  const bound = nameLimits(limits.map(({ limit }) => limit));
  const because = {
    held: `held by ${bound}: the whole run waits`,
    "left out": `left out because of ${bound}; the rest goes on`,
    pending: `it waits for approval${reason === undefined ? "" : `: ${visible(reason)}`}`,
  }[how];
  const does = action === undefined || action === now ? "" : `, which would ${action} it`;
  const until = expiresAt === undefined ? "" : `, which can be approved until ${exactly(expiresAt)}`;
  return [
    `  waits${since === undefined ? "" : ` since ${exactly(since)}`}: ${because}`,
    ...(run === undefined ? [] : [`    in run ${run}${does}${until}`]),
    ...limits.map((check) => `    ${visible(describeCheck(check))}`),
    ...next.map((command) => forCaller(`    ${command}`)),
  ];
}

function shown(value: unknown): string {
  return visible(JSON.stringify(value) ?? "nothing");
}
