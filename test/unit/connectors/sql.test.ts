import { expect, test } from "vitest";
import { options } from "#connectors/sql/options.ts";
import type { Options } from "#connectors/sql/options.ts";
import { wrapped } from "#connectors/sql/query.ts";

const users = { query: "SELECT 1 AS id", id: "id" };

function problems(value: object): readonly string[] {
  const { error } = options.safeParse({ url: "sqlite:hr.db", users, ...value });
  return (error?.issues ?? []).map((issue) => `${issue.path.join(".")}: ${issue.message}`);
}

const urlOf = (url: string): Options["url"] => options.parse({ url, users }).url;

test("a URL says which database it is, and has defaults", () => {
  expect(urlOf("postgres://reader:p%40ss@db.example.com/hr")).toEqual({
    dialect: "postgres",
    host: "db.example.com",
    port: 5432,
    database: "hr",
    user: "reader",
    password: "p@ss",
    sslmode: "verify-full",
    place: "db.example.com:5432/hr",
  });
  expect(urlOf("mariadb://reader@localhost:3307/hr")).toMatchObject({
    dialect: "mysql",
    port: 3307,
    sslmode: "disable",
  });
  expect(urlOf("postgresql://reader@[::1]/hr")).toMatchObject({ host: "::1", place: "[::1]:5432/hr" });
  expect(urlOf("postgres://reader@x/hr?host=/run/postgresql")).toMatchObject({
    host: "/run/postgresql",
    sslmode: "disable",
    place: "/run/postgresql/hr",
  });
  expect(urlOf("sqlite:data/hr.db")).toEqual({ dialect: "sqlite", file: "data/hr.db", place: "data/hr.db" });
  expect(urlOf("sqlite:///var/hr.db")).toMatchObject({ file: "/var/hr.db" });
});

test.each([
  ["oracle://reader:hunter2@db/hr", /^url: expected postgres:\/\/user@host/],
  [
    "postgres://reader:hunter#2@db/hr",
    /^url: expected .*the (?:user|database|host) is missing|^url: expected postgres/,
  ],
  ["postgres://db/hr", /: the user is missing$/],
  ["postgres://reader@db", /: the database is missing$/],
  [
    "postgres://reader@db/hr?sslmode=prefer",
    /^url: sslmode is verify-full, verify-ca, require or disable; the others may/,
  ],
  ["postgres://reader@db/hr?options=x", /^url: the URL has the parameter "options"; it may have sslmode and host/],
  ["postgres://reader:100%@db/hr", /has a % that encodes nothing/],
  ["mysql://reader@10.0.0.1/hr", /^url: with MySQL, verify-full needs the name of the host/],
  ["sqlite::memory:", /^url: expected sqlite:file\.db/],
])("refuses the URL %s, without showing it", (url, message) => {
  const [problem = "none"] = problems({ url });
  expect(problem).toMatch(message);
  expect(problem).not.toContain("hunter");
});

test.each([
  "SELECT 1 AS id;",
  "  -- people\n/* all */ select * from people -- ;",
  "WITH p AS (SELECT * FROM people ORDER BY n LIMIT 5) SELECT * FROM p",
  "(SELECT 1 AS id) UNION (SELECT 2)",
  "SELECT 'a; b', \"limit 1\", `x;y`, $$; LIMIT 3$$, 'it''s; LIMIT 1' FROM t",
  "SELECT * FROM (SELECT * FROM people LIMIT 100) AS chosen",
  "SELECT * FROM people; -- all; of them\n/* by Anna */ ;\n",
  "SELECT E'it\\'s; LIMIT 1' AS a, split_part(login, '\\', 2) AS b FROM people",
  "SELECT 'it\\'s; LIMIT 1' AS a FROM people # all; of them",
  "SELECT p.limit AS limit FROM people p LIMIT ALL",
  "SELECT (SELECT mail FROM mails m WHERE m.p = p.id LIMIT 1) AS mail, utc_offset FROM people p",
])("takes the query %s", (query) => {
  expect(problems({ users: { query, id: "id" } })).toEqual([]);
});

test.each([
  ["DELETE FROM people", /^users\.query: expected a query that begins with SELECT or WITH$/],
  ["SELECT 1; SELECT 2", /^users\.query: expected one statement/],
  ["SELECT 'it''s' FROM t; DELETE FROM t; -- x", /^users\.query: expected one statement/],
  ["SELECT split_part(login, '\\', 2) AS id FROM people LIMIT 10; -- few", /^users\.query: LIMIT/],
  ["SELECT * FROM people ORDER BY n LIMIT 1000", /^users\.query: LIMIT, OFFSET and FETCH leave records out/],
  ["SELECT * FROM people LIMIT (1000)", /^users\.query: LIMIT/],
  ["SELECT * FROM people FETCH FIRST 10 ROWS ONLY", /^users\.query: LIMIT/],
  ["SELECT * FROM people WHERE x IN (SELECT y FROM z)\noffset 10", /^users\.query: LIMIT/],
])("refuses the query %s", (query, message) => {
  expect(problems({ users: { query, id: "id" } })).toEqual([expect.stringMatching(message)]);
});

test.each([
  ["SELECT 'a; -- b' AS id", "SELECT 'a; -- b' AS id"],
  ["SELECT 1 AS id ; -- all", "SELECT 1 AS id"],
  ["SELECT 1 AS id -- all;", "SELECT 1 AS id -- all;"],
])("asks for the rows of %s", (query, inner) => {
  expect(wrapped("*", query, "standard")).toBe(`SELECT * FROM (\n${inner}\n) AS rollcall_query`);
});
