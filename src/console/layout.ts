import { pluralize } from "#text.ts";
import { when } from "./components.ts";
import { html } from "./html.ts";
import type { Html } from "./html.ts";
import { icon, mark } from "./icons.ts";
import type { IconName } from "./icons.ts";
import { formToken } from "./accounts.ts";
import type { Visitor } from "./accounts.ts";
import { may } from "#roles.ts";

/** What surrounds a page. */
export interface Frame {
  /** The window's title; the page has its own heading. */
  readonly title: string;
  readonly version: string;
  readonly visitor?: Visitor | undefined;
  /** The part of the console the page belongs to. */
  readonly section?:
    | "overview"
    | "runs"
    | "people"
    | "leavers"
    | "inbox"
    | "doubt"
    | "rules"
    | "pinboards"
    | "connections"
    | "loads"
    | "audit"
    | "accounts"
    | undefined;
  /** The parts that this console does not have. */
  readonly hidden?: readonly Frame["section"][] | undefined;
  /** The page's own address: while it is open it is brought up to date whenever a run moves on. */
  readonly live?: string | undefined;
  /** What it is brought up to date by. Default: runs. */
  readonly liveBy?: "runs" | "loads" | "both" | "pushes" | undefined;
  /** Where the page is, below its section. Default: its title. */
  readonly crumbs?: readonly Crumb[] | undefined;
  readonly daemon?: DaemonState | undefined;
}

export interface Crumb {
  readonly label: string;
  /** Absent: the page itself. */
  readonly href?: string | undefined;
}

/** The daemon's state, shown on every page. */
export interface DaemonState {
  readonly isStopping: boolean;
  /** How many runs are under way. */
  readonly running: number;
  /** When a run last began or ended, ISO 8601. */
  readonly lastActivity?: string | undefined;
}

const sections = [
  { name: "overview", href: "/", label: "Overview" },
  { name: "runs", href: "/runs", label: "Runs" },
  { name: "people", href: "/people", label: "People and groups" },
  { name: "leavers", href: "/leavers", label: "Leavers" },
  { name: "inbox", href: "/inbox", label: "Inbox" },
  { name: "doubt", href: "/doubt", label: "In doubt" },
  { name: "connections", href: "/connections", label: "Sources and targets" },
  { name: "rules", href: "/rules", label: "Rules" },
  { name: "pinboards", href: "/pinboards", label: "Pinboards" },
  { name: "loads", href: "/loads", label: "Loads" },
  { name: "audit", href: "/audit", label: "Audit" },
  { name: "accounts", href: "/accounts", label: "Accounts" },
] as const;

/** The header of requests that an open page makes by itself. */
export const byItself = "x-rollcall-by-itself";

/** It as htmx wants it. */
export const byItselfHeaders = JSON.stringify({ [byItself]: "1" });

/**
 * htmx would add a style element, which the policy forbids; nothing here needs inheritance or history. What a person has
 * opened stays open when the page is brought up to date. A page that has lost the daemon looks for it every few seconds.
 */
const settings = JSON.stringify({
  includeIndicatorCSS: false,
  history: false,
  morphIgnore: ["data-htmx-powered", "open"],
  sse: { reconnectMaxDelay: 4000 },
  // A part of a page may wait for a query, or for the sources.
  defaultTimeout: 600_000,
});

/** A whole page. */
export function layout(frame: Frame, main: Html): Html {
  const { title, version, visitor, live, liveBy = "runs" } = frame;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <meta name="htmx-config" content="${settings}" />
        <title>${title} · Rollcall</title>
        <link rel="icon" href="/assets/icon.svg?${version}" type="image/svg+xml" />
        <link rel="preload" href="/assets/sans.woff2" as="font" type="font/woff2" crossorigin />
        <link rel="stylesheet" href="/assets/base.css?${version}" />
        <link rel="stylesheet" href="/assets/console.css?${version}" />
        <script src="/assets/htmx.js?${version}" defer></script>
        <script src="/assets/hx-sse.js?${version}" defer></script>
        <script type="module" src="/assets/console.js?${version}"></script>
      </head>
      <body ${visitor !== undefined && html`class="framed"`} hx-sync="#main:replace">
        <a class="skip" href="#main">Skip to the content</a>
        ${visitor !== undefined && html`${side(frame, visitor)} ${top(frame)}`} ${body(live, triggers[liveBy], main)}
        ${visitor !== undefined && html`<span id="live" hidden hx-sse:connect="/events" hx-trigger="load, again" hx-swap="none"></span>`}
      </body>
    </html> `;
}

/** The side bar: where to go, and who is signed in. On a phone it is what the button of the top opens, without a script. */
function side({ section, hidden = [], version }: Frame, visitor: Visitor): Html {
  return html`<header class="side" id="menu" popover>
    <a class="brand" href="/">${mark}<span class="label">Rollcall</span></a>
    ${
      may(visitor.role, "look") &&
      html`<a class="seek" href="/search" data-palette title="Search"
        >${icon("search")}<span class="label">Search</span><kbd aria-hidden="true">/</kbd></a
      >`
    }
    <nav aria-label="Console">
      <ul>
        ${placesOf(visitor, hidden).map(
          ({ icon: name, href, label }) =>
            html`<li>
              <a href="${href}" title="${label}" ${name === section && html`aria-current="page"`}
                >${icon(name)}<span class="label">${label}</span></a
              >
            </li>`,
        )}
      </ul>
    </nav>
    <a class="documents" href="/docs/" title="Documentation"
      >${icon("documents")}<span class="label">Documentation</span></a
    >
    <form method="post" action="/sign-out" class="visitor">
      ${tokenField(visitor)}
      <span
        ><a href="/account"><bdi>${visitor.name}</bdi></a
        >${visitor.target !== undefined && html` of <bdi>${visitor.target}</bdi>`}
        <small>${visitor.role !== "administrator" && `${visitor.role ?? "no role"} · `}Rollcall ${version}</small></span
      >
      <button type="submit" title="Sign out">${icon("leave")}<span class="aloud">Sign out</span></button>
    </form>
  </header>`;
}

/** The bar above a page: where it is, and how the daemon is. */
function top(frame: Frame): Html {
  const { section, title, crumbs } = frame;
  const own = sections.find(({ name }) => name === section);
  const path: readonly Crumb[] = crumbs ?? (own?.label === title ? [] : [{ label: title }]);
  const whole: readonly Crumb[] = own === undefined ? path : [{ label: own.label, href: own.href }, ...path];
  return html`<section class="top" aria-label="Place and daemon">
    <button type="button" class="menu" popovertarget="menu" title="Menu">
      ${icon("menu")}<span class="aloud">Menu</span>
    </button>
    <nav class="crumbs" aria-label="Where this is">
      <ol>
        ${whole.map(({ label, href }, index) => {
          const isLast = index === whole.length - 1;
          return html`<li>
            ${index > 0 && icon("chevron")}
            ${isLast || href === undefined ? html`<span ${isLast && html`aria-current="page"`}>${label}</span>` : html`<a href="${href}">${label}</a>`}
          </li>`;
        })}
      </ol>
    </nav>
    ${frame.daemon !== undefined && daemonState(frame.daemon)}
  </section>`;
}

function daemonState({ isStopping, running, lastActivity }: DaemonState): Html {
  const [tone, words] = isStopping
    ? (["waiting", "stopping"] as const)
    : running > 0
      ? (["info", pluralize(running, "run") + " under way"] as const)
      : (["good", "idle"] as const);
  return html`<p class="daemon" id="daemon">
    <span class="dot ${tone}"></span>
    <span class="label"
      >${isStopping || running === 0 ? html`Daemon ${words}` : html`<a href="/runs?state=running">${words}</a>`}</span
    >
    ${lastActivity !== undefined && html`<span class="label">· last run ${when(lastActivity, Date.now())}</span>`}
    <span class="aloud">${words}</span>
  </p>`;
}

/** The parts of the console that somebody can go to. */
export function placesOf(
  visitor: Visitor,
  hidden: readonly Frame["section"][],
): readonly { readonly icon: IconName; readonly href: string; readonly label: string }[] {
  return sections
    .filter(({ name }) => !hidden.includes(name) && isFor(visitor, name))
    .map(({ name, href, label }) => ({ icon: name, href, label }));
}

/** Accounts that may not see the syncs get their own loads; viewers cannot try rules. */
function isFor({ role, mayLoad }: Visitor, section: Frame["section"]): boolean {
  if (section === "loads") return mayLoad === true;
  if (section === "accounts") return may(role, "manage accounts");
  return may(role, section === "rules" ? "try rules" : "look");
}

const triggers = {
  runs: "changed from:#live",
  loads: "loads from:#live",
  both: "changed from:#live, loads from:#live",
  // They may come to another process.
  pushes: "changed from:#live, every 10s",
} as const;

function body(live: string | undefined, trigger: string, main: Html): Html {
  if (live === undefined) return html`<main id="main" tabindex="-1">${main}</main>`;
  return html`<main
    id="main"
    tabindex="-1"
    hx-get="${live}"
    hx-trigger="${trigger}"
    hx-headers="${byItselfHeaders}"
    hx-select="#main"
    hx-select-oob="#daemon"
    hx-target="#main"
    hx-swap="outerMorph"
  >
    ${main}
  </main>`;
}

/** What every form that changes something must have. */
export function tokenField(visitor: Visitor): Html {
  return html`<input type="hidden" name="token" value="${formToken(visitor)}" />`;
}
