import { stateNames } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { causeOf, tookOf } from "#state/run-text.ts";
import { countsInShort, empty, name, state, took, when } from "#console/components.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";

export interface RunsPage {
  /** In epoch milliseconds. */
  readonly now: number;
  readonly runs: readonly RunRecord[];
  /** There are earlier ones. */
  readonly more: boolean;
  readonly syncs: readonly string[];
  /** Those of which whoever looks may begin a run. */
  readonly runnable: readonly string[];
  readonly filter: {
    readonly sync?: string | undefined;
    readonly state?: string | undefined;
    readonly before?: string | undefined;
  };
}

export function runs({ now, runs: found, more, syncs, runnable, filter }: RunsPage): Html {
  const isFiltered = filter.sync !== undefined || filter.state !== undefined;
  return html`<h1>Runs</h1>
    <form method="get" action="/runs" class="filters">
      <label
        >Sync
        <select name="sync" data-search>
          <option value="">all</option>
          ${syncs.map((each) => html`<option ${each === filter.sync && html`selected`}>${each}</option>`)}
        </select></label
      >
      <label
        >State
        <select name="state">
          <option value="">any</option>
          ${stateNames.map((each) => html`<option ${each === filter.state && html`selected`}>${each}</option>`)}
        </select></label
      >
      <button type="submit" class="secondary">Filter</button>
      ${isFiltered && html`<a href="/runs">Show all</a>`}
    </form>
    ${
      runnable.length > 0 &&
      html`<p class="buttons">
        ${runnable.map((sync) => html`<a class="button secondary" href="${at("/syncs", sync, "run")}">Run ${name(sync)} now…</a>`)}
      </p>`
    }
    ${
      found.length === 0
        ? empty(
            isFiltered || filter.before !== undefined
              ? html`<p>No run matches. <a href="/runs">Show all</a></p>`
              : html`<p>No run yet. <code>rollcall apply</code> begins one; a schedule does it by itself.</p>`,
          )
        : html`<div class="scroll" tabindex="0" role="region" aria-label="Runs">
            <table>
              <thead>
                <tr>
                  <th scope="col">Began</th>
                  <th scope="col">Sync</th>
                  <th scope="col">State</th>
                  <th scope="col">Changes</th>
                  <th scope="col" class="wide">Why</th>
                  <th scope="col" class="number wide">Took</th>
                </tr>
              </thead>
              <tbody>
                ${found.map((run) => row(run, now))}
              </tbody>
            </table>
          </div>`
    }
    ${more && html`<p><a href="${older(found, filter)}" rel="next">Earlier runs</a></p>`}`;
}

function row(run: RunRecord, now: number): Html {
  const { id, sync, startedAt, counts, leaving } = run;
  return html`<tr data-row>
    <th scope="row"><a href="${at("/runs", id)}">${when(startedAt, now)}</a></th>
    <td>${name(sync)}</td>
    <td>${state(run)}</td>
    <td>${counts === undefined ? html`<span class="quiet">–</span>` : countsInShort(counts, leaving)}</td>
    <td class="wide">${causeOf(run)}</td>
    <td class="number wide">${took(tookOf(run))}</td>
  </tr>`;
}

function older(found: readonly RunRecord[], { sync, state }: RunsPage["filter"]): string {
  const query = new URLSearchParams({
    ...(sync === undefined ? {} : { sync }),
    ...(state === undefined ? {} : { state }),
    before: found.at(-1)?.id ?? "",
  });
  return `/runs?${query.toString()}`;
}
