import type { HostedCycle, HostedTable, TableName } from "#service/host.ts";
import { formatNumber, inBytes, pluralize } from "#text.ts";
import { badge, empty, id, name, none, section, table as rowsTable, when } from "#console/components.ts";
import type { Column, Timed } from "#console/components.ts";
import type { Protected } from "#console/forms.ts";
import { at, html, withQuery } from "#console/html.ts";
import type { Html } from "#console/html.ts";

/** The largest file, in bytes and as a person reads it. */
export interface LargestFile {
  readonly largest: number;
  readonly text: string;
}

export interface LoadsPage extends Timed {
  readonly tables: readonly HostedTable[];
  /** Newest first. */
  readonly cycles: readonly HostedCycle[];
  readonly size: LargestFile;
}

/** The tables, and what is or was loaded into them. */
export function loads({ now, tables, cycles, size }: LoadsPage): Html {
  return html`<h1>Loads</h1>
    ${section(
      "cycles",
      "Recent loads",
      cycles.length === 0 ? empty(html`<p>Nothing has been loaded yet.</p>`, "loads") : cycleList(cycles, now),
    )}
    ${section("tables", "Tables", tables.length === 0 ? noTables() : allTables(tables, size))}`;
}

function allTables(tables: readonly HostedTable[], size: LargestFile): Html {
  return html`<p class="quiet">
      Open a table to load a file into it, or drop the file on its row. Nothing is loaded before you have seen how it
      would be read.
    </p>
    ${tableList(tables, size)}`;
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

function targetOf({ database, schema, name: table }: HostedTable): TableName {
  return { database, schema, table };
}

function tableList(tables: readonly HostedTable[], size: LargestFile): Html {
  return rowsTable<HostedTable>(
    "All tables",
    [
      {
        label: "Table",
        kind: "head",
        sort: (each) => `${each.database}.${each.name}`,
        cell: (each) =>
          html`<a href="${tableAddress(targetOf(each))}"
            ><span class="quiet">${path(each.database, each.schema)}.</span>${name(each.name)}</a
          >`,
      },
      {
        label: "Columns",
        cell: ({ columns }) => html`<span class="cut">${name(columns.map((each) => each.name).join(", "))}</span>`,
      },
      { label: "Key", cell: ({ primaryKey }) => (primaryKey.length === 0 ? none : name(primaryKey.join(", "))) },
      { label: "Rows", kind: "number", sort: ({ rows }) => rows, cell: rowsOf },
    ],
    tables,
    (each) => each.problem === undefined && dropsOn(targetOf(each), size),
  );
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

export interface TablePage extends Timed, Protected {
  readonly table: HostedTable;
  readonly cycles: readonly HostedCycle[];
  readonly size: LargestFile;
}

/** A table: its columns, and the form that takes a file for it. */
export function table({ now, table: of, cycles, size, token }: TablePage): Html {
  const { database, schema, name: called, columns, problem, rows } = of;
  const target = { database, schema, table: called };
  return html`<hgroup>
      <h1>${name(called)} <small>in ${path(database, schema)}</small></h1>
      <p class="quiet">${rowsOf(of)} ${rows === 1 ? "row" : "rows"}, ${pluralize(columns.length, "column")}</p>
    </hgroup>
    ${section(
      "file",
      "Load a file",
      problem === undefined ? fileForm(target, size, token) : empty(html`<p>Loads cannot write to it: ${problem}.</p>`),
    )}
    ${cycles.length > 0 && section("cycles", "Recent loads", cycleList(cycles, now))}
    ${section("columns", "Columns", columnList(of))}`;
}

function columnList({ columns, primaryKey }: HostedTable): Html {
  return html`<p class="quiet">
      Fields go to columns by position.
      ${primaryKey.length > 0 ? "A row whose key is known replaces it." : "It has no key: rows are added."}
    </p>
    ${rowsTable<HostedTable["columns"][number]>(
      "Columns of the table",
      [
        { label: "Column", kind: "head", cell: (column) => name(column.name) },
        { label: "Type", cell: ({ type }) => html`<code>${type}</code>` },
        {
          label: "Null",
          cell: (column) => (primaryKey.includes(column.name) ? "no, part of the key" : column.nullable ? "yes" : "no"),
        },
      ],
      columns,
    )}`;
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
  const columns: readonly (Column<HostedCycle> | false)[] = [
    {
      label: "Load",
      kind: "head",
      cell: ({ id: of, file }) =>
        html`<a href="${at("/loads", of)}">${file === undefined ? id(of.slice(0, 8)) : name(file)}</a>`,
    },
    { label: "State", kind: "status", cell: cycleState },
    { label: "Table", cell: ({ table: into }) => tableName(into) },
    {
      label: "Rows",
      kind: "number",
      cell: ({ status }) => status.internal_stage === "DONE" && formatNumber(Number(status.rows_written)),
    },
    {
      label: "Rejected",
      kind: "number",
      cell: ({ status: { ignored_row_count: bad } }) =>
        bad !== "0" && html`<span class="bad">${formatNumber(Number(bad))}</span>`,
    },
    { label: "Size", kind: "number", cell: ({ status }) => inBytes(sizeOf(status)) },
    { label: "Began", cell: ({ status }) => when(beganAt(status), now) },
    others && { label: "By", cell: ({ by }) => (by === undefined ? "you" : name(by)) },
  ];
  return rowsTable(
    "Loads",
    columns.filter((column) => column !== false),
    cycles,
  );
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
  return withQuery("/loads/table", { ...table });
}

function uploadAddress(table: TableName): string {
  return withQuery("/loads/upload", { ...table });
}
