import type { Kind } from "#daemon/people.ts";
import type { ErrorDocument } from "#errors.ts";
import type { Excerpt, ListedPrincipal } from "#sync/explain/listing.ts";
import { formatNumber, pluralize } from "#text.ts";
import { empty, name, notice, pager, when } from "#console/components.ts";
import { exactValue, html } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";

/** A page about a target's users and groups. */
export interface PeopleFrame {
  /** Why the target could not be listed. */
  readonly problem?: ErrorDocument | undefined;
  /** In epoch milliseconds. */
  readonly now: number;
  readonly target: string;
}

export interface PeoplePage extends PeopleFrame {
  /** The targets to choose from. */
  readonly targets: readonly string[];
  readonly text: string;
  readonly kind?: Kind | undefined;
  /** The address of this page. */
  readonly url: string;
  /** Absent while the target is being listed. */
  readonly found?:
    | (Excerpt & { readonly listedAt: string; readonly offset: number; readonly pageSize: number })
    | undefined;
}

/** The search over the users and groups of a target. */
export function people(page: PeoplePage): Html {
  const { target, targets, text, kind, found, url } = page;
  return html`<h1>People and groups</h1>
    <form method="get" action="/people" class="filters">
      <label
        >Search
        <input
          name="text"
          type="search"
          value="${exactValue(text)}"
          placeholder="a name, mail or id, or a part of it"
          data-search
      /></label>
      <label
        >Kind
        <select name="kind">
          ${option("", "both", kind)}${option("user", "users", kind)}${option("group", "groups", kind)}
        </select></label
      >
      ${
        targets.length > 1 &&
        html`<label
          >Target
          <select name="target">
            ${targets.map((each) => html`<option value="${exactValue(each)}" ${each === target && html`selected`}>${each}</option>`)}
          </select></label
        >`
      }
      <button type="submit" class="secondary">Search</button>
      ${(text !== "" || kind !== undefined) && html`<a href="${addressOf("/people", { target })}">Show all</a>`}
    </form>
    ${found === undefined ? listing(page, url) : results(page, found)}`;
}

function option(value: string, label: string, given: Kind | undefined): Html {
  return html`<option value="${value}" ${given === value && html`selected`}>${label}</option>`;
}

/** What is there while a target is being listed: it is looked at again by itself; or why it could not be. */
export function listing({ target, problem }: PeopleFrame, url: string): Html {
  if (problem !== undefined)
    return html`<div id="found">
      ${notice(
        "bad",
        html`<p>${problem.message}</p>
          <p><a href="${exactValue(url)}">Try again</a></p>`,
      )}
    </div>`;
  return html`<div
    id="found"
    class="empty"
    role="status"
    hx-get="${exactValue(url)}"
    hx-trigger="load delay:1s"
    hx-select="#found"
    hx-swap="outerHTML"
  >
    <p>${name(target)} is being listed. <a href="${exactValue(url)}">Look again</a></p>
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

function results(page: PeoplePage, { listedAt, ...found }: NonNullable<PeoplePage["found"]>): Html {
  const { target, text, kind } = page;
  const query = { target, text, kind };
  const again = addressOf("/people", { ...query, instead: listedAt });
  if (found.count === 0) return listed(page, listedAt, again, nobody(page));
  const { rows, count, offset, pageSize } = found;
  return listed(
    page,
    listedAt,
    again,
    html`<p class="quiet">
        ${pluralize(count, text === "" && kind === undefined ? "user or group" : "match", text === "" && kind === undefined ? "users and groups" : "matches")}
      </p>
      ${table(target, rows)}
      ${pager("Pages", { count, offset, pageSize }, (from) => addressOf("/people", { ...query, from: from === 0 ? undefined : String(from) }))}`,
  );
}

/** Nobody was found: the sources may know more. */
function nobody({ target, text, kind }: PeoplePage): Html {
  if (text === "")
    return empty(html`<p>${name(target)} has no ${kind === undefined ? "users and groups" : `${kind}s`} yet.</p>`);
  return empty(
    html`<p>Nobody in ${name(target)} has ${name(text)} in a name, a mail or an id.</p>
      <p>
        A source may have them, and a rule leave them out:
        <a href="${addressOf("/people/explain", { target, name: text })}">look for ${name(text)} in the sources</a>
      </p>`,
  );
}

/** Users and groups, each a link to its page. */
export function table(target: string, rows: readonly (ListedPrincipal & { readonly isDirect?: boolean })[]): Html {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Users and groups">
    <table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Kind</th>
          <th scope="col">Display name</th>
          <th scope="col" class="wide">Mail</th>
          <th scope="col" class="number wide">Groups</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr data-row>
              <th scope="row">${principalLink(target, row.kind, row.name)}</th>
              <td class="words">
                ${row.kind}${row.isDirect === false && html` <small class="quiet">through a group</small>`}
              </td>
              <td>${row.displayName !== null && name(row.displayName)}</td>
              <td class="wide">${row.mail !== null && name(row.mail)}</td>
              <td class="number wide">${formatNumber(row.groups)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export function principalLink(target: string, kind: Kind, of: string): Html {
  return html`<a href="${addressOf(`/people/${kind}`, { target, name: of })}">${name(of)}</a>`;
}

/** An address with a query; what is undefined or empty is left out. Names in it may have any character. */
export function addressOf(path: string, query: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(query).filter(
    (each): each is [string, string] => each[1] !== undefined && each[1] !== "",
  );
  return `${path}?${new URLSearchParams(given).toString()}`;
}
