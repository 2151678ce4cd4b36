import { z } from "zod";
import { addProblem, count, kindOfMembers, memberKind, patience, refused, text } from "#values.ts";
import { addressOf } from "./address.ts";
import { queryProblem } from "./query.ts";

const query = text("a query: SELECT …")
  .superRefine((value, context) => {
    const message = queryProblem(value);
    if (message !== undefined) addProblem(context, [], message);
  })
  .describe("One SELECT. Its columns are read by their names, each row is one record.");

const column = text("the name of a column of the query");

const rows = {
  query,
  minRows: count(0)
    .optional()
    .describe("Fewer rows fail the read. Default: 1, and half of those of the last good read."),
};

const separator = text("what separates the references, such as ;")
  .default(";")
  .describe('What separates several references in one text. Default ";". An array needs none.');

const references = { column: column.describe("The column that holds the references: a text or an array."), separator };

const entries = {
  ...rows,
  id: column.describe("The column that identifies a record permanently, even after a rename."),
  keys: z
    .array(column)
    .min(1, "expected at least one column")
    .optional()
    .describe("The columns that other records refer to this one by. Default: the id."),
  columns: z
    .record(z.string().min(1), column)
    .optional()
    .describe("Attribute: column. Default: every column is an attribute of its own name."),
  optionalColumns: z
    .array(column)
    .optional()
    .describe(
      "Attributes that rules name and that the query may be without, or without any value; also the columns of memberOf and members, which may be empty. Default: a column that a rule needs must be there.",
    ),
  memberOf: z
    .strictObject(references)
    .optional()
    .describe("A column that lists the groups the record is directly in, by their keys."),
};

const users = z.strictObject(entries).describe("The query for users, one per row.");

const groups = z
  .strictObject({
    ...entries,
    members: z
      .strictObject({
        ...references,
        kind: memberKind.optional().describe("What the members are. Default: a user with such a key, or else a group."),
      })
      .optional()
      .describe("A column that lists the group's direct members, by their keys."),
  })
  .describe("The query for groups, one per row.");

const memberships = z
  .strictObject({
    ...rows,
    group: column.describe("The column that refers to the group, by one of its keys."),
    member: column.describe("The column that refers to the direct member, by one of its keys."),
    kind: kindOfMembers(column),
  })
  .describe("The query for pairs: a group and a direct member, one pair per row.");

const timeouts = z
  .strictObject({
    connect: patience.prefault("10s").describe("How long connecting may take. Default 10s."),
    statement: patience.prefault("10m").describe("How long the database may take for one statement. Default 10m."),
    read: patience.prefault("12h").describe("How long the whole read may take. Default 12h."),
  })
  .prefault({})
  .describe("Time limits.");

/** The options beside `connector: sql`. */
export const options = z.strictObject({
  url: text("a URL like postgres://user@host/database, mysql://user@host/database or sqlite:file.db")
    .transform((value, context) => {
      const found = addressOf(value);
      return typeof found === "string" ? refused(context, found) : found;
    })
    .describe(
      "The database: postgres://user@host:5432/database?sslmode=verify-full, mysql://user@host:3306/database, or sqlite:file.db. sslmode is verify-full unless the server is on this machine; others are verify-ca, require and disable.",
    ),
  password: text("a password").optional().describe("The user's password; better ${env:NAME} or ${file:/path}."),
  ca: text("a path")
    .optional()
    .describe("A file of certificates (PEM) of the authorities to trust. Default: those that Node.js trusts."),
  rowSecurity: z
    .boolean()
    .default(false)
    .describe(
      "PostgreSQL: true reads what row-level security policies leave visible. Default false: a policy that may hide rows fails the read.",
    ),
  users,
  groups: groups.optional(),
  memberships: memberships.optional(),
  timeouts,
});

export type Options = z.infer<typeof options>;
export type UsersOptions = z.infer<typeof users>;
export type GroupsOptions = z.infer<typeof groups>;
export type MembershipsOptions = z.infer<typeof memberships>;
