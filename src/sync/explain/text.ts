import { describeCheck, nameLimits } from "#plan/render/shared.ts";
import type { Paint } from "#plan/render/text.ts";
import { isUnreadable } from "#principals/entry.ts";
import { formatName, quote, visible } from "#text.ts";
import { exactly } from "#times.ts";
import type { RecordExplanation } from "./explain.ts";
import type { ForeignPrincipal, Outcome } from "./outcome.ts";
import type { Wait } from "./waits.ts";

/*
 * An explanation in words, for the command and the console. What belongs to a line is indented below it.
 */

export function recordLines(record: RecordExplanation, paint: Paint): string[] {
  const { source, kind, id, origin, scope, rules, verdict, name, reason, memberships } = record;
  return [
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
      `    ${attribute.endsWith("(entry)") ? attribute : `entry.${visible(attribute)}`} ${value === null ? "is not set" : isUnreadable(value) ? visible(value.unreadable) : `= ${shown(value)}`}`,
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

export function outcomeLines({
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

export function foreignLines({ type, name, groups }: ForeignPrincipal): string[] {
  return [
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
    ...next.map((command) => `    ${command}`),
  ];
}

function shown(value: unknown): string {
  return visible(JSON.stringify(value) ?? "nothing");
}
