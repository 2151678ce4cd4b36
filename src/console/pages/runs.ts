import { stateNames } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { causeOf, stateOf, tookOf } from "#state/run-text.ts";
import { countsInShort, empty, id, name, none, state, table, took, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { day, field, filters, select } from "#console/forms.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { icon } from "#console/icons.ts";

export interface RunsPage extends Timed {
  readonly runs: readonly RunRecord[];
  /** There are earlier ones. */
  readonly more: boolean;
  readonly syncs: readonly string[];
  /** Syncs of which the visitor may begin a run. */
  readonly runnable: readonly string[];
  readonly filter: {
    readonly sync?: string | undefined;
    readonly state?: string | undefined;
    /** The last day, of UTC: `2026-11-21`. */
    readonly until?: string | undefined;
    readonly before?: string | undefined;
  };
}

/** The id that those of the listed runs come before: they begin with their day. */
export function listedBefore({ before, until }: RunsPage["filter"]): string | undefined {
  return before ?? (until === undefined ? undefined : `${until.replaceAll("-", "")}~`);
}

export function runs({ now, runs: found, more, syncs, runnable, filter }: RunsPage): Html {
  const { sync, state: of, until } = filter;
  const isFiltered = [sync, of, until].some((each) => each !== undefined);
  const choose = (key: "sync" | "state", none: string, all: readonly string[], attributes?: Html): Html =>
    select(key, [["", none], ...all.map((each) => [each, each] as const)], filter[key], attributes);
  return html`<h1>Runs</h1>
    ${filters(
      "/runs",
      [
        field("Sync", choose("sync", "all", syncs, html`data-search`)),
        field("State", choose("state", "any", stateNames)),
        field("To (UTC)", day("until", until)),
      ],
      { all: isFiltered ? "/runs" : undefined, end: sync !== undefined && runnable.map(runNow) },
    )}
    ${found.length === 0 ? nothing(isFiltered || filter.before !== undefined, runnable) : list(found, now)}
    ${more && html`<p class="paging"><a href="${withQuery("/runs", { ...filter, before: found.at(-1)?.id })}" rel="next">Earlier runs</a></p>`}`;
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

function runNow(sync: string): Html {
  return html`<a class="button secondary" href="${at("/syncs", sync, "run")}"
    >${icon("play")}<span>Run ${name(sync)} now…</span></a
  >`;
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
