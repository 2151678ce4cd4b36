import type { DoubtKind, Note } from "#plan/note.ts";
import type { RunRecord } from "#state/record.ts";
import { empty, name, notice, when } from "#console/components.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";

/** A sync with its last run that has read everything; absent: there was none. */
export interface SyncInDoubt {
  readonly sync: string;
  readonly run?: RunRecord | undefined;
  readonly doubts: readonly (Note & { readonly doubt: DoubtKind })[];
  /** Whether the quarantined records are stored, not only their most frequent causes. */
  readonly hasRecords: boolean;
}

export interface DoubtPage {
  /** In epoch milliseconds. */
  readonly now: number;
  readonly syncs: readonly SyncInDoubt[];
}

/** Quarantined records by cause, and memberships that lead nowhere by what is missing. */
export function doubt({ now, syncs }: DoubtPage): Html {
  const known = syncs.filter(({ run }) => run !== undefined);
  const inDoubt = known.filter(({ doubts }) => doubts.length > 0);
  const sure = known.filter(({ doubts }) => doubts.length === 0);
  return html`<h1>In doubt</h1>
    <p class="quiet">
      What the last run of each sync could not decide. Quarantined records stay as the target has them, and these
      memberships are left out, until the source is clear: hand the lists to whoever keeps it.
    </p>
    ${known.length === 0 && empty(html`<p>No sync has read its sources yet. Look again after the first run.</p>`)}
    ${inDoubt.map((each) => section(each, now))}
    ${
      sure.length > 0 &&
      notice(
        "good",
        html`<p>
          Nothing is in doubt in
          ${sure.map(({ sync, run }, index) => html`${index > 0 && ", "}${name(sync)}${run !== undefined && html` (read ${when(run.startedAt, now)})`}`)}.
        </p>`,
      )
    }`;
}

const titles: Readonly<Record<DoubtKind, string>> = {
  quarantined: "Quarantined records",
  memberships: "Memberships that lead nowhere",
};

function section({ sync, run, doubts, hasRecords }: SyncInDoubt, now: number): Html {
  return html`<section aria-label="${sync}">
    <h2>
      ${name(sync)}
      ${run !== undefined && html`<small class="quiet">read ${when(run.startedAt, now)}, <a href="${at("/runs", run.id)}">run ${run.id}</a></small>`}
    </h2>
    ${doubts.map(
      ({ doubt: what, text: heading, details = [] }) =>
        html`<h3>${titles[what]}</h3>
          <p>${heading}.</p>
          <ul class="causes">
            ${details.map(({ text }) => html`<li data-row><bdi>${text}</bdi></li>`)}
          </ul>
          <p class="downloads">
            Download: <a href="${list(what, sync)}" download>${titles[what]} as CSV</a>
            <small class="quiet">${content(what, hasRecords)}</small>
          </p>`,
    )}
  </section>`;
}

/** What a list has. */
function content(what: DoubtKind, hasRecords: boolean): string {
  if (what === "memberships") return "a row for each cause above";
  return hasRecords
    ? "a row for each record"
    : "a row for each cause above: the records of this run are not stored, those of the next one will be";
}

function list(what: DoubtKind, sync: string): string {
  return `/doubt/download?${new URLSearchParams({ what, sync }).toString()}`;
}
