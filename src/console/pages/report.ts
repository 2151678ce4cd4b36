import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Plan } from "#plan/change.ts";
import { changesOf, inChunks, isEmpty, sectionsOf } from "#plan/render/shared.ts";
import type { Section } from "#plan/render/shared.ts";
import type { Report } from "#sync/report.ts";
import type { RunRecord } from "#state/record.ts";
import { asCalledAnywhere } from "#commands.ts";
import { formatNumber } from "#text.ts";
import { actions, empty, notice, section } from "#console/components.ts";
import { html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { changeRow, changesTogether, otherNames } from "#console/pages/changes.ts";
import { summary } from "#console/pages/plan.ts";
import { about, heading, notes, timeline } from "#console/pages/run.ts";
import { mapNotes } from "#plan/note.ts";
import { root } from "#root.ts";

/** How many changes are laid out together, once they scroll into view. */
const laidOutTogether = 100;

/**
 * A run and its plan as one file that can be sent around: it loads and runs nothing. It is the console's page of a plan
 * without what can be pressed, then that of its run; with all changes, unless `limit` says otherwise.
 */
export function renderHtml(page: Report): AsyncIterable<string> {
  return inChunks(pieces(page));
}

async function* pieces(page: Report): AsyncIterable<string> {
  const [head = "", start = "", end = ""] = around((content) => whole(page, content));
  yield `<!DOCTYPE html>\n${head}<style>${style}</style>${start}`;
  if (page.plan !== undefined && !isEmpty(page.plan.counts)) yield* changes(page, page.plan);
  yield `${end}\n`;
}

const place = html`<!-- content -->`;

/** What is around the places of something that is too long to be held, or is no HTML. */
function around(frame: (content: Html) => Html): string[] {
  return frame(place).toString().split(place.toString());
}

/** One file that can be sent around: nothing is fetched, and nothing runs. */
const style = ["base.css", "report.css"]
  .map((file) => readFileSync(new URL(`src/console/assets/${file}`, root), "utf8"))
  .join("");

const policy = [
  "default-src 'none'",
  `style-src 'sha256-${hash("sha256", style, "base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

function idOf(other: string): Html {
  return html`<code>${other}</code>`;
}

function whole(page: Report, content: Html): Html {
  const { runs, plan, next = [] } = page;
  const run = forAnywhere(page.run);
  const { sync, target, id } = run;
  const undoneBy = runs.filter(({ undoes }) => undoes === id);
  return html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta http-equiv="Content-Security-Policy" content="${policy}" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="referrer" content="no-referrer" />
      <meta name="robots" content="noindex" />
      <title>${sync} → ${target}, run ${id}</title>
      ${content}
    </head>
    <body>
      <main>
        ${heading(run, undefined)} ${summary(run, undefined)} ${notes(run, true)}
        ${plan !== undefined && !isEmpty(plan.counts) && section("changes", "Changes", html`${contents(page, plan)} ${content}`)}
        ${section("stages", "Stages", timeline({ run, now: undefined }))}
        ${section("about", "About this run", about({ run, undoneBy, now: undefined }, idOf))}
        ${
          next.length > 0 &&
          section(
            "next",
            "What you can do",
            html`<ul class="causes">
              ${next.map((command) => html`<li><code>${asCalledAnywhere(command)}</code></li>`)}
            </ul>`,
          )
        }
      </main>
    </body>
  </html>`;
}

/** It is read later and elsewhere: the commands that it names can be run from any folder. */
function forAnywhere({ error, ...run }: RunRecord): RunRecord {
  const notes = mapNotes(run.notes, asCalledAnywhere);
  if (error === undefined) return { ...run, notes };
  const { message, problems } = error;
  const called = { message: asCalledAnywhere(message), problems: problems.map(asCalledAnywhere) };
  return { ...run, notes, error: { ...error, ...called } };
}

/** The sections to go to, and how much of the plan they are. */
function contents({ only, nothing }: Report, plan: Plan): Html {
  const all = sectionsOf(plan);
  return html`${only !== undefined && notice("waiting", only)} ${all.length === 0 && empty(nothing)}
  ${
    all.length > 1 &&
    html`<nav aria-label="Changes">
      <ul class="contents">
        ${all.map(
          ({ action, kind, heading: title, total }) =>
            html`<li>
              <a class="${action}" href="#${action}-${kind}"
                ><span aria-hidden="true">${actions[action].sign}</span> ${title}</a
              >
              <small class="quiet">${total}</small>
            </li>`,
        )}
      </ul>
    </nav>`
  }`;
}

async function* changes({ run, limit = Number.POSITIVE_INFINITY }: Report, plan: Plan): AsyncIterable<string> {
  for (const part of sectionsOf(plan)) {
    const [start = "", end = ""] = around((content) => changesTogether(part, content, true));
    yield start;
    yield* rows(run, plan, part, limit);
    yield end;
  }
}

async function* rows(run: RunRecord, plan: Plan, part: Section, limit: number): AsyncIterable<string> {
  const others = otherNames(run, part.kind);
  const [start = "", end = ""] = around((content) => html`<div class="some">${content}</div>`);
  let shown = 0;
  for await (const change of changesOf(plan, part, limit)) {
    if (shown % laidOutTogether === 0) yield shown === 0 ? start : end + start;
    yield changeRow(change, { other: others.get(change.name), unfolded: Infinity }).toString();
    shown++;
  }
  if (shown > 0) yield end;
  if (shown < part.count) yield html`<p class="quiet">… and ${formatNumber(part.count - shown)} more</p>`.toString();
}
