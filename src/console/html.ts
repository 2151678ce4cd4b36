import { html as template } from "hono/html";
import type { raw } from "hono/html";
import { visible } from "#text.ts";

/** Text of a page. Only `html` and `exactValue` make it. */
export type Html = ReturnType<typeof raw>;

/** What a page is made of: text is escaped, lists are joined; `false` and `undefined` are left out. */
export type Part = string | number | false | undefined | Html | readonly Part[];

/**
 * A piece of a page. Text from outside is harmless in it, in elements and in quoted attributes: it is escaped, and its
 * hidden characters are written as `\u{202e}`.
 */
export function html(strings: TemplateStringsArray, ...values: readonly Part[]): Html {
  // Without promises among the values, there is none to wait for.
  return template(strings, ...values.map(shown)) as Html;
}

function shown(value: Part): unknown {
  if (typeof value === "string") return visible(value);
  return Array.isArray(value) ? value.map((each: Part) => shown(each)) : value;
}

/** Text that comes back as it was, such as the value of a hidden field: escaped, with its hidden characters. */
export function exactValue(text: string): Html {
  return template`${text}` as Html;
}

/** An address below the console: `at("/runs", id, "plan")`. */
export function at(path: string, ...steps: readonly string[]): string {
  return [path, ...steps.map(encodeURIComponent)].join("/");
}

/** Fields of a form or a query: text, or several values of one name. */
export type Fields = Readonly<Record<string, string | readonly string[] | undefined>>;

/** An address with a query; what is undefined or empty is left out. */
export function withQuery(path: string, fields: Fields): string {
  const query = queryOf(fields).toString();
  return query === "" ? path : `${path}?${query}`;
}

/** The fields that are filled in. */
export function queryOf(fields: Fields): URLSearchParams {
  const pairs = Object.entries(fields).flatMap(([name, values]) =>
    [values ?? []].flat().flatMap((value) => (value === "" ? [] : [[name, value]])),
  );
  return new URLSearchParams(pairs);
}
