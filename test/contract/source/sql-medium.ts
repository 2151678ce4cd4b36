import sql from "#connectors/sql/index.ts";
import type { ReadContext, SourceRecord } from "#connector.ts";
import type { Company } from "./company.ts";
import type { Fault, Medium, Provision } from "./suite.ts";

/** A company in the tables of a database. */
export interface SqlProvision extends Provision {
  /** Runs statements as the administrator. */
  run(...statements: readonly string[]): Promise<void>;
}

/** A database of its own for one company. */
export interface SqlPlace {
  readonly folder: string;
  /** The options for the connection. */
  readonly options: { readonly url: string; readonly password?: string; readonly ca?: string };
  run(...statements: readonly string[]): Promise<void>;
  held(): Promise<number>;
  dispose(): Promise<void>;
}

/** What every row of the users holds besides, to be sure that no error shows what a table holds. */
const password = "hunter2-is-secret";

const attributes = {
  login: "login",
  displayName: "display_name",
  mail: "mail",
  name: "name",
  description: "description",
};

/**
 * @param parts the options of users, groups and memberships, without `minRows`
 * @param make makes an empty database
 */
export function sqlMedium(
  name: string,
  parts: Readonly<Record<string, object>>,
  make: () => Promise<SqlPlace>,
  medium: Pick<Medium<SqlProvision>, "faults" | "describes">,
): Medium<SqlProvision> {
  return {
    name: `sql, ${name}`,
    module: new URL("../../../connectors/sql/index.ts", import.meta.url).href,
    attributes,
    large: { users: 20_000, heap: 40 },
    ...medium,
    async provision(company) {
      const place = await make();
      await place.run(...tables, ...rowsOf(company));
      return {
        ...place,
        secrets: [password, place.options.password ?? password],
        options: { ...place.options, ...parts },
        rename: (number, login) =>
          place.run(`UPDATE users SET login = '${login}', display_name = '${login}' WHERE number = '${number}'`),
      };
    },
  };
}

const tables = [
  "CREATE TABLE users (number varchar(40), login varchar(200), display_name varchar(200), mail varchar(200), password varchar(40))",
  "CREATE TABLE teams (number varchar(40), name varchar(200), description varchar(200))",
  "CREATE TABLE members (team varchar(40), member varchar(40), kind varchar(10))",
  "CREATE INDEX of_member ON members (member)",
  "CREATE INDEX of_team ON members (team)",
];

/** So many rows are inserted at a time. */
const several = 1_000;

function rowsOf({ users, groups }: Company): readonly string[] {
  const numbers = new Map(groups.map((group) => [group.name, group.number]));
  const memberships = (kind: string, records: Company["users"] | Company["groups"]) =>
    records.flatMap((record) => record.groups.map((group) => [numbers.get(group), record.number, kind]));
  return [
    ...inserts(
      "users",
      users.map((user) => [user.number, user.login, user.displayName, user.mail, password]),
    ),
    ...inserts(
      "teams",
      groups.map((group) => [group.number, group.name, group.description]),
    ),
    ...inserts("members", [...memberships("person", users), ...memberships("team", groups)]),
  ];
}

function inserts(table: string, rows: readonly (readonly (string | undefined)[])[]): readonly string[] {
  const literals = rows.map((row) => `(${row.map(literal).join(", ")})`);
  return Array.from(
    { length: Math.ceil(rows.length / several) },
    (_, index) => `INSERT INTO ${table} VALUES ${literals.slice(index * several, (index + 1) * several).join(", ")}`,
  );
}

function literal(value: string | undefined): string {
  return value === undefined ? "NULL" : `'${value.replaceAll("'", "''")}'`;
}

/** What can be wrong in the tables of every database. */
export const commonFaults: readonly Fault<SqlProvision>[] = [
  {
    name: "the users are gone",
    inject: ({ run }) => run("DELETE FROM users"),
    message: /, users: the query has 0 rows, expected at least 9 \(minRows\)$/,
  },
  {
    name: "there are no groups",
    inject: ({ run }) => run("DELETE FROM teams"),
    message: /, groups: the query has 0 rows, expected at least 1 \(minRows\)$/,
  },
  {
    name: "the table is gone",
    inject: ({ run }) => run("ALTER TABLE users RENAME TO people"),
    message: /, users: .*users.*(?:not exist|doesn't exist)|no such table: users/,
  },
  {
    name: "a column has another name",
    inject: ({ run }) => run("ALTER TABLE teams RENAME COLUMN number TO no"),
    message: /, groups: .*number/,
  },
  {
    name: "two users have one number",
    inject: ({ run }) => run("UPDATE users SET number = '5' WHERE number = '7'"),
    message: /, users: 2 rows have the number "5"; does a join find several rows for one record\?$/,
  },
  {
    name: "a user has no number",
    inject: ({ run }) => run("UPDATE users SET number = NULL WHERE number = '5'"),
    message: /, users, row \d: column "number" is empty; every row needs one$/,
  },
];

/** Reads a source to its end. @param each what happens after a batch */
export async function read(
  options: object,
  context: Partial<ReadContext> = {},
  each: () => Promise<void> | void = () => undefined,
  folder = "/",
): Promise<readonly SourceRecord[]> {
  const source = sql.open(sql.options.parse(options), { name: "hr", folder });
  const records: SourceRecord[] = [];
  for await (const batch of source.read({ ...anyContext(), ...context })) {
    records.push(...batch);
    await each();
  }
  return records;
}

/** The lines of a source's `describe`. */
export async function described(options: object): Promise<readonly string[]> {
  const source = sql.open(sql.options.parse(options), { name: "hr", folder: "/" });
  return (await source.describe?.(anyContext())) ?? [];
}

function anyContext(): ReadContext {
  return { signal: new AbortController().signal, warn: () => undefined };
}
