import type { Change, Plan } from "#plan/change.ts";
import { inChunks } from "./shared.ts";
import { visible } from "#text.ts";

/** What OWASP names as the beginnings of formulas ("CSV injection"), the wide forms of East Asian keyboards included. */
export const formula = /^[=+\-@\t\r\n＝＋－＠]/;

const columns = ["kind", "name", "action", "what", "from", "to"] as const;

/**
 * A plan as CSV for a spreadsheet: a row for each attribute and each membership that changes, in the order of
 * `Plan.changes`, with a header. `what` is an attribute or `membership`; what is unset is empty, and not enclosed.
 *
 * It is for people: what a spreadsheet would run as a formula begins with an apostrophe, what cannot be seen in a name
 * is written as `\u{202e}`, and the mark by which a spreadsheet knows UTF-8 comes first. JSON has everything as it is.
 */
export function renderCsv(plan: Plan | undefined): AsyncIterable<string> {
  return inChunks(lines(plan));
}

async function* lines(plan: Plan | undefined): AsyncIterable<string> {
  yield `\uFEFF${line(columns)}`;
  if (plan === undefined) return;
  for await (const change of plan.changes()) yield rowsOf(change);
}

function rowsOf({ kind, name, action, attributes, groupsAdded, groupsRemoved }: Change): string {
  const row = (what: string, from?: string, to?: string): string => line([kind, name, action, what, from, to]);
  return [
    ...attributes.map(({ attribute, from, to }) => row(attribute, from, to)),
    ...groupsRemoved.map((group) => row("membership", group)),
    ...groupsAdded.map((group) => row("membership", undefined, group)),
  ].join("");
}

function line(values: readonly (string | undefined)[]): string {
  return `${values.map((value) => (value === undefined ? "" : enclosed(value))).join(",")}\n`;
}

function enclosed(value: string): string {
  const shown = visible(value);
  return `"${(formula.test(shown) ? `'${shown}` : shown).replaceAll('"', '""')}"`;
}
