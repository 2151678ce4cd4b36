import { actionsOf, isUpdate, textsOf, usualWords } from "#plan/change.ts";
import type { Action, AttributeChange, Change, KindCounts, Plan } from "#plan/change.ts";
import { excerptDifference, formatNumber, visible } from "#text.ts";
import {
  capitalized,
  causeLines,
  changesOf,
  describeCheck,
  inChunks,
  isEmpty,
  noChange,
  sectionsOf,
  verdictOf,
  worthShowing,
} from "./shared.ts";
import type { RenderOptions } from "./shared.ts";
import { expectationLines } from "./expectations.ts";
import { noteLines } from "#plan/note.ts";

const groupsShown = 20;

/**
 * A plan as Markdown, for a ticket or a pull request: a table of counts, a section for each action and kind with an
 * item for each principal, and the notes. Foreign text is always code, where nothing is markup.
 */
export function renderMarkdown(plan: Plan | undefined, options: RenderOptions): AsyncIterable<string> {
  return inChunks(pieces(plan, options));
}

async function* pieces(plan: Plan | undefined, options: RenderOptions): AsyncIterable<string> {
  const { title, limits = [], notes = [], facts = [] } = options;
  yield `## ${code(title)}\n\n`;
  for (const { label, lines } of facts) yield `- ${label}: ${lines.map(code).join("; ")}\n`;
  if (facts.length > 0 && plan !== undefined) yield "\n";
  if (plan !== undefined) yield* planPieces(plan, options);
  const causes = causeLines(options.causes);
  if (causes.lines.length > 0) yield `\n### Causes\n\n${block(causes.lines.join("\n"))}`;
  const expectations = expectationLines(options.expectations, options);
  if (expectations.length > 0) {
    yield `\n### Expectations\n\n`;
    for (const { tone, text, details } of expectations) {
      yield `- ${tone === "quiet" ? "" : `**${tone === "bad" ? "broken by this plan" : "broken"}** `}${code(text)}\n`;
      for (const detail of details) yield `  - ${code(detail)}\n`;
    }
  }
  const checks = worthShowing(limits);
  if (checks.length > 0) {
    yield `\n### Limits\n\n`;
    for (const check of checks)
      yield `- ${verdictOf(check) === "within" ? "" : `**${verdictOf(check)}** `}${code(describeCheck(check))}\n`;
  }
  if (notes.length > 0) yield `\n${block(noteLines(notes).join("\n"))}`;
}

async function* planPieces(plan: Plan, { limit, nothing, leaving, limits }: RenderOptions): AsyncIterable<string> {
  const { counts, digest } = plan;
  if (isEmpty(counts)) {
    yield `${capitalized(noChange(counts, { leaving, limits }))}.\n`;
    return;
  }
  const known = actionsOf(counts);
  yield `| | before | after | ${known.map((action) => usualWords[action]).join(" | ")} |\n|---|--:|--:${"|--:".repeat(known.length)}|\n`;
  yield `${row("users", counts.users, known)}${row("groups", counts.groups, known)}\n`;
  yield `Memberships: ${formatNumber(counts.membershipsAdded)} added, ${formatNumber(counts.membershipsRemoved)} removed. `;
  yield `Plan ${code(digest)}.\n`;
  const sections = sectionsOf(plan);
  if (sections.length === 0 && nothing !== undefined) yield `\n${code(nothing)}\n`;
  for (const section of sections) {
    yield `\n### ${section.heading} (${section.total})\n\n`;
    let left = section.count;
    for await (const change of changesOf(plan, section, limit)) {
      yield `- ${[code(change.name), ...detailsOf(change)].join(", ")}\n`;
      left--;
    }
    if (left > 0) yield `- … and ${formatNumber(left)} more\n`;
  }
}

function row(word: string, kind: KindCounts, known: readonly Action[]): string {
  const cells = [kind.before, kind.after, ...known.map((action) => kind[action] ?? 0)];
  return `| ${word} | ${cells.map(formatNumber).join(" | ")} |\n`;
}

/** The changes of attributes and groups. */
function detailsOf({ action, attributes, groupsAdded, groupsRemoved }: Change): string[] {
  return [
    ...attributes.map((each) => (isUpdate(action) ? edit(each) : `${each.attribute} ${code(valueOf(each))}`)),
    ...listed("joins", groupsAdded),
    ...listed("leaves", groupsRemoved),
  ];
}

function valueOf(change: AttributeChange): string {
  const { from, to } = textsOf(change);
  return excerptDifference(from, to).join("");
}

function edit(change: AttributeChange): string {
  const { attribute } = change;
  const { from, to } = textsOf(change);
  const [before, after] = excerptDifference(from, to);
  return `${attribute} ${from === undefined ? "unset" : code(before)} → ${to === undefined ? "unset" : code(after)}`;
}

function listed(word: string, groups: readonly string[]): string[] {
  if (groups.length === 0) return [];
  const more = groups.length - groupsShown;
  return [
    `${word} ${groups.slice(0, groupsShown).map(code).join(" ")}${more > 0 ? ` and ${formatNumber(more)} more` : ""}`,
  ];
}

/** Foreign text as a code span. Its fence is longer than any run of backticks in it. */
export function code(text: string): string {
  const shown = visible(text);
  if (shown === "") return "(empty)";
  const fence = "`".repeat(longestRun(shown) + 1);
  const space = /^[` ]|[` ]$/.test(shown) ? " " : "";
  return `${fence}${space}${shown}${space}${fence}`;
}

/** Foreign lines as a block of code. */
function block(text: string): string {
  const fence = "`".repeat(Math.max(3, longestRun(text) + 1));
  return `${fence}text\n${text.split("\n").map(visible).join("\n")}\n${fence}\n`;
}

function longestRun(text: string): number {
  return Math.max(0, ...(text.match(/`+/g) ?? []).map((run) => run.length));
}
