import { actions as all, textsOf } from "#plan/change.ts";
import type { Action, AttributeChange, Counts, KindCounts } from "#plan/change.ts";
import { expectationOf } from "#plan/limits.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { capitalized, earlierWords, limitName, losingWords, verdictOf } from "#plan/render/shared.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import { stateName } from "#state/record.ts";
import type { RunRecord, StateName } from "#state/record.ts";
import { stateOf } from "#state/run-text.ts";
import { formatNumber, formatPrincipals } from "#text.ts";
import { lasting, relatively, storedMoment } from "#times.ts";
import { html } from "./html.ts";
import type { Html, Part } from "./html.ts";
import { icon } from "./icons.ts";
import type { IconName } from "./icons.ts";

/*
 * The components of the console: one of each. Their look is in assets/base.css, which a report has too.
 *
 * A page is a heading (`<hgroup>` or `<h1>`), `tabs` where it has siblings, `notice`s, then `section`s. What a person fills in,
 * and what asks before something is done, is in `forms.ts`. Buttons stand in `<p class="buttons">`: the main one as it is, others `class="secondary"`, what destroys `class="danger"`,
 * in rows of a table `class="small"`. Rows and cards that `j` and `k` visit have `data-row`.
 */

/** What a page shows that says how long ago something was. */
export interface Timed {
  /** In epoch milliseconds. */
  readonly now: number;
}

/** How something stands. `quiet`: neither well nor badly. */
export type Tone = "good" | "waiting" | "bad" | "info" | "quiet";

/**
 * A name from outside: it keeps its own direction. A long one is broken after a sign in it, such as the @ of an address, and
 * anywhere only where that does not do.
 */
export function name(text: string): Html {
  const parts = text.length > 16 ? text.split(/(?<=[@._/:=,+-])(?=.)/u) : [text];
  return html`<bdi class="name">${parts.map((part, index) => html`${index > 0 && html`<wbr />`}${part}`)}</bdi>`;
}

/** What a machine calls something: a run, a digest. It is not broken. */
export function id(text: string): Html {
  return html`<code class="id">${text}</code>`;
}

/* Moments */

/**
 * A moment, as long ago as it is; exactly on hover and on focus.
 * @param now in epoch milliseconds; undefined in what is read later, where it is a moment to the second
 */
export function when(iso: string, now: number | undefined): Html {
  if (now === undefined) return moment(iso);
  return html`<time datetime="${iso}" title="${inUtc(iso)}">${relatively(iso, now)}</time>`;
}

/** A moment to the second, in UTC like ids of runs, filters, downloads and notifications; the script adds local time on hover. */
export function moment(iso: string): Html {
  return html`<time datetime="${iso}" title="${inUtc(iso)}" data-exact>${inUtc(iso)}</time>`;
}

function inUtc(iso: string): string {
  return `${iso.slice(0, 19).replace("T", " ")} UTC`;
}

/** What an error or a note says: what it has between backticks is code, and its moments are shown like all others. */
export function prose(text: string): Html {
  const parts = text.split(/`([^`]+)`/);
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : momentsIn(part)))}`;
}

/** A message as the end of a sentence: with a full stop, unless it has a sign of its own. */
export function ended(message: string): string {
  return /[.?!…]$/.test(message) ? message : `${message}.`;
}

/** A message as a sentence of its own: messages begin in lower case, as parts of longer ones. */
export function sentence(message: string): string {
  return capitalized(ended(message));
}

function momentsIn(text: string): Part {
  return text.split(storedMoment).map((part, index) => (index % 2 === 1 ? moment(part) : part));
}

/** A duration in milliseconds, where it is known. */
export function took(milliseconds: number | undefined): Html {
  return milliseconds === undefined ? none : html`${lasting(milliseconds)}`;
}

/** What stands where there is no value. */
export const none = html`<span class="quiet">–</span>`;

/* Badges and chips */

/** How something stands, told by a picture and a word, not by its colour alone. */
export function badge(tone: Tone, picture: IconName, label: Part): Html {
  return html`<span class="state ${tone} ${picture === "running" && "turning"}">${icon(picture)}${label}</span>`;
}

const states: Readonly<Record<StateName, readonly [Tone, IconName]>> = {
  running: ["info", "running"],
  pending: ["waiting", "clock"],
  held: ["bad", "pause"],
  "no change": ["good", "ok"],
  applied: ["good", "ok"],
  failed: ["bad", "failed"],
  rejected: ["quiet", "none"],
  superseded: ["quiet", "none"],
  expired: ["waiting", "expired"],
  cancelled: ["quiet", "none"],
};

/** The state of a run. */
export function state(run: Pick<RunRecord, "state" | "heldBy" | "cancelled">): Html {
  return badge(...states[stateName(run)], stateOf(run));
}

/** Something small among others of its kind: a group, a filter. `add` and `remove`: what a change does with it. */
export function chip(content: Part, does?: "add" | "remove"): Html {
  if (does === undefined) return html`<span class="chip">${content}</span> `;
  return does === "add"
    ? html`<ins class="chip"><span aria-hidden="true">+</span><span class="aloud">added to </span>${content}</ins> `
    : html`<del class="chip"
        ><span aria-hidden="true">−</span><span class="aloud">removed from </span>${content}</del
      > `;
}

/* Numbers of a plan */

/** `users +3 ~1 −2`, then groups, and how many are leaving; `no changes` where nothing happens to anybody. */
export function countsInShort(counts: Counts, leaving?: LeavingCounts): Html {
  const kinds = [
    ["user", counts.users],
    ["group", counts.groups],
  ] as const;
  const parts = kinds.flatMap(([kind, of]) => {
    const amounts = signed(of);
    return amounts.length === 0 ? [] : [html`<span class="counts"><small>${kind}s</small> ${amounts}</span> `];
  });
  if (leaving !== undefined)
    parts.push(html`<span class="counts">${formatPrincipals(leaving.users, leaving.groups)} leaving</span>`);
  return parts.length === 0 ? html`<span class="quiet counts">no changes</span> ` : html`${parts}`;
}

function signed(kind: KindCounts): Html[] {
  return all.flatMap((action) => {
    const count = kind[action] ?? 0;
    return count === 0 ? [] : [html`<span class="${action}">${amount(action, count)}</span> `];
  });
}

/** How an action is written, and read aloud; its colour is that of its class in the sheet. */
export const actions: Readonly<Record<Action, { readonly sign: string; readonly done: string }>> = {
  create: { sign: "+", done: "created" },
  update: { sign: "~", done: "updated" },
  suspend: { sign: "‖", done: "suspended" },
  reactivate: { sign: "↺", done: "reactivated" },
  delete: { sign: "−", done: "deleted" },
};

/** An amount with its sign: `+3`; read aloud as `3 created`. */
export function amount(action: Action, count: number): Html {
  const { sign, done } = actions[action];
  return html`<span aria-hidden="true">${sign}${formatNumber(count)}</span
    ><span class="aloud">${formatNumber(count)} ${done}</span>`;
}

/* Meters and bars */

/** How close a limit is: its bound is a line across the bar, and a number beside it. */
export function gauge(check: LimitCheck): Html {
  return meter(check, "whole");
}

/** The same in a cell of a table: without where the bound comes from. */
export function gaugeInShort(check: LimitCheck): Html {
  return meter(check, "short");
}

function meter(check: LimitCheck, extent: "whole" | "short"): Html {
  const { limit, of, value, bound, basis, earlier, groups = [] } = check;
  const isLeast = limit.startsWith("min");
  const verdict = verdictOf(check);
  const whole = 1.04 * Math.max(value, bound, 1);
  const [filled, mark] = [(100 * value) / whole, (100 * bound) / whole];
  const tone = verdict === "tripped" ? "bad" : verdict === "overridden" || isClose(check) ? "waiting" : "good";
  const expectation = expectationOf(limit);
  const details = [
    basis,
    earlier > 0 && earlierWords(check),
    losingWords(groups, value - earlier).replace(/^: /, ""),
  ].filter((each) => each !== false && each !== "");
  return html`<div class="gauge ${tone} ${extent === "short" && "short"}">
    <p>
      <span>${expectation === undefined ? capitalized(limitName(limit)) : html`<q>${expectation}</q>`}</span>
      <span
        ><b>${formatNumber(value)}${extent === "whole" && ` ${value === 1 ? of.replace(/^([a-z]+)s\b/, "$1") : of}`}</b
        >, ${isLeast ? "at least" : "at most"} ${formatNumber(bound)}</span
      >
    </p>
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" y="1.5" width="100" height="5" />
      <rect class="fill" y="1.5" width="${filled.toFixed(2)}" height="5" />
      <rect class="mark" x="${(mark - 0.25).toFixed(2)}" width="0.5" height="8" />
    </svg>
    ${
      extent === "whole" &&
      html`<small
        >${details.join(" · ")}${verdict !== "within" && html` · <strong>${verdict === "tripped" ? "beyond the limit" : verdict}</strong>`}</small
      >`
    }
  </div>`;
}

/** Whether a limit has less than a fifth of its room left. */
function isClose({ value, bound, limit }: LimitCheck): boolean {
  return !limit.startsWith("min") && bound > 0 && value >= 0.8 * bound;
}

/** The share of its bound that a limit has used up, to find the closest one; a minimum is never close until it trips. */
export function closeness({ value, bound, limit, tripped }: LimitCheck): number {
  if (tripped) return Number.POSITIVE_INFINITY;
  if (limit.startsWith("min")) return 0;
  return bound === 0 ? 0 : value / bound;
}

/**
 * Bars beside each other, such as one for each day, the oldest first.
 * @param label the numbers in words, for those who do not see them
 */
export function bars(values: readonly number[], label: string, tone: "series" | "leaving" = "series"): Html {
  const most = Math.max(1, ...values);
  const shape = values
    .map((value, index) => {
      const height = value === 0 ? 0 : Math.max(2, (20 * value) / most);
      return height === 0 ? "" : `M${5 * index} ${(20 - height).toFixed(1)}h4V20h-4z`;
    })
    .join("");
  return html`<svg
    class="sparkline ${tone}"
    viewBox="0 0 ${5 * values.length} 20"
    preserveAspectRatio="none"
    role="img"
    aria-label="${label}"
  >
    <path class="none" d="M0 19.5h${5 * values.length}v.5H0z" />
    <path d="${shape}" />
  </svg>`;
}

/* Parts of a page */

/** A part of a page with a heading; the heading's `id` can be linked to. */
export function section(id: string, title: Part, content: Part): Html {
  return html`<section aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    ${content}
  </section>`;
}

/** Names in a sentence: `one, another`. */
export function series(parts: readonly Part[]): Html {
  return html`${parts.map((part, index) => html`${index > 0 && ", "}${part}`)}`;
}

/** Points, one a line; nothing where there are none. */
export function list(points: readonly Part[], className?: string): Html | false {
  return (
    points.length > 0 &&
    html`<ul${className !== undefined && html` class="${className}"`}>
      ${points.map((each) => html`<li>${each}</li>`)}
    </ul>`
  );
}

/** Labelled facts, one a line. Those without a value are left out. */
export function facts(rows: readonly (readonly [label: string, value: Part])[]): Html {
  return html`<dl class="facts">
    ${rows.map(
      ([label, value]) =>
        value !== undefined &&
        value !== false &&
        html`<div>
          <dt>${label}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

const noticeIcons = { good: "ok", bad: "alert", waiting: "clock", info: "info" } as const;

/**
 * A banner: something a person must know.
 * @param isAlert it is read aloud at once
 * @param actions what to do about it, at its end
 */
export function notice(tone: keyof typeof noticeIcons, content: Part, isAlert = false, actions?: Html): Html {
  return html`<div class="notice ${tone}" ${isAlert && html`role="alert"`}>
    ${icon(noticeIcons[tone])}
    <div>${content}</div>
    ${actions !== undefined && html`<div class="actions">${actions}</div>`}
  </div>`;
}

/** What is there instead of an empty list: why, and what to do next. */
export function empty(content: Part, picture: IconName = "empty"): Html {
  return html`<div class="empty">${icon(picture)}${content}</div>`;
}

/** Pages that belong together; `label` names them for those who do not see them. */
export function tabs(
  label: string,
  all: readonly { readonly href: string; readonly label: Part; readonly isCurrent: boolean }[],
): Html {
  return html`<nav class="tabs" aria-label="${label}">
    <ul>
      ${all.map((tab) => html`<li><a href="${tab.href}" ${tab.isCurrent && html`aria-current="page"`}>${tab.label}</a></li>`)}
    </ul>
  </nav>`;
}

/** Some rows of many. */
export interface Window {
  readonly count: number;
  readonly offset: number;
  readonly pageSize: number;
}

/** Links to what comes before and after. @param from the address of the page that begins at an offset */
export function pager(
  label: string,
  { count, offset, pageSize }: Window,
  from: (offset: number) => string,
): Html | false {
  if (count <= pageSize) return false;
  return html`<nav class="paging" aria-label="${label}">
    ${offset > 0 && html`<a rel="prev" href="${from(Math.max(0, offset - pageSize))}">Previous</a>`}
    <span
      >${formatNumber(Math.min(count, offset + 1))} to ${formatNumber(Math.min(count, offset + pageSize))} of
      ${formatNumber(count)}</span
    >
    ${offset + pageSize < count && html`<a rel="next" href="${from(offset + pageSize)}">Next</a>`}
  </nav>`;
}

/** A column of a table. */
export interface Column<Row> {
  readonly label: string;
  readonly cell: (row: Row) => Part;
  /**
   * `head`: what names the row, with the link to its page. `status`: a badge, beside that on a phone. `number`: to the right.
   * `tight`: as narrow as it can be, such as what can be done with the row; its label is only read aloud.
   */
  readonly kind?: "head" | "status" | "number" | "tight" | undefined;
  /** What the column is sorted by, with a script, where all rows are on the page. */
  readonly sort?: ((row: Row) => string | number) | undefined;
}

/**
 * Rows of one line each; on a phone a row is a card, whose cells have the labels of their columns. A cell of nothing is left
 * out there.
 * @param label what the rows are
 * @param attributes more of them for the element of a row
 */
export function table<Row>(
  label: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  attributes: (row: Row) => Part = () => false,
): Html {
  const cell = ({ cell: content, kind, sort, label: of }: Column<Row>, row: Row): Html => {
    const shown = content(row);
    const sortedBy = sort !== undefined && html` data-value="${sort(row)}"`;
    if (kind === "head") return html`<th scope="row" ${sortedBy}>${shown}</th>`;
    const classes = [kind, (shown === none || shown === false) && "nil"].filter((each) => typeof each === "string");
    return html`<td${classes.length > 0 && html` class="${classes.join(" ")}"`}${kind !== "tight" && html` data-label="${of}"`}${sortedBy}>${shown}</td>`;
  };
  const head = ({ label: of, kind, sort }: Column<Row>): Html =>
    html`<th scope="col" ${kind === "number" && html` class="number"`}${sort !== undefined && html` data-sort`}>
      ${kind === "tight" ? html`<span class="aloud">${of}</span>` : of}
    </th>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${label}">
    <table class="stack">
      <thead>
        <tr>
          ${columns.map(head)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr data-row ${attributes(row)}>
              ${columns.map((column) => cell(column, row))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A step of a timeline. */
export interface Step {
  readonly tone: "done" | "running" | "waited" | "failed";
  readonly label: Part;
  /** Its length among those of the others, 0 to 1; absent: it is not work. */
  readonly share?: number | undefined;
  readonly end: Part;
}

const stepIcons = { done: "ok", running: "running", waited: "clock", failed: "failed" } as const;

/** What happened one after the other: work has a bar, waiting has none and a dotted line. */
export function timeline(steps: readonly Step[]): Html {
  return html`<ol class="stages">
    ${steps.map(
      ({ tone, label, share, end }) =>
        html`<li class="${tone}" ${tone === "running" && html`aria-current="step"`}>
          ${icon(stepIcons[tone])}<span>${label}</span>
          ${
            share === undefined
              ? html`<span></span>`
              : html`<svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                  <rect class="fill" width="${Math.max(0.5, 100 * share).toFixed(1)}" height="4" />
                </svg>`
          }
          <span class="number">${end}</span>
        </li>`,
    )}
  </ol>`;
}

/** A value before → after; `undefined`: it is not there. Of whom a plan creates or deletes, a value alone. */
export function diff(change: AttributeChange, isUpdate: boolean): Html {
  const { from, to } = textsOf(change);
  if (!isUpdate) return name(to ?? from ?? "");
  const unset = html`<span class="quiet">unset</span>`;
  const before = from === undefined ? unset : html`<del>${name(from)}</del>`;
  const after = to === undefined ? unset : html`<ins>${name(to)}</ins>`;
  return html`${before} <span aria-label="becomes" role="img">→</span> ${after}`;
}

/** An item of a list, and the items that belong to it, indented. */
export function withDeeper(text: string, below: readonly string[]): Html {
  return html`<li>${prose(text)}</li>
    ${below.map((line) => html`<li class="deep">${prose(line)}</li>`)}`;
}
