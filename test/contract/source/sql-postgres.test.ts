import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { IncompleteReadError, RefusedError, UnavailableError } from "#errors.ts";
import { makeAuthority, makeCertificate } from "../../support/certificates.ts";
import { startPostgres } from "../../support/postgres.ts";
import type { PostgresServer } from "../../support/postgres.ts";
import { connectionsTo } from "../../support/process.ts";
import { startGate, startProxy } from "../../support/proxy.ts";
import type { Proxy } from "../../support/proxy.ts";
import { commonFaults, described, read, sqlMedium } from "./sql-medium.ts";
import type { SqlPlace } from "./sql-medium.ts";
import { sourceSuite } from "./suite.ts";

let server: PostgresServer;
/** Between the source and the server. */
let proxy: Proxy;

beforeAll(async () => {
  server = await startPostgres();
  proxy = await startProxy(`http://127.0.0.1:${server.port}`);
});

afterAll(async () => {
  await proxy.close();
  await server.stop();
});

async function make(): Promise<SqlPlace> {
  const url = new URL(await server.createDatabase());
  const password = decodeURIComponent(url.password);
  const database = url.pathname.slice(1);
  const run = async (...statements: readonly string[]): Promise<void> => {
    const client = await server.connect(database);
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  };
  await run("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO rollcall");
  const { port } = new URL(proxy.url);
  return {
    folder: "/",
    options: { url: `postgres://rollcall@127.0.0.1:${port}/${database}`, password },
    run,
    held: () => connectionsTo([Number(port)]),
    dispose: () => run(`ALTER ROLE rollcall PASSWORD '${password}'`),
  };
}

/** Memberships in arrays, by numbers. */
const parts = {
  users: {
    query: `SELECT *, ARRAY(SELECT team FROM members WHERE member = number AND kind = 'person') AS teams FROM users;`,
    id: "number",
    memberOf: { column: "teams" },
    minRows: 9,
  },
  groups: {
    query: "SELECT *, ARRAY(SELECT team FROM members WHERE member = number AND kind = 'team') AS teams FROM teams",
    id: "number",
    memberOf: { column: "teams" },
  },
};

sourceSuite(
  sqlMedium("PostgreSQL", parts, make, {
    describes: [
      /^PostgreSQL \d+\.\d+ at 127\.0\.0\.1:\d+\/test\d+, not encrypted$/m,
      /^as rollcall$/m,
      /^9 users, 7 groups$/m,
    ],
    faults: {
      before: [
        ...commonFaults,
        {
          name: "the account may not read the users any more",
          inject: ({ run }) => run("REVOKE SELECT ON users FROM rollcall"),
          message: /, users: permission denied for table users$/,
          advice: "fix",
        },
        {
          name: "the account may not read a column any more",
          inject: ({ run }) =>
            run("REVOKE SELECT ON teams FROM rollcall", "GRANT SELECT (number, name) ON teams TO rollcall"),
          message: /, groups: permission denied for table teams$/,
        },
        {
          name: "a policy hides rows",
          inject: ({ run }) =>
            run("ALTER TABLE users ENABLE ROW LEVEL SECURITY", "CREATE POLICY low ON users USING (number < '5')"),
          message: /, users: query would be affected by row-level security policy.* give the account BYPASSRLS/,
        },
        {
          name: "a policy without exceptions hides all rows",
          inject: ({ run }) => run("ALTER TABLE teams ENABLE ROW LEVEL SECURITY"),
          message: /, groups: query would be affected by row-level security policy/,
        },
        {
          name: "the password is another one",
          inject: ({ run }) => run("ALTER ROLE rollcall PASSWORD 'changed'"),
          message: /^PostgreSQL at \S+: password authentication failed/,
          advice: "fix",
        },
      ],
      during: [
        {
          name: "the connection is cut",
          inject: async () => {
            proxy.cut();
            proxy.forward(`http://127.0.0.1:${server.port}`);
          },
          message:
            /^PostgreSQL at \S+, \w+: (?:Connection terminated unexpectedly|the connection was lost \((?:ECONNRESET|EPIPE)\))$/,
          advice: "retry",
        },
        {
          name: "the server stops",
          inject: async () => {
            await server.halt();
            await server.start();
          },
          message: /^PostgreSQL at \S+, \w+: terminating connection due to administrator command$/,
          advice: "retry",
        },
        {
          name: "somebody ends the connection",
          inject: ({ run }) =>
            run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rollcall'"),
          message: /^PostgreSQL at \S+, \w+: terminating connection due to administrator command$/,
        },
      ],
    },
  }),
);

test("rows that are deleted and added during the read do not matter", async () => {
  const { options, run } = await make();
  await run("CREATE TABLE t AS SELECT n AS id, n % 5000 AS team FROM generate_series(1, 20000) n");
  const names = new Set<string>();
  let batches = 0;
  const records = await read(
    {
      ...options,
      users: { query: "SELECT id FROM t", id: "id" },
      groups: { query: "SELECT DISTINCT team FROM t", id: "team" },
    },
    { count: (name, amount) => names.add(`${amount} ${name}`) },
    () => (batches++ === 0 ? run("DELETE FROM t WHERE id % 2 = 0", "INSERT INTO t SELECT 30000, 30000") : undefined),
  );
  expect(batches).toBeGreaterThan(10);
  expect(records).toHaveLength(25_000);
  expect([...names]).toEqual(["20000 users", "5000 groups"]);
});

test.each([
  ["a query that writes", "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone", /top level/],
  [
    "a function that writes",
    "SELECT nextval('s') AS id",
    /cannot execute nextval\(\) in a read-only transaction: the query must only read$/,
  ],
  [
    "a value that cannot be converted, without telling it",
    "SELECT n AS id, concat('a \"secret\" ', n)::int FROM generate_series(1, 3) n",
    /, users: invalid input syntax for type integer: "…"$/,
  ],
  ["a parameter", "SELECT $1 AS id", /users: bind message supplies 0 parameters.*requires 1/],
  ["two columns with one name", "SELECT 1 AS id, 2 AS id", /, users: the query has two columns "id"; rename one/],
  [
    "a column that is not there",
    'SELECT 1 AS "Id"',
    /, users: the query has no column "id"; it is written "Id" there$/,
  ],
  ["another statement behind a parenthesis", "SELECT 1 AS id) AS a -- (", /syntax error|multiple/],
  [
    "rows at random",
    "SELECT n AS id FROM generate_series(1, 9000) n WHERE random() < 0.5",
    /counted [\d,]+ rows and delivered/,
  ],
])("refuses %s", async (_, query, message) => {
  const { options, run } = await make();
  await run("CREATE TABLE t (id int)", "CREATE SEQUENCE s", "GRANT ALL ON t, s TO rollcall");
  await expect(read({ ...options, users: { query, id: "id" } })).rejects.toThrow(message);
});

test("values have the forms that the README states", async () => {
  const { options, run } = await make();
  await run("CREATE TYPE colour AS ENUM ('red', 'blue')", "CREATE DOMAIN flag AS boolean");
  const query = `SELECT 7::bigint AS id, 9007199254740993 AS large, 1.50::numeric(9, 2) AS dec, 0.1::float8 AS flt, 'NaN'::float8 AS nan, '-Infinity'::numeric AS endless,
    true AS yes, '2026-11-26'::date AS day, '2026-11-26 08:30:00.120'::timestamp AS local,
    '2026-11-26 08:30+02'::timestamptz AS moment, 'infinity'::timestamptz AS never, '08:30'::time AS clock,
    ARRAY['a', NULL, '', 'b"c']::text[] AS list, ARRAY[1, 2] AS numbers, ARRAY['red']::colour[] AS colours, ARRAY[[1], [2]] AS table,
    '{"a": [1]}'::jsonb AS json, '\\x01FF'::bytea AS bytes, 'ab'::char(5) AS padded, ARRAY['ab', 'c']::char(5)[] AS paddeds,
    ARRAY[true, false] AS flags, ARRAY[true]::flag[] AS own_flags, '1 2'::int2vector AS vector, ARRAY['(1,2),(3,4)']::box[] AS boxes, ARRAY['2026-11-26 08:30+02']::timestamptz[] AS moments, '' AS blank, NULL AS nothing,
    ARRAY[]::text[] AS none, 'a3bb189e-8bf9-3888-9912-ace4e6543002'::uuid AS uuid, '1 day'::interval AS span`;
  const [user] = await read({ ...options, users: { query, id: "id" } });
  expect(user).toMatchObject({
    kind: "user",
    id: "7",
    keys: ["7"],
    origin: expect.stringMatching(/\/test\d+, users with id 7$/),
  });
  expect(JSON.parse(JSON.stringify(user))).toHaveProperty("attributes", {
    id: 7,
    large: { unreadable: "is a number with more than 15 digits; cast it to text in the query" },
    dec: 1.5,
    flt: 0.1,
    nan: { unreadable: "is NaN, which is no number" },
    endless: { unreadable: "is -Infinity, which is no number" },
    yes: true,
    day: "2026-11-26",
    local: "2026-11-26T08:30:00.12",
    moment: "2026-11-26T06:30:00Z",
    never: "infinity",
    clock: "08:30:00",
    list: ["a", 'b"c'],
    numbers: ["1", "2"],
    colours: ["red"],
    table: { unreadable: "is a list of lists" },
    json: '{"a": [1]}',
    bytes: "01ff",
    padded: "ab",
    paddeds: ["ab", "c"],
    flags: ["true", "false"],
    own_flags: ["true"],
    vector: "1 2",
    boxes: "{(3,4),(1,2)}",
    moments: ["2026-11-26T06:30:00Z"],
    uuid: "a3bb189e-8bf9-3888-9912-ace4e6543002",
    span: "1 day",
  });
});

test("rows that are deleted between the count and the rows do not matter", async () => {
  const { options, run } = await make();
  await run("CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 2000) n");
  const gate = await startGate(`http://127.0.0.1:${server.port}`);
  const url = options.url.replace(/:\d+/, `:${new URL(gate.url).port}`);
  const reached = gate.stopAt(/DECLARE rollcall .*SELECT \* FROM/s);
  const reading = read({ ...options, url, users: { query: "SELECT id FROM t", id: "id" } });
  await reached;
  await run("DELETE FROM t WHERE id % 2 = 0");
  gate.release();
  expect(await reading).toHaveLength(2_000);
  await gate.close();
});

test.each([
  ["emptied and filled again", "TRUNCATE t; INSERT INTO t SELECT n FROM generate_series(1, 9) n"],
  ["written anew", "ALTER TABLE t ALTER COLUMN id TYPE bigint"],
  ["replaced by a new one", "DROP TABLE t; CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 9) n"],
  [
    "replaced by one that was there, and filled since",
    "INSERT INTO next SELECT * FROM t; DROP TABLE t; ALTER TABLE next RENAME TO t",
  ],
])("a table that is %s during the read tears it", async (_, change) => {
  const { options, run } = await make();
  await run(
    "CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 9) n",
    "CREATE TABLE next (id int)",
    "CREATE TABLE same AS TABLE t",
    "CREATE MATERIALIZED VIEW kept AS TABLE same",
  );
  const query = "SELECT id FROM t UNION ALL SELECT id + 10 FROM same UNION ALL SELECT id + 20 FROM kept";
  const meanwhile = async (statements: string) => {
    const gate = await startGate(`http://127.0.0.1:${server.port}`);
    onTestFinished(() => gate.close());
    const url = options.url.replace(/:\d+/, `:${new URL(gate.url).port}`);
    const reached = gate.stopAt(/DECLARE rollcall .*count/s);
    const reading = read({ ...options, url, users: { query, id: "id" } });
    await reached;
    await run(`BEGIN; ${statements}; COMMIT`);
    gate.release();
    return reading;
  };
  const harmless = "CREATE INDEX ON same (id); REFRESH MATERIALIZED VIEW kept; DELETE FROM same WHERE id > 5";
  expect(await meanwhile(harmless)).toHaveLength(27);
  await expect(meanwhile(change)).rejects.toThrow(/, users: the table t was replaced or emptied/);
  await expect(meanwhile("TRUNCATE t")).rejects.toMatchObject({ torn: true });
});

test("whoever stores rows slowly keeps the transaction longer than the server lets others idle", async () => {
  const { options, run } = await make();
  await run(
    "CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 3000) n",
    "ALTER ROLE rollcall SET idle_in_transaction_session_timeout = '20ms'",
  );
  onTestFinished(() => run("ALTER ROLE rollcall RESET idle_in_transaction_session_timeout"));
  const records = await read({ ...options, users: { query: "SELECT id FROM t", id: "id" } }, {}, () => delay(60));
  expect(records).toHaveLength(3_000);
});

test("rows that a policy hides on purpose are left out, and half of them are too few the next time", async () => {
  const { options, run } = await make();
  await run(
    "CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 200) n",
    "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY low ON t USING (id <= 100)",
  );
  const visible = { ...options, rowSecurity: true, users: { query: "SELECT id FROM t", id: "id" } };
  expect(await read(visible, { lastCounts: { users: 200 } })).toHaveLength(100);
  expect(await described(visible)).toContain("row-level security policies decide which rows are read");
  await expect(read(visible, { lastCounts: { users: 201 } })).rejects.toThrow(
    /, users: the query has 100 rows, and 201 at the last good read; if that is right, set minRows: 100$/,
  );
});

test("an attribute that is empty for all, or has no column any more, fails the read", async () => {
  const { options } = await make();
  const query = "SELECT n AS id, NULL::text AS mail FROM generate_series(1, 9) n";
  const context = { attributes: { users: ["mail"], groups: [] }, lastCounts: { users: 9, "users with mail": 10 } };
  const source = { ...options, users: { query, id: "id" } };
  await expect(read(source, context)).rejects.toThrow(IncompleteReadError);
  await expect(read(source, context)).rejects.toThrow(/: entry\.mail is empty for all users, and 10 had a value/);
  const other = { ...options, users: { query: query.replace("mail", "e_mail"), id: "id" } };
  await expect(read(other, context)).rejects.toThrow(
    /, users: no column gives entry\.mail, which a rule reads, and 10 users had a value there at the last good read; it has id, e_mail;/,
  );
  const optional = { ...other, users: { ...other.users, optionalColumns: ["mail"] } };
  expect(await read(optional, context)).toHaveLength(9);
});

test("something else that answers is told", async () => {
  const { options } = await make();
  const other = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  await once(other.listen(0, "127.0.0.1"), "listening");
  const url = options.url.replace(/:\d+/, `:${(other.address() as AddressInfo).port}`);
  const reading = read({ ...options, url, users: { query: "SELECT 1 AS id", id: "id" } });
  await expect(reading).rejects.toBeInstanceOf(UnavailableError);
  other.close();
});

test("a statement ends at its time limit", async () => {
  const { options } = await make();
  const slow = {
    ...options,
    timeouts: { statement: "1s" },
    users: { query: "SELECT 1 AS id, pg_sleep(60)", id: "id" },
  };
  await expect(read(slow)).rejects.toThrow(
    /, users: canceling statement due to statement timeout \(timeouts: \{ statement \}\)$/,
  );
  await expect(read(slow)).rejects.toThrow(UnavailableError);
});

test("a statement that is running is stopped on the server", async () => {
  const { options, run } = await make();
  const running = async (): Promise<number> => {
    const client = await server.connect();
    const { rowCount } = await client.query(
      "SELECT FROM pg_stat_activity WHERE query LIKE 'FETCH%' AND application_name = 'rollcall'",
    );
    await client.end();
    return rowCount ?? 0;
  };
  await run("SELECT 1");
  const abort = new AbortController();
  const query = "SELECT n AS id, pg_sleep(60) FROM generate_series(1, 3) n";
  const reading = read({ ...options, users: { query, id: "id" } }, { signal: abort.signal });
  reading.catch(() => undefined);
  await expect.poll(running).toBe(1);
  abort.abort("enough");
  await expect(reading).rejects.toBe("enough");
  await expect.poll(running).toBe(0);
});

test("a server that says nothing any more holds nobody up who wants to stop", async () => {
  const { options, run } = await make();
  await run("CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 9000) n");
  const abort = new AbortController();
  const reading = read({ ...options, users: { query: "SELECT id FROM t", id: "id" } }, { signal: abort.signal }, () => {
    proxy.freeze();
    setImmediate(() => abort.abort("enough"));
  });
  await expect(reading).rejects.toBe("enough");
  proxy.thaw();
});

test("the certificate is checked, with its name", async () => {
  const { options } = await make();
  const at = (host: string, sslmode: string): object => ({
    ...options,
    url: `${options.url.replace(/@[^/]*/, `@${host}:${server.port}`)}?sslmode=${sslmode}`,
    users: { query: "SELECT 1 AS id", id: "id" },
  });
  await expect(read(at("localhost", "verify-full"))).rejects.toThrow(
    /: the server does not encrypt: .*sslmode=disable/,
  );
  const authority = await makeAuthority();
  await server.encrypt(await makeCertificate({ dns: ["localhost"] }, { issuer: authority }));
  const ca = join(tmpdir(), `rollcall-sql-${process.pid}.pem`);
  await writeFile(ca, authority.cert);
  onTestFinished(() => rm(ca));
  expect(await described({ ...at("localhost", "verify-full"), ca })).toContainEqual(
    expect.stringMatching(/ at localhost:\d+\/test\d+, TLSv1\.3, certificate of CN=localhost/),
  );
  await expect(read(at("localhost", "verify-full"))).rejects.toThrow(RefusedError);
  await expect(read(at("localhost", "verify-full"))).rejects.toThrow(/is not from an authority that is trusted here/);
  await expect(read({ ...at("127.0.0.1", "verify-full"), ca })).rejects.toThrow(/is for other names \(DNS:localhost\)/);
  expect(await read({ ...at("127.0.0.1", "verify-ca"), ca })).toHaveLength(1);
  await expect(read({ ...at("localhost", "verify-full"), ca: "/nowhere.pem" })).rejects.toThrow(
    /^ca: \/nowhere\.pem does not exist/,
  );
});
