import { isUpdate, textsOf } from "#plan/change.ts";
import type { AttributeChange, Change } from "#plan/change.ts";
import type { Section } from "#plan/render/shared.ts";
import type { RunRecord } from "#state/record.ts";
import { formatNumber, pluralize, wordsOf } from "#text.ts";
import { actions, chip, diff, name } from "#console/components.ts";
import { exactValue, html, withQuery } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";

/* The changes of a plan: one a line, which opens to what it was and what it will be. */

/** The changes of one action and kind. */
export function changesTogether(
  { action, kind, heading: title, total }: Section,
  content: Html,
  isOpened: boolean,
): Html {
  return html`<details ${isOpened && html`open`} class="changes" id="${action}-${kind}">
    <summary data-row>
      <span class="${action}"><span aria-hidden="true">${actions[action].sign}</span> ${title}</span>
      <span class="quiet">${total}</span>
    </summary>
    ${content}
  </details>`;
}

/** What those who are renamed are called besides, by either name. */
export function otherNames({ notes }: RunRecord, kind: Section["kind"]): ReadonlyMap<string, string> {
  return new Map(
    notes
      .flatMap(({ details = [] }) => details)
      .filter((detail) => detail.kind === kind)
      .flatMap(({ names: [one, other] = [] }) =>
        one === undefined || other === undefined
          ? []
          : ([
              [one, other],
              [other, one],
            ] as const),
      ),
  );
}

/** How many groups of a principal a page shows, and how many more can be unfolded; a report in a file has all of them. */
const groupsShown = { first: 12, unfolded: 100 };

/** The groups that a principal leaves and joins. @param unfolded how many can be unfolded */
export function membershipChanges(
  { groupsAdded, groupsRemoved }: Pick<Change, "groupsAdded" | "groupsRemoved">,
  unfolded: number = groupsShown.unfolded,
): Html {
  const count = groupsAdded.length + groupsRemoved.length;
  const most = groupsShown.first + unfolded;
  const members = [
    ...groupsRemoved.slice(0, most).map((group) => chip(name(group), "remove")),
    ...groupsAdded.slice(0, Math.max(0, most - groupsRemoved.length)).map((group) => chip(name(group), "add")),
  ];
  return html`${members.length > 0 && html`<div class="chips">${members.slice(0, groupsShown.first)}</div>`}
  ${
    count > groupsShown.first &&
    html`<details>
      <summary>${pluralize(count - groupsShown.first, "more group")}</summary>
      <div class="chips">${members.slice(groupsShown.first)}</div>
      ${count > most && html`<span class="quiet">… and ${formatNumber(count - most)} more, which every download has</span>`}
    </details>`
  }`;
}

export interface RowOptions {
  /** Its name before or after a rename. */
  readonly other?: string | undefined;
  /** How many groups can be unfolded. */
  readonly unfolded?: number | undefined;
  /** Its name leads to its page in this target. */
  readonly target?: string | undefined;
  /** It has a box, by which a part of the plan is chosen. */
  readonly hasBox?: boolean | undefined;
}

/** How many groups stand in the line of a change, and how long a value is there. */
const inLine = { groups: 3, characters: 60 };

/** A change: its name, what is done in one line, and behind it the whole. */
export function changeRow(change: Change, { other, unfolded, target, hasBox }: RowOptions = {}): Html {
  const { action, kind, name: of } = change;
  const called =
    target === undefined
      ? name(of)
      : html`<span class="${action}" aria-hidden="true">${actions[action].sign}</span>
          <a href="${withQuery(`/people/${kind}`, { target, name: of })}">${name(of)}</a>`;
  const renamed = other !== undefined && html` <small>${action === "delete" ? "now" : "before"} ${name(other)}</small>`;
  return html`<div class="change">
    <b>${hasBox === true && box("pick", `${kind}:${of}`, `Select ${kind} ${of}`)}${called}${renamed}</b>
    ${whatIsDone(change, unfolded)}
  </div>`;
}

/** One line, and what it leaves out. */
export function whatIsDone(change: Change, unfolded?: number): Html {
  const { action, attributes, groupsAdded, groupsRemoved } = change;
  const groups = groupsAdded.length + groupsRemoved.length;
  const isWhole = attributes.length <= 1 && attributes.every(isShort) && groups <= inLine.groups;
  const line = html`<span class="what">${summaryOf(change)}</span> ${chips(change, inLine.groups)}`;
  if (isWhole) return html`<div class="line">${line}</div>`;
  return html`<details ${unfolded === Infinity && html`open`}>
    <summary class="line">${line}</summary>
    ${
      attributes.length > 0 &&
      html`<dl class="facts">
        ${attributes.map(
          (each) =>
            html`<div>
              <dt>${wordsOf(each.attribute)}</dt>
              <dd>${diff(each, isUpdate(action))}</dd>
            </div>`,
        )}
      </dl>`
    }
    ${groups > inLine.groups && membershipChanges(change, unfolded)}
  </details>`;
}

function isShort(change: AttributeChange): boolean {
  const { from = "", to = "" } = textsOf(change);
  return from.length + to.length <= inLine.characters;
}

/** What happens to its values: the only one in full, of several their names; the first of who is created or deleted. */
function summaryOf({ action, attributes }: Change): Part {
  const [first, ...more] = attributes;
  if (first === undefined) return "";
  if (!isUpdate(action)) return diff(first, false);
  if (more.length === 0 && isShort(first))
    return html`<span class="quiet">${wordsOf(first.attribute)}</span> ${diff(first, true)}`;
  return attributes.map(({ attribute }) => wordsOf(attribute)).join(", ");
}

/** The first groups that a principal leaves and joins, and how many more there are. */
function chips({ groupsAdded, groupsRemoved }: Change, most: number): Html | false {
  const all = [
    ...groupsRemoved.slice(0, most).map((group) => chip(name(group), "remove")),
    ...groupsAdded.slice(0, most).map((group) => chip(name(group), "add")),
  ];
  const more = groupsAdded.length + groupsRemoved.length - most;
  return (
    all.length > 0 &&
    html`<span class="chips"
      >${all.slice(0, most)}${more > 0 && html`<span class="quiet">${pluralize(more, "more group")}</span>`}</span
    >`
  );
}

/** The form whose boxes choose a part of a plan: they are not inside it. */
export const partForm = "part";

/** @param count how many changes it stands for */
export function box(field: "pick" | "pickAll", value: string, label: string, count = 1): Html {
  return html`<input
    type="checkbox"
    form="${partForm}"
    name="${field}"
    value="${exactValue(value)}"
    aria-label="${label}"
    data-count="${count}"
  /> `;
}
