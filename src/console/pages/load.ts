import type { ErrorDocument } from "#errors.ts";
import type { HostedCycle, HostedTable, Preview, PreviewKeys, PreviewRow } from "#service/host.ts";
import { formatNumber, inBytes, pluralize } from "#text.ts";
import { lasting } from "#times.ts";
import { facts, list, moment, name, notice, section, sentence, when } from "#console/components.ts";
import type { Timed } from "#console/components.ts";
import type { FormatGuess } from "#console/context.ts";
import { confirmation, field, hidden, select, tick } from "#console/forms.ts";
import type { Protected } from "#console/forms.ts";
import { at, exactValue, html } from "#console/html.ts";
import type { Html } from "#console/html.ts";
import { fieldsOf, labels } from "#console/load-form.ts";
import type { FieldName, LoadFields } from "#console/load-form.ts";
import { beganAt, cycleState, sizeOf, tableName } from "#console/pages/loads.ts";

export interface DraftPage extends Timed, Protected {
  readonly cycle: HostedCycle;
  /** Undefined: it is gone. */
  readonly table: HostedTable | undefined;
  readonly fields: LoadFields;
  readonly guess?: FormatGuess | undefined;
  readonly preview?: Preview | undefined;
  readonly problem?: ErrorDocument | undefined;
}

/** How a file would be read, before anything of it is loaded. */
export function draft(page: DraftPage): Html {
  const { now, cycle: of, table, fields, guess, token } = page;
  return html`${heading(of, now)}
    <form method="post" action="${at("/loads", of.id, "load")}" class="columns">
      ${token}
      <div>${reading(page)}</div>
      <div
        class="card"
        hx-post="${at("/loads", of.id, "preview")}"
        hx-trigger="input delay:400ms"
        hx-sync="replace"
        hx-include="closest form"
        hx-select="#preview"
        hx-target="#preview"
        hx-swap="outerMorph"
      >
        <h2>How it is read</h2>
        <p class="quiet">Guessed from the beginning of the file. Correct it where it is wrong.</p>
        ${aboutGuess(guess)} ${formatFields(fields, table)}
        <h2>Loading it</h2>
        <div class="fields">${ticked("empty_target", fields)} ${textField("max_ignored_rows", fields, "number")}</div>
        <p class="quiet">
          All or nothing: with more rejected rows than that, nothing is loaded and the table stays as it
          is.${
            table !== undefined &&
            table.rows > 0 &&
            html` It has ${pluralize(table.rows, "row")} now; replacing them happens in the same moment.`
          }
        </p>
      </div>
      <div class="bar">
        <span class="quiet wide"
          >The file is removed when it is loaded or discarded, when the service restarts, and after an hour.</span
        >
        <p class="buttons">
          <button type="submit"><span>Load into ${name(of.table.table)}</span></button>
          <button type="submit" class="secondary" formaction="${at("/loads", of.id, "preview")}">Read it again</button>
          <button type="submit" class="danger secondary" formaction="${at("/loads", of.id, "cancel")}" formnovalidate>
            Discard the file
          </button>
        </p>
      </div>
    </form>`;
}

/** What only a person can decide, and what else was found. */
function aboutGuess(guess: FormatGuess | undefined): Html {
  const { doubts = [], notes = [] } = guess ?? {};
  return html`${doubts.map((doubt) => notice("waiting", html`<p>${sentence(doubt)}</p>`))}
  ${notes.map((note) => notice("info", html`<p>${sentence(note)}</p>`))}`;
}

function heading(of: HostedCycle, now: number): Html {
  const { file, id, table: into, status } = of;
  return html`<hgroup>
    <h1>
      ${file === undefined ? html`Load <code>${id.slice(0, 8)}</code>` : name(file)} <small>→ ${tableName(into)}</small>
    </h1>
    <p>${cycleState(of)} <span class="quiet">${inBytes(sizeOf(status))}, began ${when(beganAt(status), now)}</span></p>
  </hgroup>`;
}

/** The part of the page that follows what is entered. */
function reading({ table, guess, preview, problem, fields }: DraftPage): Html {
  return html`<section id="preview" aria-labelledby="reading">
    <h2 id="reading">As it would be read</h2>
    ${
      problem !== undefined &&
      notice(
        "bad",
        html`<p>${sentence(problem.message)}</p>
          ${list(problem.problems)}`,
        true,
      )
    }
    <div role="status">${preview !== undefined && verdict(preview)}</div>
    ${preview !== undefined && html`${preview.keys !== undefined && aboutKeys(preview.keys, preview.isWhole)} ${rowsOf(preview, table, fields.has_header_row === "" ? [] : (guess?.header ?? []))}`}
  </section>`;
}

function verdict({ accepted, rejected, errors, isWhole }: Preview): Html {
  const all = accepted + rejected;
  const what = isWhole ? "the file" : `the first ${pluralize(all, "row")}; the rest is read when it is loaded`;
  if (all === 0) return notice("waiting", html`<p>There are no rows to load.</p>`);
  if (rejected === 0)
    return notice(
      "good",
      html`<p>
        <b>${pluralize(accepted, "row")}</b> ${isWhole ? "in the file, and none" : html`looked at, and none of them`}
        would be rejected.
      </p>`,
    );
  return notice(
    "bad",
    html`<p><b>${pluralize(rejected, "row")}</b> of ${formatNumber(all)} would be rejected in ${what}:</p>
      ${list(errors)} ${rejected > errors.length && html`<p>… and ${formatNumber(rejected - errors.length)} more.</p>`}
      <p>To load the others, set “${labels.max_ignored_rows}”.</p>`,
  );
}

/** `rows 3, 9, …` */
function numbered(numbers: readonly number[], count = numbers.length): string {
  return `${count === 1 ? "row" : "rows"} ${numbers.map(formatNumber).join(", ")}${count > numbers.length ? ", …" : ""}`;
}

/** What would become of rows by their keys. */
function aboutKeys({ columns, blank, doubled, known }: PreviewKeys, isWhole: boolean): Html {
  const key = html`the key ${name(columns.join(", "))}`;
  return html`${
    blank.count > 0 &&
    notice(
      "waiting",
      html`<p>
        <b>${pluralize(blank.count, "row has a blank", "rows have a blank")}</b> in ${key}:
        ${numbered(blank.rows, blank.count)}.
      </p>`,
    )
  }
  ${
    doubled.count > 0 &&
    notice(
      "waiting",
      html`<p>
          <b>${pluralize(doubled.count, "row")} would not be loaded</b>, because a later row has the same value of
          ${key}. The last one counts.
        </p>
        ${list(doubled.keys.map((each) => html`${name(each.key.join(", "))}: ${numbered(each.rows)}`))}`,
    )
  }
  ${
    known !== undefined &&
    known.of > 0 &&
    notice(
      "info",
      known.count === 0
        ? html`<p>
            None of the ${isWhole ? "" : "first "}${pluralize(known.of, "key")} is in the table: the rows are added.
          </p>`
        : html`<p>
            <b>${pluralize(known.count, "row")} of the table would be replaced</b>: ${formatNumber(known.count)} of the
            ${isWhole ? "" : "first "}${pluralize(known.of, "key")} ${known.count === 1 ? "is" : "are"} there already.
          </p>`,
    )
  }`;
}

function rowsOf({ rows }: Preview, table: HostedTable | undefined, header: readonly string[]): Html | false {
  if (rows.length === 0 || table === undefined) return false;
  const { columns } = table;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="The first rows">
    <table class="previewed">
      <thead>
        <tr>
          <th scope="col" class="number"><span class="aloud">Row</span></th>
          ${columns.map(({ name: called, type }) => html`<th scope="col">${name(called)} <small>${type}</small></th>`)}
        </tr>
        ${
          header.length > 0 &&
          html`<tr class="header">
            <td><small>header</small></td>
            ${columns.map((_, index) => html`<td>${header[index] === undefined ? "–" : name(header[index])}</td>`)}
          </tr>`
        }
      </thead>
      <tbody>
        ${rows.map((row) => previewRow(row, columns.length))}
      </tbody>
    </table>
  </div>`;
}

function previewRow(row: PreviewRow, width: number): Html {
  const number = html`<td class="number quiet">${formatNumber(row.number)}</td>`;
  if ("flaw" in row)
    return html`<tr>
      ${number}
      <td colspan="${width}" class="bad"><span aria-hidden="true">✕</span> rejected: <bdi>${row.flaw}</bdi></td>
    </tr>`;
  return html`<tr>
    ${number}
    ${row.values.map((value) => html`<td>${value === null ? html`<span class="quiet">null</span>` : value === "" ? html`<span class="quiet">empty</span>` : name(value)}</td>`)}
  </tr>`;
}

const types = [
  ["csv", "CSV: quotes, doubled inside"],
  ["delimited", "delimited: escape character, no quotes"],
] as const;

/** What has to be said of the format, for the types that the table has. */
function formatFields(fields: LoadFields, table: HostedTable | undefined): Html {
  const has = (...types: readonly string[]): boolean =>
    table === undefined || table.columns.some(({ type }) => types.some((each) => type.startsWith(each)));
  const dates = has("DATE");
  const datetimes = has("TIMESTAMP");
  const times = has("TIME") && (table === undefined || table.columns.some(({ type }) => type === "TIME"));
  const booleans = has("BOOLEAN");
  // What the table has no column for is sent as it is.
  const unasked = (...names: readonly FieldName[]): Html[] => names.map((each) => hidden(each, fields[each]));
  return html`<div class="fields">
      ${ticked("has_header_row", fields)} ${textField("field_separator", fields, "short")}
      ${textField("enclosing_character", fields, "short")} ${textField("null_value", fields)}
      ${dates ? textField("date_format", fields) : unasked("date_format")}
      ${datetimes ? textField("date_time_format", fields) : unasked("date_time_format")}
      ${times ? textField("time_format", fields) : unasked("time_format")}
      ${dates || datetimes ? ticked("converted_to_epoch", fields) : unasked("converted_to_epoch")}
      ${booleans ? html`${textField("true_format", fields)} ${textField("false_format", fields)}` : unasked("true_format", "false_format")}
    </div>
    <details ${hasUnusual(fields) && html`open`}>
      <summary>More</summary>
      <div class="fields">
        ${field(labels.type, select("type", types, fields.type))} ${textField("escape_character", fields, "short")}
        ${ticked("trailing_field_separator", fields)} ${ticked("flexible", fields)}
        ${datetimes || times ? ticked("skip_second_fraction", fields) : unasked("skip_second_fraction")}
        ${booleans ? ticked("use_bit_values", fields) : unasked("use_bit_values")}
      </div>
      ${
        (dates || datetimes || times) &&
        html`<p class="quiet">
          Formats are those of strptime: <code>%Y</code> year, <code>%m</code> month, <code>%d</code> day,
          <code>%H</code> <code>%M</code> <code>%S</code> hour, minute, second.
        </p>`
      }
    </details>`;
}

/** Whether something is set that is folded away. */
function hasUnusual(fields: LoadFields): boolean {
  const {
    type,
    escape_character: escape,
    flexible,
    trailing_field_separator: trailing,
    skip_second_fraction: skips,
  } = fields;
  return type !== "csv" || [escape, flexible, trailing, skips, fields.use_bit_values].some((each) => each !== "");
}

function ticked(key: FieldName, fields: LoadFields): Html {
  return tick(key, labels[key], fields[key] !== "");
}

function textField(key: FieldName, fields: LoadFields, kind: "short" | "number" | "text" = "text"): Html {
  return field(
    labels[key],
    html`<input
      name="${key}"
      value="${exactValue(fields[key])}"
      ${kind === "short" && html`maxlength="4"`}
      ${kind === "number" && html`inputmode="numeric"`}
      autocomplete="off"
      spellcheck="false"
    />`,
  );
}

export interface CyclePage extends Timed {
  readonly cycle: HostedCycle;
}

/** How many errors are shown; the download has all rows. */
const shownErrors = 100;

/** A load under way, or how it ended. */
export function cycle({ now, cycle: of }: CyclePage): Html {
  const { id, status, badRecords, by } = of;
  const { internal_stage: stage, status: end, end_time: ended, parsing_errors: errors = [] } = status;
  const isOver = stage === "DONE";
  const bad = Number(status.ignored_row_count);
  const began = beganAt(status);
  const endedAt = ended === undefined ? undefined : new Date(Number(ended) / 1000).toISOString();
  const lasted = (endedAt === undefined ? now : Date.parse(endedAt)) - Date.parse(began);
  return html`${heading(of, now)} ${outcome(of)}
  ${facts([
    ["Rows loaded", isOver && formatNumber(Number(status.rows_written))],
    ["Rows rejected", isOver && (bad > 0 ? html`<span class="bad">${formatNumber(bad)}</span>` : "0")],
    ["Data", inBytes(sizeOf(status))],
    ["Began", moment(began)],
    ["Ended", endedAt !== undefined && moment(endedAt)],
    [isOver ? "Took" : "So far", lasting(Math.max(0, lasted))],
    ["By", by !== undefined && name(by)],
    ["Load", html`<code>${id}</code>`],
  ])}
  ${
    !isOver &&
    html`<p class="buttons">
      <a class="button danger secondary" href="${at("/loads", id, "cancel")}">Cancel the load…</a>
    </p>`
  }
  ${
    errors.length > 0 &&
    section(
      "bad",
      "Bad records",
      html`${
          badRecords !== undefined &&
          html`<p>
              <a class="button secondary" href="${at("/loads", id, "bad-records")}" download
                >Download them (${inBytes(badRecords)})</a
              >
            </p>
            <p class="quiet">
              The rejected rows exactly as they were, without the header: mend them, and load that file.
            </p>`
        }
        <ol class="causes">
          ${errors.slice(0, shownErrors).map((each) => html`<li data-row><bdi>${each}</bdi></li>`)}
        </ol>
        ${bad > Math.min(errors.length, shownErrors) && html`<p class="quiet">… and ${formatNumber(bad - Math.min(errors.length, shownErrors))} more, in the download.</p>`}`,
    )
  }
  ${end.code !== "CANCELLED" && readAs(of)}`;
}

/** Asks before a load is cancelled. */
export function cancellation({ now, cycle: of, token }: CyclePage & Protected): Html {
  const address = at("/loads", of.id);
  return html`${heading(of, now)}
  ${confirmation({
    title: "Cancel this load?",
    isDanger: true,
    content: html`<p>Nothing of it is loaded, and the table stays as it is. What has arrived is removed.</p>`,
    action: `${address}/cancel`,
    fields: token,
    button: html`<button type="submit" class="danger">Cancel the load</button>`,
    back: { href: address, label: "Back to the load" },
  })}`;
}

function outcome({ status }: HostedCycle): Html | false {
  const { internal_stage: stage, status: end, rows_written: written, ignored_row_count: ignored } = status;
  if (stage !== "DONE") return false;
  if (end.code === "OK")
    return ignored === "0"
      ? notice("good", html`<p><b>${pluralize(Number(written), "row")} loaded.</b></p>`)
      : notice(
          "waiting",
          html`<p>
            <b>${pluralize(Number(written), "row")} loaded</b>, ${pluralize(Number(ignored), "row")} rejected.
          </p>`,
        );
  const text = sentence(end.message ?? "");
  return notice(
    end.code === "CANCELLED" ? "waiting" : "bad",
    html`<p>${text === "." ? "" : `${text} `}Nothing was loaded; the table is unchanged.</p>`,
  );
}

/** What the rows were read with. */
function readAs({ parameters }: HostedCycle): Html {
  const fields = fieldsOf(parameters);
  const rows = (Object.keys(labels) as FieldName[]).map((field) => [labels[field], shownValue(field, fields)] as const);
  return html`<details>
    <summary>How it was read</summary>
    ${facts(rows)}
  </details>`;
}

const boxes: ReadonlySet<FieldName> = new Set([
  "has_header_row",
  "flexible",
  "trailing_field_separator",
  "converted_to_epoch",
  "skip_second_fraction",
  "use_bit_values",
  "empty_target",
]);

function shownValue(field: FieldName, fields: LoadFields): Html | string {
  const value = fields[field];
  if (boxes.has(field)) return value === "" ? "no" : "yes";
  return value === "" ? html`<span class="quiet">none</span>` : html`<code>${value}</code>`;
}
