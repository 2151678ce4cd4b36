import { html } from "./html.ts";
import type { Html } from "./html.ts";
import { formToken } from "./accounts.ts";
import type { Visitor } from "./accounts.ts";

/** What surrounds a page. */
export interface Frame {
  /** Of the window; the page has its own heading. */
  readonly title: string;
  readonly version: string;
  readonly visitor?: Visitor | undefined;
  /** The part of the console the page belongs to. */
  readonly section?: "overview" | "runs" | "people" | "doubt" | "pinboards" | "audit" | undefined;
  /** The parts that this console does not have. */
  readonly hidden?: readonly Frame["section"][] | undefined;
  /** The page's own address: while it is open it is brought up to date whenever a run moves on. */
  readonly live?: string | undefined;
}

const sections = [
  { name: "overview", href: "/", label: "Overview" },
  { name: "runs", href: "/runs", label: "Runs" },
  { name: "doubt", href: "/doubt", label: "In doubt" },
  { name: "people", href: "/people", label: "People and groups" },
  { name: "pinboards", href: "/pinboards", label: "Pinboards" },
  { name: "audit", href: "/audit", label: "Audit" },
] as const;

/** htmx would add a style element, which the policy forbids; nothing here needs inheritance or history. */
const settings = JSON.stringify({ includeIndicatorCSS: false, history: false });

/** A whole page. */
export function layout({ title, version, visitor, section, hidden = [], live }: Frame, main: Html): Html {
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
        ${header(visitor, section, hidden)} ${body(live, main)} ${footer(visitor, version)}
        ${live !== undefined && html`<span id="live" hidden hx-sse:connect="/events" hx-swap="none"></span>`}
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
            .filter(({ name }) => !hidden.includes(name))
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
            ${!visitor.isAdministrator && html`<small>may look</small>`}</span
          >
          <button type="submit" class="quiet">Sign out</button>
        </form>`
      }
    </nav>
  </header>`;
}

function body(live: string | undefined, main: Html): Html {
  if (live === undefined) return html`<main id="main" tabindex="-1">${main}</main>`;
  return html`<main
    id="main"
    tabindex="-1"
    hx-get="${live}"
    hx-trigger="changed from:#live"
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
