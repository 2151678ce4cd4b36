import { isUpdate, usualWords } from "#plan/change.ts";
import { capitalized } from "#plan/render/shared.ts";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Kind, KnownHistory } from "#daemon/people.ts";
import { Refusal } from "#control/answers.ts";
import { isApplied, momentOf } from "#sync/explain/history.ts";
import type { HistoryEntry } from "#sync/explain/history.ts";
import type { Excerpt, ListedDetails } from "#sync/explain/listing.ts";
import { decisionWords } from "#state/run-text.ts";
import type { RunRecord } from "#state/record.ts";
import { formatNumber, pluralize, wordsOf } from "#text.ts";
import { mayDecide } from "#console/accounts.ts";
import {
  diff,
  empty,
  facts,
  list,
  name,
  notice,
  pager,
  prose,
  section,
  state,
  table,
  tabs,
  when,
} from "#console/components.ts";
import { offsetOf, visitorOf } from "#console/context.ts";
import type { AppOptions, Send } from "#console/context.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { icon } from "#console/icons.ts";
import type { Frame } from "#console/layout.ts";
import { explanation } from "#console/pages/explanation.ts";
import { membershipList, membershipPicture } from "#console/pages/memberships.ts";
import { membershipChanges } from "#console/pages/changes.ts";
import {
  listed,
  listing,
  pageSize,
  principalLink,
  principals,
  readList,
  targetOf,
  textsIn,
  titleOf,
} from "#console/pages/people.ts";
import type { PeopleFrame } from "#console/pages/people.ts";

/** Adds the pages of one user or group. They show, and change nothing. */
export function addPrincipalPages(scope: FastifyInstance, { people: known }: AppOptions, send: Send): void {
  for (const kind of ["user", "group"] as const) {
    scope.get(`/people/${kind}`, async (request, reply) => {
      const { target, name: called } = subjectOf(request);
      const { nested: also, from, instead } = textsIn(request);
      const nested = also === "yes";
      const offset = offsetOf(from);
      const { found, problem } = await readList(
        request,
        reply,
        known.list(target, instead, async (listing) => {
          const details = await listing.find(kind, called);
          const members =
            details === undefined || kind === "user"
              ? undefined
              : { ...(await listing.members(called, { nested, offset, limit: pageSize })), nested, offset };
          return { listedAt: listing.listedAt, details, members };
        }),
      );
      const isGone = found !== undefined && found.details === undefined;
      const deletedBy = isGone ? deletionIn(await known.history(target, kind, called)) : undefined;
      const mayUndo = mayDecide(visitorOf(request), target);
      const page = principal({
        now: Date.now(),
        target,
        kind,
        name: called,
        url: request.url,
        found,
        problem,
        isBusy: known.isBusy(target),
        deletedBy,
        mayUndo,
      });
      if (isGone && deletedBy === undefined) reply.code(404);
      return send(request, reply, frame(called, target, kind, called), page);
    });
  }

  scope.get("/people/explain", async (request, reply) => {
    const { target, name: called } = subjectOf(request);
    const explanations = await known.explain(target, called, textsIn(request)["since"]);
    const page = explanation({ now: Date.now(), target, name: called, ...explanations });
    return send(request, reply, frame(`${called} explained`, target), page);
  });

  scope.get("/people/history", async (request, reply) => {
    const { target, name: called } = subjectOf(request);
    const kind: Kind = textsIn(request)["kind"] === "group" ? "group" : "user";
    const found = await known.history(target, kind, called);
    const page = history({ now: Date.now(), target, kind, name: called, history: found });
    return send(request, reply, frame(`${called}, history`, target, kind, called), page);
  });

  function subjectOf(request: FastifyRequest): { readonly target: string; readonly name: string } {
    const { target, name: called } = textsIn(request);
    if (called === undefined) throw new Refusal(400, "the address has no `name`");
    return { target: targetOf(known, request, target), name: called };
  }
}

function frame(title: string, target: string, kind?: Kind, called?: string): Omit<Frame, "version" | "visitor"> {
  const own = called === undefined ? [] : [{ label: called }];
  return {
    title,
    section: "people",
    crumbs: [{ label: target, href: withQuery("/people", { target, kind }) }, ...own],
  };
}

/** The run that deleted somebody who is not there any more. */
function deletionIn({ entries }: KnownHistory): RunRecord | undefined {
  const last = entries.find(({ run, changes }) => changes.length > 0 && isApplied(run) !== false);
  return last?.changes.some(({ action }) => action === "delete") === true ? last.run : undefined;
}

/** The members of a group, a page of them. */
export interface Members extends Excerpt {
  readonly nested: boolean;
  readonly offset: number;
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
  /** Where the target does not have it: the run that deleted it. */
  readonly deletedBy?: RunRecord | undefined;
  readonly mayUndo?: boolean | undefined;
}

/** A user or a group: what the target has at once; what the sources and the journal say is fetched by the page. */
export function principal(page: PrincipalPage): Html {
  const { target, kind, name: called, found, url } = page;
  const query = { target, name: called };
  const title = found?.details === undefined ? called : titleOf(found.details);
  return html`<hgroup id="who">
      <h1>${icon(kind)} ${name(title)}</h1>
      <p class="quiet">${title !== called && html`${name(called)}, `}${kind} of ${name(target)}</p>
    </hgroup>
    ${found === undefined ? listing(page, url, "#who") : inTarget(page, found)}
    ${later("explanation", "Where it comes from, and what the next run does", withQuery("/people/explain", query), "Read the sources and explain it")}
    ${later("history", "History", withQuery("/people/history", { ...query, kind }), "Show what the runs did with it")}`;
}

/** A part that takes time: fetched once the page is there; without JavaScript it is a page of its own. */
function later(id: string, title: string, href: string, label: string): Html {
  return html`<section
    id="${id}"
    aria-labelledby="${id}-title"
    hx-get="${href}"
    hx-trigger="load"
    hx-select="#${id}"
    hx-swap="outerHTML ignoreTitle:true"
  >
    <h2 id="${id}-title">${title}</h2>
    <p><a href="${href}">${label}</a></p>
  </section>`;
}

function inTarget(page: PrincipalPage, { listedAt, details, members }: NonNullable<PrincipalPage["found"]>): Html {
  const { target, kind, name: called } = page;
  const again = withQuery(`/people/${kind}`, { target, name: called, instead: listedAt });
  if (details === undefined) return listed(page, listedAt, again, gone(page));
  const { known, attributes, records } = details;
  // The title is above.
  const others = [...new Set([...Object.keys(known), ...Object.keys(attributes)])].slice(1);
  return listed(
    page,
    listedAt,
    again,
    html`${facts([
      ...others.map((attribute) => {
        const value = attributes[attribute] ?? null;
        return [capitalized(wordsOf(attribute)), value !== null && name(value)] as const;
      }),
      [
        "Made of",
        list(
          records.map(
            (each) => html`${name(each.source)} ${name(each.id)} <small class="quiet">by ${name(each.sync)}</small>`,
          ),
        ),
      ],
    ])}
    ${memberships(page, details)} ${members !== undefined && membersOf(page, members)}`,
  );
}

/** Somebody is not in the target: perhaps any more. */
function gone({ now, target, kind, deletedBy, mayUndo }: PrincipalPage): Html {
  if (deletedBy === undefined) return empty(html`<p>${name(target)} has no such ${kind}.</p>`, kind);
  const { id, sync, kept } = deletedBy;
  return notice(
    "bad",
    html`<p>
      A run of ${name(sync)} deleted this ${kind} ${when(momentOf(deletedBy), now)}. Undoing the run plans to bring back
      all that it changed, and shows it first.
    </p>`,
    false,
    html`<a class="button secondary small" href="${at("/runs", id)}">Look at the run</a>
      ${mayUndo === true && kept && html`<a class="button secondary small" href="${at("/runs", id, "undo")}">Undo…</a>`}`,
  );
}

/** The most memberships that a page shows. */
const shown = 500;

function memberships({ target, name: called }: PrincipalPage, { groups }: ListedDetails): Html {
  const direct = groups.filter((way) => way.length === 1);
  const nested = groups.length - direct.length;
  const ordered = [...direct, ...groups.filter((way) => way.length > 1)].slice(0, shown);
  const picture = membershipPicture(called, ordered, (group) => withQuery("/people/group", { target, name: group }));
  const ways = membershipList(ordered, (group) => principalLink(target, "group", group));
  return section(
    "memberships",
    html`Memberships
    ${groups.length > 0 && html`<small>${pluralize(direct.length, "group")} directly${nested > 0 && `, ${formatNumber(nested)} through them`}</small>`}`,
    html`${
      groups.length === 0
        ? html`<p class="quiet">It is in no group.</p>`
        : picture === undefined
          ? ways
          : html`<div class="only-wide">${picture}</div>
              <div class="only-narrow">${ways}</div>`
    }
    ${groups.length > shown && html`<p class="quiet">… and ${formatNumber(groups.length - shown)} more</p>`}`,
  );
}

function membersOf({ target, name: called }: PrincipalPage, { rows, count, nested, offset }: Members): Html {
  const address = (more: Readonly<Record<string, string | undefined>>): string =>
    withQuery("/people/group", { target, name: called, nested: nested ? "yes" : undefined, ...more });
  return section(
    "members",
    html`Members ${count > 0 && html`<small>${formatNumber(count)}</small>`}`,
    html`${tabs("Members", [
      { href: address({ nested: undefined }), label: "Direct", isCurrent: !nested },
      { href: address({ nested: "yes" }), label: "Also through other groups", isCurrent: nested },
    ])}
    ${
      count === 0
        ? html`<p class="quiet">Nobody is in it.</p>`
        : html`${principals(target, "both", rows)}
          ${pager("Pages", { count, offset, pageSize }, (from) => address({ from: from === 0 ? undefined : String(from) }))}`
    }`,
  );
}

export interface HistoryPage extends PeopleFrame {
  readonly kind: Kind;
  readonly name: string;
  readonly history: KnownHistory;
}

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
          : table<HistoryEntry>(
              "Changes by runs",
              [
                {
                  label: "When",
                  kind: "head",
                  cell: ({ run }) => html`<a href="${at("/runs", run.id)}">${when(momentOf(run), now)}</a>`,
                },
                { label: "Sync", cell: ({ run }) => name(run.sync) },
                { label: "Run", kind: "status", cell: ({ run }) => state(run) },
                { label: "What", cell: happened },
              ],
              entries,
            )
      }
      ${more && html`<p class="quiet">Earlier changes are not shown.</p>`}
      <p class="quiet">
        <small
          >The changes of ${pluralize(stored, "run")} are
          stored${stored < runs && `, and only the notes of ${formatNumber(runs - stored)} more`}.</small
        >
      </p>
    </section>`;
}

function happened({ run, changes, notes }: HistoryEntry): Html {
  const doubt =
    run.state === "pending" ? "to be " : { true: "", false: "not ", undefined: "perhaps " }[`${isApplied(run)}`];
  return html`<div>
    ${changes.map(
      ({ action, attributes, ...groups }) =>
        html`<p><b class="${isApplied(run) === false ? "quiet" : action}">${doubt}${usualWords[action]}</b></p>
          ${(isUpdate(action) ? attributes : []).map((each) => html`<p><span class="quiet">${wordsOf(each.attribute)}</span> ${diff(each, true)}</p>`)}
          ${membershipChanges(groups)}`,
    )}
    ${notes.map((note) => html`<p>${prose(note)}</p>`)}
    ${run.decisions.map((each) => html`<p class="quiet">${decisionWords(each)}</p>`)}
  </div>`;
}
