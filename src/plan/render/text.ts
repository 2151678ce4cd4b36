import { stripVTControlCharacters, styleText } from "node:util";
import { actions, isUpdate, shortDigest, textsOf, usualWords } from "#plan/change.ts";
import type { Action, AttributeChange, Change, KindCounts, Plan, Words } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { excerptDifference, formatNumber, formatName, shortName, visible, withoutMiddle } from "#text.ts";
import {
  causeLines,
  changesOf,
  describeCheck,
  inChunks,
  isEmpty,
  noChange,
  sectionsOf,
  share,
  totalsOf,
  verdictOf,
  worthShowing,
} from "./shared.ts";
import type { Fact, RenderOptions } from "./shared.ts";
import { expectationLines } from "./expectations.ts";
import type { ExpectationLine } from "./expectations.ts";
import { noteLines } from "#plan/note.ts";
import type { Note } from "#plan/note.ts";

export interface TextOptions extends RenderOptions {
  readonly colour: boolean;
  /** The width of the terminal in columns, 100 when absent: how long a list of groups becomes. */
  readonly width?: number | undefined;
  /** How to see the rest of a list that is cut. */
  readonly rest?: string | undefined;
  /** What a person can do next, a command a line: the last lines. */
  readonly next?: readonly string[] | undefined;
}

/**
 * A plan for a terminal: counts, a section for each action and kind with a line for each principal, and the notes. What
 * decides about it comes last, where a terminal stops: the limits, the totals and the next commands. Without a plan, only
 * the rest. Reads no more changes than it shows. Hidden characters in foreign text are escaped.
 */
export function renderText(plan: Plan | undefined, options: TextOptions): AsyncIterable<string> {
  return inChunks(pieces(plan, options));
}

async function* pieces(plan: Plan | undefined, options: TextOptions): AsyncIterable<string> {
  const { colour, limits = [], notes = [], words = usualWords } = options;
  const paint = painter(colour);
  const facts = factLines(options.facts ?? [], paint);
  const title = paint("bold", visible(options.title));
  if (plan === undefined) yield `${title}\n${facts}`;
  else if (isEmpty(plan.counts)) {
    const headline = noChange(plan.counts, options);
    yield `${title}: ${options.leaving === undefined ? headline : paint("yellow", headline)}\n${facts}`;
  } else {
    yield `${title}  ${paint("dim", `plan ${shortDigest(plan.digest)}`)}\n${facts}\n${countLines(plan, paint, words)}`;
    yield* sectionLines(plan, options, paint);
  }
  if (notes.length > 0) yield `\n${notesText(notes, paint)}`;
  const causes = causeLines(options.causes);
  if (causes.lines.length > 0) {
    yield `\n${paint("bold", "Causes")}\n${causes.lines.map((line) => `  ${line}\n`).join("")}`;
    if (causes.rest > 0) yield `  ${paint("dim", `… and ${formatNumber(causes.rest)} more (use --json)`)}\n`;
  }
  const expectations = expectationLines(options.expectations, options);
  if (expectations.length > 0)
    yield `\n${paint("bold", "Expectations")}\n${expectations.map((line) => expectationText(line, paint)).join("")}`;
  const checks = worthShowing(limits);
  if (checks.length > 0)
    yield `\n${paint("bold", "Limits")}\n${checks.map((check) => limitLine(check, paint)).join("")}`;
  if (plan !== undefined && !isEmpty(plan.counts)) yield `\n${title}: ${totalsOf(plan.counts, options)}\n`;
  for (const line of options.next ?? []) yield `  ${line}\n`;
}

/** What is quarantined is yellow. */
function notesText(notes: readonly Note[], paint: Paint): string {
  return notes
    .flatMap((note) =>
      noteLines([note]).map((line) => {
        const text = line.split("\n").map(visible).join("\n");
        return `${note.doubt === "quarantined" ? paint("yellow", text) : text}\n`;
      }),
    )
    .join("");
}

async function* sectionLines(plan: Plan, options: TextOptions, paint: Paint): AsyncIterable<string> {
  const { width = 100, limit, words, nothing, rest = "use --all or --json" } = options;
  const sections = sectionsOf(plan, words);
  if (sections.length === 0 && nothing !== undefined) yield `\n${visible(nothing)}\n`;
  for (const section of sections) {
    yield `\n${paint("bold", `${section.heading} (${section.total})`)}\n`;
    let left = section.count;
    for await (const change of changesOf(plan, section, limit)) {
      yield `  ${changeLine(change, paint, width - 2)}\n`;
      left--;
    }
    if (left > 0) yield `  ${paint("dim", `… and ${formatNumber(left)} more (${rest})`)}\n`;
  }
}

const tones = { good: "green", bad: "red", waiting: "yellow" } as const;

/** The labels in one column, their lines in the next. */
function factLines(facts: readonly Fact[], paint: Paint): string {
  const column = Math.max(0, ...facts.map(({ label }) => label.length));
  const lines = facts.flatMap(({ label, lines, tone }) =>
    lines.map((line, index) => {
      const shown = tone === undefined ? visible(line) : paint(tones[tone], visible(line));
      return `  ${paint("dim", (index === 0 ? label : "").padEnd(column))}  ${shown}\n`;
    }),
  );
  return lines.length === 0 ? "" : `\n${lines.join("")}`;
}

const verdicts = {
  within: { symbol: "✓", style: "dim", word: "" },
  overridden: { symbol: "!", style: "yellow", word: ": overridden" },
  tripped: { symbol: "✗", style: "red", word: ": tripped" },
} as const;

const marksOfTones = {
  bad: { symbol: "✗", style: "red" },
  waiting: { symbol: "!", style: "yellow" },
  quiet: { symbol: "✓", style: "dim" },
} as const;

function expectationText({ tone, text, details }: ExpectationLine, paint: Paint): string {
  const { symbol, style } = marksOfTones[tone];
  return `  ${paint(style, `${symbol} ${text}`)}\n${details.map((line) => `      ${line}\n`).join("")}`;
}

function limitLine(check: LimitCheck, paint: Paint): string {
  const { symbol, style, word } = verdicts[verdictOf(check)];
  return `  ${paint(style, `${symbol} ${describeCheck(check)}${word}`)}\n`;
}

/** The lines of counts, with aligned numbers. */
function countLines({ counts }: Plan, paint: Paint, words: Words): string {
  const { users, groups, membershipsAdded, membershipsRemoved } = counts;
  const columns = (side: "before" | "after"): number =>
    Math.max(formatNumber(users[side]).length, formatNumber(groups[side]).length);
  const [before, after] = [columns("before"), columns("after")];
  const line = (kind: KindCounts): string =>
    `${formatNumber(kind.before).padStart(before)} → ${formatNumber(kind.after).padStart(after)}   ` +
    countsOf(
      paint,
      ...actions.map((action): [number, string, Style] => [kind[action] ?? 0, words[action], marks[action].style]),
    ) +
    share(kind);
  const memberships = countsOf(paint, [membershipsAdded, "added", "green"], [membershipsRemoved, "removed", "red"]);
  return `  users        ${line(users)}
  groups       ${line(groups)}
  memberships  ${" ".repeat(before + after + 6)}${memberships}\n`;
}

function countsOf(paint: Paint, ...parts: readonly [count: number, word: string, style: Style][]): string {
  const shown = parts.filter(([count]) => count > 0);
  return shown.map(([count, word, style]) => paint(style, `${formatNumber(count)} ${word}`)).join(", ") || "no change";
}

export type Style = "bold" | "dim" | "green" | "yellow" | "red";
export type Paint = (style: Style, text: string) => string;

const marks = {
  create: { symbol: "+", style: "green" },
  update: { symbol: "~", style: "yellow" },
  suspend: { symbol: "‖", style: "red" },
  reactivate: { symbol: "↺", style: "green" },
  delete: { symbol: "−", style: "red" },
} as const satisfies Record<Action, object>;

/** Applies styles to text; does nothing without colour. */
export function painter(colour: boolean): Paint {
  return colour ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}

/** A change as a line: `~ ada  mail: a@x → b@x  +board`, with as many groups as fit into `width` columns. */
export function changeLine(change: Change, paint: Paint, width: number): string {
  const { symbol, style } = marks[change.action];
  const who = `${paint(style, `${symbol} ${shortName(change.name)}`)}  ${whatOf(change, paint)}`.trimEnd();
  return `${who}${membershipsOf(change, paint, width - stripVTControlCharacters(who).length)}`;
}

/** The changed attributes of a principal; who it is, by its first attribute and its address, when it is created or deleted. */
function whatOf({ action, attributes }: Change, paint: Paint): string {
  if (isUpdate(action)) return attributes.map((each) => edit(each, paint)).join("; ");
  const [title = "", ...others] = attributes.map((each) => {
    const { from, to = from } = textsOf(each);
    return to ?? "";
  });
  // A mistyped address is shown, too.
  const address = others.find((value) => /^\S+@\S+$/.test(value)) ?? others.find((value) => value.includes("@"));
  return `${shortValue(title)}${address === undefined ? "" : ` <${shortValue(address)}>`}`;
}

function shortValue(value: string): string {
  return visible(withoutMiddle(value));
}

/** `mail: a@x → b@x`. */
function edit(change: AttributeChange, paint: Paint): string {
  const { attribute } = change;
  const { from, to } = textsOf(change);
  const [before, after] = excerptDifference(from, to);
  return (
    `${attribute}: ${from === undefined ? "(unset)" : paint("red", formatName(before))}` +
    ` → ${to === undefined ? "(unset)" : paint("green", formatName(after))}`
  );
}

/** `+board −analysts`, each list cut where `room` ends. */
function membershipsOf({ groupsAdded, groupsRemoved }: Change, paint: Paint, room: number): string {
  const share = groupsAdded.length > 0 && groupsRemoved.length > 0 ? room / 2 : room;
  const listed = (groups: readonly string[], sign: string, style: Style, word: string): string => {
    if (groups.length === 0) return "";
    const names = fitting(groups, share);
    const more = groups.length - names.length;
    const cut = more > 0 ? paint("dim", ` … ${formatNumber(more)} more ${word}`) : "";
    return `  ${names.map((name) => paint(style, sign + name)).join(" ")}${cut}`;
  };
  return listed(groupsAdded, "+", "green", "added") + listed(groupsRemoved, "−", "red", "removed");
}

/** How many characters of a group's name a line about somebody else has room for. */
const longestGroup = 40;

/** As many names as fit into `room` columns, but at least three. */
function fitting(groups: readonly string[], room: number): string[] {
  const names: string[] = [];
  let columns = 0;
  for (const group of groups) {
    const name = shortName(group, longestGroup);
    columns += name.length + 2;
    if (names.length >= 3 && columns > room) break;
    names.push(name);
  }
  return names;
}
