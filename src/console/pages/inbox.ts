import { isOfConfiguration } from "#control/inboxes.ts";
import { limitName } from "#plan/render/shared.ts";
import type { EventKind } from "#state/inbox/events.ts";
import type {
  BrakedLoss,
  Brakes,
  InboxEvent,
  InboxSettings,
  InboxStatus,
  ListedInboxToken,
  RecentPushes,
} from "#state/inbox/status.ts";
import { isExceeded } from "#plan/limits.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { formatNumber, formatSizes, pluralize } from "#text.ts";
import { badge, empty, facts, gauge, list, name, notice, state, table, when } from "#console/components.ts";
import type { Tone, Timed } from "#console/components.ts";
import { confirmation, field, hidden } from "#console/forms.ts";
import type { Protected } from "#console/forms.ts";
import { at, exactValue, html, withQuery } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";
import { icon } from "#console/icons.ts";
import type { IconName } from "#console/icons.ts";
import { duration } from "#console/pages/connections.ts";

export interface InboxPage extends Timed {
  readonly sources: readonly ShownInbox[];
  /** The plans that brakes hold. */
  readonly held: readonly RunRecord[];
}

export interface ShownInbox {
  readonly status: InboxStatus;
  /** Absent: it was removed from the configuration a moment ago. */
  readonly settings: Omit<InboxSettings, "tokens"> | undefined;
  readonly recent: RecentPushes;
  /** Where the provider pushes to. */
  readonly address: string;
  /** Whether the viewer may add and revoke tokens. */
  readonly mayManage: boolean;
}

/** Whether brakes hold a plan that a person can decide about. */
export function heldByPushes(run: RunRecord): boolean {
  return isOpen(run) && run.limits.some((check) => check.limit === "pushed" && isExceeded(check));
}

/** What providers pushed, what a run waits for, and who may push. */
export function inbox({ now, sources, held }: InboxPage): Html {
  return html`<h1>Inbox</h1>
    <p class="quiet">What providers push over SCIM. It changes a target only as a plan, within limits.</p>
    ${held.map(heldNotice)}
    ${
      sources.length === 0 &&
      empty(
        html`<p>No source has an inbox.</p>
          <p>
            Write <code>inbox: {}</code> below a source with <code>connector: scim</code>, then
            <code>rollcall reload</code>.
          </p>`,
      )
    }
    ${sources.map((each) => ofSource(each, now, held.length > 0))}`;
}

function heldNotice(run: RunRecord): Html {
  const beyond = run.limits.filter(({ limit, tripped }) => limit === "pushed" && tripped);
  return notice(
    "bad",
    html`<p>${name(run.sync)} is ${state(run)}: ${limitName("pushed")} beyond the bound.</p>
      ${list(beyond.map(({ value, of, bound }) => `${formatNumber(value)} ${of}; at most ${formatNumber(bound)}`))}`,
    false,
    html`<a class="button" href="${at("/runs", run.id, "plan")}">Look at the plan</a>`,
  );
}

/** @param isHeld whether brakes hold a plan */
function ofSource(shown: ShownInbox, now: number, isHeld: boolean): Html {
  const { status, settings } = shown;
  const { source, users, groups, last, waitsUntil, firstCycleUntil } = status;
  return html`<section aria-label="${source}">
    <h2>
      ${name(source)} <small>${last === undefined ? "nothing was pushed yet" : formatSizes(users, groups)}</small>
    </h2>
    ${
      waitsUntil !== undefined &&
      notice(
        "waiting",
        html`<p>Pushes are still settling: a run reads them ${when(waitsUntil, now)} at the earliest.</p>`,
      )
    }
    ${
      firstCycleUntil !== undefined &&
      notice(
        "info",
        html`<p>
          <b>First cycle.</b> Nobody is deleted for being absent until no new user has come for a while:
          ${when(firstCycleUntil, now)} at the earliest.
        </p>`,
      )
    }
    <div class="cards">${pushes(shown, now)} ${settings !== undefined && brakes(status.losses, settings, isHeld)}</div>
    ${tokens(shown, now)} ${latest(source, shown.recent, now)}
  </section>`;
}

function pushes({ status, settings, recent, address }: ShownInbox, now: number): Html {
  const { source, first, last } = status;
  const counts = Object.entries(recent.counts) as [EventKind, number][];
  return html`<article class="card" data-row aria-label="Pushes to ${source}" tabindex="-1">
    <header><h3>Pushes</h3></header>
    ${facts([
      ["Address", html`<code>${name(address)}</code>`],
      ["First push", first === undefined ? "never" : when(first, now)],
      ["Last push", last === undefined ? "never" : when(last, now)],
      [
        "Within 24 hours",
        counts.length > 0 && counts.map(([kind, count]) => `${formatNumber(count)} ${words[kind]}`).join(", "),
      ],
      ...(settings === undefined ? [] : waits(settings)),
    ])}
  </article>`;
}

function waits({ settle, maxWait, firstCycle }: Omit<InboxSettings, "tokens">): [label: string, value: Part][] {
  return [
    ["Read", `${duration(settle)} after the last push, or after ${duration(maxWait)} of pushes`],
    ["First cycle", `ends once no new user has come for ${duration(firstCycle)}`],
  ];
}

const lossNames: Readonly<Record<BrakedLoss["loss"], string>> = {
  deletions: "deleted",
  deactivations: "deactivated",
  membershipsLost: "lost",
};

/** What counts toward brakes, and how close it is. */
function brakes(losses: readonly BrakedLoss[], settings: Omit<InboxSettings, "tokens">, isHeld: boolean): Html {
  const { brakes: bounds, refuse } = settings;
  return html`<article class="card" data-row tabindex="-1">
    <header><h3>Brakes</h3></header>
    ${bounds === false ? html`<p class="quiet">None: providers may take away anything.</p>` : facts(boundsOf(bounds, refuse))}
    ${losses.length > 0 && html`<div class="gauges">${losses.map(lossGauge)}</div>`}
    ${
      !isHeld &&
      losses.some(({ lost, most }) => lost > most) &&
      html`<p class="quiet">No plan is held for it: no run has read it yet, or somebody has let it pass.</p>`
    }
  </article>`;
}

function lossGauge({ loss, of, lost: value, most: bound, basis, pushers }: BrakedLoss): Html {
  return gauge({
    limit: "pushed",
    of: `${of} ${lossNames[loss]}`,
    value,
    bound,
    basis: `${basis} · pushed with ${pushers}`,
    earlier: 0,
    tripped: value > bound,
    overridden: false,
  });
}

function boundsOf(bounds: Brakes, refuse: boolean): [label: string, value: Part][] {
  const most = (["deletions", "deactivations", "membershipsLost"] as const).flatMap((loss) => {
    const bound = bounds[loss];
    if (bound === undefined) return [];
    const of = loss === "membershipsLost" ? "memberships " : "";
    if (bound.count !== undefined) return [`${formatNumber(bound.count)} ${of}${lossNames[loss]}`];
    return [`${bound.percent ?? 0}% ${of === "" ? "" : `of ${of}`}${lossNames[loss]}`];
  });
  return [
    ["At most", most.length === 0 ? "nothing is bounded" : `${most.join(", ")}, within ${duration(bounds.window)}`],
    ["Beyond", refuse ? "the push is refused with 503" : "syncs are held"],
  ];
}

function tokens({ status: { source, tokens: all }, mayManage }: ShownInbox, now: number): Html {
  const revoke = (listed: ListedInboxToken): Html =>
    isOfConfiguration(listed)
      ? html`<span class="quiet">in the configuration</span>`
      : html`<a
          class="button danger secondary small"
          href="${withQuery(at("/inbox", source, "revoke"), { token: listed.id })}"
          aria-label="Revoke the token ${listed.name}"
          >Revoke…</a
        >`;
  return html`<h3>Tokens</h3>
    ${
      all.length === 0
        ? html`<p class="quiet">None: no provider can push yet, unless the configuration has a token.</p>`
        : table<ListedInboxToken>(
            `Tokens of ${source}`,
            [
              { label: "Token", kind: "head", cell: ({ name: called }) => name(called) },
              { label: "Created", cell: ({ created }) => when(created, now) },
              { label: "Last used", cell: ({ used }) => (used === undefined ? "never" : when(used, now)) },
              ...(mayManage ? [{ label: "Actions", kind: "tight" as const, cell: revoke }] : []),
            ],
            all,
          )
    }
    ${
      mayManage &&
      html`<p class="buttons"><a class="button secondary" href="${at("/inbox", source, "token")}">Add a token…</a></p>`
    }`;
}

const words: Readonly<Record<EventKind, string>> = {
  created: "created",
  changed: "changed",
  deactivated: "deactivated",
  reactivated: "reactivated",
  deleted: "deleted",
  joined: "memberships added",
  left: "memberships removed",
};

const badges: Readonly<Record<EventKind, readonly [Tone, IconName]>> = {
  created: ["good", "plus"],
  changed: ["quiet", "pencil"],
  deactivated: ["waiting", "pause"],
  reactivated: ["good", "undo"],
  deleted: ["bad", "minus"],
  joined: ["quiet", "plus"],
  left: ["waiting", "minus"],
};

function happened({ kind, amount }: InboxEvent): Html {
  const label =
    kind === "joined" || kind === "left"
      ? `${pluralize(amount, "member")} ${kind === "joined" ? "added" : "removed"}`
      : words[kind];
  return badge(...badges[kind], label);
}

function latest(source: string, { events }: RecentPushes, now: number): Html | false {
  return (
    events.length > 0 &&
    html`<h3>Latest events</h3>
      ${table<InboxEvent>(
        `Latest events of ${source}`,
        [
          {
            label: "User or group",
            kind: "head",
            cell: ({ resourceKind, resource, name: called }) =>
              html`${icon(resourceKind)}
              ${called === undefined ? html`<span class="quiet">${name(resource)}</span>` : name(called)}`,
          },
          { label: "Event", cell: happened },
          { label: "Pushed with", cell: ({ pusher }) => name(pusher) },
          { label: "When", cell: ({ at: time }) => when(time, now) },
        ],
        events,
      )}`
  );
}

export interface TokenPage extends Protected {
  readonly source: string;
}

const back = { href: "/inbox", label: "Back" } as const;

/** Asks what a new token is called. */
export function newToken({
  source,
  token,
  name: typed = "",
  problem,
}: TokenPage & { readonly name?: string; readonly problem?: string | undefined }): Html {
  const input = html`<input
    name="name"
    value="${exactValue(typed)}"
    maxlength="80"
    autocomplete="off"
    spellcheck="false"
    ${problem !== undefined && html`aria-invalid="true" autofocus`}
  />`;
  return html`<h1>Add a token to ${name(source)}</h1>
    ${confirmation({
      content: html`<p>A provider with this token can push to ${name(source)}. Other tokens stay valid.</p>`,
      action: at("/inbox", source, "token"),
      fields: html`${token}
      ${field("Name", input, { error: problem, hint: "Such as the provider it is for. Left empty, it is numbered." })}`,
      button: html`<button type="submit">Add the token</button>`,
      back,
    })}`;
}

/** A new token: this page is the only one that has it. */
export function addedToken({
  source,
  address,
  name: called,
  token,
}: Omit<TokenPage, "token"> & { readonly address: string; readonly name: string; readonly token: string }): Html {
  return html`<h1>New token of ${name(source)}</h1>
    ${notice(
      "good",
      html`<p><b>${name(called)}</b>, shown only this once. Copy it into the provider now:</p>
        <p><code class="secret">${token}</code></p>
        <p>
          It pushes to <code>${name(address)}</code>${address.startsWith("/") && " of Rollcall's address"}, with the
          token as <code>Authorization: Bearer TOKEN</code>.
        </p>`,
      true,
    )}
    <p class="buttons"><a class="button" href="${back.href}">To the inbox</a></p>`;
}

/** Asks before a token is revoked. */
export function revokeToken({
  now,
  source,
  token,
  listed,
}: TokenPage & { readonly now: number; readonly listed: ListedInboxToken }): Html {
  const { id: key, name: called, used } = listed;
  return html`<h1>Revoke ${name(called)}?</h1>
    ${confirmation({
      isDanger: true,
      content: html`<p>
        Pushes to ${name(source)} with this token are refused from now on. It was
        ${used === undefined ? "never used" : html`last used ${when(used, now)}`}. What was pushed stays.
      </p>`,
      action: at("/inbox", source, "revoke"),
      fields: [token, hidden("id", key)],
      button: html`<button type="submit" class="danger">Revoke the token</button>`,
      back,
    })}`;
}
