import { html } from "./html.ts";
import type { Html } from "./html.ts";
import { formToken } from "./accounts.ts";
import type { Visitor } from "./accounts.ts";
import { may } from "#roles.ts";

/** What surrounds a page. */
export interface Frame {
  /** Of the window; the page has its own heading. */
  readonly title: string;
  readonly version: string;
  readonly visitor?: Visitor | undefined;
  /** The part of the console the page belongs to. */
  readonly section?:
    | "overview"
    | "runs"
    | "people"
    | "doubt"
    | "rules"
    | "pinboards"
    | "connections"
    | "loads"
    | "audit"
    | undefined;
  /** The parts that this console does not have. */
  readonly hidden?: readonly Frame["section"][] | undefined;
  /** The page's own address: while it is open it is brought up to date whenever a run moves on. */
  readonly live?: string | undefined;
  /** What it is brought up to date by. Default: runs. */
  readonly liveBy?: "runs" | "loads" | "both" | undefined;
}

const sections = [
  { name: "overview", href: "/", label: "Overview" },
  { name: "runs", href: "/runs", label: "Runs" },
  { name: "doubt", href: "/doubt", label: "In doubt" },
  { name: "people", href: "/people", label: "People and groups" },
  { name: "rules", href: "/rules", label: "Rules" },
  { name: "pinboards", href: "/pinboards", label: "Pinboards" },
  { name: "connections", href: "/connections", label: "Sources and targets" },
  { name: "loads", href: "/loads", label: "Loads" },
  { name: "audit", href: "/audit", label: "Audit" },
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
export function layout(
  { title, version, visitor, section, hidden = [], live, liveBy = "runs" }: Frame,
  main: Html,
): Html {
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
        <link rel="stylesheet" href="/assets/pico.css?${version}" />
        <link rel="stylesheet" href="/assets/components.css?${version}" />
        <link rel="stylesheet" href="/assets/console.css?${version}" />
        <script src="/assets/htmx.js?${version}" defer></script>
        <script src="/assets/hx-sse.js?${version}" defer></script>
        <script src="/assets/console.js?${version}" defer></script>
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        ${header(visitor, section, hidden)} ${body(live, triggers[liveBy], main)} ${footer(visitor, version)}
        ${visitor !== undefined && html`<span id="live" hidden hx-sse:connect="/events" hx-trigger="load, again" hx-swap="none"></span>`}
      </body>
    </html> `;
}

function header(visitor: Visitor | undefined, section: Frame["section"], hidden: readonly Frame["section"][]): Html {
  return html`<header>
    <nav aria-label="Console">
      <a class="brand" href="/">Rollcall</a>
      ${
        visitor !== undefined &&
        html`<ul>
          ${sections
            .filter(({ name }) => !hidden.includes(name) && isFor(visitor, name))
            .map(
              ({ name, href, label }) =>
                html`<li><a href="${href}" ${name === section && html`aria-current="page"`}>${label}</a></li>`,
            )}
        </ul>`
      }
      ${
        visitor !== undefined &&
        html`<form method="post" action="/sign-out" class="visitor">
          ${tokenField(visitor)}
          <span
            ><bdi>${visitor.name}</bdi>${visitor.target !== undefined && html` of <bdi>${visitor.target}</bdi>`}
            ${visitor.role !== "administrator" && html`<small>${visitor.role ?? "no role"}</small>`}</span
          >
          <button type="submit" class="quiet">Sign out</button>
        </form>`
      }
    </nav>
  </header>`;
}

/** Who may not look at the syncs has their loads; who may only look cannot try rules. */
function isFor({ role, mayLoad }: Visitor, section: Frame["section"]): boolean {
  if (section === "loads") return mayLoad === true;
  return may(role, section === "rules" ? "try rules" : "look");
}

const triggers = {
  runs: "changed from:#live",
  loads: "loads from:#live",
  both: "changed from:#live, loads from:#live",
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
    hx-target="#main"
    hx-swap="outerMorph"
  >
    ${main}
  </main>`;
}

function footer(visitor: Visitor | undefined, version: string): Html {
  return html`<footer>
    <small>Rollcall ${version}</small>
    ${
      visitor !== undefined &&
      html`<small class="keys"
        ><kbd>j</kbd> <kbd>k</kbd> next, previous · <kbd>/</kbd> search · <kbd>?</kbd> keys</small
      >`
    }
  </footer>`;
}

/** What every form that changes something must have. */
export function tokenField(visitor: Visitor): Html {
  return html`<input type="hidden" name="token" value="${formToken(visitor)}" />`;
}
