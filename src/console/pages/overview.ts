import { changes } from "#plan/change.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import { isExpectation } from "#plan/limits.ts";
import { leavingWords } from "#plan/render/shared.ts";
import { verdictOnPlan } from "#sync/verdict.ts";
import type { HostedCycle } from "#service/host.ts";
import type { RunRecord } from "#state/record.ts";
import { stateOf } from "#state/run-text.ts";
import type { Standing } from "#state/record.ts";
import { capitalized } from "#plan/render/shared.ts";
import { formatPrincipals, pluralize } from "#text.ts";
import {
  closeness,
  countsInShort,
  empty,
  facts,
  gauge,
  name,
  notice,
  sparkline,
  state,
  when,
} from "#console/components.ts";
import { brokenExpectations, brokenWords, keptAndBroken } from "#console/expectations.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { cycleList } from "#console/pages/loads.ts";

export interface OverviewPage {
  /** In epoch milliseconds. */
  readonly now: number;
  readonly syncs: readonly SyncOverview[];
  /** The tables and the newest loads, where there are no syncs and whoever looks may load data. */
  readonly loads?: { readonly tables: number; readonly cycles: readonly HostedCycle[] } | undefined;
}

export interface SyncOverview extends Standing {
  /** Applied changes, day by day, the oldest first. */
  readonly days: readonly { readonly day: string; readonly changes: number }[];
  /** Whether whoever looks may begin a run of it. */
  readonly mayRun: boolean;
}

/** How many days the sparkline shows. */
const daysShown = 30;

/** In milliseconds. */
const dayLength = 86_400_000;

/** @param runs newest first. @param now in epoch milliseconds */
export function daysOf(runs: readonly RunRecord[], now: number): SyncOverview["days"] {
  const totals = new Map<string, number>();
  for (const { state, counts, endedAt } of runs) {
    if (state !== "applied" || counts === undefined || endedAt === undefined) continue;
    const on = endedAt.slice(0, 10);
    totals.set(on, (totals.get(on) ?? 0) + changes(counts));
  }
  return Array.from({ length: daysShown }, (_, index) => {
    const on = new Date(now - (daysShown - 1 - index) * dayLength).toISOString().slice(0, 10);
    return { day: on, changes: totals.get(on) ?? 0 };
  });
}

export function overview({ now, syncs, loads }: OverviewPage): Html {
  const matters = syncs.flatMap((sync) => mattersOf(sync, now)).sort((a, b) => a.rank - b.rank);
  return html`<h1>Overview</h1>
    ${
      syncs.length === 0
        ? html`${loads !== undefined && serviceAlone(loads, now)}
          ${empty(
            html`<p>There are no syncs yet.</p>
              <p>
                Add <code>sources:</code> and <code>syncs:</code> to the configuration, then
                <code>rollcall reload</code>.
              </p>`,
          )}`
        : html`<section aria-labelledby="needs-you">
              <h2 id="needs-you">Needs a person</h2>
              ${matters.length === 0 ? notice("good", quietly(syncs, now)) : matters.map(({ tone, content }) => notice(tone, content))}
            </section>
            <section aria-labelledby="syncs">
              <h2 id="syncs">Syncs</h2>
              <div class="cards">${syncs.map((sync) => card(sync, now))}</div>
            </section>`
    }`;
}

/** What there is to see of a service that nothing is synced with. */
function serviceAlone({ tables, cycles }: NonNullable<OverviewPage["loads"]>, now: number): Html {
  return html`<section aria-labelledby="loads">
    <h2 id="loads">Recent loads</h2>
    ${
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
    ${cycles.length > 0 && html`<p><a href="/loads">All tables and loads</a></p>`}
  </section>`;
}

/** Something that a person should know or do. The lowest rank comes first. */
interface Matter {
  readonly rank: number;
  readonly tone: "bad" | "waiting";
  readonly content: Html;
}

function mattersOf(standing: SyncOverview, now: number): Matter[] {
  const { sync, waiting, lastRun, failures, caution, overdue, lastSuccessAt, running, nextSlotAt } = standing;
  const matters: Matter[] = [];
  const add = (rank: number, tone: Matter["tone"], content: Html): void => {
    matters.push({ rank, tone, content: html`<b>${name(sync)}</b> ${content}` });
  };
  for (const run of waiting) {
    const { id, counts, expiresAt } = run;
    const isHeld = run.state === "held";
    const until = expiresAt === undefined ? "" : html`, expires ${when(expiresAt, now)}`;
    const verb = isHeld ? `is ${stateOf(run)}` : "waits for approval";
    add(
      isHeld ? 0 : 1,
      isHeld ? "bad" : "waiting",
      html`${verb}${until}${counts !== undefined && html`: ${verdictOnPlan(run)}`}.
        <a href="${at("/runs", id, "plan")}">Look at the plan</a>`,
    );
  }
  const stopped =
    lastRun?.error !== undefined && lastRun.cancelled !== true && !waiting.includes(lastRun) ? lastRun : undefined;
  if (stopped !== undefined) {
    const often =
      failures === undefined
        ? ""
        : html` (${pluralize(failures.count, "time")} in a row, since ${when(failures.since, now)})`;
    const again =
      running !== undefined
        ? " Another run is under way."
        : nextSlotAt === undefined
          ? " No further run is scheduled."
          : html` The next run begins ${when(nextSlotAt, now)}.`;
    add(
      stopped.state === "held" ? 0 : 2,
      "bad",
      html`${stopped.state === "held" ? stateOf(stopped) : "failed"}${often}: ${stopped.error?.message}.${again}
        <a href="${at("/runs", stopped.id)}">Look at the run</a>`,
    );
  }
  if (overdue) add(3, "bad", html`is overdue: ${noSuccess(lastSuccessAt, now)}.`);
  const broken = lastRun === undefined || waiting.includes(lastRun) ? [] : brokenExpectations(lastRun.expectations);
  if (lastRun !== undefined && broken.length > 0)
    add(5, "waiting", html`${brokenWords(broken)}. <a href="${at("/runs", lastRun.id)}#expectations">Look at them</a>`);
  if (caution !== undefined) add(4, "waiting", html`needs approval for every run: ${caution.reason}.`);
  return matters;
}

function noSuccess(lastSuccessAt: string | undefined, now: number): Html {
  return lastSuccessAt === undefined
    ? html`no run has ever succeeded`
    : html`no success since ${when(lastSuccessAt, now)}`;
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

function card(standing: SyncOverview, now: number): Html {
  const {
    sync,
    target,
    lastRun,
    lastSuccessAt,
    running,
    schedule,
    nextSlotAt,
    scheduleProblem,
    days,
    overdue,
    mayRun,
  } = standing;
  const expected = keptAndBroken(lastRun?.expectations);
  const id = running ?? lastRun?.id;
  const leaving = lastRun?.leaving;
  const quarantined = lastRun?.quarantined ?? 0;
  return html`<article class="card" data-row>
    <header>
      <h3>
        <a href="${at("/runs")}?sync=${encodeURIComponent(sync)}">${name(sync)}</a> <small>→ ${name(target)}</small>
      </h3>
      ${running !== undefined ? state({ state: "running" }) : lastRun === undefined ? html`<span class="quiet">no run yet</span>` : state(lastRun)}
    </header>
    ${sparkline(days)}
    ${facts([
      [
        "last run",
        id !== undefined &&
          html`<a href="${at("/runs", id)}"
              >${lastRun === undefined || running !== undefined ? "running now" : when(lastRun.endedAt ?? lastRun.startedAt, now)}</a
            >
            ${running === undefined && lastRun?.counts !== undefined && countsInShort(lastRun.counts, lastRun.leaving)}`,
      ],
      [
        "last success",
        overdue
          ? html`<span class="bad">${noSuccess(lastSuccessAt, now)}</span>`
          : lastSuccessAt === undefined
            ? "never"
            : when(lastSuccessAt, now),
      ],
      [
        "next run",
        scheduleProblem !== undefined
          ? html`<span class="bad">${scheduleProblem}</span>`
          : nextSlotAt !== undefined
            ? when(nextSlotAt, now)
            : html`<span class="quiet">${schedule === undefined ? "on demand" : "–"}</span>`,
      ],
      [
        "leaving",
        leaving !== undefined &&
          html`${capitalized(leavingWords(leaving, lastRun?.state === "held"))}${leavingDays(leaving, now)}`,
      ],
      ["quarantined", quarantined > 0 && html`<a href="${at("/doubt")}">${pluralize(quarantined, "record")}</a>`],
      ["closest limit", closestLimits(lastRun)],
      [
        "expectations",
        expected !== undefined &&
          lastRun !== undefined &&
          html`<a href="${at("/runs", lastRun.id)}#expectations">${expected}</a>`,
      ],
    ])}
    ${mayRun && running === undefined && html`<p class="buttons"><a class="button secondary" href="${at("/syncs", sync, "run")}">Run now…</a></p>`}
  </article>`;
}

/** The limit with the least room left in the last plan, and behind it the others that it came near. */
function closestLimits(run: RunRecord | undefined): Html | false {
  const close = (run?.limits ?? []).filter((check) => closeness(check) > 0 && !isExpectation(check.limit));
  const [closest, ...others] = close.toSorted((a, b) => closeness(b) - closeness(a));
  if (closest === undefined) return false;
  return html`${gauge(closest)}
  ${
    others.length > 0 &&
    html`<details class="more">
      <summary>${pluralize(others.length, "further limit")}</summary>
      ${others.map(gauge)}
    </details>`
  }`;
}

/** How many leave on which of the coming days: a bar for each, and the days with somebody in words. */
function leavingDays({ days = [] }: LeavingCounts, now: number): Html | false {
  const last = days.at(-1);
  if (last === undefined || days.length < 2) return false;
  const today = Math.floor(now / dayLength);
  const first = Math.min(today, Date.parse(days[0]?.day ?? last.day) / dayLength);
  const length = Math.max(daysShown, Date.parse(last.day) / dayLength - first + 1);
  const most = Math.max(...days.map(({ users, groups }) => users + groups));
  const width = 5;
  const words = days.map(({ day, users, groups }) => `${day}: ${formatPrincipals(users, groups)}`);
  const bars = days.map(({ day, users, groups }, index) => {
    const height = Math.max(3, (20 * (users + groups)) / most);
    return html`<rect
      x="${(Date.parse(day) / dayLength - first) * width}"
      y="${(20 - height).toFixed(1)}"
      width="${width - 1}"
      height="${height.toFixed(1)}"
    >
      <title>${words[index]}</title>
    </rect>`;
  });
  return html`<svg
      class="sparkline leaving"
      viewBox="0 0 ${length * width} 20"
      preserveAspectRatio="none"
      role="img"
      aria-label="Who leaves, by day"
    >
      <rect class="none" y="19" width="${length * width}" height="1" />
      ${bars}
    </svg>
    <details class="more">
      <summary>${pluralize(days.length, "day")}, until ${last.day}</summary>
      <ul>
        ${words.map((each) => html`<li>${each}</li>`)}
      </ul>
    </details>`;
}
