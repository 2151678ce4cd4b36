import type { HostedCycle, HostedTable, TableName } from "#service/host.ts";
import { formatNumber, inBytes, pluralize } from "#text.ts";
import { badge, empty, name, when } from "#console/components.ts";
import { at, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";

/** The largest file, in bytes and as a person reads it. */
export interface LargestFile {
  readonly largest: number;
  readonly text: string;
}

export interface LoadsPage {
  /** In epoch milliseconds. */
  readonly now: number;
  readonly tables: readonly HostedTable[];
  /** Newest first. */
  readonly cycles: readonly HostedCycle[];
  readonly size: LargestFile;
}

/** The tables, and what is or was loaded into them. */
export function loads({ now, tables, cycles, size }: LoadsPage): Html {
  return html`<h1>Loads</h1>
    <section aria-labelledby="cycles">
      <h2 id="cycles">Recent loads</h2>
      ${cycles.length === 0 ? empty(html`<p>None.</p>`) : cycleList(cycles, now)}
    </section>
    <section aria-labelledby="tables">
      <h2 id="tables">Tables</h2>
      ${tables.length === 0 ? noTables() : html`${tables.length > 0 && html`<p class="quiet">Open a table to load a file into it, or drop the file on its row. Nothing is loaded before you have seen how it would be read.</p>`}${tableList(tables, size)}`}
    </section>`;
}

function noTables(): Html {
  return empty(
    html`<p>There are no tables yet.</p>
      <p>
        Name a file of <code>CREATE TABLE</code> statements in <code>service.tables</code>, or run
        <code>rollcall sql "CREATE TABLE …"</code>.
      </p>`,
  );
}

function tableList(tables: readonly HostedTable[], size: LargestFile): Html {
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th scope="col">Table</th>
          <th scope="col" class="wide">Columns</th>
          <th scope="col" class="wide">Key</th>
          <th scope="col" class="number">Rows</th>
        </tr>
      </thead>
      <tbody>
        ${tables.map((table) => tableRow(table, size))}
      </tbody>
    </table>
  </div>`;
}

function tableRow(table: HostedTable, size: LargestFile): Html {
  const { database, schema, name: called, columns, primaryKey, problem } = table;
  const target = { database, schema, table: called };
  const names = columns.map((column) => column.name);
  return html`<tr data-row ${problem === undefined && dropsOn(target, size)}>
    <th scope="row">
      <a href="${tableAddress(target)}"><span class="quiet">${path(database, schema)}.</span>${name(called)}</a>
    </th>
    <td class="wide"><span class="cut">${name(names.join(", "))}</span></td>
    <td class="wide">
      ${primaryKey.length === 0 ? html`<span class="quiet">none</span>` : name(primaryKey.join(", "))}
    </td>
    <td class="number">${rowsOf(table)}</td>
  </tr>`;
}

/** Where the files go that are dropped on an element. */
function dropsOn(table: TableName, { largest, text }: LargestFile): Html {
  return html`data-drop="${uploadAddress(table)}" data-table="${table.table}" data-largest="${largest}"
  data-largest-text="${text}"`;
}

function rowsOf({ rows, isEstimated }: HostedTable): string {
  return `${isEstimated ? "about " : ""}${formatNumber(rows)}`;
}

/** What comes before the name of a table; the usual schema goes without saying. */
function path(database: string, schema: string): Html {
  return schema === "core_default_schema" ? name(database) : html`${name(database)}.${name(schema)}`;
}

/** A table, wherever it is named. */
export function tableName({ database, schema, table }: TableName): Html {
  return html`<a href="${tableAddress({ database, schema, table })}">${path(database, schema)}.${name(table)}</a>`;
}

export interface TablePage {
  /** In epoch milliseconds. */
  readonly now: number;
  readonly table: HostedTable;
  readonly cycles: readonly HostedCycle[];
  readonly size: LargestFile;
  /** The hidden field that proves where the form comes from. */
  readonly token: Html;
}

/** A table: its columns, and the form that takes a file for it. */
export function table({ now, table: of, cycles, size, token }: TablePage): Html {
  const { database, schema, name: called, columns, primaryKey, problem, rows } = of;
  const target = { database, schema, table: called };
  return html`<hgroup>
      <h1>${name(called)} <small>in ${path(database, schema)}</small></h1>
      <p class="quiet">${rowsOf(of)} ${rows === 1 ? "row" : "rows"}, ${pluralize(columns.length, "column")}</p>
    </hgroup>
    <section aria-labelledby="file">
      <h2 id="file">Load a file</h2>
      ${problem === undefined ? fileForm(target, size, token) : empty(html`<p>Loads cannot write to it: ${problem}.</p>`)}
    </section>
    ${
      cycles.length > 0 &&
      html`<section aria-labelledby="cycles">
        <h2 id="cycles">Recent loads</h2>
        ${cycleList(cycles, now)}
      </section>`
    }
    <section aria-labelledby="columns">
      <h2 id="columns">Columns</h2>
      <p class="quiet">
        Fields go to columns by position.
        ${primaryKey.length > 0 ? "A row whose key is known replaces it." : "It has no key: rows are added."}
      </p>
      <div class="scroll">
        <table class="narrow">
          <thead>
            <tr>
              <th scope="col">Column</th>
              <th scope="col">Type</th>
              <th scope="col">Null</th>
            </tr>
          </thead>
          <tbody>
            ${columns.map(
              (column) =>
                html`<tr>
                  <th scope="row">${name(column.name)}</th>
                  <td><code>${column.type}</code></td>
                  <td class="quiet">
                    ${primaryKey.includes(column.name) ? "no, part of the key" : column.nullable ? "yes" : "no"}
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </section>
    <p><a href="/loads">All tables and loads</a></p>`;
}

function fileForm(target: TableName, size: LargestFile, token: Html): Html {
  // The token comes before the file, so that a forged form is refused before its file is read.
  return html`<form
    method="post"
    action="${uploadAddress(target)}"
    enctype="multipart/form-data"
    class="dropzone"
    data-upload
    ${dropsOn(target, size)}
  >
    ${token}
    <label>A file of CSV or delimited text in UTF-8 <input type="file" name="file" required /></label>
    <p class="buttons"><button type="submit">Look at it</button></p>
    <p class="quiet">
      Nothing is loaded before you have seen how it would be read. At most ${size.text}; gzip and zstd are unpacked.
    </p>
  </form>`;
}

/** What is loaded where no service has the listener. */
export function elsewhere({ target }: { readonly target: string | undefined }): Html {
  const flag = target === undefined ? "" : ` --target ${target}`;
  return html`<h1>Loads</h1>
    ${empty(
      html`<p>
          This console belongs to a daemon alone. Tables and loads are not offered here: they are with the service.
        </p>
        <p>
          Open the console of that service, or load from here with
          <code>rollcall load FILE --table DATABASE.TABLE${flag}</code>.
        </p>`,
    )}`;
}

/** Cycles, one a row. */
export function cycleList(cycles: readonly HostedCycle[], now: number): Html {
  const others = cycles.some(({ by }) => by !== undefined);
  return html`<div class="scroll">
    <table class="loads">
      <thead>
        <tr>
          <th scope="col">State</th>
          <th scope="col">Load</th>
          <th scope="col">Table</th>
          <th scope="col" class="number">Rows</th>
          <th scope="col" class="number">Bad</th>
          <th scope="col" class="number wide">Size</th>
          <th scope="col" class="wide">Began</th>
          ${others && html`<th scope="col" class="wide">By</th>`}
        </tr>
      </thead>
      <tbody>
        ${cycles.map((cycle) => cycleRow(cycle, now, others))}
      </tbody>
    </table>
  </div>`;
}

function cycleRow(cycle: HostedCycle, now: number, others: boolean): Html {
  const { id, table: into, file, by, status } = cycle;
  const isOver = status.internal_stage === "DONE";
  const bad = Number(status.ignored_row_count);
  return html`<tr data-row>
    <td>${cycleState(cycle)}</td>
    <th scope="row">
      <a href="${at("/loads", id)}">${file === undefined ? html`<code>${id.slice(0, 8)}</code>` : name(file)}</a>
    </th>
    <td>${tableName(into)}</td>
    <td class="number">${isOver ? formatNumber(Number(status.rows_written)) : html`<span class="quiet">–</span>`}</td>
    <td class="number">
      ${bad > 0 ? html`<span class="bad">${formatNumber(bad)}</span>` : isOver ? "0" : html`<span class="quiet">–</span>`}
    </td>
    <td class="number wide">${inBytes(sizeOf(status))}</td>
    <td class="wide">${when(beganAt(status), now)}</td>
    ${others && html`<td class="wide">${by === undefined ? "you" : name(by)}</td>`}
  </tr>`;
}

/** The bytes that have arrived: of a cycle that takes data, those on their way as well. */
export function sizeOf({ bytes_written: complete, buffered_bytes_size: buffered }: HostedCycle["status"]): number {
  return Math.max(Number(complete), Number(buffered));
}

export function beganAt({ start_time: microseconds }: HostedCycle["status"]): string {
  return new Date(Number(microseconds) / 1000).toISOString();
}

/** The state of a cycle. */
export function cycleState({ isDraft, status }: HostedCycle): Html {
  const { internal_stage: stage, status: end, ignored_row_count: ignored, bytes_written: complete } = status;
  if (isDraft)
    return complete === "0" ? badge("info", "running", "arriving") : badge("waiting", "clock", "waits for you");
  if (stage === "INGESTING") return badge("info", "running", "accepts data");
  if (stage === "COMMITTING") return badge("info", "running", "loading");
  if (end.code === "LOAD_FAILED") return badge("bad", "failed", "failed");
  if (end.code === "CANCELLED") return badge("quiet", "none", "cancelled");
  return ignored === "0" ? badge("good", "ok", "loaded") : badge("waiting", "alert", "loaded in part");
}

/** The page of a table. */
export function tableAddress(table: TableName): string {
  return `/loads/table?${queryOf(table)}`;
}

function uploadAddress(table: TableName): string {
  return `/loads/upload?${queryOf(table)}`;
}

function queryOf({ database, schema, table }: TableName): string {
  return new URLSearchParams({ database, schema, table }).toString();
}
