import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { leaversCsv } from "#daemon/leavers.ts";
import type { StagedLeaver, SyncLeavers } from "#daemon/leavers.ts";
import type { People } from "#daemon/people.ts";
import { formatNumber, formatPrincipals } from "#text.ts";
import { badge, empty, ended, name, none, notice, series, table, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import { download, visitorOf } from "#console/context.ts";
import type { AppOptions, Send } from "#console/context.ts";
import { html, withQuery } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { icon } from "#console/icons.ts";
import { principalLink } from "#console/pages/people.ts";
import { filled } from "#console/selection.ts";

/** How many of each sync are on the page. */
const most = 500;

/** Adds the page with those who are gone from the sources, and its list. */
export function addLeaversPage(scope: FastifyInstance, { people }: Pick<AppOptions, "people">, send: Send): void {
  scope.get("/leavers", async (request, reply) => {
    const syncs = await leaversFor(people, visitorOf(request).target);
    const frame = { title: "Leavers", section: "leavers", live: "/leavers" } as const;
    return send(request, reply, frame, leavers({ now: Date.now(), syncs }));
  });

  scope.get("/leavers/download", async (request, reply) => {
    const { sync } = filled(request.query);
    const syncs = await leaversFor(people, visitorOf(request).target);
    return download(reply, "leavers.csv").send(
      Readable.from(leaversCsv(syncs.filter((each) => sync === undefined || each.sync === sync))),
    );
  });
}

/** An account of one target sees the leavers of that target. */
async function leaversFor(people: People, only: string | undefined): Promise<readonly SyncLeavers[]> {
  return (await people.leavers()).filter(({ target }) => only === undefined || target === only);
}

export interface LeaversPage extends Timed {
  readonly syncs: readonly SyncLeavers[];
}

/** People gone from the sources, their stage, and until when. */
export function leavers({ now, syncs }: LeaversPage): Html {
  const unread = syncs.flatMap((each) => ("error" in each ? [each] : []));
  const read = syncs.flatMap((each) => ("error" in each ? [] : [each]));
  const withSome = read.filter((each) => each.leavers.length > 0);
  const without = read.filter((each) => each.leavers.length === 0);
  return html`<h1>Leavers</h1>
    <p class="quiet">
      Users and groups that the sources no longer have, as the last run of each sync left them. A user who comes back
      before being deleted keeps the account. Days are those of UTC.
    </p>
    ${syncs.length === 0 && empty(html`<p>There are no syncs yet.</p>`, "leavers")}
    ${[...Map.groupBy(unread, ({ error }) => error.message)].map(([message, of]) =>
      notice("waiting", html`<p>${series(of.map(({ sync }) => html`<b>${name(sync)}</b>`))}: ${ended(message)}</p>`),
    )}
    ${withSome.map((each) => ofSync(each, now))}
    ${
      without.length > 0 &&
      notice("info", html`<p>Nobody is in grace or suspended by ${series(without.map(({ sync }) => name(sync)))}.</p>`)
    }`;
}

type Read = Extract<SyncLeavers, { leavers: unknown }>;

function ofSync({ sync, target, leavers: all }: Read, now: number): Html {
  const users = all.filter(({ kind }) => kind === "user").length;
  return html`<section aria-label="${sync}">
    <h2>
      ${name(sync)}
      <small>${formatPrincipals(users, all.length - users)} in ${name(target)}</small>
    </h2>
    ${table<StagedLeaver>(
      `Leavers of ${sync}`,
      [
        {
          label: "Name",
          kind: "head",
          cell: ({ kind, name: called }) => html`${icon(kind)} ${principalLink(target, kind, called)}`,
          sort: ({ name: called }) => called,
        },
        { label: "Stage", kind: "status", cell: stage, sort: ({ stage: of }) => of },
        { label: "Gone", cell: ({ since }) => when(since, now), sort: ({ since }) => since },
        {
          label: "Suspended",
          cell: ({ suspendedOn }) => next(suspendedOn, now),
          sort: ({ suspendedOn = "" }) => suspendedOn,
        },
        {
          label: "Deleted",
          cell: ({ deletedOn }) =>
            deletedOn === undefined ? html`<span class="quiet">never</span>` : next(deletedOn, now),
          sort: ({ deletedOn = "never" }) => deletedOn,
        },
      ],
      all.slice(0, most),
    )}
    <p class="downloads">
      ${all.length > most && html`The first ${formatNumber(most)} of ${formatNumber(all.length)}.`} All of them:
      <a href="${withQuery("/leavers/download", { sync })}" download>CSV</a>
    </p>
  </section>`;
}

function stage({ stage: of }: StagedLeaver): Html {
  return of === "suspended" ? badge("bad", "pause", "suspended") : badge("waiting", "clock", "in grace");
}

/** When something happens, and on which day; what is due is done by the next run. */
function next(on: string | undefined, now: number): Html {
  if (on === undefined) return none;
  if (Date.parse(on) <= now) return html`by the next run`;
  return html`${when(on, now)} <small class="quiet">${on.slice(0, 10)}</small>`;
}
