import { stateNames } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { causeOf, stateOf, tookOf } from "#state/run-text.ts";
import { countsInShort, empty, id, name, none, state, table, took, when } from "#console/components.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { icon } from "#console/icons.ts";

export interface RunsPage {
  /** In epoch milliseconds. */
  readonly now: number;
  readonly runs: readonly RunRecord[];
  /** There are earlier ones. */
  readonly more: boolean;
  readonly syncs: readonly string[];
  /** Syncs of which the visitor may begin a run. */
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
    <form method="get" action="/runs" class="filters" data-auto>
      <label
        >Sync
        <select name="sync" data-search>
          <option value="">all</option>
          ${syncs.map((each) => option(each, each, filter.sync))}
        </select></label
      >
      <label
        >State
        <select name="state">
          <option value="">any</option>
          ${stateNames.map((each) => option(each, each, filter.state))}
        </select></label
      >
      <button type="submit" class="secondary">Filter</button>
      ${isFiltered && html`<a href="/runs">Show all</a>`}
      ${
        filter.sync !== undefined &&
        runnable.map(
          (sync) =>
            html`<a class="button secondary" href="${at("/syncs", sync, "run")}"
              >${icon("play")}Run ${name(sync)} now…</a
            >`,
        )
      }
    </form>
    ${found.length === 0 ? nothing(isFiltered || filter.before !== undefined, runnable) : list(found, now)}
    ${more && html`<p class="paging"><a href="${older(found, filter)}" rel="next">Earlier runs</a></p>`}`;
}

function option(value: string, label: string, given: string | undefined): Html {
  return html`<option value="${value}" ${value === given && html`selected`}>${label}</option>`;
}

function nothing(isFiltered: boolean, runnable: readonly string[]): Html {
  if (isFiltered) return empty(html`<p>No run matches. <a href="/runs">Show all</a></p>`, "runs");
  const [first] = runnable;
  return empty(
    html`<p>No run yet. A schedule starts runs automatically.</p>
      ${first !== undefined && html`<p><a class="button" href="${at("/syncs", first, "run")}">Run ${name(first)} now…</a></p>`}`,
    "runs",
  );
}

/** Runs, newest first. */
function list(found: readonly RunRecord[], now: number): Html {
  return table<RunRecord>(
    "Runs",
    [
      { label: "Run", kind: "head", cell: (run) => html`<a href="${at("/runs", run.id)}">${id(run.id)}</a>` },
      { label: "Began", cell: ({ startedAt }) => when(startedAt, now), sort: ({ startedAt }) => startedAt },
      { label: "Sync", cell: ({ sync }) => name(sync), sort: ({ sync }) => sync },
      { label: "Result", kind: "status", cell: (run) => state(run), sort: (run) => stateOf(run) },
      {
        label: "Changes",
        cell: ({ counts, leaving }) => (counts === undefined ? none : countsInShort(counts, leaving)),
      },
      { label: "Begun by", cell: (run) => causeOf(run), sort: (run) => causeOf(run) },
      { label: "Took", kind: "number", cell: (run) => took(tookOf(run)), sort: (run) => tookOf(run) ?? 0 },
    ],
    found,
  );
}

function older(found: readonly RunRecord[], { sync, state: of }: RunsPage["filter"]): string {
  const query = new URLSearchParams({
    ...(sync === undefined ? {} : { sync }),
    ...(of === undefined ? {} : { state: of }),
    before: found.at(-1)?.id ?? "",
  });
  return `/runs?${query.toString()}`;
}
