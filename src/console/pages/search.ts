import type { ListedPrincipal } from "#sync/explain/listing.ts";
import type { RunRecord } from "#state/record.ts";
import { pluralize } from "#text.ts";
import { id, name, series, state, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { at, exactValue, html, withQuery } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";
import { icon } from "#console/icons.ts";
import type { IconName } from "#console/icons.ts";
import { titleOf } from "#console/pages/people.ts";

/** Of more targets that are being listed, the number is said. */
const targetsNamed = 3;

export interface SearchPage extends Timed {
  readonly text: string;
  readonly places: readonly { readonly href: string; readonly label: string; readonly icon: IconName }[];
  /** The syncs of which the visitor may begin a run. */
  readonly runnable: readonly string[];
  readonly syncs: readonly string[];
  readonly runs: readonly RunRecord[];
  readonly people: readonly (ListedPrincipal & { readonly target: string })[];
  /** The targets that are being listed: the page has nobody of them yet. */
  readonly unlisted: readonly string[];
  /** Those that could not be listed. */
  readonly failed: readonly string[];
}

/** The search over everything: what `/` opens, and a page of its own without a script. */
export function search(page: SearchPage): Html {
  const { now, text, places, runnable, syncs, runs, people, unlisted, failed } = page;
  const groups = [
    group(
      "People and groups",
      people.map((each) =>
        item(
          each.kind,
          withQuery(`/people/${each.kind}`, { target: each.target, name: each.name }),
          html`${name(titleOf(each))}`,
          titleOf(each) === each.name ? name(each.target) : html`${name(each.name)} · ${name(each.target)}`,
        ),
      ),
    ),
    group(
      "Syncs",
      syncs.map((sync) => item("runs", `/runs?sync=${encodeURIComponent(sync)}`, name(sync), "its runs")),
    ),
    group(
      "Runs",
      runs.map((run) =>
        item(
          "runs",
          at("/runs", run.id),
          html`${name(run.sync)} ${state(run)}`,
          html`${id(run.id)} ${when(run.startedAt, now)}`,
        ),
      ),
    ),
    group(
      "Actions",
      runnable.map((sync) => item("play", at("/syncs", sync, "run"), html`Run ${name(sync)} now…`)),
    ),
    group(
      "Pages",
      places.map(({ href, label, icon: picture }) => item(picture, href, label)),
    ),
  ].filter((each) => each !== false);
  return html`<h1>Search</h1>
    <form method="get" action="/search" class="filters" role="search">
      <label
        >People, groups, runs, pages and actions
        <input name="q" type="search" value="${exactValue(text)}" autocomplete="off" spellcheck="false" autofocus
      /></label>
      <button type="submit" class="secondary">Search</button>
    </form>
    <div id="results" class="palette" ${unlisted.length > 0 && html`data-again`}>
      ${groups.length === 0 ? html`<p class="quiet" role="status">${unlisted.length + failed.length > 0 ? html`Nothing else is called` : html`Nothing is called`} ${name(text)}.${text.length === 1 && " People and groups are found by two characters or more."}</p>` : groups}
      ${unlisted.length > 0 && html`<p class="quiet">${unlisted.length > targetsNamed ? pluralize(unlisted.length, "target") : series(unlisted.map(name))} ${unlisted.length === 1 ? "is" : "are"} not listed yet: search again in a moment for people and groups.</p>`}
      ${failed.length > 0 && html`<p class="quiet">Without people and groups of ${series(failed.map((target) => html`<a href="${withQuery("/people", { target })}">${name(target)}</a>`))}, which could not be listed.</p>`}
    </div>`;
}

function group(title: string, items: readonly Html[]): Html | false {
  return (
    items.length > 0 &&
    html`<h2>${title}</h2>
      <ul>
        ${items}
      </ul>`
  );
}

function item(picture: IconName, href: string, label: Part, about?: Part): Html {
  return html`<li data-row>
    <a href="${href}">${icon(picture)}<span>${label}</span>${about !== undefined && html`<small>${about}</small>`}</a>
  </li>`;
}
