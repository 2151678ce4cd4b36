import { z } from "zod";

/** The encodings a file can be in; `utf-16` is told apart by its byte order mark. */
export type Encoding = z.infer<typeof encoding>;

/** How a file is written. */
export interface Dialect {
  readonly delimiter: string;
  /** Empty: nothing is quoted. */
  readonly quote: string;
  readonly encoding: Encoding;
}

const encoding = z.enum(["utf-8", "utf-16", "utf-16le", "utf-16be", "latin1"], {
  error: "expected utf-8, utf-16, utf-16le, utf-16be or latin1",
});

const isOneCharacter = (value: string): boolean => /^[^\r\n]$/u.test(value);

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
    .describe("How the text is encoded. Default utf-8. A byte order mark is not needed, except for utf-16."),
};

const column = z.string().min(1, "expected the name of a column, as in the file's header");
const separator = z
  .string()
  .min(1, "expected what separates the references, such as ;")
  .default(";")
  .describe('What separates several references in one cell. Default ";".');

const file = {
  file: z
    .string()
    .min(1, "expected a path")
    .describe("The file, relative to the configuration. It may be compressed with gzip."),
  ...dialect,
  minRows: z
    .int("expected a whole number")
    .min(0, "expected 0 or more")
    .default(1)
    .describe("A file with fewer rows, the header not counted, fails the read. Default 1."),
};

const memberOf = z
  .strictObject({
    column: column.describe("The column that holds the references."),
    separator,
  })
  .optional()
  .describe("A column that says which groups the record is directly in, by their keys.");

const entries = {
  ...file,
  id: column.describe("The column that identifies a record for as long as it exists, whatever is renamed."),
  keys: z
    .array(column)
    .min(1, "expected at least one column")
    .optional()
    .describe("The columns that other records refer to this one by. Default: the id."),
  columns: z
    .record(z.string().min(1), column)
    .optional()
    .describe("Attribute: column. Default: every column is an attribute of its own name."),
  memberOf,
};

const memberKind = z.enum(["user", "group"], { error: "expected user or group" });

const users = z.strictObject(entries).describe("The file of users, one a row.");

const groups = z
  .strictObject({
    ...entries,
    members: z
      .strictObject({
        column: column.describe("The column that holds the references."),
        separator,
        kind: memberKind.optional().describe("What the members are. Default: a user with such a key, or else a group."),
      })
      .optional()
      .describe("A column that says who is directly in the group, by their keys."),
  })
  .describe("The file of groups, one a row.");

const kindColumn = z.strictObject({
  column: column.describe("The column that says what the member is."),
  user: z.string().min(1).default("user").describe("Its value for a user. Default user."),
  group: z.string().min(1).default("group").describe("Its value for a group. Default group."),
});

const memberships = z
  .strictObject({
    ...file,
    group: column.describe("The column that refers to the group, by one of its keys."),
    member: column.describe("The column that refers to who is directly in it, by one of its keys."),
    kind: z
      .union([memberKind, kindColumn], { error: "expected user, group or {column, user, group}" })
      .optional()
      .describe("What the members are, or the column that says so. Default: a user with such a key, or else a group."),
  })
  .describe("A file of pairs: a group and who is directly in it, one pair a row.");

/** What stands beside `connector: csv`. */
export const options = z
  .strictObject({
    users,
    groups: groups.optional(),
    memberships: memberships.optional(),
    ...dialect,
  })
  .superRefine((value, context) => {
    for (const part of ["users", "groups", "memberships"] as const) {
      const { delimiter, quote } = dialectOf(value, value[part]);
      if (delimiter === quote) {
        const place = value[part]?.delimiter === undefined && value[part]?.quote === undefined ? [] : [part];
        context.addIssue({ code: "custom", path: [...place, "delimiter"], message: "is also the quote" });
        return;
      }
    }
  });

export type Options = z.infer<typeof options>;
export type UsersOptions = z.infer<typeof users>;
export type GroupsOptions = z.infer<typeof groups>;
export type MembershipsOptions = z.infer<typeof memberships>;

/** A dialect of which any part may be unsaid. */
export type PartialDialect = { [key in keyof Dialect]?: Dialect[key] | undefined };

/** How a file is written: what its own block says, else what stands beside `users:`, else the defaults. */
export function dialectOf(source: PartialDialect, file: PartialDialect = {}): Dialect {
  return {
    delimiter: file.delimiter ?? source.delimiter ?? ",",
    quote: file.quote ?? source.quote ?? '"',
    encoding: file.encoding ?? source.encoding ?? "utf-8",
  };
}
