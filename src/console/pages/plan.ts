import type { Cause } from "#plan/causes.ts";
import { amountOf, describeCause } from "#plan/causes.ts";
import { actionsOf, byDanger, changes, countOf, shortDigest, usualWords } from "#plan/change.ts";
import type { Action, Change, Counts, KindCounts } from "#plan/change.ts";
import { capitalized, isEmpty, leavingWords, noChange, planFormats, share, worthShowing } from "#plan/render/shared.ts";
import type { Section } from "#plan/render/shared.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { trippedLimits } from "#sync/coordinator/refusals.ts";
import { approvalsWords } from "#sync/coordinator/approvals.ts";
import { decisionWords } from "#state/run-text.ts";
import { verdictOnPlan } from "#sync/verdict.ts";
import { formatNumber, formatPrincipals, pluralize, wordsOf } from "#text.ts";
import {
  actions,
  amount,
  empty,
  gauge,
  id as idOf,
  list,
  name,
  notice,
  pager,
  section,
  when,
} from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { expectations } from "#console/expectations.ts";
import { field, filters, hidden, search, select } from "#console/forms.ts";
import { at, html, queryOf, withQuery } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { box, changeRow, changesTogether, otherNames, partForm } from "#console/pages/changes.ts";
import { heading, notes, planAgain, problem, runTabs, timeline } from "#console/pages/run.ts";

/** What the filters of a plan say, as a form sends it. Empty: everything. */
export type PlanFilter = {
  readonly kind?: string | undefined;
  readonly action: readonly string[];
  readonly attribute: readonly string[];
  readonly source: readonly string[];
  readonly cause: readonly string[];
  readonly name?: string | undefined;
  readonly group?: string | undefined;
};

export interface PlanPage extends Timed {
  readonly run: RunRecord;
  /** Whether the visitor may decide about it. */
  readonly mayDecide: boolean;
  /** Why an approval of theirs would not count. */
  readonly objection?: string | undefined;
  /** Why they may not override limits; absent: they may. */
  readonly noOverrides?: string | undefined;
  readonly filter: PlanFilter;
  /** What of the plan matches the filter; absent: the changes are no longer stored. */
  readonly shown?:
    | {
        readonly count: number;
        readonly sections: readonly PlanSection[];
        /** The sources that a filter can name; none in an old plan. */
        readonly sources: readonly string[];
        /** The attributes that it can name, and `groups`. */
        readonly aspects: readonly string[];
      }
    | undefined;
}

/** A section of a plan with some of its changes. */
export interface PlanSection extends Section {
  readonly changes: readonly Change[];
  /** How many come before them. */
  readonly offset: number;
  /** How many a page of it has: set where it is the only section. */
  readonly pageSize?: number | undefined;
}

export function plan(page: PlanPage): Html {
  const { run, now, shown, filter } = page;
  const { id, counts } = run;
  const changesOf = (cause: Cause): string => `${at("/runs", id, "plan")}?cause=${cause.id}#changes`;
  return html`${heading(run, now)} ${runTabs(run, "plan")} ${said(run, now, planAgain(page))}
    <div class="columns plan">
      <div class="beside">
        ${counts !== undefined && !isEmpty(counts) && totals(counts)} ${limits(run)} ${expectations(run)}
      </div>
      <div>
        ${causes(run, changesOf)} ${notes(run)}
        ${counts === undefined && run.state === "running" && section("stages", "Stages", timeline({ run, now, progress: undefined }))}
        ${
          counts !== undefined &&
          !isEmpty(counts) &&
          section(
            "changes",
            "Changes",
            shown === undefined ? notStored : html`${filterOf(run, filter, shown)} ${sections(page)}`,
          )
        }
        ${downloads(page)}
      </div>
    </div>
    ${bar(page)}`;
}

/** The verdict, who has approved, and what went wrong. */
function said(run: RunRecord, now: number | undefined, next?: Html): Html {
  return html`${verdict(run, now)} ${approvals(run, now)}
  ${(!isOpen(run) || run.heldBy !== "limits") && problem(run, next)}`;
}

/** What a plan comes to: the verdict first, then numbers, limits, expectations and causes. */
export function summary(run: RunRecord, now: number | undefined): Html {
  const { counts } = run;
  return html`${said(run, now)} ${counts !== undefined && !isEmpty(counts) && totals(counts)} ${judgement(run)}`;
}

/** What of a record judges its plan. */
type Judged = Pick<RunRecord, "limits" | "expectations" | "causes"> & Partial<Pick<RunRecord, "counts">>;

/** How a plan stands to limits and expectations, and why its changes are there. */
export function judgement(run: Judged): Html {
  return html`${limits(run)} ${expectations(run)} ${causes(run)}`;
}

const notStored = empty(
  html`<p>
    The changes of this run are no longer stored: <code>journal.lists</code> sets for how many runs they are.
  </p>`,
);

/** What the plan comes to, in a sentence, and what it waits for. */
function verdict(run: RunRecord, now: number | undefined): Html | false {
  const { counts, state, expiresAt, leaving, caution } = run;
  if (counts === undefined) return false;
  const beyond = trippedLimits(run);
  const totals = capitalized(verdictOnPlan(run));
  if (!isOpen(run)) {
    const isGood = state === "applied" || state === "no change";
    return notice(
      isGood ? "good" : "waiting",
      html`<b>${isEmpty(counts) ? capitalized(noChange(counts, { leaving })) : totals}.</b>`,
    );
  }
  const until = expiresAt === undefined ? "" : html` It expires ${when(expiresAt, now)}.`;
  return beyond.length === 0
    ? notice("waiting", html`<b>${totals}.</b> Waits for approval.${caution !== undefined && ` ${caution}.`}${until}`)
    : notice(
        "bad",
        html`<b>${totals}.</b> Nothing is applied unless a person overrides
          ${beyond.length === 1 ? "this limit" : "these limits"}.${until}`,
      );
}

/** Who has approved a waiting plan, and how many must. */
function approvals(run: RunRecord, now: number | undefined): Html | false {
  const words = approvalsWords(run);
  const given = run.approvals ?? [];
  if (words === undefined) return false;
  return section(
    "approvals",
    "Approvals",
    html`<p>${capitalized(words)}.</p>
      ${list(given.map((each) => html`${capitalized(decisionWords(each))} (${when(each.at, now)})`))}`,
  );
}

/** What a plan comes to, by kind and action. With more actions than the usual ones, they are the rows: a phone has no room beside. */
export function totals(counts: Counts): Html {
  const { users, groups, membershipsAdded, membershipsRemoved } = counts;
  const known = actionsOf(counts);
  const memberships = { create: membershipsAdded, delete: membershipsRemoved } as const;
  const ofMemberships = (action: Action): Html | false =>
    (action === "create" || action === "delete") && amountOrNone(action, memberships[action]);
  const size = (side: "before" | "after"): Html[] => [users, groups].map((kind) => html`${formatNumber(kind[side])}`);
  if (known.length > usual)
    return totalsTable(
      ["users", "groups", "memberships"],
      [
        totalsRow("before", [...size("before"), false]),
        ...known.map((action) =>
          totalsRow(usualWords[action], [amountCell(users, action), amountCell(groups, action), ofMemberships(action)]),
        ),
        totalsRow("after", [...size("after"), false]),
      ],
    );
  const ofKind = (label: string, kind: KindCounts): Html =>
    totalsRow(label, [
      html`${formatNumber(kind.before)}`,
      ...known.map((action) => amountCell(kind, action)),
      html`${formatNumber(kind.after)}`,
    ]);
  return totalsTable(
    ["before", ...known.map((action) => usualWords[action]), "after"],
    [
      ofKind("users", users),
      ofKind("groups", groups),
      totalsRow("memberships", [false, ...known.map(ofMemberships), false]),
    ],
  );
}

/** As many actions as every plan has. */
const usual = 3;

function amountCell(kind: KindCounts, action: Action): Html {
  const count = amountOrNone(action, kind[action] ?? 0);
  return action === "delete" ? html`${count}<small>${share(kind)}</small>` : count;
}

function totalsRow(label: string, cells: readonly (Html | false)[]): Html {
  return html`<tr>
    <th scope="row">${label}</th>
    ${cells.map((each) => html`<td class="number">${each}</td>`)}
  </tr>`;
}

function totalsTable(columns: readonly string[], rows: readonly Html[]): Html {
  return html`<table class="totals" aria-label="What the plan comes to">
    <thead>
      <tr>
        <td></td>
        ${columns.map((label) => html`<th scope="col" class="number">${label}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows}
    </tbody>
  </table>`;
}

function amountOrNone(action: Action, count: number): Html {
  return count === 0
    ? html`<span class="quiet">0</span>`
    : html`<span class="${action}">${amount(action, count)}</span>`;
}

function limits({ limits: checks }: Judged): Html | false {
  const shown = worthShowing(checks);
  return shown.length > 0 && section("limits", "Limits", html`<div class="gauges">${shown.map(gauge)}</div>`);
}

/** How many causes are shown at once, the largest; more of them are folded, not in the way of the changes. */
const causesShown = 8;

/** Why the changes are there. @param changesOf the address of those that a cause explains */
export function causes({ causes: all = [], counts }: Judged, changesOf?: (cause: Cause) => string): Html | false {
  if (all.every(({ kind }) => kind === "first")) return false;
  const [drift, others] = [all.filter(({ kind }) => kind === "drift"), all.filter(({ kind }) => kind !== "drift")];
  const whole = Math.max(counts === undefined ? 0 : changes(counts), ...all.map(({ users, groups }) => users + groups));
  const row = (some: readonly Cause[]): Html =>
    html`<ul class="cause-cards">
      ${some.map((cause) => causeCard(cause, whole, changesOf?.(cause)))}
    </ul>`;
  const cards = (some: readonly Cause[]): Html =>
    // One more would only be behind a click.
    some.length <= causesShown + 1
      ? row(some)
      : html`${row(some.slice(0, causesShown))}
          <details class="more">
            <summary>${formatNumber(some.length - causesShown)} more</summary>
            ${row(some.slice(causesShown))}
          </details>`;
  return html`${others.length > 0 && section("causes", "Causes", cards(others))}
  ${
    drift.length > 0 &&
    section(
      "drift",
      "Changed in the target",
      html`<p class="quiet">These changed in the target; the sources are unchanged.</p>
        ${cards(drift)}`,
    )
  }`;
}

/** What a cause explains, of the whole plan. */
function causeCard(cause: Cause, whole: number, href: string | undefined): Html {
  const { id, users, groups, example } = cause;
  const count = users + groups;
  const percent = Math.round((100 * count) / Math.max(1, whole));
  return html`<li class="card">
    <p>
      ${href === undefined ? html`<b>${amountOf(cause)}</b>` : html`<a href="${href}"><b>${amountOf(cause)}</b></a>`}
      ${causeWords(cause)}
    </p>
    <svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" width="100" height="4" />
      <rect class="fill" width="${Math.max(1, percent)}" height="4" />
    </svg>
    <small class="quiet"
      >${percent === 0 ? "less than 1" : percent}% of the changes · ${count > 1 && "such as "}${name(example.name)} ·
      ${id}</small
    >
  </li>`;
}

/** A cause in words, with the part of each value marked that has changed. */
function causeWords(cause: Cause): Html {
  const { whole, from = "", to = "" } = cause;
  const text = describeCause(cause);
  if (whole === undefined) return html`${text}`;
  const sides = [
    [whole.from ?? "", from],
    [whole.to ?? "", to],
  ] as const;
  let [rest, marked] = [text, html``];
  for (const [value, part] of sides) {
    const start = rest.indexOf(value);
    const place = part === "" || start < 0 ? -1 : rest.indexOf(part, start);
    if (place < 0 || place >= start + value.length) continue;
    marked = html`${marked}${rest.slice(0, place)}<mark>${part}</mark>`;
    rest = rest.slice(place + part.length);
  }
  return html`${marked}${rest}`;
}

function filterOf(
  { id, causes = [], counts }: RunRecord,
  filter: PlanFilter,
  { sources, aspects }: NonNullable<PlanPage["shown"]>,
): Html {
  // Of several given values only the first can be shown.
  const oneOf = (key: "action" | "attribute" | "source" | "cause", choices: (readonly [string, string])[]): Html =>
    select(key, [["", "any"], ...choices], filter[key][0]);
  const all = `${at("/runs", id, "plan")}#changes`;
  const known = causes.filter(({ kind }) => kind !== "first");
  const possible = byDanger.filter((action) => counts !== undefined && actionsOf(counts).includes(action));
  const kinds = [
    ["", "both"],
    ["user", "users"],
    ["group", "groups"],
  ] as const;
  return filters(
    all,
    [
      field("Name", search("name", filter.name, html`placeholder="a part of it" data-search`)),
      field(
        "Action",
        oneOf(
          "action",
          possible.map((each) => [each, `${actions[each].sign} ${usualWords[each]}`]),
        ),
      ),
      field("Kind", select("kind", kinds, filter.kind)),
      field(
        "Attribute",
        oneOf(
          "attribute",
          aspects.map((each) => [each, wordsOf(each)]),
        ),
      ),
      field("Group", search("group", filter.group, html`placeholder="its whole name"`)),
      sources.length > 0 &&
        field(
          "Source",
          oneOf(
            "source",
            sources.map((each) => [each, each]),
          ),
        ),
      known.length > 0 &&
        field(
          "Cause",
          oneOf(
            "cause",
            known.map((each) => [each.id, `${each.id}: ${describeCause(each)}`]),
          ),
        ),
    ],
    { all: isFiltered(filter) ? all : undefined },
  );
}

function isFiltered(filter: PlanFilter): boolean {
  return queryOf(filter).size > 0;
}

function sections(page: PlanPage): Html {
  const { shown, run } = page;
  if (shown === undefined) return notStored;
  if (shown.sections.length === 0)
    return empty(html`<p>No change matches. <a href="${at("/runs", run.id, "plan")}#changes">Show all</a></p>`);
  return html`${canChoose(page) && choice(page)} ${shown.sections.map((each) => pageOfChanges(page, each))}`;
}

function pageOfChanges(page: PlanPage, of: PlanSection): Html {
  const { run, filter } = page;
  const { id, target } = run;
  const hasBox = canChoose(page);
  const { action, kind, heading: title, count, changes: some, offset, pageSize } = of;
  const others = otherNames(run, kind);
  return changesTogether(
    of,
    html`${hasBox && html`<label class="all">${box("pickAll", `${action}-${kind}`, `Select all ${formatNumber(count)} ${title.toLowerCase()}`, count)} All ${formatNumber(count)}</label>`}
    ${some.map((change) => changeRow(change, { other: others.get(change.name), target, hasBox }))}
    ${
      pageSize === undefined
        ? count > some.length &&
          html`<p>
            <a href="${withFilter(id, filter, { action: [action], kind })}"
              >All ${formatNumber(count)} ${title.toLowerCase()}</a
            >
          </p>`
        : pager("Pages of changes", { count, offset, pageSize }, (from) => withFilter(id, filter, {}, from))
    }`,
    pageSize !== undefined || count <= some.length,
  );
}

function withFilter(id: string, filter: PlanFilter, more: Partial<PlanFilter>, offset = 0): string {
  const query = { ...filter, ...more, from: offset > 0 ? String(offset) : undefined };
  return `${withQuery(at("/runs", id, "plan"), query)}#changes`;
}

/** Where the boxes of the changes lead: to what applying these, or all but these, would do. */
function choice({ run, filter }: PlanPage): Html {
  return html`<form
    id="${partForm}"
    method="get"
    action="${at("/runs", run.id, "approve")}"
    class="choice"
    aria-label="A part of the plan"
  >
    ${[...queryOf(filter)].map(([key, value]) => hidden(key, value))}
    <small class="quiet" role="status" data-picked>Tick changes or whole sections to decide about a part.</small>
    <button type="submit" class="secondary small" name="as" value="these">Approve only the ticked…</button>
    <button type="submit" class="secondary small" name="as" value="except">Approve all but the ticked…</button>
  </form>`;
}

/** Whether the visitor can choose a part of it. */
function canChoose({ run, mayDecide, objection }: PlanPage): boolean {
  return isOpen(run) && mayDecide && objection === undefined;
}

function downloads({ run: { id, digest }, filter, shown }: PlanPage): Html | false {
  if (digest === undefined) return false;
  const formats = planFormats.filter((each) => each !== "text");
  const labels: Readonly<Record<string, string>> = { html: "HTML", csv: "CSV", json: "JSON", markdown: "Markdown" };
  const links = (query: Partial<PlanFilter>): Html[] =>
    formats.map((format) => {
      const report = withQuery(at("/runs", id, "report"), { format, ...query });
      return html`<a href="${report}" download>${labels[format] ?? format}</a> `;
    });
  return html`<p class="downloads">Download ${links({})}</p>
    ${
      isFiltered(filter) &&
      shown !== undefined &&
      shown.count > 0 &&
      html`<p class="downloads">
        Only ${pluralize(shown.count, "change that matches", "changes that match")} ${links(filter)}
      </p>`
    }`;
}

/** What stays in sight: what would happen, and the decisions. */
function bar({ run, mayDecide, filter, shown, objection, noOverrides }: PlanPage): Html | false {
  const { id, digest = "", counts, leaving } = run;
  if (!isOpen(run) || counts === undefined) return false;
  const beyond = trippedLimits(run).length > 0;
  const [deleted, suspended] = [countOf(counts, "delete"), countOf(counts, "suspend")];
  const some = shown?.count ?? 0;
  // An objection begins with a name.
  const refused = objection ?? (beyond && noOverrides !== undefined ? capitalized(noOverrides) : undefined);
  return html`<div class="bar" role="region" aria-label="Decide">
    <span
      ><b
        >${isEmpty(counts) && leaving !== undefined ? leavingWords(leaving, beyond) : pluralize(changes(counts), "change")}</b
      >
      <small class="quiet">plan ${idOf(shortDigest(digest))}</small></span
    >
    ${
      mayDecide
        ? html`<span class="buttons">
            ${refused === undefined ? html`<a class="button ${(beyond || deleted + suspended > 0) && "danger"}" href="${at("/runs", id, "approve")}">${beyond ? "Override" : "Approve"}${deleted > 0 && `, delete ${formatPrincipals(counts.users.delete, counts.groups.delete)}`}${suspended > 0 && `, suspend ${pluralize(suspended, "user")}`}…</a>` : html`<small class="quiet">${refused}.</small>`}
            ${
              isFiltered(filter) &&
              some > 0 &&
              html`<a class="button secondary" href="${withQuery(at("/runs", id, "approve"), filter)}"
                >Approve these ${formatNumber(some)}…</a
              >`
            }
            ${!isEmpty(counts) && html`<a class="button secondary" href="${at("/runs", id, "part")}">Approve a part…</a>`}
            <a class="button secondary" href="${at("/runs", id, "reject")}">Reject…</a>
          </span>`
        : html`<small class="quiet">Approvers and administrators decide.</small>`
    }
  </div>`;
}
