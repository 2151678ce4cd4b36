import { InputError } from "#errors.ts";
import { formatNumber, pluralize, quote } from "#text.ts";
import type { CellNote, Row, RowGroup } from "./rows.ts";
import { cellAt, columnName, dateText, isoText, mostDigits, numberText, unescaped } from "./cell-values.ts";
import { namesOf, sheetNamed, TextCollector } from "./workbook.ts";
import type { SheetPart, Workbook } from "./workbook.ts";
import { XmlReader } from "./xml.ts";
import { damaged } from "./zip.ts";

/** The columns of a sheet, by their index, once its header is known. */
export interface SheetColumns {
  /** The row of the header. */
  readonly line: number;
  readonly width: number;
  /** Columns that are read. */
  readonly used: ReadonlySet<number>;
  /** Columns with ids, keys or references, and their names. */
  readonly ids: ReadonlyMap<number, string>;
}

/** As many as Excel has. */
const most = { rows: 1_048_576, columns: 16_384 };

/** How many cells a message names. */
const examples = 3;

/** The rows of one sheet, as text. */
export class Sheet {
  readonly #workbook: Workbook;
  readonly #sheet: SheetPart;
  readonly #warn: (message: string) => void;
  #columns: SheetColumns | undefined;
  /** Ranges of cells that are merged. */
  readonly #merged: string[] = [];
  #hiddenRows = 0;
  #isFiltered = false;
  #unread: string[] = [];
  #unreadCount = 0;
  readonly #numericIds = new Map<number, { readonly first: string; count: number }>();

  /**
   * @param name undefined: the only sheet that is not hidden, or the only one of those with values
   * @throws {InputError} there is no such sheet, or several could be meant
   */
  static async of(
    workbook: Workbook,
    name: string | undefined,
    { signal, warn }: { readonly signal: AbortSignal; readonly warn: (message: string) => void },
  ): Promise<Sheet> {
    const all = workbook.sheets.filter(({ isHidden }) => !isHidden);
    const candidates = name === undefined ? all : [sheetNamed(workbook, name)];
    const found: Sheet[] = [];
    for (const each of candidates) {
      if (candidates.length === 1 || (await new Sheet(workbook, each, () => {}).#hasValues(signal)))
        found.push(new Sheet(workbook, each, warn));
    }
    const [one, ...more] = found;
    if (one !== undefined && more.length === 0) return one;
    throw new InputError(
      `${workbook.file.name} has ${one === undefined ? "no visible sheet with values" : "several sheets"}: ${namesOf(workbook.sheets)}; name one as sheet`,
    );
  }

  private constructor(workbook: Workbook, sheet: SheetPart, warn: (message: string) => void) {
    this.#workbook = workbook;
    this.#sheet = sheet;
    this.#warn = warn;
  }

  /** The rows with a value, from a row on. @throws {InputError} the sheet is damaged */
  async *rows(from: number, signal: AbortSignal): AsyncGenerator<RowGroup> {
    const cells = new CellReader(this.#workbook, from);
    const reader = await XmlReader.open(this.#workbook.file, this.#sheet.part, {
      open: (name, attribute) => {
        cells.open(name, attribute);
        if (name === "autoFilter") this.#isFiltered = true;
        else if (name === "mergeCell") this.#merged.push(attribute("ref") ?? "");
      },
      text: (text) => cells.text(text),
      close: (name) => cells.close(name),
    });
    for await (const bytes of this.#workbook.zip.content(this.#sheet.part, signal)) {
      reader.write(bytes);
      const rows = cells.take();
      const [first] = rows;
      if (first !== undefined) yield { line: first.line, rows: () => rows };
    }
    reader.end();
    this.#hiddenRows = cells.hiddenRows;
  }

  /** Takes the header, before the rows after it. @throws {InputError} a cell of it has no value */
  takeHeader({ line, notes = [] }: Row, columns: SheetColumns): void {
    this.#columns = columns;
    for (const note of notes)
      if (note.is === "problem")
        throw new InputError(`${this.#place(line, note.column)} of the header ${note.problem}`);
  }

  /** @throws {InputError} a cell that is read has no value of its own; warns about what a person may not have meant */
  end(): void {
    const where = `${this.#workbook.file.name}, sheet ${quote(this.#sheet.name)}`;
    for (const range of this.#merged) this.#checkMerged(range);
    if (this.#hiddenRows > 0)
      this.#warn(
        `${where}: ${rowsOf(this.#hiddenRows)} hidden${this.#isFiltered ? " (it has a filter)" : ""} and read like all others; delete in the sheet what should not count`,
      );
    if (this.#unreadCount > 0)
      this.#warn(
        `${where}: ${pluralize(this.#unreadCount, "cell")} in columns that nobody reads without a value: ${this.#unread.join("; ")}`,
      );
    for (const [column, { first, count }] of this.#numericIds) {
      const name = quote(this.#columns?.ids.get(column) ?? columnName(column));
      this.#warn(
        `${where}: ${name} has ids or references, and ${count === 1 ? "one is a number" : `${formatNumber(count)} are numbers`} (the first in ${first}): zeros in front of a number are lost; format the column as text if there were any`,
      );
    }
  }

  async #hasValues(signal: AbortSignal): Promise<boolean> {
    for await (const group of this.rows(1, signal)) if (group.rows().length > 0) return true;
    return false;
  }

  /** Takes a row after the header. @throws {InputError} a cell that is read has no value of its own */
  take({ line, fields, notes = [] }: Row): void {
    const columns = this.#columns;
    if (columns === undefined) return;
    const beyond = fields.findIndex((field, index) => index >= columns.width && field.trim() !== "");
    if (beyond !== -1)
      throw new InputError(
        `${this.#place(line, beyond)} has a value, and its column has no name in the header (row ${columns.line})`,
      );
    for (const note of notes) {
      const { column } = note;
      const place = this.#place(line, column);
      if (note.is === "problem") {
        if (columns.used.has(column)) throw new InputError(`${place} ${note.problem}`);
        this.#unreadCount += 1;
        if (this.#unread.length < examples) this.#unread.push(`${columnName(column)}${line} ${note.problem}`);
      } else if (columns.ids.has(column)) {
        const text = fields[column]?.replace(/^-/, "") ?? "";
        if (text.length > mostDigits || text.includes("e"))
          throw new InputError(
            `${place}: a number of more than ${mostDigits} digits, of which Excel keeps ${mostDigits}; format the column as text, and enter it again`,
          );
        const known = this.#numericIds.get(column);
        if (known === undefined) this.#numericIds.set(column, { first: `${columnName(column)}${line}`, count: 1 });
        else known.count += 1;
      }
    }
  }

  #checkMerged(range: string): void {
    const [from, to] = range.split(":").map(cellAt);
    const columns = this.#columns;
    if (from === undefined || to === undefined || columns === undefined || to.row < columns.line) return;
    const file = this.#workbook.file.name;
    if (from.row <= columns.line)
      throw new InputError(
        `${file}: the cells ${range} of the header are merged; give each column a name of its own, in one row`,
      );
    for (let column = from.column; column <= Math.min(to.column, columns.width); column++)
      if (columns.used.has(column))
        throw new InputError(
          `${file}: the cells ${range} are merged, so only the first has a value; unmerge them, and fill the others`,
        );
  }

  #place(line: number, column: number): string {
    return `${this.#workbook.file.name}:${line}: cell ${columnName(column)}${line}`;
  }
}

function rowsOf(count: number): string {
  return count === 1 ? "1 row is" : `${formatNumber(count)} rows are`;
}

/** Makes rows of the elements of a sheet. */
class CellReader {
  hiddenRows = 0;
  readonly #workbook: Workbook;
  readonly #from: number;
  readonly #texts = new TextCollector();
  #rows: Row[] = [];
  #line = 0;
  #isHidden = false;
  #fields: string[] = [];
  #notes: CellNote[] = [];
  #hasValue = false;
  /** The cell that is being read. */
  #column = -1;
  #type = "n";
  #style = 0;
  #value: string | undefined;
  #isValue = false;
  #hasFormula = false;

  constructor(workbook: Workbook, from: number) {
    this.#workbook = workbook;
    this.#from = from;
  }

  take(): readonly Row[] {
    const rows = this.#rows;
    this.#rows = [];
    return rows;
  }

  open(name: string, attribute: (name: string) => string | undefined): void {
    if (name === "c") this.#openCell(attribute);
    else if (name === "v") [this.#isValue, this.#value] = [true, ""];
    else if (name === "f") this.#hasFormula = true;
    else if (name === "is") this.#value = "";
    else if (name === "row") {
      const line = attribute("r");
      this.#line = line === undefined ? this.#line + 1 : Number(line);
      if (!(this.#line >= 1 && this.#line <= most.rows)) throw this.#damaged(`a row has the number ${line}`);
      this.#isHidden = /^(?:1|true)$/.test(attribute("hidden") ?? "");
      [this.#fields, this.#notes, this.#hasValue, this.#column] = [[], [], false, -1];
    } else this.#texts.open(name);
  }

  text(text: string): void {
    if (this.#isValue) this.#value = (this.#value ?? "") + text;
    else this.#texts.text(text);
  }

  close(name: string): void {
    if (name === "v") this.#isValue = false;
    else if (name === "c") this.#closeCell();
    else if (name === "is") this.#value = this.#texts.take();
    else if (name === "row") {
      if (!this.#hasValue || this.#line < this.#from) return;
      if (this.#isHidden) this.hiddenRows += 1;
      this.#rows.push({ line: this.#line, fields: this.#fields, notes: this.#notes });
    } else this.#texts.close(name);
  }

  #openCell(attribute: (name: string) => string | undefined): void {
    const reference = attribute("r");
    const column = reference === undefined ? this.#column + 1 : cellAt(reference)?.column;
    if (column === undefined || column >= most.columns || column <= this.#column)
      throw this.#damaged(`a cell of row ${this.#line} is at ${reference}`);
    this.#column = column;
    this.#type = attribute("t") ?? "n";
    this.#style = Number(attribute("s") ?? 0);
    [this.#value, this.#hasFormula] = [undefined, false];
  }

  #closeCell(): void {
    const text = this.#text();
    if (text === "") return;
    while (this.#fields.length < this.#column) this.#fields.push("");
    this.#fields.push(text);
    this.#hasValue = true;
  }

  /** The text of the cell, as rules see it. */
  #text(): string {
    const value = this.#value;
    const type = this.#type;
    // The text that a formula gives may well be empty.
    if (this.#hasFormula && (value === undefined || (value === "" && type !== "str")))
      return this.#problem("has a formula without a value, since no program computed it; open it in Excel and save it");
    if (value === undefined) return "";
    if (type === "s" && value.trim() === "") return "";
    if (type === "s")
      return this.#workbook.strings.at(Number(value)) ?? this.#problem("refers to a text that is not there");
    if (type === "b") return value === "1" || value === "true" ? "true" : "false";
    if (type === "e") return this.#problem(`is ${/^#[A-Z\d/!?]+$/.test(value) ? value : "an error"}; correct it`);
    if (type === "d") return isoText(value);
    if (type !== "n") return type === "str" ? unescaped(value) : value;
    return value === "" ? "" : this.#number(value);
  }

  #number(value: string): string {
    const format = this.#workbook.formats[this.#style] ?? "number";
    if (format === "date" || format === "time") {
      const text = dateText(Number(value), format, this.#workbook.is1904);
      return text ?? this.#problem("is formatted as a date, and no date has its number");
    }
    if (format === "number" || Number(value) >= 10 ** mostDigits)
      this.#notes.push({ column: this.#column, is: "number" });
    return numberText(value, format) ?? this.#problem("is a number, and what it holds is none");
  }

  /** @returns no text; the row is not blank all the same */
  #problem(problem: string): string {
    this.#notes.push({ column: this.#column, is: "problem", problem });
    this.#hasValue = true;
    return "";
  }

  #damaged(reason: string): InputError {
    return damaged(this.#workbook.file, reason);
  }
}
