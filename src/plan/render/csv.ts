import { textsOf } from "#plan/change.ts";
import type { Change, Plan } from "#plan/change.ts";
import { inChunks } from "./shared.ts";
import { csvField, visible } from "#text.ts";

/** The first characters of a formula by OWASP's list ("CSV injection"), with the wide forms of East Asian keyboards. */
export const formula = /^[=+\-@\t\r\n＝＋－＠]/;

const columns = ["kind", "name", "action", "what", "from", "to"] as const;

/**
 * A plan as CSV for a spreadsheet: a row for each attribute and each membership that changes, in the order of
 * `Plan.changes`, with a header. `what` is an attribute or `membership`; an unset value is empty, without quotes.
 *
 * It is for people: formulas get an apostrophe in front, hidden characters are written as `\u{202e}`, and a byte order
 * mark tells spreadsheets that this is UTF-8. JSON has everything as it is.
 */
export function renderCsv(plan: Plan | undefined): AsyncIterable<string> {
  return inChunks(lines(plan));
}

async function* lines(plan: Plan | undefined): AsyncIterable<string> {
  yield `\uFEFF${csvLine(columns)}`;
  if (plan === undefined) return;
  for await (const change of plan.changes()) yield rowsOf(change);
}

function rowsOf({ kind, name, action, attributes, groupsAdded, groupsRemoved }: Change): string {
  const row = (what: string, from?: string, to?: string): string => csvLine([kind, name, action, what, from, to]);
  return [
    ...attributes.map((each) => {
      const { from, to } = textsOf(each);
      return row(each.attribute, from, to);
    }),
    ...groupsRemoved.map((group) => row("membership", group)),
    ...groupsAdded.map((group) => row("membership", undefined, group)),
  ].join("");
}

/** A row for a spreadsheet: formulas get an apostrophe in front, hidden characters are visible, and what is unset is empty. */
export function csvLine(values: readonly (string | undefined)[]): string {
  return `${values.map((value) => (value === undefined ? "" : field(value))).join(",")}\n`;
}

function field(value: string): string {
  const text = visible(value);
  return csvField(formula.test(text) ? `'${text}` : text);
}
