import { z } from "zod";
import { checks } from "#files/settle.ts";
import { rowOptions } from "#row-options.ts";
import { addProblem, count } from "#values.ts";

/** A label of the WHATWG Encoding Standard; `utf-16`: little- or big-endian, as its byte order mark says. */
export type Encoding = string;

/** The format of a file, and which deviations from it are allowed. */
export interface Dialect {
  readonly delimiter: string;
  /** Empty: nothing is quoted. */
  readonly quote: string;
  readonly encoding: Encoding;
  /** The first line may be `sep=;` and set the delimiter. */
  readonly sepLine: boolean;
  /** How many lines, or rows of a sheet, come before the header. */
  readonly skipLines: number;
  /** The sheet of a workbook. */
  readonly sheet: string | undefined;
  /** The header is the first row with the configured columns. */
  readonly skipUntilHeader: boolean;
  /** Column names are case-insensitive. */
  readonly ignoreCase: boolean;
  readonly duplicateColumns: DuplicateColumns;
  /** Rows without any value are skipped. */
  readonly skipBlankRows: boolean;
  /** Fields that are missing at the end of a row are empty. */
  readonly shortRows: boolean;
  /** Empty fields after the last column are dropped. */
  readonly trailingDelimiters: boolean;
  /** `byName`: several files may differ in the order of their columns, and have others. */
  readonly headers: "same" | "byName";
  /** Matches the last row, and captures how many rows there are before it. */
  readonly trailer: RegExp | undefined;
}

/** Columns with one name: an error, one of them, or `name`, `name_2`, `name_3`. */
export type DuplicateColumns = z.infer<typeof duplicateColumns>;
const duplicateColumns = z.enum(["error", "first", "last", "numbered"], {
  error: "expected error, first, last or numbered",
});

/** Its characters have no place of their own: what a byte means depends on all before it. */
const stateful = "iso-2022-jp";

/** The name that `TextDecoder` gives an encoding; undefined: none that a file can be read with. */
function encodingNamed(label: string): Encoding | undefined {
  const plain = label.trim().toLowerCase();
  if (plain === "utf-16") return plain;
  try {
    const { encoding } = new TextDecoder(plain, { fatal: true });
    return encoding === stateful ? undefined : encoding;
  } catch {
    return undefined;
  }
}

const encoding = z.string().refine((label) => encodingNamed(label) !== undefined, {
  error:
    "expected an encoding such as utf-8, utf-16, windows-1252 (Western Europe), windows-1250 (Central Europe), windows-1251 (Cyrillic), iso-8859-2, shift_jis or gbk",
});

const isOneCharacter = (value: string): boolean => /^[^\r\n]$/u.test(value);

const flag = (description: string) => z.boolean().optional().describe(`${description} Default false.`);

function isTrailer(value: string): boolean {
  try {
    // With an empty alternative it always matches, so the result shows the number of groups.
    return new RegExp(`${value}|`, "u").exec("")?.length === 2;
  } catch {
    return false;
  }
}

const dialect = {
  delimiter: z
    .string()
    .refine(isOneCharacter, { error: 'expected one character; a tab is "\\t" in double quotes' })
    .optional()
    .describe('What separates the fields of a row. Default ",". A tab is "\\t".'),
  quote: z
    .string()
    .refine((value) => value === "" || isOneCharacter(value), { error: 'expected one character, or "" for none' })
    .optional()
    .describe('What encloses a field that holds delimiters or newlines; doubled inside. Default \'"\'; "" for none.'),
  encoding: encoding
    .optional()
    .describe(
      "How the text is encoded: utf-8, utf-16, utf-16le, utf-16be, windows-1252 (or latin1), windows-1250, iso-8859-2, shift_jis, gbk and the others of the WHATWG Encoding Standard. Default utf-8. A byte order mark is not needed, except for utf-16.",
    ),
  sepLine: flag("Accept a first line like sep=; that sets the delimiter."),
  skipLines: count(0).optional().describe("How many lines come before the header, such as a title. Default 0."),
  sheet: z
    .string()
    .min(1, "expected the name of a sheet")
    .optional()
    .describe("Of an Excel workbook (.xlsx): the name of the sheet. Default: the only visible one with values."),
  headerRow: count(1)
    .optional()
    .describe("Of an Excel workbook: the row of the header. Default: the first with a value."),
  skipUntilHeader: flag("The header is the first row with all configured columns; rows before it are skipped."),
  ignoreCase: flag("Column names are case-insensitive, in rules too."),
  duplicateColumns: duplicateColumns
    .optional()
    .describe(
      "What becomes of columns with one name: error, first, last, or numbered (name, name_2, …). Default error.",
    ),
  skipBlankRows: flag("Rows in which every field is empty are skipped."),
  shortRows: flag("Fields that are missing at the end of a row are empty."),
  trailingDelimiters: flag("Empty fields after the last column, of the header too, are dropped."),
  headers: z
    .enum(["same", "byName"], { error: "expected same or byName" })
    .optional()
    .describe("Of several files: same requires identical headers, byName only the configured columns. Default same."),
  trailer: z
    .string()
    .refine(isTrailer, {
      error: "expected a regular expression with one group for the count, such as ^TRAILER;(\\d+)$",
    })
    .optional()
    .describe(
      "A regular expression that the last row matches, and that captures how many rows come before it, such as ^TRAILER;(\\d+)$.",
    ),
  ...checks,
};

const rows = rowOptions({
  rows: "file",
  column: "the name of a column, as in the file's header",
  references: "The column that holds the references.",
  separator: 'What separates several references in one cell. Default ";".',
});

const file = {
  file: z
    .union([z.string().min(1, "expected a path"), z.array(z.string().min(1, "expected a path")).min(1)], {
      error: "expected a path, a pattern or a list of them",
    })
    .describe(
      "The file, relative to the configuration, or several: a pattern like people-*.csv, or a list. Each may be compressed with gzip, or be an Excel workbook (.xlsx).",
    ),
  ...dialect,
  minRows: count(0)
    .optional()
    .describe(
      "A file with fewer rows, besides the header, fails the read; of several files, each must have as many. Default 1.",
    ),
};

const users = z.strictObject({ ...file, ...rows.entry }).describe("The file of users, one per row.");

const groups = z
  .strictObject({ ...file, ...rows.entry, members: rows.members })
  .describe("The file of groups, one per row.");

const memberships = z
  .strictObject({ ...file, ...rows.membership })
  .describe("A file of pairs: a group and a direct member, one pair per row.");

/** The options beside `connector: csv`. */
export const options = z
  .strictObject({
    users,
    groups: groups.optional(),
    memberships: memberships.optional(),
    ...dialect,
  })
  .superRefine((value, context) => {
    for (const [path, each] of [[], ["users"], ["groups"], ["memberships"]].map(
      (path) => [path, path[0] === undefined ? value : value[path[0] as "users"]] as const,
    ))
      if (each?.headerRow !== undefined && each.skipLines !== undefined)
        addProblem(context, [...path, "headerRow"], "expected one of headerRow and skipLines");
    for (const part of ["users", "groups", "memberships"] as const) {
      // Not by `dialectOf`: this is asked although other settings are wrong.
      const { delimiter = ",", quote = '"' } = { ...value, ...value[part] };
      if (delimiter === quote) {
        const place = value[part]?.delimiter === undefined && value[part]?.quote === undefined ? [] : [part];
        addProblem(context, [...place, "delimiter"], "is also the quote");
        return;
      }
    }
  });

export type Options = z.infer<typeof options>;
export type UsersOptions = z.infer<typeof users>;
export type GroupsOptions = z.infer<typeof groups>;
export type MembershipsOptions = z.infer<typeof memberships>;

/** A dialect as configured: all settings are optional. */
export type PartialDialect = {
  [key in keyof Dialect]?: (key extends "trailer" ? string : Dialect[key]) | undefined;
} & {
  headerRow?: number | undefined;
};

/** The settings in the file's own block, else those beside `users:`, else the defaults. */
export function dialectOf(source: PartialDialect, file: PartialDialect = {}): Dialect {
  const trailer = file.trailer ?? source.trailer;
  const headerRow = file.headerRow ?? (file.skipLines === undefined ? source.headerRow : undefined);
  return {
    delimiter: file.delimiter ?? source.delimiter ?? ",",
    quote: file.quote ?? source.quote ?? '"',
    encoding: encodingNamed(file.encoding ?? source.encoding ?? "utf-8") ?? "utf-8",
    sepLine: file.sepLine ?? source.sepLine ?? false,
    skipLines: headerRow === undefined ? (file.skipLines ?? source.skipLines ?? 0) : headerRow - 1,
    sheet: file.sheet ?? source.sheet,
    skipUntilHeader: file.skipUntilHeader ?? source.skipUntilHeader ?? false,
    ignoreCase: file.ignoreCase ?? source.ignoreCase ?? false,
    duplicateColumns: file.duplicateColumns ?? source.duplicateColumns ?? "error",
    skipBlankRows: file.skipBlankRows ?? source.skipBlankRows ?? false,
    shortRows: file.shortRows ?? source.shortRows ?? false,
    trailingDelimiters: file.trailingDelimiters ?? source.trailingDelimiters ?? false,
    headers: file.headers ?? source.headers ?? "same",
    trailer: trailer === undefined ? undefined : new RegExp(trailer, "u"),
  };
}
