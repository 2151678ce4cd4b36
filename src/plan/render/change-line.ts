import { stripVTControlCharacters, styleText } from "node:util";
import type { Action, AttributeChange, Change } from "#plan/change.ts";
import { excerpts, number, quoteIfNeeded, visible } from "#text.ts";

export type Style = "bold" | "dim" | "green" | "yellow" | "red";
export type Paint = (style: Style, text: string) => string;

const marks = {
  create: { symbol: "+", style: "green" },
  update: { symbol: "~", style: "yellow" },
  delete: { symbol: "−", style: "red" },
} as const satisfies Record<Action, object>;

/** What shows text in a style; with no colour, as it is. */
export function painter(colour: boolean): Paint {
  return colour ? (style, text) => styleText(style, text, { validateStream: false }) : (_, text) => text;
}

/** A change as a line of a terminal: `~ ada  mail: a@x → b@x  +board`. Of groups, as many as fit into `width` columns. */
export function changeLine(change: Change, paint: Paint, width: number): string {
  const { symbol, style } = marks[change.action];
  const who = `${paint(style, `${symbol} ${quoteIfNeeded(change.name)}`)}  ${whatOf(change, paint)}`.trimEnd();
  return `${who}${membershipsOf(change, paint, width - stripVTControlCharacters(who).length)}`;
}

/** What becomes of a principal's attributes; of one that is created or deleted, who it is. */
function whatOf({ action, attributes }: Change, paint: Paint): string {
  if (action === "update") return attributes.map((each) => edit(each, paint)).join("; ");
  const [displayName, mail] = (["displayName", "mail"] as const).map((name) => {
    const found = attributes.find(({ attribute }) => attribute === name);
    return visible(excerpts(found?.from, found?.to).join(""));
  });
  return `${displayName}${mail === "" ? "" : ` <${mail}>`}`;
}

/** `mail: a@x → b@x`. */
function edit({ attribute, from, to }: AttributeChange, paint: Paint): string {
  const [before, after] = excerpts(from, to);
  return (
    `${attribute}: ${from === undefined ? "(unset)" : paint("red", quoteIfNeeded(before))}` +
    ` → ${to === undefined ? "(unset)" : paint("green", quoteIfNeeded(after))}`
  );
}

/** `+board −analysts`, each list cut where `room` ends. */
function membershipsOf({ groupsAdded, groupsRemoved }: Change, paint: Paint, room: number): string {
  const share = groupsAdded.length > 0 && groupsRemoved.length > 0 ? room / 2 : room;
  const listed = (groups: readonly string[], sign: string, style: Style, word: string): string => {
    if (groups.length === 0) return "";
    const names = fitting(groups, share);
    const more = groups.length - names.length;
    const cut = more > 0 ? paint("dim", ` … ${number(more)} more ${word}`) : "";
    return `  ${names.map((name) => paint(style, sign + name)).join(" ")}${cut}`;
  };
  return listed(groupsAdded, "+", "green", "added") + listed(groupsRemoved, "−", "red", "removed");
}

/** As many names as fit into `room` columns, but at least three. */
function fitting(groups: readonly string[], room: number): string[] {
  const names: string[] = [];
  let columns = 0;
  for (const group of groups) {
    const name = quoteIfNeeded(group);
    columns += name.length + 2;
    if (names.length >= 3 && columns > room) break;
    names.push(name);
  }
  return names;
}
