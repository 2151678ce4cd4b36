import type { HostPinboard, HostVisualization } from "#service/host.ts";
import { formatNumber, pluralize, visible } from "#text.ts";
import { isNumeric } from "#console/charts/columns.ts";
import type { Result } from "#console/charts/columns.ts";
import type { Figure } from "#console/charts/figure.ts";
import { empty, list, name, notice, pager, when, none, table as rowsTable } from "#console/components.ts";
import type { Column } from "#console/components.ts";
import { at, html } from "#console/html.ts";
import type { Html, Part } from "#console/html.ts";

/** The list of pinboards. */
export function pinboards({ now, list }: { readonly now: number; readonly list: readonly HostPinboard[] }): Html {
  return html`<h1>Pinboards</h1>
    ${
      list.length === 0
        ? empty(
            html`<p>There are no pinboards. A pinboard is a YAML file in the folder <code>service.pinboards</code>.</p>
              <p>After adding one, run <code>rollcall reload</code>.</p>`,
          )
        : html`<div class="cards">
            ${list.map(
              ({ id, name: called, description, modified, visualizations }) =>
                html`<article class="card" data-row>
                  <header>
                    <h2><a href="${at("/pinboards", id)}">${name(called)}</a></h2>
                  </header>
                  ${description !== undefined && description !== "" && html`<p><bdi>${description}</bdi></p>`}
                  <p class="quiet">
                    ${contentOf(visualizations)}<br />changed ${when(new Date(modified).toISOString(), now)}
                  </p>
                </article>`,
            )}
          </div>`
    }`;
}

function contentOf(visualizations: readonly HostVisualization[]): string {
  if (visualizations.length === 0) return "nothing on it yet";
  const counts = [
    ["HEADLINE", "headline figure"],
    ["CHART", "chart"],
    ["TABLE", "table"],
  ] as const;
  return counts
    .map(([type, what]) => [visualizations.filter((each) => each.type === type).length, what] as const)
    .filter(([count]) => count > 0)
    .map(([count, what]) => pluralize(count, what))
    .join(", ");
}

/** What a visualization shows. */
export type Shown =
  /** Its query, or the drawing, failed. */
  | {
      readonly kind: "problem";
      readonly message: string;
      readonly problems?: readonly string[];
      readonly status?: number;
      /** There are rows, too large for a page. */
      readonly isLarge?: boolean;
    }
  /** It is not there yet, or there is too much on the page: it is fetched by itself. */
  | { readonly kind: "later" }
  | { readonly kind: "rows"; readonly result: Page; readonly chart?: Drawn | undefined };

/** Some rows of a result. */
export interface Page extends Result {
  readonly offset: number;
  readonly pageSize: number;
}

/** A chart in the sizes it is shown in, or why it cannot be drawn. */
export type Drawn = { readonly problem: string } | { readonly figures: readonly Figure[] };

export interface Visualization {
  readonly pinboard: HostPinboard;
  readonly visualization: HostVisualization;
  readonly shown: Shown;
}

/** A pinboard with what its visualizations show: figures first, then the others in its order. */
export function pinboard(board: HostPinboard, cards: readonly Html[]): Html {
  const { name: called, description, visualizations } = board;
  const isHeadline = (index: number): boolean => visualizations[index]?.type === "HEADLINE";
  const headlines = cards.filter((_, index) => isHeadline(index));
  const others = cards.filter((_, index) => !isHeadline(index));
  return html`<h1>${name(called)}</h1>
    ${description !== undefined && description !== "" && html`<p class="quiet"><bdi>${description}</bdi></p>`}
    ${
      visualizations.length === 0
        ? empty(html`<p>Nothing is on this pinboard yet. Its file lists them under <code>visualizations</code>.</p>`)
        : html`${headlines.length > 0 && html`<div class="headlines">${headlines}</div>`}
            <div class="pinboard">${others}</div>`
    }`;
}

/** A visualization among others on its pinboard. */
export function card({ pinboard, visualization, shown }: Visualization): Html {
  const { id, title, type } = visualization;
  const own = addressOf(pinboard, visualization);
  const isLater = shown.kind === "later";
  return html`<article
    class="card ${type === "TABLE" && isBroad(shown) && "broad"}"
    id="viz-${id.toLowerCase()}"
    data-row
    aria-label="${title}"
    ${
      isLater &&
      html`hx-get="${own}?as=card" hx-trigger="revealed" hx-select="#viz-${id.toLowerCase()}" hx-swap="outerHTML"`
    }
  >
    <header>
      <h2><a href="${own}">${name(title)}</a></h2>
    </header>
    ${shown.kind === "problem" && failed(shown)}
    ${shown.kind === "later" && html`<p class="quiet">The query is running. <a href="${own}">Show only this one</a></p>`}
    ${shown.kind === "rows" && content(visualization, shown, own)}
  </article>`;
}

/** A visualization on a page of its own, with all its rows. */
export function single({ pinboard, visualization, shown }: Visualization): Html {
  const { title } = visualization;
  const own = addressOf(pinboard, visualization);
  return html`<h1>${name(title)}</h1>
    ${shown.kind === "problem" && html`${failed(shown)} ${shown.isLarge === true && download(own)}`}
    ${
      shown.kind === "rows" &&
      html`${visualization.type === "HEADLINE" && figures(shown.result)}
      ${shown.chart !== undefined && chart(shown.chart)} ${rows(shown.result, title, "all")}
      ${pager("Pages", { ...shown.result, count: shown.result.totalRowCount }, (from) => (from === 0 ? own : `${own}?from=${from}`))}
      ${shown.result.totalRowCount > 0 && download(own)}`
    }`;
}

/** Whether a table needs more room than a chart. */
function isBroad(shown: Shown): boolean {
  return shown.kind === "rows" && shown.result.columnNames.length > 3;
}

function download(own: string): Html {
  return html`<p class="downloads">Download: <a href="${own}/download" download>CSV</a></p>`;
}

function addressOf({ id }: HostPinboard, visualization: HostVisualization): string {
  return at("/pinboards", id, visualization.id);
}

function failed({ message, problems = [] }: Extract<Shown, { kind: "problem" }>): Html {
  return notice(
    "bad",
    html`<p><bdi>${message}</bdi></p>
      ${list(problems.map((each) => html`<bdi>${each}</bdi>`))}`,
  );
}

function content(
  { type, title }: HostVisualization,
  { result, chart: drawn }: Extract<Shown, { kind: "rows" }>,
  own: string,
): Html {
  if (result.totalRowCount === 0 && type !== "HEADLINE") return html`<p class="quiet">No rows.</p>`;
  if (type === "HEADLINE")
    return html`${figures(result)}
    ${result.totalRowCount > 1 && html`<p class="quiet"><a href="${own}">All ${formatNumber(result.totalRowCount)} rows</a></p>`}`;
  const excerpt = html`${rows(result, title, "first")} ${more(result, own)}`;
  if (drawn === undefined) return excerpt;
  if ("problem" in drawn) return html`${chart(drawn)} ${excerpt}`;
  return html`${chart(drawn)}
    <details class="rows">
      <summary>As a table</summary>
      ${excerpt}
    </details>`;
}

function more({ rows, totalRowCount }: Page, own: string): Html | false {
  if (rows.length >= totalRowCount) return false;
  return html`<p class="quiet">
    The first ${formatNumber(rows.length)} of ${pluralize(totalRowCount, "row")}. <a href="${own}">Show all</a>
  </p>`;
}

/** The first row, each value a figure. */
function figures({ columnNames, rows: [first] }: Result): Html {
  if (first === undefined) return html`<p class="quiet">No rows.</p>`;
  return html`<dl class="figures">
    ${columnNames.slice(0, mostFigures).map(
      (column, index) =>
        html`<div>
          <dt><bdi>${cut(column, 60)}</bdi></dt>
          <dd><bdi>${figure(first[index])}</bdi></dd>
        </div>`,
    )}
  </dl>`;
}

const mostFigures = 12;

function figure(value: unknown): Part {
  if (value === null || value === undefined) return html`<span class="quiet">–</span>`;
  if (typeof value === "number") return grouped(String(value));
  return isNumeric(value) ? grouped(String(value)) : cut(textOf(value), 120);
}

/** A number with separators of thousands, every digit as it is. */
function grouped(digits: string): string {
  const [, sign = "", whole = "", rest = ""] = /^(-?)(\d+)(.*)$/.exec(digits) ?? [];
  if (digits.includes("e")) return digits;
  return `${sign === "" ? "" : "−"}${whole.replaceAll(/\B(?=(?:\d{3})+$)/g, ",")}${rest}`;
}

/* Charts */

function chart(drawn: Drawn): Html {
  if ("problem" in drawn) return notice("waiting", html`<p><bdi>${drawn.problem}</bdi></p>`);
  const [first] = drawn.figures;
  return html`<figure class="drawn">
    ${drawn.figures.map(
      ({ svg, notes }, index) =>
        html`<div class="${drawn.figures.length === 1 ? "" : index === 0 ? "only-narrow" : "only-wide"}">
          ${svg} ${notes.length > 0 && html`<figcaption>${notes.map((note) => html`${note} `)}</figcaption>`}
        </div>`,
    )}
    ${first !== undefined && legend(first)}
  </figure>`;
}

function legend({ legend: entries, mark }: Figure): Html | false {
  if (entries.length === 0) return false;
  return html`<ul class="legend">
    ${entries.map(
      ({ name: of, dash = "" }, index) =>
        html`<li>
          <svg viewBox="0 0 24 10" aria-hidden="true" class="series-${index + 1}">
            ${
              mark === "line"
                ? html`<line x2="24" y1="5" y2="5" ${dash !== "" && html`stroke-dasharray="${dash}"`} />`
                : html`<rect width="24" height="10" />`
            }
          </svg>
          ${name(of)}
        </li>`,
    )}
  </ul>`;
}

/* Tables */

/** The most columns of a table; a download has all of them. */
const mostColumns = { first: 8, all: 30 } as const;

/** The longest piece of a page, in bytes, and how many characters of a value are shown, as far as there is room. */
const longest = { first: 24_000, all: 200_000 } as const;
const lengths = { first: [100, 60, 30, 15, 8], all: [300, 120, 60, 30, 15, 8] } as const;

/** A table that never makes a page too long: values are cut as far as they must be. */
function rows(result: Page, title: string, extent: "first" | "all"): Html {
  if (result.totalRowCount === 0) return empty(html`<p>The query returns no rows.</p>`);
  const columns = mostColumns[extent];
  let whole: Html | undefined;
  for (const length of lengths[extent]) {
    if (length > 8 && sizeOf(result, columns, length) > longest[extent]) continue;
    whole = table(result, title, columns, length);
    if (Buffer.byteLength(whole.toString()) <= longest[extent]) break;
  }
  return whole ?? html``;
}

/** About how long a table is, in bytes: hidden and foreign characters take more. */
function sizeOf({ rows }: Page, columns: number, length: number): number {
  let size = 0;
  for (const row of rows)
    for (const value of row.slice(0, columns)) size += 40 + Math.min(length, textOf(value).length);
  return size;
}

function table({ columnNames, rows }: Page, title: string, columns: number, length: number): Html {
  const shown = columnNames.slice(0, columns);
  const left = columnNames.length - shown.length;
  const isCut = rows.some((row) => row.some((value) => textOf(value).length > length));
  return html`${rowsTable(
    `Rows of ${title}`,
    shown.map((column, index): Column<readonly unknown[]> => {
      const values = rows.map((row) => row[index]).filter((value) => value !== null);
      const isNumber = values.length > 0 && values.every((value) => isNumeric(value));
      return {
        label: cut(column, Math.min(length, 60)),
        kind: isNumber ? "number" : undefined,
        cell: (row) => cell(row[index], length),
      };
    }),
    rows,
  )}
  ${left > 0 && html`<p class="quiet">${pluralize(left, "more column")}: the download has all of them.</p>`}
  ${isCut && html`<p class="quiet">Long values are cut: the download has them whole.</p>`}`;
}

function cell(value: unknown, length: number): Part {
  if (value === null || value === undefined) return none;
  const text = cut(textOf(value), length);
  return text.length > 40 ? html`<bdi class="long">${text}</bdi>` : html`<bdi>${text}</bdi>`;
}

function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Hidden characters are visible before it is cut, so that what is shown is never longer. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text;
  return `${visible(text.slice(0, length))
    .slice(0, length - 1)
    .toWellFormed()}…`;
}
