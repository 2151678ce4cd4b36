import { list, notice, prose, sentence } from "#console/components.ts";
import { html } from "#console/html.ts";
import type { Html } from "#console/html.ts";

/** A page that says one thing: what went wrong, and where to go on. */
export interface MessagePage {
  readonly title: string;
  readonly message: string;
  readonly problems?: readonly string[];
  readonly next?: { readonly href: string; readonly label: string } | undefined;
}

export function message({ title, message, problems = [], next = { href: "/", label: "Overview" } }: MessagePage): Html {
  return html`<h1>${title}</h1>
    ${notice(
      "bad",
      html`<p>${prose(sentence(message))}</p>
        ${list(problems.map(prose))}`,
      true,
    )}
    <p><a href="${next.href}">${next.label}</a></p>`;
}
