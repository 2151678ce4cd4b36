import { html as template, raw } from "hono/html";
import { visible } from "#text.ts";

/** Text of a page. Only `html`, `exactValue` and `drawing` make it. */
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

/** An address below the console: `at("/runs", id, "plan")`, with a query where there is one. */
export function at(path: string, ...steps: readonly string[]): string {
  return [path, ...steps.map(encodeURIComponent)].join("/");
}

/** What a drawing may have: shapes and text, with attributes that neither run nor load anything. */
const harmless =
  /^<svg(?: [\w:-]+="[^"<>]*")*>(?:[^<>]|<(?:g|path|line|rect|circle|text|tspan)(?: (?!on|style|href|xlink)[\w-]+="[^"<>]*")* ?\/?>|<\/(?:g|path|line|rect|circle|text|tspan)>)*<\/svg>$/;

/**
 * A chart as the library has drawn it, without what a page does not need: its size, which is that of its place, and numbers
 * finer than a screen.
 * @throws when it has more than shapes and text
 */
export function drawing(svg: string, label: string): Html {
  if (!harmless.test(svg)) throw new Error("the drawing of a chart has more than shapes and text");
  const box = /^<svg[^>]*? viewBox="([\d. -]+)"/.exec(svg)?.[1] ?? "";
  const content = svg
    .slice(svg.indexOf(">") + 1, -"</svg>".length)
    .replaceAll(/<text(?: [\w-]+="[^"<>]*")* opacity="0">[^<>]*<\/text>/g, "")
    .replaceAll(/<path class="(?:background|foreground)"[^>]*\/>/g, "")
    .replaceAll(/ (?:opacity="1"|pointer-events="none"|stroke-miterlimit="\d+")(?=[ />])/g, "")
    .replaceAll(/ (?:d|transform|x2|y2)="[^"]*"/g, (attribute) => attribute.replaceAll(/(\.\d)\d+/g, "$1"));
  return html`<svg
    viewBox="${box}"
    class="chart"
    role="graphics-document"
    aria-roledescription="chart"
    aria-label="${label}"
  >
    ${raw(content)}
  </svg>`;
}
