import { inBatches } from "#connector.ts";
import type { Connector, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Checks } from "#files/settle.ts";
import type { OpenFile, OpenFiles } from "#files/source-file.ts";
import { openFiles } from "#files/source-file.ts";
import { textOf } from "./decode.ts";
import { dialectOf, options } from "./options.ts";
import type { Dialect, Options, PartialDialect } from "./options.ts";
import { entryOf, membershipOf } from "./records.ts";
import { at, headerOf, rowsOf, shaped, trailerOf, withoutSepLine } from "./rows.ts";
import type { Header, Place, Row } from "./rows.ts";

/** Users, groups and memberships from CSV files. Its options: `README.md` in this folder. */
const csv: Connector<Options> = {
  name: "csv",
  options,
  open: (options, { folder }) => ({ read: (context) => read(options, folder, context) }),
};

export default csv;

/** The files of users, of groups or of memberships. */
interface Part {
  readonly names: readonly string[];
  readonly checks: Checks;
  readonly dialect: Dialect;
  readonly minRows: number;
  /** For a file with this header, makes a record of a row. */
  records(header: Header, file: string): (row: Row) => SourceRecord;
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
  folder: string,
  { signal }: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const opened: { part: Part; set: OpenFiles }[] = [];
  try {
    signal.throwIfAborted();
    for (const part of partsOf(options)) {
      opened.push({ part, set: await openFiles(part.names, folder, part.checks, signal) });
    }
    for (const { part, set } of opened) yield* readPart(part, set.files, signal);
    for (const { set } of opened) await set.assertUnchanged();
    signal.throwIfAborted();
  } finally {
    await Promise.all(opened.map(({ set }) => set.close()));
  }
}

function partsOf(options: Options): readonly Part[] {
  const { users, groups, memberships } = options;
  const common = (part: { file: string | string[]; minRows: number } & PartialDialect & Checks) => ({
    names: [part.file].flat(),
    checks: { settled: part.settled ?? options.settled, checksum: part.checksum ?? options.checksum },
    dialect: dialectOf(options, part),
    minRows: part.minRows,
  });
  const parts: Part[] = [{ ...common(users), records: (header, file) => entryOf("user", users, header, file) }];
  if (groups) parts.push({ ...common(groups), records: (header, file) => entryOf("group", groups, header, file) });
  if (memberships) {
    parts.push({ ...common(memberships), records: (header, file) => membershipOf(memberships, header, file) });
  }
  return parts;
}

async function* readPart(
  part: Part,
  files: readonly OpenFile[],
  signal: AbortSignal,
): AsyncGenerator<readonly SourceRecord[]> {
  let first: { readonly header: Header; readonly file: string } | undefined;
  for (const file of files) {
    const headed = (header: Header): void => {
      if (first !== undefined && part.dialect.headers === "same") assertSame(header, file.name, first);
      first ??= { header, file: file.name };
    };
    try {
      yield* inBatches(recordsOf(part, file, headed, signal));
    } catch (error) {
      signal.throwIfAborted();
      // A file that changed may look malformed; then report the change.
      await file.assertUnchanged();
      throw error;
    }
  }
}

/** @param headed is called with the header before the first record */
async function* recordsOf(
  part: Part,
  file: OpenFile,
  headed: (header: Header) => void,
  signal: AbortSignal,
): AsyncGenerator<readonly SourceRecord[]> {
  const place: Place = { file: file.name, line: 1 };
  const { dialect, text } = await withoutSepLine(
    textOf(file, part.dialect.encoding, place, signal),
    part.dialect,
    place,
  );
  const trailer = trailerOf(dialect.trailer, dialect.delimiter, file.name);
  let layout: { width: number; record: (row: Row) => SourceRecord } | undefined;
  let count = 0;
  for await (const rows of rowsOf(text, dialect, place)) {
    const records: SourceRecord[] = [];
    for (const row of rows) {
      if (layout === undefined) {
        const header = headerOf(row, file.name, dialect);
        headed(header);
        layout = { width: header.width, record: part.records(header, file.name) };
        continue;
      }
      if (trailer.take(row)) continue;
      const whole = shaped(row, layout.width, file.name, dialect);
      if (whole === undefined) continue;
      records.push(layout.record(whole));
    }
    count += records.length;
    yield records;
  }
  if (layout === undefined) throw new IncompleteReadError(`${file.name} is empty: it has no header line`);
  trailer.assertCount(count);
  if (count < part.minRows) {
    throw new IncompleteReadError(
      `${file.name} has too few rows: ${count} after the header, expected at least ${part.minRows} (minRows)`,
    );
  }
}

/** @throws {InputError} the header differs from the first file's */
function assertSame(header: Header, file: string, first: { readonly header: Header; readonly file: string }): void {
  const { columns } = first.header;
  const isSame =
    header.columns.length === columns.length &&
    header.columns.every(({ name, index }, place) => columns[place]?.name === name && columns[place].index === index);
  if (isSame) return;
  throw new InputError(
    `${at({ file, line: 1 })}: the header is not that of ${first.file}; set headers to byName if the columns may differ`,
  );
}
