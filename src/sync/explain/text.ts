import { describeCheck, nameLimits } from "#plan/render/shared.ts";
import type { Paint } from "#plan/render/text.ts";
import { isUnreadable } from "#principals/entry.ts";
import type { AttributeValue } from "#principals/entry.ts";
import { formatName, quote, visible } from "#text.ts";
import { exactly } from "#times.ts";
import type { RecordExplanation } from "./explain.ts";
import type { ForeignPrincipal, Outcome } from "./outcome.ts";
import type { Wait } from "./waits.ts";

/** A line of an explanation in words, for the command and the console. */
export interface Line {
  readonly text: string;
  /** The text is a command. */
  readonly isCommand?: true;
  /** What belongs to it. */
  readonly below?: readonly Line[];
}

/**
 * Lines as text: what belongs to a line is indented below it.
 * @param called makes of a command what the reader can run
 */
export function indented(
  { text, isCommand, below = [] }: Line,
  called: (command: string) => string,
  depth = 0,
): string[] {
  const own = "  ".repeat(depth) + (isCommand === true ? called(text) : text);
  return [own, ...below.flatMap((each) => indented(each, called, depth + 1))];
}

const line = (text: string): Line => ({ text });

export function recordInWords(record: RecordExplanation, paint: Paint): Line {
  const { source, kind, id, origin, scope, rules, verdict, name, reason, memberships } = record;
  const below = [
    ...scope.map((each) => line(scopeInWords(each))),
    ...rules.map(ruleLine),
    ...memberships.map(({ group, by, origin, lost }) =>
      line(
        `member of ${formatName(group)}: ${memberSource[by]}${origin === undefined ? "" : ` (${visible(origin)})`}${lost === undefined ? "" : `; left out: ${visible(lost)}`}`,
      ),
    ),
    line(
      `${verdict === "quarantined" ? paint("yellow", verdict) : verdict}${name === undefined ? "" : ` as ${formatName(name)}`}${reason === undefined ? "" : `: ${visible(reason)}`}`,
    ),
  ];
  return { text: `record of ${source}: ${kind} ${formatName(id)}, ${visible(origin)}`, below };
}

/** What a list of groups says of a record. */
export function scopeInWords({ list, patterns, nested, ways, says }: RecordExplanation["scope"][number]): string {
  const verdict = { in: "in scope", out: "not in scope", unknown: "unknown" }[says];
  const by = ways.length === 0 ? "" : `, in ${ways.map((way) => way.map(formatName).join(" → ")).join(" and ")}`;
  return `${list}: ${patterns.map(formatName).join(", ")}${nested ? " (nested)" : ""} → ${verdict}${by}`;
}

function ruleLine({ rule, expression, attributes, value, error }: RecordExplanation["rules"][number]): Line {
  const below = Object.entries(attributes ?? {}).map(([attribute, value]) =>
    line(
      `${attribute.endsWith("(entry)") ? attribute : `entry.${visible(attribute)}`} ${value === null ? "is not set" : isUnreadable(value) ? visible(value.unreadable) : `= ${shown(value)}`}`,
    ),
  );
  const result = error === undefined ? `→ ${shown(value)}` : `fails: ${visible(error)}`;
  return { text: `${rule}: ${visible(expression)} ${result}`, below };
}

/** Who says that somebody is in a group. */
export const memberSource: Readonly<Record<RecordExplanation["memberships"][number]["by"], string>> = {
  member: "the record says so",
  group: "the group says so",
  pair: "a record of its own says so",
  rule: "the rule groups says so",
  default: "every user is (defaultGroups)",
};

export function outcomeInWords({
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
}: Outcome): Line {
  const lists =
    change === undefined
      ? []
      : [
          ...change.groupsAdded.map((group) => `+${formatName(group)}`),
          ...change.groupsRemoved.map((group) => `−${formatName(group)}`),
        ];
  const below = [
    line(
      `${actual === undefined ? "the target does not have it" : "the target has it"}; ${
        ownedFrom.length === 0
          ? "this sync does not own it"
          : `this sync owns it, from ${ownedFrom.map(({ source, sourceId }) => `${source} ${formatName(sourceId)}`).join(" and ")}`
      }`,
    ),
    ...(change?.attributes ?? []).map(({ attribute, from, to }) =>
      line(
        `${attribute}: ${from === undefined ? "(unset)" : shown(from)} → ${to === undefined ? "(unset)" : shown(to)}`,
      ),
    ),
    ...(lists.length === 0 ? [] : [line(`groups: ${lists.join(" ")}`)]),
    ...groups.map((way) => {
      const note = way.length === 1 && byHand.includes(way[0] ?? "") ? keptWords : "";
      return line(`in ${way.map(formatName).join(" → ")}${note}`);
    }),
    ...breaks.map((check) =>
      line(
        `breaks the expectation ${quote(check.name)}${check.already > 0 ? ", as it does already" : ""}: ${visible(check.expect)}`,
      ),
    ),
    ...waits.map((wait) => waitInWords(wait, action)),
  ];
  const does = action === "nothing" ? "nothing to do" : action;
  return { text: `${kind} ${formatName(name)}: ${does}, ${visible(why)}`, below };
}

export function foreignInWords({ type, name, groups }: ForeignPrincipal): Line {
  const text = `${visible(type)} ${formatName(name)}: nothing to do, it is left as the target has it: no sync manages this type`;
  return { text, below: groups.map((group) => line(`in ${formatName(group)}`)) };
}

const keptWords = ": a manual membership, kept (memberships.keepManual)";

/**
 * Why a change waits, and what to do.
 * @param now what a run would do at the moment
 * @param describe the line of a limit
 * @param at how a moment is written
 */
export function waitInWords(
  { how, limits, reason, since, run, action, expiresAt, next }: Wait,
  now: Outcome["action"],
  describe = describeCheck,
  at = exactly,
): Line {
  const bound = nameLimits(limits.map(({ limit }) => limit));
  const because = {
    held: `held by ${bound}: the whole run waits`,
    "left out": `left out because of ${bound}; the rest goes on`,
    pending: `it waits for approval${reason === undefined ? "" : `: ${visible(reason)}`}`,
  }[how];
  const does = action === undefined || action === now ? "" : `, which would ${action} it`;
  const until = expiresAt === undefined ? "" : `, which can be approved until ${at(expiresAt)}`;
  const below: Line[] = [
    ...(run === undefined ? [] : [line(`in run ${run}${does}${until}`)]),
    ...limits.map((check) => line(visible(describe(check)))),
    ...next.map((command) => ({ text: command, isCommand: true }) as const),
  ];
  return { text: `waits${since === undefined ? "" : ` since ${at(since)}`}: ${because}`, below };
}

/** Why a value of a record cannot be read; undefined: it can. */
export function whyUnreadable(value: AttributeValue | null): string | undefined {
  return value !== null && isUnreadable(value) ? value.unreadable : undefined;
}

function shown(value: unknown): string {
  return visible(JSON.stringify(value) ?? "nothing");
}
