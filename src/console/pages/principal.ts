import { isApplied, momentOf } from "#sync/explain/history.ts";
import type { HistoryEntry } from "#sync/explain/history.ts";
import { foreignInWords, outcomeInWords, recordInWords } from "#sync/explain/text.ts";
import type { Line } from "#sync/explain/text.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import type { Excerpt, ListedDetails } from "#sync/explain/listing.ts";
import { decisionWords } from "#state/run-text.ts";
import { formatNumber, pluralize } from "#text.ts";
import { empty, facts, name, notice, pager, state, tabs, when } from "#console/components.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import type { Kind, KnownHistory, Unexplained } from "#daemon/people.ts";
import { membershipChanges } from "#console/pages/plan.ts";
import { addressOf, listed, listing, principalLink, table } from "#console/pages/people.ts";
import type { PeopleFrame } from "#console/pages/people.ts";

/** The members of a group, a page of them. */
export interface Members extends Excerpt {
  readonly nested: boolean;
  readonly offset: number;
  readonly pageSize: number;
}

export interface PrincipalPage extends PeopleFrame {
  readonly kind: Kind;
  readonly name: string;
  /** The address of this page. */
  readonly url: string;
  /** Absent while the target is being listed. `details` is absent where the target does not have it. */
  readonly found?:
    | {
        readonly listedAt: string;
        readonly details?: ListedDetails | undefined;
        readonly members?: Members | undefined;
      }
    | undefined;
}

/** A user or a group: what the target has at once; what the sources and the journal say is fetched by the page. */
export function principal(page: PrincipalPage): Html {
  const { target, kind, name: called, found, url } = page;
  const query = { target, name: called };
  return html`<hgroup>
      <h1>${name(called)} <small>${kind} of ${name(target)}</small></h1>
    </hgroup>
    ${found === undefined ? listing(page, url) : inTarget(page, found)}
    ${later("explanation", "Where it comes from, and what the next run does", addressOf("/people/explain", query), "Read the sources and explain it")}
    ${later("history", "History", addressOf("/people/history", { ...query, kind }), "Show what the runs did with it")}`;
}

/** A part that takes time: fetched once the page is there; without JavaScript it is a page of its own. */
function later(id: string, title: string, href: string, label: string): Html {
  return html`<section
    id="${id}"
    aria-labelledby="${id}-title"
    hx-get="${href}"
    hx-trigger="load"
    hx-select="#${id}"
    hx-swap="outerHTML"
  >
    <h2 id="${id}-title">${title}</h2>
    <p><a href="${href}">${label}</a></p>
  </section>`;
}

function inTarget(page: PrincipalPage, { listedAt, details, members }: NonNullable<PrincipalPage["found"]>): Html {
  const { target, kind, name: called } = page;
  const again = addressOf(`/people/${kind}`, { target, name: called, instead: listedAt });
  if (details === undefined)
    return listed(page, listedAt, again, empty(html`<p>${name(target)} has no such ${kind}.</p>`));
  const { displayName, mail, description, records } = details;
  return listed(
    page,
    listedAt,
    again,
    html`${facts([
      ["display name", displayName !== null && name(displayName)],
      ["mail", mail !== null && name(mail)],
      ["description", description !== null && name(description)],
      [
        "made of",
        records.length > 0 &&
          html`<ul>
            ${records.map((each) => html`<li>${name(each.source)} ${name(each.id)} <small class="quiet">by ${name(each.sync)}</small></li>`)}
          </ul>`,
      ],
    ])}
    ${memberships(target, details)} ${members !== undefined && membersOf(page, members)}`,
  );
}

/** The most memberships that a page shows. */
const shown = 500;

function memberships(target: string, { groups }: ListedDetails): Html {
  const direct = groups.filter((way) => way.length === 1);
  const nested = groups.filter((way) => way.length > 1);
  const rest = groups.length - Math.min(direct.length, shown) - Math.min(nested.length, shown);
  const ways = (some: readonly (readonly string[])[]): Html =>
    html`<ul class="ways">
      ${some
        .slice(0, shown)
        .map(
          (way) =>
            html`<li data-row>
              ${way.map((group, index) => html`${index > 0 && html` <span aria-label="which is in" role="img">→</span> `}${principalLink(target, "group", group)}`)}
            </li>`,
        )}
    </ul>`;
  return html`<section aria-labelledby="memberships">
    <h2 id="memberships">Memberships</h2>
    ${
      groups.length === 0
        ? html`<p class="quiet">It is in no group.</p>`
        : html`<p class="quiet">
              ${pluralize(direct.length, "group")}
              directly${nested.length > 0 && `, ${formatNumber(nested.length)} through them`}
            </p>
            ${ways(direct)} ${nested.length > 0 && ways(nested)}
            ${rest > 0 && html`<p class="quiet">… and ${formatNumber(rest)} more</p>`}`
    }
  </section>`;
}

function membersOf({ target, name: called }: PrincipalPage, { rows, count, nested, ...window }: Members): Html {
  const address = (more: Readonly<Record<string, string | undefined>>): string =>
    addressOf("/people/group", { target, name: called, nested: nested ? "yes" : undefined, ...more });
  const tab = (isNested: boolean, label: string): Parameters<typeof tabs>[1][number] => ({
    href: address({ nested: isNested ? "yes" : undefined }),
    label,
    isCurrent: isNested === nested,
  });
  return html`<section aria-labelledby="members">
    <h2 id="members">Members</h2>
    ${tabs("Members", [tab(false, "Direct"), tab(true, "Also through other groups")])}
    ${
      count === 0
        ? html`<p class="quiet">Nobody is in it.</p>`
        : html`<p class="quiet">${pluralize(count, "member")}</p>
            ${table(target, rows)}
            ${pager("Pages", { count, ...window }, (from) => address({ from: from === 0 ? undefined : String(from) }))}`
    }
  </section>`;
}

export interface ExplanationPage {
  readonly target: string;
  readonly name: string;
  readonly explanations: readonly (Explanation | Unexplained)[];
}

/** What `rollcall explain` says, in its words. */
export function explanation({ target, name: called, explanations }: ExplanationPage): Html {
  return html`<hgroup>
      <h1>${name(called)} <small>explained for ${name(target)}</small></h1>
    </hgroup>
    <section id="explanation" aria-labelledby="explanation-title">
      <h2 id="explanation-title">Where it comes from, and what the next run does</h2>
      ${explanations.map((each) => ("error" in each ? unexplained(each) : bySync(each, called)))}
    </section>`;
}

function unexplained({ sync, error }: Unexplained): Html {
  return notice(
    "bad",
    html`<p>${name(sync)}: ${error.message}</p>
      ${
        error.problems.length > 0 &&
        html`<ul>
          ${error.problems.map((each) => html`<li>${each}</li>`)}
        </ul>`
      }`,
  );
}

/** Without colours. */
const plain = (_: unknown, text: string): string => text;

/** An explanation in words. */
export function bySync({ sync, target, records, outcomes, foreign, nearest }: Explanation, called: string): Html {
  const parts = [
    ...outcomes.map((each) => lines(outcomeInWords(each))),
    ...foreign.map((each) => lines(foreignInWords(each))),
    ...records.map((each) => lines(recordInWords(each, plain))),
  ];
  return html`<h3>${name(sync)}</h3>
    ${
      parts.length > 0
        ? parts
        : empty(
            html`<p>Nothing in the sources of ${name(sync)} or in ${name(target)} is called ${name(called)}.</p>
              ${
                nearest.length > 0 &&
                html`<p>
                  Similar names:
                  ${nearest.map((each) => html`<a href="${addressOf("/people/explain", { target, name: each })}">${name(each)}</a> `)}
                </p>`
              }`,
          )
    }`;
}

function item({ text, isCommand }: Line, isDeep: boolean): Html {
  return html`<li ${isDeep && html`class="deep"`}>
    ${isCommand === true ? html`<code>${text}</code>` : html`<bdi>${text}</bdi>`}
  </li>`;
}

function lines({ text, below = [] }: Line): Html {
  return html`<div class="explained">
    <p><bdi>${text}</bdi></p>
    <ul>
      ${below.map((line) => html`${item(line, false)} ${(line.below ?? []).map((deep) => item(deep, true))}`)}
    </ul>
  </div>`;
}

export interface HistoryPage extends PeopleFrame {
  readonly kind: Kind;
  readonly name: string;
  readonly history: KnownHistory;
}

const past = { create: "created", update: "updated", delete: "deleted" } as const;

/** What `rollcall history` says. */
export function history({ now, target, kind, name: called, history: known }: HistoryPage): Html {
  const { entries, more, stored, runs } = known;
  return html`<hgroup>
      <h1>${name(called)} <small>${kind} of ${name(target)}</small></h1>
    </hgroup>
    <section id="history" aria-labelledby="history-title">
      <h2 id="history-title">History</h2>
      ${
        entries.length === 0
          ? html`<p class="quiet">No run has changed it, as far as is known.</p>`
          : html`<ol class="history">
              ${entries.map((each) => entry(each, now))}
            </ol>`
      }
      ${more && html`<p class="quiet">Earlier ones: <code>rollcall history</code></p>`}
      <p class="quiet">
        <small
          >The changes of ${pluralize(stored, "run")} are
          stored${stored < runs && `, and only the notes of ${formatNumber(runs - stored)} more`}.</small
        >
      </p>
    </section>`;
}

function entry({ run, changes, notes }: HistoryEntry, now: number): Html {
  const doubt =
    run.state === "pending" ? "to be " : { true: "", false: "not ", undefined: "perhaps " }[`${isApplied(run)}`];
  return html`<li data-row>
    <p>
      <a href="${at("/runs", run.id)}">${when(momentOf(run), now)}</a> ${state(run)}
      <small class="quiet">${name(run.sync)}</small>
    </p>
    ${changes.map(
      ({ action, attributes, ...groups }) =>
        html`<p>
            <span class="${action}">${doubt}${past[action]}</span>
            ${attributes.map(({ attribute, from, to }) => html` <span class="quiet">${attribute}</span> ${from !== undefined && html`<del>${name(from)}</del> `}${to !== undefined && html`<ins>${name(to)}</ins>`}`)}
          </p>
          ${membershipChanges(groups)}`,
    )}
    ${notes.map((note) => html`<p>${note}</p>`)}
    ${run.decisions.map((each) => html`<p class="quiet">${decisionWords(each)}</p>`)}
  </li>`;
}
