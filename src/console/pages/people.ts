import { capitalized } from "#plan/render/shared.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Kind, People } from "#daemon/people.ts";
import { answerOf, Refusal } from "#control/answers.ts";
import { errorDocument, RollcallError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import type { Deleted } from "#sync/explain/history.ts";
import type { Excerpt, ListedPrincipal } from "#sync/explain/listing.ts";
import { formatNumber, pluralize, wordsOf } from "#text.ts";
import { empty, name, notice, pager, section, table, tabs, when } from "#console/components.ts";
import type { Column, Timed } from "#console/components.ts";
import { offsetOf, visitorOf } from "#console/context.ts";
import type { AppOptions, Send } from "#console/context.ts";
import { field, filters, hidden, search, select } from "#console/forms.ts";
import { at, exactValue, html, withQuery } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";
import { icon } from "#console/icons.ts";

/** How many users and groups are on a page. */
export const pageSize = 100;

/** Users or groups that are there, or deleted ones. */
type Tab = Kind | "deleted";

/** Adds the page with the users and groups of a target, and those who were deleted there. */
export function addPeoplePage(scope: FastifyInstance, { people: known }: AppOptions, send: Send): void {
  scope.get("/people", async (request, reply) => {
    const { text = "", kind, from, instead, ...query } = textsIn(request);
    const targets = targetsOf(known, request);
    const frame = { title: "People and groups", section: "people" } as const;
    if (targets.length === 0) return send(request, reply, frame, nowhere());
    const target = targetOf(known, request, query["target"]);
    const wanted = kind === "user" || kind === "group" || kind === "deleted" ? kind : undefined;
    const offset = offsetOf(from);
    const { found, problem } = await readList(
      request,
      reply,
      known.list(target, instead, async (listing) => {
        const counts = await listing.counts(text);
        const shown: Tab = wanted ?? (counts.user === 0 && counts.group > 0 ? "group" : "user");
        const excerpt = shown === "deleted" ? noRows : await listing.search(text, shown, { offset, limit: pageSize });
        return { ...excerpt, counts, tab: shown, listedAt: listing.listedAt, offset };
      }),
    );
    const isSought = found?.tab === "deleted" || (found !== undefined && text !== "" && wanted === undefined);
    const deleted = isSought ? await known.deleted(target, { text, most: pageSize }) : undefined;
    const page = people({
      now: Date.now(),
      target,
      targets,
      text,
      tab: wanted,
      url: request.url,
      found,
      deleted,
      problem,
      isBusy: known.isBusy(target),
    });
    return send(request, reply, frame, page);
  });
}

const noRows: Excerpt = { rows: [], count: 0 };

/* What the pages of users and groups share */

/** An account of one target sees the users and groups of that target. */
function targetsOf(known: People, request: FastifyRequest): readonly string[] {
  const { target: only } = visitorOf(request);
  return known.targets().filter((target) => only === undefined || target === only);
}

/** The target that is asked for, or the first. @throws {Refusal} 404 */
export function targetOf(known: People, request: FastifyRequest, wanted: string | undefined): string {
  const targets = targetsOf(known, request);
  const target = wanted ?? targets[0];
  if (target === undefined) throw new Refusal(404, "there is no sync, and so no target to look at");
  if (!targets.includes(target)) throw new Refusal(404, `there is no target ${target}`);
  return target;
}

/** What was read of a list. Why a target could not be listed belongs on the page: it may be a part of one that asks for it. */
export async function readList<Found>(
  request: FastifyRequest,
  reply: FastifyReply,
  reading: Promise<Found | undefined>,
): Promise<{ readonly found?: Found | undefined; readonly problem?: ErrorDocument }> {
  try {
    return { found: await reading };
  } catch (error) {
    if (!(error instanceof RollcallError)) throw error;
    if (request.headers["hx-request"] === undefined) reply.code(answerOf(error).status);
    return { problem: errorDocument(error) };
  }
}

/** The fields that were filled in, each once. */
export function textsIn({ query }: FastifyRequest): Readonly<Record<string, string | undefined>> {
  const entries = Object.entries(query as Record<string, unknown>);
  return Object.fromEntries(
    entries.filter((each): each is [string, string] => typeof each[1] === "string" && each[1] !== ""),
  );
}

/** A page about a target's users and groups. */
export interface PeopleFrame extends Timed {
  /** Why the target could not be listed. */
  readonly problem?: ErrorDocument | undefined;
  readonly target: string;
  /** A run to the target is under way: it is listed after that. */
  readonly isBusy?: boolean | undefined;
}

export interface PeoplePage extends PeopleFrame {
  /** The targets to choose from. */
  readonly targets: readonly string[];
  readonly text: string;
  /** What was asked for. */
  readonly tab?: Tab | undefined;
  /** The address of this page. */
  readonly url: string;
  /** Absent while the target is being listed. */
  readonly found?:
    | (Excerpt & {
        readonly counts: Readonly<Record<Kind, number>>;
        readonly tab: Tab;
        readonly listedAt: string;
        readonly offset: number;
      })
    | undefined;
  /** Absent where nobody looked for them. */
  readonly deleted?: readonly Deleted[] | undefined;
}

/** The search over the users and groups of a target. */
export function people(page: PeoplePage): Html {
  const { target, targets, text, tab, found, url } = page;
  return html`<h1>People and groups</h1>
    ${filters(
      "/people",
      [
        field("Search", search("text", text, html`placeholder="a name, mail or id" autocomplete="off" data-search`)),
        targets.length > 1 &&
          field(
            "Target",
            select(
              "target",
              targets.map((each) => [each, each]),
              target,
            ),
          ),
        tab !== undefined && hidden("kind", tab),
      ],
      { button: "Search" },
    )}
    ${found === undefined ? listing(page, url) : results(page, found)}`;
}

/** There is no target yet. */
function nowhere(): Html {
  return html`<h1>People and groups</h1>
    ${empty(
      html`<p>No sync is configured yet, so there is nobody to show.</p>
        <p>Add a source and a sync to the configuration, then run <code>rollcall reload</code>.</p>`,
      "people",
    )}`;
}

/**
 * What is there while a target is being listed: it is looked at again by itself; or why it could not be.
 * @param besides what else of the page then changes
 */
export function listing({ target, problem, isBusy }: PeopleFrame, url: string, besides?: string): Html {
  if (problem !== undefined)
    return html`<div id="found">
      ${notice("bad", html`<p>${problem.message}</p>`, false, html`<a class="button secondary small" href="${exactValue(url)}">Try again</a>`)}
    </div>`;
  return html`<div
    id="found"
    class="empty"
    role="status"
    hx-get="${exactValue(url)}"
    hx-trigger="load delay:1s"
    hx-select="#found"
    ${besides !== undefined && html`hx-select-oob="${besides}"`}
    hx-swap="outerHTML"
  >
    ${icon("running")}
    <p>
      ${isBusy ? html`A run to ${name(target)} is under way: its users and groups are listed after it.` : html`${name(target)} is being listed.`}
      <a href="${exactValue(url)}">Look again</a>
    </p>
  </div>`;
}

/** What a page shows of a list, and from when that is. */
export function listed({ now, target }: PeopleFrame, listedAt: string, again: string, content: Part): Html {
  return html`<div id="found">
    ${content}
    <p class="quiet">
      <small
        >As ${name(target)} listed it ${when(listedAt, now)}. <a href="${exactValue(again)}">List it again</a></small
      >
    </p>
  </div>`;
}

function results(page: PeoplePage, found: NonNullable<PeoplePage["found"]>): Html {
  const { target, text, deleted, now } = page;
  const { tab, counts, rows, count, offset, listedAt } = found;
  const address = (more: Readonly<Record<string, string | undefined>>): string =>
    withQuery("/people", { target, text, kind: page.tab, ...more });
  const all = [
    ["user", "Users", counts.user],
    ["group", "Groups", counts.group],
    ["deleted", "Deleted", deleted?.length],
  ] as const;
  const others = tab === "deleted" ? [] : (deleted ?? []);
  return listed(
    page,
    listedAt,
    address({ instead: listedAt }),
    html`${tabs(
      "Kind",
      all.map(([kind, label, size]) => ({
        href: address({ kind }),
        label: html`${label} ${size !== undefined && html`<small class="quiet">${formatNumber(size)}</small>`}`,
        isCurrent: kind === tab,
      })),
    )}
    ${tab === "deleted" ? deletedTable(page, deleted ?? []) : count > 0 ? principals(target, tab, rows) : others.length === 0 && nobody(page, tab)}
    ${pager("Pages", { count, offset, pageSize }, (from) => address({ from: from === 0 ? undefined : String(from) }))}
    ${
      others.length > 0 &&
      section(
        "deleted",
        html`Deleted
          <small>${pluralize(others.length, "match", "matches")} among users and groups that a run has deleted</small>`,
        deletedTable({ now, target, text }, others),
      )
    }`,
  );
}

/** Nobody was found: the sources may know more. */
function nobody({ target, text }: PeoplePage, kind: Kind): Html {
  if (text === "") return empty(html`<p>${name(target)} has no ${kind}s yet.</p>`, kind);
  return empty(
    html`<p>No ${kind} of ${name(target)} has ${name(text)} in a name, a mail or an id.</p>
      <p>
        A source may have them, and a rule leave them out:
        <a href="${withQuery("/people/explain", { target, name: text })}">look for ${name(text)} in the sources</a>
      </p>`,
    "search",
  );
}

type Row = ListedPrincipal & { readonly isDirect?: boolean };

/** What every list of people says of one. */
type Called = Pick<ListedPrincipal, "kind" | "name" | "known">;

/** What a person would call them, with the link to their page. */
function called(target: string, row: Called): Html {
  return html`${icon(row.kind)}
    <a href="${withQuery(`/people/${row.kind}`, { target, name: row.name })}">${name(titleOf(row))}</a>`;
}

/** What a person would call somebody: the first attribute that people know them by, or the name. */
export function titleOf(row: Called): string {
  return Object.values(row.known)[0] ?? row.name;
}

function login(row: Called): Html | false {
  return Object.values(row.known)[0] !== row.name && name(row.name);
}

/** A column for each further attribute that people know somebody by, such as the mail; of groups, where one has it. */
function contacts<Row extends Called>(rows: readonly Row[], kind: Kind | "both"): Column<Row>[] {
  const [, ...others] = Object.keys(rows[0]?.known ?? {});
  return others.flatMap((attribute) => {
    const of = ({ known }: Called): string | null => known[attribute] ?? null;
    if (kind === "group" && !rows.some((row) => of(row) !== null)) return [];
    return [{ label: capitalized(wordsOf(attribute)), cell: (row: Row) => of(row) !== null && name(of(row) ?? "") }];
  });
}

/** Users or groups, each a link to its page. */
export function principals(target: string, kind: Kind | "both", rows: readonly Row[]): Html {
  const columns: readonly (Column<Row> | false)[] = [
    {
      label: "Name",
      kind: "head",
      cell: (row) =>
        html`${called(target, row)}${row.isDirect === false && html` <small class="quiet">through a group</small>`}`,
    },
    // Groups are often called by their name alone.
    (kind !== "group" || rows.some(login)) && { label: kind === "group" ? "Group name" : "Login", cell: login },
    ...contacts(rows, kind),
    kind !== "user" && {
      label: "Members",
      kind: "number",
      cell: ({ members }) => members !== undefined && formatNumber(members),
    },
    { label: "In groups", kind: "number", cell: ({ groups }) => formatNumber(groups) },
  ];
  return table(
    { both: "Users and groups", user: "Users", group: "Groups" }[kind],
    columns.filter((column) => column !== false),
    rows,
  );
}

function deletedTable(
  { now, target, text }: Pick<PeoplePage, "now" | "target" | "text">,
  rows: readonly Deleted[],
): Html {
  if (rows.length === 0)
    return empty(
      text === ""
        ? html`<p>No stored run has deleted anyone in ${name(target)}.</p>`
        : html`<p>
            Nobody who was deleted in ${name(target)} has ${name(text)} in a name or a mail, as far as changes are
            stored.
          </p>`,
      "search",
    );
  return table<Deleted>(
    "Deleted users and groups",
    [
      {
        label: "Name",
        kind: "head",
        cell: (row) => called(target, row),
      },
      { label: "Login", cell: login },
      ...contacts(rows, "both"),
      { label: "Deleted", cell: ({ run }) => when(run.endedAt ?? run.startedAt, now) },
      { label: "By the run", cell: ({ run }) => html`<a href="${at("/runs", run.id)}">${name(run.sync)}</a>` },
    ],
    rows,
  );
}

export function principalLink(target: string, kind: Kind, of: string): Html {
  return html`<a href="${withQuery(`/people/${kind}`, { target, name: of })}">${name(of)}</a>`;
}
