import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "#service/engine/engine.ts";
import { openPostgresEngine } from "#service/engine/postgres/postgres.ts";
import { postgres as options } from "#postgres/options.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";
import { executed, pageOf } from "./stage.ts";

/** What queries and an administrator's statements reach in PostgreSQL, whatever its user may. */

const never = new AbortController().signal;
let server: PostgresServer;
let folder: string;
let engine: Engine;

beforeAll(async () => {
  server = await startPostgres();
  const url = await server.createDatabase();
  folder = await mkdtemp(join(tmpdir(), "rollcall-engine-"));
  engine = await openPostgresEngine({ postgres: options.parse({ postgres: url }), folder, memory: 512 * 2 ** 20 });
  const sql = "CREATE TABLE t (a INTEGER); CREATE VIEW v AS SELECT a + 1 AS b FROM t; INSERT INTO t VALUES (1)";
  for (const database of ["own", "other"]) {
    await executed(engine, undefined, `CREATE DATABASE IF NOT EXISTS ${database}`, never);
    await executed(engine, database, sql, never);
  }
  await executed(engine, "own", 'CREATE SCHEMA "own.elsewhere"; CREATE TABLE "own.elsewhere".x (a INT)', never);
  await executed(engine, "own", "CREATE SEQUENCE s; CREATE FUNCTION twice(n int) RETURNS int RETURN n * 2", never);
  const admin = await server.connect(new URL(url).pathname.slice(1));
  await admin.query(`CREATE EXTENSION tablefunc SCHEMA own; CREATE EXTENSION IF NOT EXISTS dblink SCHEMA own;
    GRANT SELECT ON pg_authid TO rollcall; ALTER ROLE rollcall CREATEROLE`);
  await admin.end();
  await executed(engine, "other", "CREATE FUNCTION peek() RETURNS int RETURN (SELECT max(a) FROM other.t)", never);
});
afterAll(async () => {
  await engine.close();
  await server.stop();
  await rm(folder, { recursive: true });
});

const ask = async (sql: string): Promise<unknown> =>
  pageOf(engine, { database: "own", sql, limit: 100, timeout: 60_000 }, never);

test.each([
  "SELECT * FROM other.t",
  "SELECT * FROM rollcall.loads",
  "SELECT (SELECT max(a) FROM other.t)",
  "SELECT * FROM t WHERE a IN (SELECT a FROM other.t)",
  "SELECT 1 WHERE false AND EXISTS (SELECT FROM other.t)",
  "WITH x AS (SELECT * FROM other.t) SELECT * FROM x",
  "SELECT * FROM t, LATERAL (SELECT * FROM other.t) q",
  "SELECT 1 LIMIT (SELECT a FROM other.t)",
  "SELECT other.peek()",
  "SELECT * FROM other.peek()",
  "SELECT * FROM pg_catalog.pg_class",
  "SELECT * FROM pg_stat_activity",
  "SELECT * FROM information_schema.tables",
  "SELECT pg_read_file('/etc/passwd')",
  "SELECT * FROM pg_ls_dir('/')",
  "SELECT pg_sleep(1)",
  "SELECT pg_terminate_backend(1)",
  "SELECT pg_advisory_lock(1)",
  "SELECT set_config('statement_timeout', '0', false)",
  "SELECT current_setting('data_directory')",
  "SELECT query_to_xml('SELECT * FROM other.t', true, true, '')",
  "SELECT table_to_xml('other.t'::regclass, true, true, '')",
  "SELECT * FROM ts_stat('SELECT a FROM other.t')",
  "SELECT lo_import('/etc/passwd')",
  "SELECT * FROM crosstab('SELECT rolname, rolname, rolpassword FROM pg_authid') AS x(a name, b text)",
  "SELECT * FROM own.crosstab2('SELECT 1, 2, a FROM other.t')",
  "SELECT normal_rand(1, 1, 1)",
  "SELECT * FROM dblink('', 'SELECT 1') AS x(a int)",
  "SELECT cursor_to_xml('x', 1, true, true, '')",
  "SELECT schema_to_xml('other', true, true, '')",
  "SELECT database_to_xml(true, true, '')",
  "SELECT query_to_xmlschema('SELECT 1', true, true, '')",
  "SELECT ts_rewrite('a'::tsquery, 'SELECT a, a FROM other.t')",
  "SELECT 'other.t'::regclass",
  "SELECT 1259::regclass",
  "SELECT i::regrole::text FROM generate_series(1, 100) AS i",
  "SELECT i::oid::regtype::text FROM generate_series(1, 100) AS i",
  "SELECT i::regproc FROM generate_series(1, 100) AS i",
  "SELECT ARRAY[16]::regnamespace[]",
  "SELECT CAST('10' AS regrole)",
  "SELECT * FROM json_to_record('{\"a\": 10}') AS x(a regrole)",
  "SELECT * FROM json_to_recordset('[{\"a\": [10]}]') AS x(a regrole[])",
  "SELECT * FROM xmltable('/r' PASSING '<r>10</r>' COLUMNS a regrole PATH '.')",
  "SELECT (json_populate_record(NULL::pg_type, '{\"typinput\": 1242}')).typinput",
  "SELECT 1 ORDER BY (16::regtype)",
  "SELECT count(*) FROM t WHERE (1259::regclass)::text = 'x'",
  "SELECT format_type(16, NULL)",
  "SELECT makeaclitem(10, 10, 'SELECT', false)",
  "SELECT current_schemas(true)",
  "SELECT obj_description(1)",
  "SELECT * FROM t TABLESAMPLE system_rows(1)",
  "SELECT nextval('s')",
  "SELECT has_table_privilege('other.t', 'SELECT')",
  "SELECT count(*) FILTER (WHERE pg_sleep(1) IS NULL) FROM t",
  "SELECT max(a) OVER (ORDER BY pg_sleep(1)) FROM t",
  "EXPLAIN ANALYZE SELECT 1",
  "COPY t TO '/tmp/out.csv'",
  "COPY t TO PROGRAM 'cat'",
  "SET statement_timeout = 0",
  "SHOW ALL",
  "CALL x()",
  "DO $$ BEGIN END $$",
  "INSERT INTO t VALUES (2)",
  "WITH x AS (INSERT INTO t VALUES (2) RETURNING a) SELECT * FROM x",
  "SELECT * INTO x FROM t",
  "SELECT * FROM t FOR UPDATE",
  "UPDATE t SET a = 2",
  "DELETE FROM t",
  "TRUNCATE t",
  "DROP TABLE t",
  "CREATE TABLE x (a INT)",
  "CREATE TEMP TABLE x AS SELECT 1",
  "PREPARE x AS SELECT 1",
  "LISTEN x",
  "BEGIN",
  "COMMIT",
  "SELECT 1; SELECT 2",
  "SELECT 1; COMMIT; DROP TABLE t",
  "SELECT 1) q; DROP TABLE t; SELECT * FROM (SELECT 1",
  "SELECT 1) q UNION ALL SELECT * FROM (SELECT 1",
  "SELECT $1",
  "",
  "-- nothing",
])("refuses %s", async (sql) => {
  await expect(ask(sql)).rejects.toMatchObject({ name: "InputError" });
});

test.each([
  ["SELECT * FROM t", [[1]]],
  ["TABLE own.v", [[2]]],
  ["SELECT t.a FROM own.t AS t JOIN T AS u USING (a)", [[1]]],
  ['SELECT * FROM "own.elsewhere".x', []],
  ["SELECT twice(a) FROM t", [[2]]],
  ["WITH t AS (SELECT 7 AS a) SELECT * FROM t", [[7]]],
  ["WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT max(i) FROM n", [[3]]],
  ["SELECT ';' AS x /* ; */; -- ;", [[";"]]],
  ['SELECT $$a;\'b$$ || e\'\\\';\' || "a"";" FROM (SELECT \'c\' AS "a"";") q', [["a;'b';c"]]],
  [
    "SELECT count(*) FILTER (WHERE a > 0), string_agg(a::text, ','), row_number() OVER () FROM t GROUP BY ()",
    [[1, "1", 1]],
  ],
  ["VALUES (1), (2)", [[1], [2]]],
  [
    "SELECT extract(year FROM DATE '2024-02-29'), upper('a'), ARRAY[1, NULL], 'ab' LIKE 'a%'",
    [["2024", "A", [1, null], true]],
  ],
  [
    "SELECT to_tsvector('english', 'cats') @@ to_tsquery('english', 'cat'), nullif(1, 2), 1 IN (1, 2)",
    [[true, 1, true]],
  ],
  ["SELECT (q).a, row(1, 'x') = row(1, 'x'), (q)::text FROM t AS q", [[1, true, "(1)"]]],
  ["SELECT random() < 2, now() > '2020-01-01', pg_typeof(1)::text, NULL", [[true, true, "integer", null]]],
  [
    "SELECT TIMESTAMPTZ '2024-02-29 10:00:00+02', TIMETZ '10:00:00.5+02', 'infinity'::date, INTERVAL '1 day'",
    [["2024-02-29T08:00:00", "10:00:00.500000", null, "1 day"]],
  ],
])("allows %s", async (sql, rows) => {
  expect(await ask(sql)).toMatchObject({ rows });
  // Also where it was checked before.
  expect(await ask(sql)).toMatchObject({ rows });
});

test.each([
  "SELECT * FROM rollcall.loads",
  "TABLE rollcall.migrations",
  "SELECT (SELECT count(*) FROM rollcall.loads)",
  "SELECT 1 LIMIT (SELECT count(*) FROM rollcall.loads)",
  "WITH x AS (DELETE FROM rollcall.loads RETURNING *) SELECT * FROM x",
  "WITH x AS (SELECT * FROM rollcall.loads) INSERT INTO t SELECT 1 FROM x",
  "INSERT INTO t SELECT 1 FROM rollcall.loads",
  "INSERT INTO rollcall.loads VALUES ('x')",
  "UPDATE t SET a = 2 FROM rollcall.loads",
  "DELETE FROM rollcall.loads",
  "DELETE FROM t USING rollcall.loads",
  'DELETE FROM "rollcall"."loads"',
  'DELETE FROM U&"\\0072ollcall".loads',
  "SELECT 1 -- \rFROM rollcall.loads",
  "EXPLAIN ANALYZE DELETE FROM rollcall.loads",
  "EXPLAIN (ANALYZE, COSTS off) SELECT * FROM rollcall.loads",
  "EXPLAIN ANALYZE CREATE TABLE x AS SELECT * FROM rollcall.loads",
  "SELECT * FROM pg_authid",
  "SELECT * FROM pg_stats",
  "SELECT * FROM pg_stat_activity",
  "SELECT * FROM pg_roles",
  "SELECT * FROM information_schema.user_mapping_options",
  "SELECT query_to_xml('SELECT * FROM rollcall.loads', true, true, '')",
  "SELECT table_to_xml('rollcall.loads', true, true, '')",
  "SELECT * FROM ts_stat('SELECT a FROM rollcall.loads')",
  "SELECT * FROM crosstab('SELECT 1, 2, a FROM t') AS x(a int, b int)",
  "SELECT set_config('role', 'x', false)",
  "SELECT pg_terminate_backend(1)",
  "SELECT pg_ls_dir('.')",
  "SELECT lo_creat(1)",
  "SELECT * INTO x FROM t",
  "DROP SCHEMA rollcall CASCADE",
  "DROP SCHEMA own, rollcall CASCADE",
  "DROP TABLE rollcall.loads",
  "DROP TABLE t, rollcall /* x */ . loads",
  "TRUNCATE rollcall.loads",
  "LOCK TABLE rollcall.loads",
  "ALTER TABLE rollcall.loads ADD COLUMN x int",
  "ALTER TABLE t SET SCHEMA rollcall",
  "ALTER SCHEMA rollcall RENAME TO x",
  "ALTER TABLE ALL IN TABLESPACE pg_default SET TABLESPACE pg_default",
  "CREATE TABLE rollcall.x (a int)",
  "CREATE TABLE x (a int) INHERITS (rollcall.loads)",
  "CREATE TABLE x (LIKE rollcall.loads)",
  "CREATE TABLE x (a text REFERENCES rollcall.loads)",
  "CREATE TABLE x AS SELECT * FROM rollcall.loads",
  "CREATE TABLE x AS TABLE rollcall.loads WITH NO DATA",
  "CREATE TABLE x AS EXECUTE y",
  "CREATE TABLE x AS SELECT * FROM pg_stats",
  "CREATE TABLE x (a xml DEFAULT query_to_xml('SELECT * FROM rollcall.loads', true, true, ''))",
  "ALTER TABLE t ADD COLUMN b xml DEFAULT \"query_to_xml\"('SELECT * FROM rollcall.loads', true, true, '')",
  "ALTER TABLE t ALTER a TYPE text USING query_to_xml('SELECT * FROM rollcall.loads', true, true, '')::text",
  "ALTER TABLE t ADD COLUMN c text DEFAULT e'a'\n'\\'' || rollcall.x() || ''",
  "CREATE VIEW x AS SELECT * FROM rollcall.loads",
  "CREATE VIEW x AS SELECT * FROM pg_stats WITH CHECK OPTION",
  "CREATE RECURSIVE VIEW x (a) AS SELECT 1",
  "CREATE MATERIALIZED VIEW x AS SELECT * FROM rollcall.loads",
  "CREATE INDEX ON rollcall.loads (written_at)",
  "CREATE SCHEMA x CREATE VIEW y AS SELECT * FROM rollcall.loads",
  "CREATE TEMP TABLE t (a int)",
  "CREATE FUNCTION x() RETURNS bigint RETURN (SELECT count(*) FROM rollcall.loads)",
  "CREATE FUNCTION x(a bigint DEFAULT pg_backend_pid()) RETURNS bigint RETURN a",
  "CREATE FUNCTION x() RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE $1; END'",
  "CREATE FUNCTION x() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM rollcall.loads'",
  "CREATE PROCEDURE x() LANGUAGE sql AS 'SELECT 1'",
  "CREATE RULE x AS ON INSERT TO t DO ALSO DELETE FROM rollcall.loads",
  "CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION suppress_redundant_updates_trigger()",
  "CREATE ROLE x",
  "CREATE USER x",
  "ALTER ROLE rollcall PASSWORD 'x'",
  "DROP ROLE rollcall",
  "SET ROLE rollcall",
  "SET SESSION AUTHORIZATION rollcall",
  "SET LOCAL search_path = rollcall",
  "RESET ALL",
  "SHOW ALL",
  "GRANT ALL ON t TO PUBLIC",
  "REVOKE ALL ON t FROM rollcall",
  "REASSIGN OWNED BY rollcall TO rollcall",
  "DROP OWNED BY rollcall",
  "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC",
  "ALTER DATABASE x SET search_path = rollcall",
  "ALTER SYSTEM SET x = 1",
  "CREATE EXTENSION dblink",
  "DROP EXTENSION tablefunc",
  "DO $$ BEGIN DELETE FROM rollcall.loads; END $$",
  "CALL x()",
  "PREPARE x AS SELECT 1",
  "EXECUTE x",
  "DECLARE x CURSOR FOR SELECT * FROM rollcall.loads",
  "COPY rollcall.loads TO STDOUT",
  "COPY t FROM PROGRAM 'cat /etc/passwd'",
  "COPY t FROM '/etc/passwd'",
  "IMPORT FOREIGN SCHEMA x FROM SERVER y INTO own",
  "VACUUM",
  "NOTIFY x",
  "SELECT 1; DROP SCHEMA rollcall CASCADE",
  "SET TRANSACTION READ ONLY; INSERT INTO t VALUES (2)",
])("not even an administrator may %s", async (sql) => {
  await expect(executed(engine, "own", sql, never)).rejects.toMatchObject({ name: "InputError" });
});

test("what an administrator may define", async () => {
  const sql = `
    CREATE TABLE more (id bigint PRIMARY KEY, at timestamp DEFAULT now(), name varchar(20) CHECK (length(name) > 0));
    CREATE SEQUENCE of_more; ALTER TABLE more ALTER id SET DEFAULT nextval('of_more');
    CREATE INDEX more_name ON more (lower(name)); CREATE UNIQUE INDEX ON more (name) WHERE id > 0;
    INSERT INTO more (name) VALUES ('a'), ('b') ON CONFLICT DO NOTHING;
    CREATE TABLE copied AS SELECT * FROM more WITH DATA; CREATE VIEW seen AS SELECT name FROM more WITH LOCAL CHECK OPTION;
    CREATE MATERIALIZED VIEW counted AS (SELECT count(*) AS n FROM more); REFRESH MATERIALIZED VIEW counted;
    CREATE OR REPLACE FUNCTION thrice(n int DEFAULT 1) RETURNS int IMMUTABLE RETURN n * 3; COMMENT ON TABLE more IS 'rollcall';
    UPDATE more SET name = 'c' WHERE name = 'a'; ANALYZE more; TRUNCATE copied; SET TRANSACTION READ ONLY;
    SELECT string_agg(name, ',' ORDER BY name), (SELECT n FROM counted), thrice(), pg_relation_size('more') > 0,
      (SELECT count(*) FROM information_schema.tables WHERE table_name = 'copied')
    FROM more WHERE 'more'::regclass IN (SELECT oid FROM pg_class)`;
  expect(await executed(engine, "own", sql, never)).toMatchObject({ rows: [["b,c", 2, 3, true, 1]] });
  await executed(engine, "own", "DROP VIEW seen; DROP TABLE copied, more CASCADE; DROP FUNCTION thrice", never);
});

test("what an administrator runs is one transaction", async () => {
  await expect(executed(engine, "own", "INSERT INTO t VALUES (5); SELECT 1 / 0", never)).rejects.toThrow(
    "line 1 (nothing was changed): division by zero",
  );
  expect(await executed(engine, "own", "SELECT * FROM t", never)).toMatchObject({ rows: [[1]] });
  const written = "WITH x AS (INSERT INTO t VALUES (6) RETURNING a) SELECT a FROM x";
  expect(await executed(engine, "own", written, never)).toMatchObject({ rows: [[6]], totalRowCount: 1 });
  expect(await executed(engine, "own", "DELETE FROM t WHERE a = 6", never)).toMatchObject({ rows: [] });
  await expect(executed(engine, "own", "COPY t TO PROGRAM 'cat'", never)).rejects.toThrow("COPY cannot be run here");
});

test("a length of a text is no type: varchar(20) has the number of regproc", async () => {
  await expect(ask("SELECT 'a'::varchar(20), 'a'::varchar(2201), 1::numeric(5, 2)")).resolves.toMatchObject({});
});
