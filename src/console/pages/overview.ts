import { heldNamesIn, isExpectation } from "#plan/limits.ts";
import { leavingWords, waitingWords } from "#plan/render/shared.ts";
import { verdictOnPlan } from "#sync/verdict.ts";
import type { HostedCycle } from "#service/host.ts";
import type { RunRecord, Standing } from "#state/record.ts";
import { stateOf } from "#state/run-text.ts";
import { isOpen } from "#state/record.ts";
import { formatNumber, pluralize, timesInARow } from "#text.ts";
import {
  badge,
  bars,
  closeness,
  countsInShort,
  empty,
  ended,
  gaugeInShort,
  list,
  name,
  none,
  notice,
  section,
  state,
  table,
  when,
} from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { brokenExpectations, brokenWords } from "#console/expectations.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { icon } from "#console/icons.ts";
import { cycleList } from "#console/pages/loads.ts";
import { changesByDay, daysKnown, growthOf, leaversByDay } from "#console/pages/trends.ts";
import type { Growth } from "#console/pages/trends.ts";

export interface OverviewPage extends Timed {
  readonly syncs: readonly SyncOverview[];
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** The tables and the newest loads, where there are no syncs and the visitor may load data. */
  readonly loads?: { readonly tables: number; readonly cycles: readonly HostedCycle[] } | undefined;
}

export interface SyncOverview extends Standing {
  /** Whether the visitor may begin a run of it. */
  readonly mayRun: boolean;
}

/** How many runs are listed. */
const runsShown = 8;

export function overview(page: OverviewPage): Html {
  const { now, syncs, runs, loads } = page;
  if (syncs.length === 0)
    return html`<h1>Overview</h1>
      ${firstSteps} ${loads !== undefined && serviceAlone(loads, now)}`;
  const matters = syncs.flatMap((sync) => mattersOf(sync, now)).sort((a, b) => a.rank - b.rank);
  return html`<h1 class="aloud">Overview</h1>
    <div class="overview">
      ${totals(page)}
      ${section(
        "attention",
        matters.length === 0 ? "Needs attention" : html`Needs attention <small>${formatNumber(matters.length)}</small>`,
        matters.length === 0 ? notice("good", quietly(syncs, now)) : matterList(matters),
      )}
      ${section("syncs", "Syncs", syncTable(page))}
      <div class="rail">
        ${section("runs", "Last runs", lastRuns(runs.slice(0, runsShown), now))} ${leaving(syncs, now)}
      </div>
    </div>`;
}

/** How many there are of everything, and how that went over the last month, or as much of it as runs are known. */
function totals({ now, syncs, runs }: OverviewPage): Html {
  const { users, groups } = growthOf(runs, now);
  const known = daysKnown(runs, now);
  const changed = changesByDay(runs, now);
  const month = changed.reduce((sum, count) => sum + count, 0);
  const period = known === 1 ? "today" : `in ${known} days`;
  const grown = ({ was, is }: Growth): Html => {
    const same = `as many as ${known === 1 ? "yesterday" : `${known} days ago`}`;
    const by = `${is > was ? "+" : "−"}${formatNumber(Math.abs(is - was))} ${period}`;
    return runs.length === 0 ? html`` : html`<small class="quiet">${is === was ? same : by}</small>`;
  };
  return html`<dl class="totals-strip">
    ${figure("Users", users.is, grown(users))} ${figure("Groups", groups.is, grown(groups))}
    ${figure("Syncs", syncs.length, html`<small class="chips">${syncStates(syncs)}</small>`)}
    ${figure(`Changes ${period}`, month, bars(changed, `${pluralize(month, "change")} ${period}, at most ${formatNumber(Math.max(...changed))} a day`))}
  </dl>`;
}

function figure(label: string, value: number, below: Html): Html {
  return html`<div>
    <dt>${label}</dt>
    <dd><span class="figure">${formatNumber(value)}</span> ${below}</dd>
  </div>`;
}

/** How many syncs are well, and how many are not. */
function syncStates(syncs: readonly SyncOverview[]): Html[] {
  const standing = (sync: SyncOverview): string => {
    const { lastRun, running, waiting, overdue } = sync;
    if (running !== undefined) return "running";
    if (waiting.length > 0) return "waiting";
    if (lastRun === undefined) return "new";
    if (lastRun.cancelled === true && !overdue) return "cancelled";
    return overdue || lastRun.state === "failed" || lastRun.state === "held" ? "bad" : "good";
  };
  const all = syncs.map(standing);
  const kinds = [
    ["good", "good", "well"],
    ["waiting", "waiting", "to decide"],
    ["bad", "bad", "failing"],
    ["running", "info", "running"],
    ["cancelled", "quiet", "cancelled"],
    ["new", "quiet", "never run"],
  ] as const;
  return kinds.flatMap(([kind, tone, word]) => {
    const count = all.filter((each) => each === kind).length;
    return count === 0 ? [] : [html`<span class="${tone}"><span class="dot"></span> ${count} ${word}</span> `];
  });
}

/** What there is to see of a service that nothing is synced with. */
function serviceAlone({ tables, cycles }: NonNullable<OverviewPage["loads"]>, now: number): Html {
  return section(
    "loads",
    "Recent loads",
    html`${
      cycles.length > 0
        ? cycleList(cycles, now)
        : empty(
            tables === 0
              ? html`<p>There are no tables yet: name a file of them in <code>service.tables</code>.</p>`
              : html`<p>
                  None. <a href="/loads">Load a file into one of ${pluralize(tables, "table")}</a>, or use
                  <code>rollcall load FILE --table DATABASE.TABLE</code>.
                </p>`,
          )
    }
    ${cycles.length > 0 && html`<p><a href="/loads">All tables and loads</a></p>`}`,
  );
}

/** Something that a person should know or do. The lowest rank comes first. */
interface Matter {
  readonly rank: number;
  readonly tone: "bad" | "waiting";
  readonly sync: string;
  readonly content: Html;
  /** Where it is dealt with. */
  readonly action?: { readonly href: string; readonly label: string } | undefined;
}

function mattersOf(standing: SyncOverview, now: number): Matter[] {
  const { sync, waiting, lastRun, failures, caution, overdue, lastSuccessAt, running, nextSlotAt } = standing;
  const matters: Matter[] = [];
  const add = (rank: number, tone: Matter["tone"], content: Html, href?: string, label = "Look at the run"): void => {
    const action = href === undefined ? undefined : { href, label };
    matters.push({ rank, tone, sync, content: html`<b>${name(sync)}</b> ${content}`, action });
  };
  for (const run of waiting) {
    const { id, counts, expiresAt } = run;
    const isHeld = run.state === "held";
    const until = expiresAt === undefined ? "" : html`, expires ${when(expiresAt, now)}`;
    const again = run.error === undefined ? "waits for approval" : "could not be applied and waits for approval again";
    const verb = isHeld ? `is ${stateOf(run)}` : again;
    add(
      isHeld ? 0 : 1,
      isHeld ? "bad" : "waiting",
      html`${verb}${until}${counts !== undefined && html`: ${verdictOnPlan(run)}`}.`,
      at("/runs", id, "plan"),
      "Look at the plan",
    );
  }
  const stopped =
    lastRun?.error !== undefined && lastRun.cancelled !== true && !waiting.includes(lastRun) ? lastRun : undefined;
  if (stopped !== undefined) {
    const often =
      failures === undefined || failures.count === 1
        ? ""
        : html` (${timesInARow(failures.count)}, first ${when(failures.since, now)})`;
    const again =
      running !== undefined
        ? " Another run is under way."
        : nextSlotAt === undefined
          ? " No further run is scheduled."
          : html` The next run begins ${when(nextSlotAt, now)}.`;
    add(
      stopped.state === "held" ? 0 : 2,
      "bad",
      html`${stopped.state === "held" ? stateOf(stopped) : "failed"}${often}:
      ${ended(stopped.error?.message ?? "")}${again}`,
      at("/runs", stopped.id),
    );
  }
  const itsRuns = [withQuery("/runs", { sync }), "Look at its runs"] as const;
  if (overdue) add(3, "bad", html`is overdue: ${noSuccess(lastSuccessAt, now)}.`, ...itsRuns);
  const broken = lastRun === undefined || waiting.includes(lastRun) ? [] : brokenExpectations(lastRun.expectations);
  if (lastRun !== undefined && broken.length > 0)
    add(5, "waiting", html`${brokenWords(broken)}.`, `${at("/runs", lastRun.id)}#expectations`);
  if (lastRun !== undefined && lastRun.waiting.length > 0 && !isOpen(lastRun))
    add(5, "waiting", html`applies the rest: ${waitingWords(lastRun.waiting)}.`, at("/runs", lastRun.id));
  if (caution !== undefined)
    add(4, "waiting", html`needs approval for every run until one is approved: ${caution.reason}.`, ...itsRuns);
  return matters;
}

function noSuccess(lastSuccessAt: string | undefined, now: number): Html {
  return lastSuccessAt === undefined
    ? html`no run has ever succeeded`
    : html`the last success was ${when(lastSuccessAt, now)}`;
}

/** How many matters are shown at once; a directory that is down can be one for each of dozens of syncs. */
const mattersShown = 10;

function matterList(matters: readonly Matter[]): Html {
  const rows = (some: readonly Matter[]): Html =>
    html`<ul class="matters">
      ${some.map(matterRow)}
    </ul>`;
  // One more would only be behind a click.
  if (matters.length <= mattersShown + 1) return rows(matters);
  return html`${rows(matters.slice(0, mattersShown))}
    <details class="more" id="more-matters">
      <summary>${formatNumber(matters.length - mattersShown)} more</summary>
      ${rows(matters.slice(mattersShown))}
    </details>`;
}

function matterRow({ tone, sync, content, action }: Matter): Html {
  return html`<li data-row>
    <span class="${tone}">${icon(tone === "bad" ? "alert" : "clock")}</span>
    <span>${content}</span>
    ${
      action !== undefined &&
      html`<a class="button secondary small" href="${action.href}"
        ><span><span class="aloud">${sync}: </span>${action.label}</span></a
      >`
    }
  </li>`;
}

/** Nothing to do: what happens next, by itself. */
function quietly(syncs: readonly SyncOverview[], now: number): Html {
  const running = syncs.filter((each) => each.running !== undefined);
  if (running.length > 0) return html`Nothing. ${pluralize(running.length, "run is", "runs are")} under way.`;
  const next = syncs
    .filter((each) => each.nextSlotAt !== undefined)
    .toSorted((a, b) => ((a.nextSlotAt ?? "") < (b.nextSlotAt ?? "") ? -1 : 1))[0];
  if (next?.nextSlotAt === undefined) return html`Nothing. No run is scheduled.`;
  return html`Nothing. ${name(next.sync)} runs next, ${when(next.nextSlotAt, now)}.`;
}

/** The syncs, one a row. */
function syncTable({ now, syncs }: OverviewPage): Html {
  return table<SyncOverview>(
    "Each sync",
    [
      {
        label: "Sync",
        kind: "head",
        cell: ({ sync, target }) =>
          html`<a href="/runs?sync=${encodeURIComponent(sync)}">${name(sync)}</a>
            <small class="quiet">→ ${name(target)}</small>`,
        sort: ({ sync }) => sync,
      },
      {
        label: "State",
        kind: "status",
        cell: stateCell,
        sort: ({ running, lastRun }) => (running === undefined ? (lastRun?.state ?? "") : "running"),
      },
      {
        label: "Last success",
        cell: (each) => successCell(each, now),
        sort: ({ lastSuccessAt }) => lastSuccessAt ?? "",
      },
      { label: "Next run", cell: (each) => nextCell(each, now), sort: ({ nextSlotAt }) => nextSlotAt ?? "~" },
      { label: "Last changes", cell: changesCell },
      {
        label: "Closest limit",
        cell: ({ lastRun }) => closestLimit(lastRun),
        sort: ({ lastRun }) => Math.max(0, ...closeLimits(lastRun).map(closeness)),
      },
      {
        label: "Run now",
        kind: "tight",
        cell: ({ sync, mayRun, running }) =>
          mayRun &&
          running === undefined &&
          html`<a class="button secondary small" href="${at("/syncs", sync, "run")}"
            ><span>Run<span class="aloud"> ${sync}</span> now…</span></a
          >`,
      },
    ],
    syncs,
  );
}

function stateCell({ running, lastRun }: SyncOverview): Html {
  if (running !== undefined)
    return html`<a class="bare" href="${at("/runs", running)}">${state({ state: "running" })}</a>`;
  if (lastRun === undefined) return badge("quiet", "none", "no run yet");
  return html`<a class="bare" href="${at("/runs", lastRun.id)}">${state(lastRun)}</a>`;
}

function successCell({ lastSuccessAt, overdue }: SyncOverview, now: number): Html {
  if (lastSuccessAt === undefined) return html`<span class="${overdue ? "bad" : "quiet"}">never</span>`;
  return overdue
    ? html`<span class="bad">${when(lastSuccessAt, now)}, overdue</span>`
    : html`${when(lastSuccessAt, now)}`;
}

function nextCell({ scheduleProblem, nextSlotAt, schedule }: SyncOverview, now: number): Html {
  if (scheduleProblem !== undefined) return html`<span class="bad">${scheduleProblem}</span>`;
  if (nextSlotAt !== undefined) return when(nextSlotAt, now);
  return schedule === undefined ? html`<span class="quiet">on demand</span>` : none;
}

/** What its last plan changed, and what else it found. */
function changesCell({ lastRun }: SyncOverview): Html {
  if (lastRun?.counts === undefined) return none;
  const { quarantined = 0, expectations, id, limits } = lastRun;
  const held = heldNamesIn(limits);
  const broken = brokenExpectations(expectations).length;
  return html`<span
    >${countsInShort(lastRun.counts, lastRun.leaving)}
    ${quarantined > 0 && html`<a href="/doubt">${pluralize(quarantined, "record")} in doubt</a> `}
    ${held > 0 && html`<a href="${at("/runs", id)}">${pluralize(held, "name")} held</a> `}
    ${broken > 0 && html`<a href="${at("/runs", id)}#expectations">${pluralize(broken, "expectation")} broken</a>`}</span
  >`;
}

function closeLimits(run: RunRecord | undefined): RunRecord["limits"] {
  return (run?.limits ?? [])
    .filter((check) => closeness(check) > 0 && !isExpectation(check.limit))
    .toSorted((a, b) => closeness(b) - closeness(a));
}

/** The limit with the least room left in the last plan. */
function closestLimit(run: RunRecord | undefined): Html {
  const [closest] = closeLimits(run);
  return closest === undefined ? none : gaugeInShort(closest);
}

/** The newest runs, whatever their sync. */
function lastRuns(runs: readonly RunRecord[], now: number): Html {
  if (runs.length === 0) return html`<p class="quiet">None yet.</p>`;
  return html`<ul class="causes">
      ${runs.map(
        (run) =>
          html`<li class="row" data-row>
            <a href="${at("/runs", run.id)}">${name(run.sync)}</a> ${state(run)}
            <small>${when(run.endedAt ?? run.startedAt, now)}</small>
          </li>`,
      )}
    </ul>
    <p><a href="/runs">All runs</a></p>`;
}

/** The leavers of each sync, and how many leave on each of the coming days. */
function leaving(syncs: readonly SyncOverview[], now: number): Html | false {
  const all = syncs.flatMap(({ sync, lastRun }) =>
    lastRun?.leaving === undefined
      ? []
      : [{ sync, leaving: lastRun.leaving, words: leavingWords(lastRun.leaving, lastRun.state === "held") }],
  );
  if (all.length === 0) return false;
  const { values, words } = leaversByDay(
    all.map((each) => each.leaving),
    now,
  );
  return section(
    "leaving",
    "Leaving",
    html`${words.length > 0 && bars(values, words.join(", "), "leaving")}
      ${list(
        all.map((each) => html`<b>${name(each.sync)}</b> ${each.words}`),
        "causes",
      )}
      ${
        words.length > 1 &&
        html`<details class="more">
          <summary>${pluralize(words.length, "day")} (UTC)</summary>
          ${list(words)}
        </details>`
      }
      <p><a href="/leavers">All leavers</a></p>`,
  );
}

/** What a new installation needs before there is anything to see. */
const firstSteps = html`<section class="card narrow-page first-steps" aria-labelledby="first">
  <h2 id="first">There are no syncs yet</h2>
  <p>A sync brings the users and groups of an application in step with a directory. It takes four steps.</p>
  <ol>
    <li>
      <b>Name a source</b> under <code>sources:</code> of the configuration: a directory, an identity provider, a
      database or files. <code>rollcall init</code> asks for what it needs.
    </li>
    <li>
      <b>Name a target</b> under <code>targets:</code>. The service of this installation is <code>embedded</code>.
    </li>
    <li>
      <b>Connect both</b> under <code>syncs:</code>, with rules and a schedule. <code>rollcall check</code> tries them
      and changes nothing.
    </li>
    <li><b>Take it into use</b> with <code>rollcall reload</code>. The first plan then waits here.</li>
  </ol>
</section>`;
