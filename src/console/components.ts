import type { Counts, KindCounts } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { describeCheck, verdictOf } from "#plan/render/shared.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import { stateName } from "#state/record.ts";
import type { RunRecord, StateName } from "#state/record.ts";
import { stateOf, tones } from "#state/run-text.ts";
import { formatNumber, formatPrincipals, pluralize } from "#text.ts";
import { exactly, lasting, relatively } from "#times.ts";
import { html } from "./html.ts";
import type { Html, Part } from "./html.ts";

/** A name from outside: it keeps its own direction, and can be broken anywhere. */
export function name(text: string): Html {
  return html`<bdi class="name">${text}</bdi>`;
}

/**
 * A moment, as long ago as it is; the script adds local time to its title.
 * @param now in epoch milliseconds; undefined in what is read later, where it is a moment to the second
 */
export function when(iso: string, now: number | undefined): Html {
  if (now === undefined) return moment(iso);
  return html`<time datetime="${iso}" title="${exactly(iso)}">${relatively(iso, now)}</time>`;
}

/** A moment to the second: the script writes it in local time. */
export function moment(iso: string): Html {
  return html`<time datetime="${iso}" title="${exactly(iso)}" data-exact>${exactly(iso)}</time>`;
}

const signs: Readonly<Record<StateName, string>> = {
  running: "▸",
  pending: "●",
  held: "■",
  "no change": "✓",
  applied: "✓",
  failed: "✕",
  rejected: "–",
  superseded: "–",
  expired: "○",
  cancelled: "–",
};

/** The state of a run, told by a sign and a word, not by its colour alone. */
export function state(run: Pick<RunRecord, "state" | "heldBy" | "cancelled">): Html {
  return html`<span class="state ${tones[stateName(run)] ?? "quiet"}"
    ><span aria-hidden="true">${signs[stateName(run)]}</span> ${stateOf(run)}</span
  >`;
}

/** `+3 ~1 −2` for users, then for groups, and how many are leaving; `no changes` where nothing happens to anybody. */
export function countsInShort(counts: Counts, leaving?: LeavingCounts): Html {
  const kinds = [
    ["user", counts.users],
    ["group", counts.groups],
  ] as const;
  const parts = kinds.flatMap(([kind, of]) => {
    const amounts = signed(of);
    return amounts.length === 0 ? [] : [html`<span class="counts"><small>${kind}s</small> ${amounts}</span>`];
  });
  if (leaving !== undefined)
    parts.push(html`<span class="counts">${formatPrincipals(leaving.users, leaving.groups)} leaving</span>`);
  return parts.length === 0 ? html`<span class="quiet">no changes</span>` : html`${parts}`;
}

function signed(kind: KindCounts): Html[] {
  return (["create", "update", "delete"] as const).flatMap((action) =>
    kind[action] === 0 ? [] : [html`<span class="${action}">${amount(action, kind[action])}</span> `],
  );
}

const actionSigns = { create: "+", update: "~", delete: "−" } as const;

/** An amount with its sign: `+3`; read aloud as `3 created`. */
export function amount(action: keyof typeof actionSigns, count: number): Html {
  const words = { create: "created", update: "updated", delete: "deleted" } as const;
  return html`<span aria-hidden="true">${actionSigns[action]}${formatNumber(count)}</span
    ><span class="aloud">${formatNumber(count)} ${words[action]}</span>`;
}

/** How close a limit is: a bar up to its bound, and the line that every report has. */
export function gauge(check: LimitCheck): Html {
  const { value, bound } = check;
  const verdict = verdictOf(check);
  // What exceeds its bound fills the bar; the bound is a mark in it.
  const whole = Math.max(value, bound, 1);
  const [filled, mark] = [(100 * value) / whole, (100 * bound) / whole];
  const tone = verdict === "within" ? (isClose(check) ? "waiting" : "good") : verdict === "tripped" ? "bad" : "waiting";
  return html`<div class="gauge ${tone}">
    <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="6" />
      <rect class="fill" width="${filled.toFixed(2)}" height="6" />
      <rect class="mark" x="${Math.min(mark, 99).toFixed(2)}" width="1" height="6" />
    </svg>
    <span>${describeCheck(check)}${verdict !== "within" && html`: <strong>${verdict}</strong>`}</span>
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

/** A bar for each day, the oldest first, with the numbers in words for those who do not see it. */
export function sparkline(days: readonly { readonly day: string; readonly changes: number }[]): Html {
  const most = Math.max(1, ...days.map(({ changes }) => changes));
  const width = 5;
  const bars = days.map(({ day, changes }, index) => {
    const height = changes === 0 ? 1 : Math.max(2, (20 * changes) / most);
    return html`<rect
      x="${index * width}"
      y="${(20 - height).toFixed(1)}"
      width="${width - 1}"
      height="${height.toFixed(1)}"
      ${changes === 0 && html`class="none"`}
    >
      <title>${day}: ${pluralize(changes, "change")}</title>
    </rect>`;
  });
  const total = days.reduce((sum, { changes }) => sum + changes, 0);
  return html`<svg
    class="sparkline"
    viewBox="0 0 ${days.length * width} 20"
    preserveAspectRatio="none"
    role="img"
    aria-label="${pluralize(total, "change")} in ${days.length} days, at most ${formatNumber(most)} a day"
  >
    ${bars}
  </svg>`;
}

/** A row of labelled facts. Those without a value are left out. */
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

/** Something a person must know; `alert` is read aloud at once. */
export function notice(tone: "good" | "bad" | "waiting", content: Part, isAlert = false): Html {
  return html`<div class="notice ${tone}" ${isAlert && html`role="alert"`}>${content}</div>`;
}

/** A part of a page with a heading; the heading's `id` can be linked to. */
export function section(id: string, title: Part, content: Part): Html {
  return html`<section aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    ${content}
  </section>`;
}

/** What is there instead of an empty list: why, and what to do next. */
export function empty(content: Part): Html {
  return html`<div class="empty">${content}</div>`;
}

/** A duration, where it is known. */
export function took(milliseconds: number | undefined): Html {
  return milliseconds === undefined ? html`<span class="quiet">–</span>` : html`${lasting(milliseconds)}`;
}

/** An item of a list, and the items that belong to it, indented. */
export function withDeeper(text: string, below: readonly string[]): Html {
  return html`<li>${text}</li>
    ${below.map((line) => html`<li class="deep">${line}</li>`)}`;
}
