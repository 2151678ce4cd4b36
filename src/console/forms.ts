import { exactValue, html } from "./html.ts";
import type { Html, Part } from "./html.ts";

/*
 * What a person fills in: one of each. Several beside each other stand in `<div class="fields">`.
 */

/** What a page with a form that changes something has. */
export interface Protected {
  /** The hidden field that proves where the form comes from. */
  readonly token: Html;
}

export interface FieldHelp {
  readonly hint?: Part;
  /** What is wrong with it; the control has `aria-invalid`. */
  readonly error?: string | undefined;
}

/** Something to fill in: its label, the control, what is wrong with it, and help. */
export function field(label: Part, control: Html, { hint, error }: FieldHelp = {}): Html {
  return html`<label
    >${label} ${control} ${error !== undefined && html`<small class="bad" role="alert">${error}</small>`}
    ${hint !== undefined && html`<small>${hint}</small>`}</label
  >`;
}

/** Something to search for. */
export function search(name: string, value: string | undefined, attributes: Part = false): Html {
  return html`<input name="${name}" type="search" value="${exactValue(value ?? "")}" ${attributes} />`;
}

/** A day, of UTC. */
export function day(name: string, value: string | undefined): Html {
  return html`<input name="${name}" type="date" value="${exactValue(value ?? "")}" />`;
}

/** What a form sends without being asked. */
export function hidden(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${exactValue(value)}" />`;
}

/**
 * What narrows a list down: with a script it is sent as soon as something changes, and its button is not shown.
 * @param all where the whole list is; undefined: it is shown
 */
export function filters(action: string, fields: Part, { all, button = "Filter", end }: FilterOptions = {}): Html {
  return html`<form method="get" action="${action}" class="filters" data-auto>
    ${fields}
    <button type="submit" class="secondary">${button}</button>
    ${all !== undefined && html`<a href="${all}">Show all</a>`} ${end}
  </form>`;
}

interface FilterOptions {
  readonly all?: string | undefined;
  readonly button?: string | undefined;
  /** What else stands at the end of the line. */
  readonly end?: Part;
}

/** A choice of one. @param attributes more of them for the element */
export function select(
  name: string,
  options: readonly (readonly [value: string, label: string])[],
  chosen: string | undefined,
  attributes: Part = false,
): Html {
  return html`<select name="${name}" ${attributes}>
    ${options.map(([value, label]) => html`<option value="${exactValue(value)}" ${value === chosen && html`selected`}>${label}</option>`)}
  </select>`;
}

/** A box to tick. @param value what the form has then */
export function tick(name: string, label: Part, isTicked: boolean, value = "on", attributes: Part = false): Html {
  return html`<label class="tick"
    ><input type="checkbox" name="${name}" value="${exactValue(value)}" ${isTicked && html`checked`} ${attributes} />
    ${label}</label
  >`;
}

export interface Confirmation {
  /** The question; absent where it is the heading of the page. */
  readonly title?: Part;
  /** It destroys something: its button is red, too. */
  readonly isDanger?: boolean | undefined;
  /** What will happen. */
  readonly content: Part;
  readonly action: string;
  readonly method?: "get" | "post" | undefined;
  /** Hidden and visible ones, the token among them. */
  readonly fields?: Part;
  /** What does it; nothing where it is not possible. */
  readonly button: Html | false;
  readonly back: { readonly href: string; readonly label: string };
  /** At the end of the line of the buttons. */
  readonly note?: Part;
}

/** Asks once before something is done, and says what that is. */
export function confirmation(asked: Confirmation): Html {
  const { title, isDanger = false, content, action, method = "post", fields, button, back, note } = asked;
  return html`<section class="card decision ${isDanger && "danger"}">
    ${title !== undefined && html`<h2>${title}</h2>`} ${content}
    <form method="${method}" action="${action}">
      ${fields}
      <p class="buttons">
        ${button} <a class="button secondary" href="${back.href}">${back.label}</a>
        ${note !== undefined && html`<small class="quiet">${note}</small>`}
      </p>
    </form>
  </section>`;
}
