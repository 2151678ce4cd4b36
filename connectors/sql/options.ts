import { z } from "zod";
import { authorities } from "#http/directory/options.ts";
import { rowOptions } from "#row-options.ts";
import { addProblem, count, patience, refused, text } from "#values.ts";
import { addressOf } from "./address.ts";
import { queryProblem } from "./query.ts";

const query = text("a query: SELECT …")
  .superRefine((value, context) => {
    const message = queryProblem(value);
    if (message !== undefined) addProblem(context, [], message);
  })
  .describe("One SELECT. Its columns are read by their names, each row is one record.");

const minRows = count(0)
  .optional()
  .describe("Fewer rows fail the read. Default: half as many as at the last good read, at least 1.");

const rows = rowOptions({
  rows: "query",
  column: "the name of a column of the query",
  references: "The column that holds the references: a text or an array.",
  separator: 'What separates several references in one text. Default ";". An array needs none.',
});

const users = z.strictObject({ query, minRows, ...rows.entry }).describe("The query for users, one per row.");

const groups = z
  .strictObject({ query, minRows, ...rows.entry, members: rows.members })
  .describe("The query for groups, one per row.");

const memberships = z
  .strictObject({ query, minRows, ...rows.membership })
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
  ca: authorities,
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
