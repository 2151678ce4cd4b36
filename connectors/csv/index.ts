import { inBatches } from "#completeness.ts";
import type { Connector, OpenContext, ReadContext, Rehearsed, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import { foreignContent, tellingBytes } from "#files/content.ts";
import type { Checks } from "#files/settle.ts";
import type { OpenFile } from "#files/source-file.ts";
import { digestOf, OpenFiles } from "#files/source-file.ts";
import type { Kind } from "#principals/principal.ts";
import { nfc } from "#text.ts";
import { textOf } from "./decode.ts";
import { dialectOf, options } from "./options.ts";
import type { Dialect, GroupsOptions, MembershipsOptions, Options, UsersOptions } from "./options.ts";
import { NamedAttributes } from "./attributes.ts";
import { Header } from "./header.ts";
import { Sheet } from "./sheet.ts";
import type { SheetColumns } from "./sheet.ts";
import { openWorkbook } from "./workbook.ts";
import { entryOf, idColumns, LineTaker, membershipOf, namedColumns } from "./records.ts";
import { at, noting, rowGroupsOf, shaped, Trailer, withoutLines, withoutSepLine } from "./rows.ts";
import type { Place, Row, RowGroup } from "./rows.ts";

/** Users, groups and memberships from CSV files and Excel workbooks. Its options: `README.md` in this folder. */
const csv: Connector<Options> = {
  name: "csv",
  onlyTexts: true,
  options,
  firstRows,
  open: (options, open) => ({
    read: (context) => read(options, open, context),
    recheck: (rehearsed, context) => recheck(options, rehearsed, context),
    version: (context) => digestOf(partsOf(options, context), open, context.signal),
    versionIsDigest: true,
  }),
};

export default csv;

/** How many rows of a sheet are looked at. */
const firstRowsOfSheet = 200;

/** The first rows of a workbook. */
async function firstRows(
  name: string,
  folder: string,
  signal: AbortSignal,
): Promise<readonly (readonly string[])[] | undefined> {
  await using opened = await OpenFiles.open([name], { folder }, {}, signal);
  const [file] = opened.files;
  const workbook = file === undefined ? undefined : await openWorkbook(file, signal);
  if (workbook === undefined) return undefined;
  const sheet = await Sheet.of(workbook, undefined, { signal, warn: () => {} });
  const rows: Row[] = [];
  for await (const group of sheet.rows(1, signal)) {
    rows.push(...group.rows());
    if (rows.length >= firstRowsOfSheet) break;
  }
  return rows.slice(0, firstRowsOfSheet).map(({ fields }) => fields);
}

/** The files of users, of groups or of memberships. */
interface Part {
  readonly kind: SourceRecord["kind"];
  readonly names: readonly string[];
  readonly checks: Checks;
  readonly dialect: Dialect;
  readonly minRows: number | undefined;
  /** The columns that the options name. */
  readonly columns: readonly string[];
  /** The ones among them with ids, keys and references. */
  readonly ids: readonly string[];
  /** The attributes that rules name; absent for memberships. */
  readonly named?: NamedAttributes | undefined;
  /** For a file with this header, makes a record of a row. */
  records(header: Header, file: string): (row: Row) => SourceRecord;
  /** For a file with this header, hands rows over as lines; absent, or undefined: they become records. */
  lines?(where: { header: Header; row: Row; delimiter: string; file: string }): LineTaker | undefined;
}

/**
 * Every record of every file: users, then groups, then memberships. All files are opened at the start and must be
 * unchanged at the end, so that what was read is what the folder held at one time.
 * @throws {IncompleteReadError} a file is missing, empty, too short, cut off or changing
 * @throws {InputError} a file is malformed; the message names file and line
 * @throws {UnavailableError} the system cannot read a file
 */
export async function* read(
  options: Options,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const { signal } = context;
  await using sets = new AsyncDisposableStack();
  const opened: { part: Part; set: OpenFiles }[] = [];
  signal.throwIfAborted();
  for (const part of partsOf(options, context)) {
    opened.push({ part, set: sets.use(await OpenFiles.open(part.names, open, part.checks, signal)) });
  }
  for (const { part, set } of opened) yield* readPart(part, set.files, context);
  for (const { set } of opened) await set.assertUnchanged();
  for (const { part } of opened) part.named?.end();
  signal.throwIfAborted();
}

function partsOf(options: Options, context: ReadContext): readonly Part[] {
  const { users, groups, memberships } = options;
  const common = (part: UsersOptions | GroupsOptions | MembershipsOptions) => ({
    names: [part.file].flat(),
    checks: { settled: part.settled ?? options.settled, checksum: part.checksum ?? options.checksum },
    dialect: dialectOf(options, part),
    minRows: part.minRows,
    columns: namedColumns(part),
    ids: idColumns(part),
  });
  const entries = (kind: Kind, part: UsersOptions | GroupsOptions): Part => {
    const named = new NamedAttributes(kind, part, context);
    return { ...common(part), kind, named, records: (header, file) => entryOf(kind, part, header, file, named) };
  };
  const parts = [entries("user", users)];
  if (groups) parts.push(entries("group", groups));
  if (memberships) {
    const { takeLines } = context;
    parts.push({
      ...common(memberships),
      kind: "membership",
      records: (header, file) => membershipOf(memberships, header, file),
      lines: (where) => takeLines && LineTaker.of(memberships, where, takeLines),
    });
  }
  return parts;
}

async function* readPart(
  part: Part,
  files: readonly OpenFile[],
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  let first: { readonly header: Header; readonly file: string } | undefined;
  for (const file of files) {
    const headed = (header: Header): void => {
      if (first !== undefined && part.dialect.headers === "same") assertSame(header, file.name, first);
      first ??= { header, file: file.name };
    };
    try {
      yield* inBatches(recordsOf(part, file, headed, context));
    } catch (error) {
      context.signal.throwIfAborted();
      // A file that changed may look malformed; then report the change.
      await file.assertUnchanged();
      throw error instanceof InputError ? ((await notText(file)) ?? error) : error;
    }
  }
}

/** What is wrong with a file that is no text at all, or text of another kind, such as a sign-in page that was saved instead. */
async function notText(file: OpenFile): Promise<InputError | undefined> {
  const content = foreignContent(await file.head(tellingBytes));
  if (content === undefined || readable.test(content.is)) return undefined;
  return new InputError(`${file.name} is ${content.is}, not CSV; ${content.advice}`);
}

/** Of what is foreign to UTF-8, what is read here. */
const readable = /Excel|gzip|UTF-16/;

/** @param headed is called with the header before the first record */
async function* recordsOf(
  part: Part,
  file: OpenFile,
  headed: (header: Header) => void,
  { signal, warn }: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const { dialect, groups, sheet, lastLine } = await rowsOfFile(part, file, { signal, warn });
  const trailer = new Trailer(dialect, file.name);
  let layout: { header: Header; record: (row: Row) => SourceRecord; lines: LineTaker | undefined } | undefined;
  let skipped = 0;
  let count = 0;
  for await (const group of groups) {
    const taken = await layout?.lines?.take(group);
    if (taken !== undefined) {
      count += taken;
      continue;
    }
    const rows = group.rows();
    const records: SourceRecord[] = [];
    let next = 0;
    for (const row of rows) {
      next += 1;
      if (layout === undefined) {
        if (dialect.skipUntilHeader && skipped < longestPreamble && !isHeader(row, part)) {
          skipped++;
          continue;
        }
        try {
          const header = new Header(row, file.name, dialect);
          headed(header);
          const where = { header, row, delimiter: dialect.delimiter, file: file.name };
          // A trailer may be any row.
          const lines = dialect.trailer === undefined ? part.lines?.(where) : undefined;
          layout = { header, record: part.records(header, file.name), lines };
          sheet?.takeHeader(row, columnsOfSheet(part, header));
        } catch (error) {
          throw withPreamble(error, rows.slice(next), part);
        }
        continue;
      }
      if (trailer.take(row)) continue;
      if (layout.header.isRepeatedBy(row) || row.fields[0]?.startsWith(byteOrderMark))
        throw joinedFiles(row, file.name, layout.header);
      sheet?.take(row);
      const whole = shaped(row, layout.header.width, file.name, dialect);
      if (whole !== undefined) records.push(layout.record(whole));
    }
    count += records.length;
    yield records;
  }
  await layout?.lines?.end();
  if (layout === undefined) {
    const problem =
      skipped > 0 ? `has no header: no row has the columns ${listOf(part.columns)}` : "is empty: it has no header line";
    throw new IncompleteReadError(`${file.name} ${problem}`);
  }
  trailer.assertCount(count);
  assertRows(part, file.name, count);
  sheet?.end();
  const openLine = lastLine();
  if (
    openLine !== undefined &&
    dialect.trailer === undefined &&
    part.checks.checksum === undefined &&
    part.minRows === undefined
  ) {
    warn(
      `${at({ file: file.name, line: openLine })}: the last row has no line end, unlike all others: the file may be cut off within it; ` +
        "a trailer or a checksum proves it complete; setting minRows silences this warning",
    );
  }
}

/** The rows of a file, and how it is to be read. */
interface FileRows {
  readonly dialect: Dialect;
  readonly groups: AsyncIterable<RowGroup>;
  readonly sheet?: Sheet | undefined;
  /** After all rows: the last line, if it has no line end. */
  readonly lastLine: () => number | undefined;
}

/** @throws {InputError | IncompleteReadError} it is neither text nor a workbook */
async function rowsOfFile(
  { dialect: configured }: Part,
  file: OpenFile,
  context: Pick<ReadContext, "signal" | "warn">,
): Promise<FileRows> {
  const workbook = await openWorkbook(file, context.signal);
  if (workbook !== undefined) {
    const sheet = await Sheet.of(workbook, configured.sheet, context);
    const dialect = { ...configured, skipBlankRows: true, shortRows: true, trailingDelimiters: true };
    return { dialect, sheet, groups: sheet.rows(configured.skipLines + 1, context.signal), lastLine: () => undefined };
  }
  if (configured.sheet !== undefined)
    throw new InputError(`${file.name} is no Excel workbook (.xlsx), and the setting sheet names a sheet of one`);
  const place: Place = { file: file.name, line: 1 };
  const end = { isOpen: false };
  const content = noting(textOf(file, configured.encoding, place, context.signal), end);
  const { dialect, text } = await withoutSepLine(withoutLines(content, configured.skipLines, place), configured, place);
  const lastLine = (): number | undefined => (end.isOpen ? place.line - 1 : undefined);
  return { dialect, groups: rowGroupsOf(text, dialect, place), lastLine };
}

function columnsOfSheet({ columns, ids, named }: Part, header: Header): SheetColumns {
  const read = [
    ...columns.map((name) => header.indexOf(name)),
    ...(named?.readOf(header) ?? []).map(({ index }) => index),
  ];
  return {
    line: header.line,
    width: header.width,
    used: new Set(read),
    ids: new Map(ids.map((name) => [header.indexOf(name), name])),
  };
}

function assertRows({ minRows = 1 }: Part, file: string, count: number): void {
  if (count >= minRows) return;
  throw new IncompleteReadError(
    `${file} has too few rows: ${count} after the header, expected at least ${minRows} (minRows)`,
  );
}

/** The checks of `read`, of records that could come from these files. */
async function* recheck(
  options: Options,
  { records, renamed }: Rehearsed,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const parts = partsOf(options, context);
  for (const part of parts) {
    const [file = ""] = part.names;
    const { kind } = part;
    const wanted = kind === "membership" ? [] : [context.attributes, context.required];
    const names = new Set([...part.columns, ...wanted.flatMap((each) => each?.[`${kind}s` as "users"] ?? [])]);
    if (renamed !== undefined && renamed.kind === kind) {
      const { attribute } = renamed;
      const column = (kind === "group" ? options.groups : options.users)?.columns?.[attribute] ?? attribute;
      names.delete(column);
      names.add(`${column}_new`);
    }
    // Throws for a column that is missing.
    part.records(new Header({ line: 1, fields: [...names] }, file, part.dialect), file);
  }
  const rows = new Map(parts.map((part) => [part.kind, new Map(part.names.slice(0, 1).map((name) => [name, 0]))]));
  for await (const batch of records) {
    for (const record of batch) {
      const files = rows.get(record.kind);
      const file = record.origin.slice(0, record.origin.lastIndexOf(":"));
      files?.set(file, (files.get(file) ?? 0) + 1);
      if (record.kind !== "membership") parts.find(({ kind }) => kind === record.kind)?.named?.count(record);
    }
    yield batch;
  }
  for (const part of parts) {
    const files = [...(rows.get(part.kind) ?? [])].filter(([, count], _, all) => count > 0 || all.length === 1);
    for (const [file, count] of files) assertRows(part, file, count);
    part.named?.end();
  }
}

/** The most rows before a header. */
const longestPreamble = 100;

function isHeader(row: Row, { columns, dialect }: Part): boolean {
  const comparable = (name: string): string => {
    const plain = nfc(name.trim());
    return dialect.ignoreCase ? plain.toLowerCase() : plain;
  };
  const names = new Set(row.fields.map(comparable));
  return columns.every((name) => names.has(comparable(name)));
}

/** The error of a header, and which of the rows after it looks like the real one. */
function withPreamble(error: unknown, following: readonly Row[], part: Part): unknown {
  const header = following.slice(0, longestPreamble).find((row) => isHeader(row, part));
  if (!(error instanceof InputError) || header === undefined) return error;
  return new InputError(
    `${error.message}; line ${header.line} looks like it: set skipLines: ${header.line - 1}, or skipUntilHeader: true`,
  );
}

const byteOrderMark = "\u{FEFF}";

/** The error for the first row of another file. */
function joinedFiles({ line, fields }: Row, file: string, header: Header): InputError {
  const isMarked = fields[0]?.startsWith(byteOrderMark) === true;
  const what = isMarked ? "starts with a byte order mark" : "is the header again";
  if (!isMarked && line === header.line + 1)
    return new InputError(`${at({ file, line })}: ${what}; if the header has two lines, set skipLines: ${header.line}`);
  return new InputError(
    `${at({ file, line })}: ${what}; if several exports were joined, name each as a file of its own: file: [one.csv, two.csv]`,
  );
}

function listOf(names: readonly string[]): string {
  return [...new Set(names)].map((name) => JSON.stringify(name)).join(", ");
}

/** @throws {InputError} the header differs from the first file's */
function assertSame(header: Header, file: string, first: { readonly header: Header; readonly file: string }): void {
  const { columns } = first.header;
  const isSame =
    header.columns.length === columns.length &&
    header.columns.every(({ name, index }, place) => columns[place]?.name === name && columns[place].index === index);
  if (isSame) return;
  throw new InputError(
    `${at({ file, line: header.line })}: the header differs from that of ${first.file}; set headers to byName if the columns may differ`,
  );
}
