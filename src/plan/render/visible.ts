/**
 * What must not reach a reader as it is: names come from foreign directories, and these move the cursor, reorder the
 * text around them, or cannot be seen. The space and the ideographic space are ordinary text.
 */
const hidden = /[[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]--[\u{20}\u{3000}]]/gv;

/** Foreign text that can be shown: what is hidden in it is written as `\u{202e}`. */
export function visible(text: string): string {
  return text.replaceAll(hidden, (character) => `\\u{${character.codePointAt(0)?.toString(16).padStart(4, "0")}}`);
}

/** Visible, and in quotes where its edges could be mistaken: `"Finance Team"`. */
export function quoted(text: string): string {
  const shown = visible(text);
  return shown === "" || /[\s"'(),;<>→]/u.test(shown) ? `"${shown}"` : shown;
}

const longest = 80;

/** Two values that differ, long ones cut to 80 characters around the first place where they do. */
export function excerpts(from = "", to = ""): [from: string, to: string] {
  const [before, after] = [Array.from(from), Array.from(to)];
  if (Math.max(before.length, after.length) <= longest) return [from, to];
  let differs = 0;
  while (differs < before.length && before[differs] === after[differs]) differs++;
  const start = Math.max(0, differs - longest / 4);
  const cut = (value: string[]): string =>
    (start > 0 ? "…" : "") + value.slice(start, start + longest).join("") + (value.length > start + longest ? "…" : "");
  return [cut(before), cut(after)];
}

/** How much of both there is: `1,234 users, 1 group`. */
export function sizes(users: number, groups: number): string {
  return `${number(users)} ${users === 1 ? "user" : "users"}, ${number(groups)} ${groups === 1 ? "group" : "groups"}`;
}

const format = new Intl.NumberFormat("en");

/** A count for a person: `1,234`. */
export function number(count: number): string {
  return format.format(count);
}

/** A number of things, for a person: `1 row`, `5,000 rows`. */
export function counted(count: number, what: string): string {
  return `${number(count)} ${what}${count === 1 ? "" : "s"}`;
}
