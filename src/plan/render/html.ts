import type { AttributeChange, Change, Counts, KindCounts, Plan } from "#plan/change.ts";
import { describeCheck, verdictOf, worthShowing } from "./limits.ts";
import { escaped, isolated, pageEnd, pageStart } from "./page.ts";
import type { Html } from "./page.ts";
import { changesOf, inChunks, isEmpty, sectionsOf, share, usualWords } from "./sections.ts";
import type { Fact, RenderOptions, Section } from "./sections.ts";
import { number, sizes } from "#text.ts";

/** So many groups of one principal are in sight; the rest can be unfolded. */
const groupsShown = 20;

/** So many changes are laid out together, once they come into sight. */
const changesTogether = 100;

/**
 * A plan as a page that stands alone: it loads nothing and runs nothing, and reads well in the dark and on paper. Facts
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
    yield `<p>No change (${sizes(counts.users.after, counts.groups.after)}).</p>\n`;
    return;
  }
  const sections = sectionsOf(plan, options.words);
  yield countsTable(counts, options.words);
  yield `<p>Memberships: ${number(counts.membershipsAdded)} added, ${number(counts.membershipsRemoved)} removed.
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
  if (shown < section.count) yield `<p class="quiet">… and ${number(section.count - shown)} more</p>\n`;
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
    `<tr><th scope="row">${name}</th><td>${number(kind.before)}</td><td>${number(kind.after)}</td>` +
    `<td class="create">${number(kind.create)}</td><td class="update">${number(kind.update)}</td>` +
    `<td class="delete">${number(kind.delete)}${share(kind)}</td></tr>\n`
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
<details><summary>${number(more.length)} more</summary>${more.join("\n")}</details>`;
}
