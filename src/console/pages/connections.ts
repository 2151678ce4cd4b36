import { capitalized } from "#plan/render/shared.ts";
import type { Note } from "#plan/note.ts";
import { advice } from "#console/pages/run.ts";
import {
  badge,
  chip,
  empty,
  facts,
  gauge,
  list,
  name,
  notice,
  series,
  state,
  table,
  when,
  withDeeper,
} from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import type { Check, CheckFinding, Checked, ConfiguredSync } from "#daemon/connections.ts";
import { hidden } from "#console/forms.ts";
import type { Protected } from "#console/forms.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";
import type { ErrorDocument } from "#errors.ts";
import { isExpectation } from "#plan/limits.ts";
import type { RunRecord, SourceRead, Stage, Standing } from "#state/record.ts";
import { formatSizes, pluralize, timesInARow, wordsOf } from "#text.ts";
import { lasting } from "#times.ts";

export interface ConnectionsPage extends Timed, Protected {
  readonly syncs: readonly ConnectedSync[];
  /** Sources and targets that no sync has. */
  readonly others: readonly Connection[];
}

/** A sync with its sources and its target, and what its runs reached. */
export interface ConnectedSync extends ConfiguredSync {
  readonly standing: Standing;
  /** Its newest run that has read the sources of everybody. */
  readonly lastRead?: RunRecord | undefined;
  /** In the order of `sources`. */
  readonly connections: readonly Connection[];
  readonly to: Connection;
  readonly check?: Check | undefined;
  /** Whether the viewer may check it. */
  readonly mayCheck: boolean;
}

/** A source or a target. */
export interface Connection {
  readonly what: "source" | "target";
  readonly name: string;
  /** The connector of a source, the address of a target. */
  readonly kind: string;
  readonly check?: Check | undefined;
  /** Whether the viewer may check it. */
  readonly mayCheck: boolean;
}

/** What the runs reached, what is configured, and `rollcall check` on demand. */
export function connections(page: ConnectionsPage): Html {
  const { syncs, others } = page;
  return html`<h1>Sources and targets</h1>
    <p class="quiet">
      What the runs reached last, and by what rules they run. A check does what <code>rollcall check</code> does: it
      reads the sources and logs in to the target for real, and changes nothing.
    </p>
    ${
      syncs.length + others.length === 0 &&
      empty(
        html`<p>There are no sources and targets yet.</p>
          <p>
            Add <code>sources:</code>, <code>targets:</code> and <code>syncs:</code> to the configuration, then
            <code>rollcall reload</code>.
          </p>`,
      )
    }
    ${syncs.map((sync) => syncSection(sync, page))}
    ${
      others.length > 0 &&
      html`<section aria-labelledby="others">
        <h2 id="others">In no sync</h2>
        <div class="cards">${others.map((each) => card(each, [checkedFacts(each, page), checkOf(each, page)]))}</div>
      </section>`
    }`;
}

function syncSection(sync: ConnectedSync, page: ConnectionsPage): Html {
  const { sources, target, connections, to, check, mayCheck, standing } = sync;
  const id = anchorOf("sync", sync.sync);
  const form = mayCheck && checkForm("sync", sync.sync, "Check the sources and rules", check, page);
  // Where there is one source, its card has the button.
  const isOnly = connections.length === 1;
  const sourceCards = connections.map((each) =>
    card(each, [readFacts(sync, each, page.now), checkedFacts(each, page, check), isOnly && form], sync.sync),
  );
  // What is well is closed where there are many.
  const isOpen = page.syncs.length <= 3 || check !== undefined || isWrong(standing);
  return html`<details class="changes sync" id="${id}" data-row ${isOpen && html`open`}>
    <summary>
      <h2>${name(sync.sync)}</h2>
      <small>${series(sources.map((each) => name(each.name)))} → ${name(target)}</small>
      ${standingState(standing)} ${standing.overdue && badge("bad", "alert", "overdue")}
    </summary>
    <div class="whole">
      ${problemOf(standing, page.now)}
      <div class="cards">
        ${sourceCards}
        ${card(to, [listedFacts(sync, page.now), checkedFacts(to, page), checkOf(to, page, sync.sync)], sync.sync)}
        ${scheduleCard(sync, page.now)}
      </div>
      ${!isOnly && form} ${rules(sync, page)}
    </div>
  </details>`;
}

function standingState({ running, lastRun }: Standing): Html {
  if (running !== undefined) return state({ state: "running" });
  return lastRun === undefined ? badge("quiet", "none", "no run yet") : state(lastRun);
}

function isWrong({ lastRun, overdue }: Standing): boolean {
  return overdue || (lastRun?.state === "failed" && lastRun.cancelled !== true);
}

/** Why the last run failed, with what to do about it. */
function problemOf({ lastRun, failures, overdue, lastSuccessAt }: Standing, now: number): Html {
  const late =
    overdue &&
    notice(
      "bad",
      html`<p>
        <b>Overdue</b>:
        ${lastSuccessAt === undefined ? "no run has ever succeeded" : html`the last success was ${when(lastSuccessAt, now)}`}.
      </p>`,
    );
  if (lastRun?.state !== "failed" || lastRun.error === undefined || lastRun.cancelled === true) return html`${late}`;
  const often =
    failures === undefined
      ? ""
      : html` ${timesInARow(failures.count)},${failures.count > 1 && " first"} ${when(failures.since, now)}`;
  return html`${late}
  ${notice(
    "bad",
    html`<p><b>Failed</b>${often}: ${lastRun.error.message}</p>
      ${problemList(asNotes(lastRun.error.problems))}
      <p>${advice[lastRun.error.advice]} <a href="${at("/runs", lastRun.id)}">Look at the run</a></p>`,
  )}`;
}

function asNotes(problems: readonly string[]): Note[] {
  return problems.map((text) => ({ text: text.trim() }));
}

function problemList(problems: readonly Note[]): Html | false {
  return (
    problems.length > 0 &&
    html`<ul>
      ${problems.map(({ text, details = [] }) =>
        withDeeper(
          text,
          details.map((detail) => detail.text),
        ),
      )}
    </ul>`
  );
}

type Row = readonly [label: string, value: Part];

/** @param within the sync that it is shown with: several may have one target */
function card({ what, name: called, kind }: Connection, parts: Part, within?: string): Html {
  return html`<article
    class="card"
    data-row
    id="${anchorOf(what, called, within)}"
    aria-label="${what} ${called}"
    tabindex="-1"
  >
    <header>
      <h3>${name(called)}</h3>
      <small class="quiet">${what} · ${kind}</small>
    </header>
    ${parts}
  </article>`;
}

function checkOf(
  { what, name: called, check, mayCheck }: Connection,
  page: ConnectionsPage,
  within?: string,
): Html | false {
  return mayCheck && checkForm(what, called, `Check the ${what}`, check, page, within);
}

/** What the last read found in a source of a sync. */
function readFacts({ sources, lastRead }: ConnectedSync, { name: called }: Connection, now: number): Html {
  const read = lastRead?.sources?.find(({ source }) => source === called);
  const isOptional = sources.some((each) => each.name === called && each.optional);
  const rows: Row[] = [
    [
      read?.error === undefined ? "Last read" : "Last tried",
      lastRead === undefined || read === undefined
        ? "never, as far as is known"
        : by(lastRead, startOf(lastRead, "read"), now),
    ],
    ...(read === undefined || read.error !== undefined ? [] : foundRows(read, now)),
    ["Took", sources.length === 1 && tookIn(lastRead, "read")],
    ["Optional", isOptional && "when it cannot be read, everything that came from it stays unchanged"],
  ];
  return html`${facts(rows)}
  ${
    read?.error !== undefined &&
    notice(
      "bad",
      html`<p><b>Not read</b>: ${read.error.message}</p>
        ${problemList(asNotes(read.error.problems))}
        <p>Everything that came from it stays unchanged. ${advice[read.error.advice]}</p>`,
    )
  }`;
}

function foundRows({ users, groups, quarantined, unchangedSince }: SourceRead, now: number): Row[] {
  return [
    ["Found", formatSizes(users, groups)],
    ["Quarantined", quarantined > 0 && html`<a href="/doubt">${pluralize(quarantined, "record")}</a>`],
    ["Unchanged", unchangedSince !== undefined && html`since ${when(unchangedSince, now)}`],
  ];
}

/** When a run did something, as a link to it. */
function by({ id }: RunRecord, moment: string, now: number): Html {
  return html`<a href="${at("/runs", id)}">${when(moment, now)}</a>`;
}

/** When a run began a stage. */
function startOf({ stages, startedAt }: RunRecord, stage: Stage): string {
  return stages.findLast((each) => each.stage === stage)?.startedAt ?? startedAt;
}

/** How long the last run spent in a stage. */
function tookIn(run: RunRecord | undefined, stage: Stage): string | undefined {
  const milliseconds = run?.stages.findLast((each) => each.stage === stage)?.milliseconds;
  return milliseconds === undefined ? undefined : lasting(milliseconds);
}

/** What the last run found in the target. */
function listedFacts({ lastRead, target }: ConnectedSync, now: number): Html {
  const { counts } = lastRead ?? {};
  const side = lastRead?.state === "applied" ? "after" : "before";
  return facts([
    [
      "Last listed",
      lastRead === undefined || counts === undefined
        ? "never, as far as is known"
        : by(lastRead, startOf(lastRead, "list"), now),
    ],
    [
      "Has",
      counts !== undefined &&
        html`<a href="${withQuery("/people", { target })}">${formatSizes(counts.users[side], counts.groups[side])}</a>`,
    ],
    ["Took", tookIn(lastRead, "list")],
  ]);
}

/** What the last check said of a source or a target: of its own, or of that of its sync. */
function checkedFacts(
  { what, name: called, check }: Connection,
  { now }: ConnectionsPage,
  ofSync?: Check,
): Html | false {
  const of = check ?? ofSync;
  const finding = of?.findings?.find((each) => each.what === what && each.name === called);
  return of !== undefined && finding !== undefined && found(of, finding, now);
}

function found(check: Check, { headline, reached, problems, error }: CheckFinding, now: number): Html {
  return html`<div class="checked">
    <p>
      ${error === undefined ? badge("good", "ok", "checked") : badge("bad", "failed", "check failed")}
      ${when(check.startedAt, now)} by ${name(check.by)}${headline !== undefined && html`: <b>${headline}</b>`}
    </p>
    ${error !== undefined && failure(error)} ${list(reached)}
    ${problems.length > 0 && notice("waiting", problemList(problems))}
  </div>`;
}

function failure({ message, problems, advice: to }: ErrorDocument): Html {
  return notice(
    "bad",
    html`<p>${message}</p>
      ${problemList(asNotes(problems))} ${advice[to] !== undefined && html`<p>${advice[to]}</p>`}`,
  );
}

/** The button that begins a check, or how far the one under way has got. */
function checkForm(
  what: Checked,
  called: string,
  label: string,
  check: Check | undefined,
  { token, now }: ConnectionsPage,
  within?: string,
): Html {
  if (check !== undefined && check.findings === undefined)
    return html`<p class="checking" role="status">
      ${badge("info", "running", "checking")} ${check.progress ?? "waits for another check"}
      <small class="quiet">begun ${when(check.startedAt, now)} by ${name(check.by)}</small>
    </p>`;
  return html`<form method="post" action="/connections/check" class="buttons">
    ${token} ${hidden("what", what)} ${hidden("name", called)} ${within !== undefined && hidden("within", within)}
    <button type="submit" class="secondary">${label}</button>
  </form>`;
}

/** Where on the page something is. @param within the sync that a source or target is shown with */
export function anchorOf(what: Checked, called: string, within?: string): string {
  return `${what}-${[called, within]
    .filter((each) => each !== undefined)
    .map(encodeURIComponent)
    .join(":")}`;
}

const approvals: Readonly<Record<ConfiguredSync["approval"], string>> = {
  required: "every plan waits for a person",
  automatic: "none; a plan beyond a limit is held",
  "automatic-within-limits": "only of plans beyond a limit",
};

/** When a sync runs, and by what rules. */
function scheduleCard(sync: ConnectedSync, now: number): Html {
  const { schedule: cron, timezone, retries, overdueAfter, approval, grace, beyondLimits, standing, exports } = sync;
  const { nextSlotAt, scheduleProblem, lastSuccessAt } = standing;
  return html`<article class="card" aria-label="Schedule and limits of ${sync.sync}">
    <header><h3>Schedule and limits</h3></header>
    ${facts([
      [
        "Schedule",
        cron === undefined ? "on demand" : html`<code>${cron}</code>${timezone !== undefined && ` (${timezone})`}`,
      ],
      [
        "Next run",
        scheduleProblem === undefined
          ? nextSlotAt !== undefined && when(nextSlotAt, now)
          : html`<span class="bad">${scheduleProblem}</span>`,
      ],
      [
        "Last success",
        html`${lastSuccessAt === undefined ? "never" : when(lastSuccessAt, now)}${overdueAfter !== undefined && html` <span class="quiet">(overdue after ${duration(overdueAfter)})</span>`}`,
      ],
      ["Retries", retries === 0 ? "none" : `up to ${retries}`],
      ["Approval", approvals[approval]],
      ["Beyond a limit", beyondLimits === "hold" ? "nothing is applied" : "what it counts waits, the rest is applied"],
      ["Leavers", grace === 0 ? "deleted at once" : `deleted after ${duration(grace)}`],
      ["Export", exports && "after each success"],
    ])}
    ${limits(standing.lastRun)}
  </article>`;
}

const units = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

/** `30 days`. @param milliseconds as configured, so in whole units */
export function duration(milliseconds: number): string {
  const [unit, size] = units.find(([, size]) => milliseconds >= size && milliseconds % size === 0) ?? ["second", 1000];
  return pluralize(milliseconds / size, unit);
}

/** What each limit allowed the last plan, and how much of that it took. */
function limits(run: RunRecord | undefined): Html | false {
  const checks = (run?.limits ?? []).filter(({ limit }) => !isExpectation(limit));
  return (
    run !== undefined &&
    checks.length > 0 &&
    html`<details class="more">
      <summary>${pluralize(checks.length, "limit")}, and how close the last plan came</summary>
      ${checks.map(gauge)}
    </details>`
  );
}

/** What the rules made of the records when the sync was checked. */
function rules({ sync, check }: ConnectedSync, { now }: ConnectionsPage): Html | false {
  const finding = check?.findings?.find(({ what }) => what === "sync");
  if (check === undefined || finding === undefined) return false;
  const { principals } = finding;
  const [title = "name", ...others] = [...new Set(principals.flatMap((each) => Object.keys(each)))].filter(isAttribute);
  return html`<h3>What the rules make of the records</h3>
    ${found(check, finding, now)}
    ${
      principals.length > 0 &&
      table<Principal>(
        `The first principals of ${sync}`,
        [
          { label: "Name", kind: "head", cell: (each) => name(text(each[title]) || text(each["name"])) },
          { label: "Login", cell: (each) => name(text(each["name"])) },
          { label: "Kind", cell: (each) => text(each["kind"]) },
          ...others.map((attribute) => ({
            label: capitalized(wordsOf(attribute)),
            cell: (each: Principal) => name(text(each[attribute])),
          })),
          { label: "Groups", cell: ({ groups }) => html`<span class="chips">${chips(groups)}</span>` },
        ],
        principals,
      )
    }`;
}

type Principal = Readonly<Record<string, unknown>>;

function isAttribute(key: string): boolean {
  return !["kind", "name", "groups"].includes(key);
}

function chips(groups: unknown): Html[] {
  return (Array.isArray(groups) ? groups : []).map((each) => chip(name(String(each))));
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
