import { createHash } from "node:crypto";
import type { AttributeChange, Change, Counts, KindCounts, Plan } from "#plan/change.ts";
import { formatNumber, visible } from "#text.ts";
import {
  capitalized,
  causeLines,
  changesOf,
  describeCheck,
  inChunks,
  isEmpty,
  noChange,
  sectionsOf,
  share,
  usualWords,
  verdictOf,
  worthShowing,
} from "./shared.ts";
import type { Fact, RenderOptions, Section } from "./shared.ts";
import { expectationLines } from "./expectations.ts";

/** How many groups of a principal are shown; the rest can be unfolded. */
const groupsShown = 20;

/** How many changes are laid out together, once they scroll into view. */
const changesTogether = 100;

/**
 * A plan as a page that stands alone: it loads and runs nothing, and reads well in the dark and on paper. Facts
 * and counts come first, then a section for each action and kind with every value in full, then limits and notes.
 * All changes are in it, unless `limit` says otherwise.
 */
export function renderHtml(plan: Plan | undefined, options: RenderOptions): AsyncIterable<string> {
  return inChunks(pieces(plan, options));
}

async function* pieces(plan: Plan | undefined, options: RenderOptions): AsyncIterable<Html> {
  const { title, facts = [], limits = [], notes = [] } = options;
  yield pageStart(title);
  if (facts.length > 0) yield `<dl class="facts">\n${facts.map(factItem).join("")}</dl>\n`;
  if (plan !== undefined) yield* planPieces(plan, options);
  const causes = causeLines(options.causes);
  if (causes.lines.length > 0)
    yield `<h2>Causes</h2>\n<pre>${causes.lines.map((line) => escaped(line)).join("\n")}</pre>\n`;
  const expectations = expectationLines(options.expectations, options);
  if (expectations.length > 0) {
    yield "<h2>Expectations</h2>\n<ul>\n";
    for (const { tone, text, details } of expectations) {
      const names = details.map((detail) => `<li>${isolated(detail)}</li>`).join("");
      yield `<li class="${tone}">${escaped(text)}${names === "" ? "" : `<ul>${names}</ul>`}</li>\n`;
    }
    yield "</ul>\n";
  }
  const checks = worthShowing(limits);
  if (checks.length > 0) {
    yield "<h2>Limits</h2>\n<ul>\n";
    for (const check of checks) {
      const verdict = verdictOf(check);
      const tone = { within: "quiet", overridden: "waiting", tripped: "bad" }[verdict];
      yield `<li class="${tone}">${escaped(describeCheck(check))}: ${verdict}</li>\n`;
    }
    yield "</ul>\n";
  }
  if (notes.length > 0) yield `<h2>Notes</h2>\n<pre>${notes.map(noteLines).join("\n")}</pre>\n`;
  yield pageEnd;
}

async function* planPieces(plan: Plan, { limit = Number.POSITIVE_INFINITY, ...options }: RenderOptions) {
  const { counts, digest } = plan;
  if (isEmpty(counts)) {
    yield `<p>${escaped(capitalized(noChange(counts, options.leaving)))}.</p>\n`;
    return;
  }
  const sections = sectionsOf(plan, options.words);
  yield countsTable(counts, options.words);
  yield `<p>Memberships: ${formatNumber(counts.membershipsAdded)} added, ${formatNumber(counts.membershipsRemoved)} removed.
Plan <code>${escaped(digest)}</code>.</p>\n`;
  if (sections.length > 1) yield `<nav><ul>\n${sections.map(link).join("")}</ul></nav>\n`;
  if (sections.length === 0 && options.nothing !== undefined) yield `<p>${escaped(options.nothing)}</p>\n`;
  for (const section of sections) yield* sectionPieces(plan, section, limit);
}

async function* sectionPieces(plan: Plan, section: Section, limit: number): AsyncIterable<Html> {
  yield `<section>\n<h2 id="${idOf(section)}" class="${section.action}">${section.heading} (${section.total})</h2>\n`;
  let shown = 0;
  for await (const change of changesOf(plan, section, limit)) {
    if (shown % changesTogether === 0) yield `${shown === 0 ? "" : "</div>\n"}<div class="some">\n`;
    yield `<div class="change"><b>${isolated(change.name)}</b><div>${detailsOf(change)}</div></div>\n`;
    shown++;
  }
  if (shown > 0) yield "</div>\n";
  if (shown < section.count) yield `<p class="quiet">… and ${formatNumber(section.count - shown)} more</p>\n`;
  yield "</section>\n";
}

function idOf({ action, kind }: Section): string {
  return `${action}-${kind}`;
}

function link(section: Section): Html {
  return `<li><a class="${section.action}" href="#${idOf(section)}">${section.heading} (${section.total})</a></li>\n`;
}

function factItem({ label, lines, tone }: Fact): Html {
  const mark = tone === undefined ? "" : ` class="${tone}"`;
  return `<dt>${escaped(label)}</dt>${lines.map((line) => `<dd${mark}>${escaped(line)}</dd>`).join("")}\n`;
}

function noteLines(note: string): Html {
  return note.split("\n").map(escaped).join("\n");
}

function countsTable({ users, groups }: Counts, words = usualWords): Html {
  const names = ["before", "after", words.create, words.update, words.delete];
  const heads = names.map((name) => `<th scope="col">${escaped(name)}</th>`);
  return `<table>
<thead><tr><th scope="col"></th>${heads.join("")}</tr></thead>
<tbody>
${countsRow("users", users)}${countsRow("groups", groups)}</tbody>
</table>\n`;
}

function countsRow(name: string, kind: KindCounts): Html {
  return (
    `<tr><th scope="row">${name}</th><td>${formatNumber(kind.before)}</td><td>${formatNumber(kind.after)}</td>` +
    `<td class="create">${formatNumber(kind.create)}</td><td class="update">${formatNumber(kind.update)}</td>` +
    `<td class="delete">${formatNumber(kind.delete)}${share(kind)}</td></tr>\n`
  );
}

/** A line for each attribute, and one for the groups. */
function detailsOf({ action, attributes, groupsAdded, groupsRemoved }: Change): Html {
  const members = [
    ...groupsRemoved.map((group) => `<del class="member">−${isolated(group)}</del>`),
    ...groupsAdded.map((group) => `<ins class="member">+${isolated(group)}</ins>`),
  ];
  return attributes.map((each) => `<div>${edit(each, action === "update")}</div>`).join("") + folded(members);
}

function edit({ attribute, from, to }: AttributeChange, isUpdate: boolean): Html {
  const before = from === undefined ? [] : [`<del>${isolated(from)}</del>`];
  const after = to === undefined ? [] : [`<ins>${isolated(to)}</ins>`];
  const unset = isUpdate ? ['<span class="quiet">unset</span>'] : [];
  const sides = [before.length > 0 ? before : unset, after.length > 0 ? after : unset].flat();
  return `<span class="quiet">${attribute}</span> ${sides.join(" → ")}`;
}

function folded(members: readonly Html[]): Html {
  if (members.length <= groupsShown) return members.join("\n");
  const more = members.slice(groupsShown);
  return `${members.slice(0, groupsShown).join("\n")}
<details><summary>${formatNumber(more.length)} more</summary>${more.join("\n")}</details>`;
}

/** Text of a page: foreign text only comes in through `escaped`. */
export type Html = string;

/** Foreign text for a page: hidden characters are visible, and nothing in it is markup. */
function escaped(text: string): Html {
  return visible(text).replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The same, without effect on the direction of the text around it. */
function isolated(text: string): Html {
  return `<bdi>${escaped(text)}</bdi>`;
}

/** One file that can be sent around: nothing is fetched, and nothing runs. */
const style = `
:root { color-scheme: light dark; --text: #1c2126; --quiet: #5c6773; --line: #d9dee3; --back: #fff; --soft: #f4f6f8;
  --create: #116329; --update: #7a4d00; --delete: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ec; --quiet: #9aa5b1; --line: #3a424b; --back: #14181c;
  --soft: #1e242a; --create: #6cc788; --update: #e3b341; --delete: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; font: 15px/1.5 system-ui, sans-serif; color: var(--text);
  background: var(--back); overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; padding: .25rem 0; border-bottom: 2px solid currentcolor; }
a { color: inherit; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 1.5rem; }
dl.facts dt, .quiet { color: var(--quiet); }
dl.facts dd { margin: 0; grid-column: 2; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .9rem; text-align: end; border-bottom: 1px solid var(--line); }
th:first-child { text-align: start; }
code { font: .9em ui-monospace, monospace; }
pre { padding: .75rem; background: var(--soft); white-space: pre-wrap; font: .9em/1.45 ui-monospace, monospace; }
.create, .good { color: var(--create); } .update, .waiting { color: var(--update); } .delete, .bad { color: var(--delete); }
.some { content-visibility: auto; contain-intrinsic-size: auto 4000px; }
.change { display: grid; grid-template-columns: minmax(8rem, 1fr) 3fr; gap: 0 1rem; padding: .35rem 0;
  border-bottom: 1px solid var(--line); }
.change b { font-weight: 600; }
del { color: var(--delete); } ins { color: var(--create); text-decoration: none; }
.member { display: inline-block; margin: 0 .8em 0 0; text-decoration: none; }
summary { cursor: pointer; color: var(--quiet); }
@media (max-width: 40rem) { .change { grid-template-columns: 1fr; } body { padding: .75rem; } th, td { padding: .3rem; } }
@media print { :root { color-scheme: light; --text: #000; --quiet: #444; --line: #bbb; --back: #fff; --soft: #fff;
  --create: #0b4a1d; --update: #5c3a00; --delete: #8c1d18; }
  body { max-width: none; padding: 0; font-size: 10pt; } nav { display: none; } h2 { break-after: avoid; }
  .change { break-inside: avoid; } .some { content-visibility: visible; } }
`;

const policy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** The start of a page. Elements are closed and attributes quoted everywhere, so that it is XML as well. */
function pageStart(title: string): Html {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta http-equiv="Content-Security-Policy" content="${policy}"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="referrer" content="no-referrer"/>
<meta name="robots" content="noindex"/>
<title>${escaped(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${isolated(title)}</h1>
`;
}

/** The end of a page. */
const pageEnd: Html = "</main>\n</body>\n</html>\n";
