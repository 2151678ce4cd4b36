import { z } from "zod";
import { text } from "./values.ts";

/** How a connector that reads rows words its options. */
interface Wording {
  /** What has the columns: `file`, `query`. */
  readonly rows: string;
  /** What a column is, for messages: `the name of a column of the query`. */
  readonly column: string;
  /** Of a column with references: what it holds. */
  readonly references: string;
  readonly separator: string;
}

const kind = z.enum(["user", "group"], { error: "expected user or group" });

/** The options for what becomes of a row, the same for every connector that reads rows. */
export function rowOptions(wording: Wording) {
  const column = text(wording.column);
  const references = {
    column: column.describe(wording.references),
    separator: text("what separates the references, such as ;").default(";").describe(wording.separator),
  };
  return {
    /** Of users and groups: each row is one. */
    entry: {
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
          `Attributes that rules name and that the ${wording.rows} may be without, or without any value; also the columns of memberOf and members, which may be empty. Default: a column that a rule needs must be there.`,
        ),
      memberOf: z
        .strictObject(references)
        .optional()
        .describe("A column that lists the groups the record is directly in, by their keys."),
    },
    /** Of groups besides. */
    members: z
      .strictObject({
        ...references,
        kind: kind.optional().describe("What the members are. Default: a user with such a key, or else a group."),
      })
      .optional()
      .describe("A column that lists the group's direct members, by their keys."),
    /** Of pairs: each row is a group and one direct member. */
    membership: {
      group: column.describe("The column that refers to the group, by one of its keys."),
      member: column.describe("The column that refers to the direct member, by one of its keys."),
      kind: z
        .union(
          [
            kind,
            z.strictObject({
              column: column.describe("The column that says what the member is."),
              user: z.string().min(1).default("user").describe("Its value for a user. Default user."),
              group: z.string().min(1).default("group").describe("Its value for a group. Default group."),
            }),
          ],
          { error: "expected user, group or {column, user, group}" },
        )
        .optional()
        .describe(
          "What the members are, or the column that says so. Default: a user with such a key, or else a group.",
        ),
    },
  };
}
