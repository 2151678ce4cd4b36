import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RefusedError, UnavailableError } from "#errors.ts";
import { noMariaDb, reader, startMariaDb } from "../../support/mariadb.ts";
import type { MariaDb } from "../../support/mariadb.ts";
import { connectionsTo } from "../../support/process.ts";
import { startGate, startProxy } from "../../support/proxy.ts";
import type { Proxy } from "../../support/proxy.ts";
import { commonFaults, described, read, sqlMedium } from "./sql-medium.ts";
import type { SqlPlace } from "./sql-medium.ts";
import { sourceSuite } from "./suite.ts";

const reason = await noMariaDb();
let server: MariaDb;
/** Between the source and the server. */
let proxy: Proxy;

beforeAll(async () => {
  if (reason !== undefined) return;
  server = await startMariaDb();
  proxy = await startProxy(`http://127.0.0.1:${server.port}`);
});

afterAll(async () => {
  if (reason !== undefined) return;
  await proxy.close();
  await server[Symbol.asyncDispose]();
});

async function make(): Promise<SqlPlace> {
  const database = await server.createDatabase();
  const run = async (...statements: readonly string[]): Promise<void> => {
    const client = await server.connect(database);
    try {
      for (const statement of statements) await client.query(statement);
    } finally {
      await client.end();
    }
  };
  const { port } = new URL(proxy.url);
  return {
    folder: "/",
    options: { url: `mysql://${reader.name}@127.0.0.1:${port}/${database}`, password: reader.password },
    run,
    held: () => connectionsTo([Number(port)]),
    dispose: () => run(`ALTER USER ${reader.name} IDENTIFIED BY '${reader.password}'`),
  };
}

/** Memberships by a query of pairs, with the kind of the member. */
const parts = {
  users: { query: "SELECT number, login, display_name, mail, password FROM users", id: "number", minRows: 9 },
  groups: { query: "SELECT * FROM teams;", id: "number" },
  memberships: {
    query: "SELECT team, member, kind FROM members ORDER BY team",
    group: "team",
    member: "member",
    kind: { column: "kind", user: "person", group: "team" },
  },
};

describe.skipIf(reason !== undefined)("MariaDB", () => {
  sourceSuite(
    sqlMedium("MariaDB", parts, make, {
      describes: [
        /^10\.\S+MariaDB\S* at 127\.0\.0\.1:\d+\/test\d+, not encrypted$/m,
        /^as reader@%$/m,
        /^9 users, 7 groups, \d+ memberships$/m,
      ],
      faults: {
        before: [
          ...commonFaults,
          {
            name: "the account may not read any more",
            inject: async ({ run, options }) => {
              const database = new URL((options as { url: string }).url).pathname.slice(1);
              await run(`REVOKE SELECT ON ${database}.* FROM ${reader.name}`);
            },
            message: /^MySQL at \S+: Access denied for user 'reader'@'%' to database/,
            advice: "fix",
          },
          {
            name: "the password is another one",
            inject: ({ run }) => run(`ALTER USER ${reader.name} IDENTIFIED BY 'changed'`),
            message: /^MySQL at \S+: Access denied for user 'reader'@/,
            advice: "fix",
          },
          {
            name: "a pair names something else than a user or a group",
            inject: ({ run }) => run("UPDATE members SET kind = 'robot' WHERE kind = 'team'"),
            message: /, memberships, row \d+: column "kind": expected "person" or "team"$/,
          },
        ],
        during: [
          {
            name: "the connection is cut",
            inject: async () => {
              proxy.cut();
              proxy.forward(`http://127.0.0.1:${server.port}`);
            },
            message: /^MySQL at \S+, \w+: (?:Connection lost|.*(?:ECONNRESET|EPIPE))/,
            advice: "retry",
          },
          {
            name: "the server is killed",
            inject: async () => {
              await server.kill();
              await server.start();
            },
            message: /^MySQL at \S+, \w+: (?:Connection lost|.*(?:ECONNRESET|EPIPE))/,
            advice: "retry",
          },
        ],
      },
    }),
  );
});

describe.skipIf(reason !== undefined)("MariaDB", () => {
  test("rows that are deleted and added during the read do not matter", async () => {
    const { options, run } = await make();
    await run("CREATE TABLE t AS SELECT seq AS id, seq % 5000 AS team FROM seq_1_to_20000");
    let batches = 0;
    const records = await read(
      {
        ...options,
        users: { query: "SELECT id FROM t", id: "id" },
        groups: { query: "SELECT DISTINCT team FROM t", id: "team" },
      },
      {},
      () => (batches++ === 0 ? run("DELETE FROM t WHERE id % 2 = 0", "INSERT INTO t SELECT 30000, 30000") : undefined),
    );
    expect(batches).toBeGreaterThan(10);
    expect(records).toHaveLength(25_000);
  });

  test("rows that are deleted between the count and the rows matter only without transactions", async () => {
    const { options, run } = await make();
    const gate = await startGate(`http://127.0.0.1:${server.port}`);
    const url = options.url.replace(/:\d+/, `:${new URL(gate.url).port}`);
    const meanwhile = async (engine: string) => {
      await run(`CREATE OR REPLACE TABLE t ENGINE = ${engine} AS SELECT seq AS id FROM seq_1_to_2000`);
      const reached = gate.stopAt(/SELECT \* FROM \(/);
      const reading = read({ ...options, url, users: { query: "SELECT id FROM t", id: "id" } });
      await reached;
      await run("DELETE FROM t WHERE id % 2 = 0");
      gate.release();
      return reading;
    };
    expect(await meanwhile("InnoDB")).toHaveLength(2_000);
    await expect(meanwhile("MyISAM")).rejects.toThrow(
      /, users: the database counted 2,000 rows and delivered 1,000; .*MyISAM/,
    );
    await gate.close();
  });

  test("a table that is emptied during the read tears it", async () => {
    const { options, run } = await make();
    await run("CREATE TABLE t AS SELECT seq AS id FROM seq_1_to_9");
    const gate = await startGate(`http://127.0.0.1:${server.port}`);
    const url = options.url.replace(/:\d+/, `:${new URL(gate.url).port}`);
    const reached = gate.stopAt(/SELECT count/);
    const reading = read({ ...options, url, users: { query: "SELECT id FROM t", id: "id" } });
    await reached;
    await run("TRUNCATE t", "INSERT INTO t SELECT seq AS id FROM seq_1_to_9");
    gate.release();
    await expect(reading).rejects.toMatchObject({
      torn: true,
      message: expect.stringMatching(/, users: Table definition has changed/),
    });
    await gate.close();
  });

  test("takes its own comments and escapes, and a comment behind the end", async () => {
    const { options } = await make();
    const query = "SELECT 5--3 AS id, 'it\\'s; x' AS x # all; of them\n; -- that's all";
    expect(await read({ ...options, users: { query, id: "id" } })).toMatchObject([
      { id: "8", attributes: { x: "it's; x" } },
    ]);
  });

  test("what the server would cut off without a word fails, or is not cut off", async () => {
    const { options, run } = await make();
    await run(
      "CREATE TABLE t AS SELECT seq AS id FROM seq_1_to_20000",
      "SET GLOBAL sql_select_limit = 100",
      "SET GLOBAL group_concat_max_len = 1024",
    );
    try {
      expect(await read({ ...options, users: { query: "SELECT id FROM t", id: "id" } })).toHaveLength(20_000);
      const list = {
        query: "SELECT 1 AS id, group_concat(id) AS t FROM t",
        id: "id",
        memberOf: { column: "t", separator: "," },
      };
      const [user] = await read({ ...options, users: list });
      expect(user).toMatchObject({ memberOf: { length: 20_000 } });
      const large = "SELECT 1 AS id, group_concat(repeat('x', 2000)) AS t FROM t";
      await expect(read({ ...options, users: { query: large, id: "id" } })).rejects.toThrow(
        /users: the server cut values off: .*max_allowed_packet/,
      );
    } finally {
      await run("SET GLOBAL sql_select_limit = DEFAULT", "SET GLOBAL group_concat_max_len = DEFAULT");
    }
  });

  test.each([
    ["a query that writes", "WITH gone AS (SELECT 1) DELETE FROM t", /syntax/],
    ["a function that writes", "SELECT nextval(s) AS id", /READ ONLY transaction|denied/],
    ["a value with an error, without telling it", "SELECT extractvalue(1, 'a secret [') AS id", /syntax error: '…'$/],
    ["two columns with one name", "SELECT 1 AS id, 2 AS id", /, users: Duplicate column name 'id'$/],
    ["another statement behind a parenthesis", "SELECT 1 AS id) AS a -- (", /syntax/],
    ["rows at random", "SELECT seq AS id FROM seq_1_to_9000 WHERE rand() < 0.5", /counted [\d,]+ rows and delivered/],
  ])("refuses %s", async (_, query, message) => {
    const { options, run } = await make();
    await run("CREATE TABLE t (id int)", "CREATE SEQUENCE s");
    await expect(read({ ...options, users: { query, id: "id" } })).rejects.toThrow(message);
  });

  test("values have the forms that the README states", async () => {
    const { options, run } = await make();
    await run(
      `CREATE TABLE t (id bigint, large bigint unsigned, dec_ decimal(9, 2), flt double, yes boolean, many tinyint(1), bit_ bit(1), bits bit(9),
        day date, local datetime(3), moment timestamp, clock time, year_ year, json_ json, bytes varbinary(9), padded char(5),
        latin varchar(20) CHARACTER SET latin1, owl varchar(20), uuid_ uuid, colour enum('red', 'blue'), blank text, nothing int)`,
      `INSERT INTO t VALUES (7, 18446744073709551615, 1.5, 0.1, TRUE, 3, b'1', b'100000001',
        '2026-11-26', '2026-11-26 08:30:00.120', '2026-11-26 08:30:00', '08:30', 2026, '{"a": [1]}', x'01ff', 'ab',
        'Müßig', '李雷 🦉', 'a3bb189e-8bf9-3888-9912-ace4e6543002', 'red', '', NULL)`,
    );
    const [user] = await read({ ...options, users: { query: "SELECT *, id = 7 AS is_seven FROM t", id: "id" } });
    expect(JSON.parse(JSON.stringify(user))).toHaveProperty("attributes", {
      id: 7,
      large: { unreadable: "is a number with more than 15 digits; cast it to text in the query" },
      dec_: 1.5,
      flt: 0.1,
      yes: true,
      many: 3,
      bit_: true,
      bits: 257,
      day: "2026-11-26",
      local: "2026-11-26T08:30:00.12",
      moment: "2026-11-26T08:30:00Z",
      clock: "08:30:00",
      year_: 2026,
      json_: '{"a": [1]}',
      bytes: "01ff",
      padded: "ab",
      latin: "Müßig",
      owl: "李雷 🦉",
      uuid_: "a3bb189e-8bf9-3888-9912-ace4e6543002",
      colour: "red",
      is_seven: 1,
    });
  });
});

describe.skipIf(reason !== undefined)("MariaDB", () => {
  test("a statement ends at its time limit", async () => {
    const { options } = await make();
    const slow = { ...options, timeouts: { statement: "1s" }, users: { query: "SELECT 1 AS id, SLEEP(60)", id: "id" } };
    await expect(read(slow)).rejects.toThrow(UnavailableError);
    await expect(read(slow)).rejects.toThrow(/, users: .*max_statement_time exceeded\) \(timeouts: \{ statement \}\)$/);
  });

  test("a statement that is running is stopped on the server", async () => {
    const { options } = await make();
    const running = async (): Promise<number> => {
      const client = await server.connect();
      const [rows] = await client.query(
        "SELECT 1 FROM information_schema.processlist WHERE user = 'reader' AND info LIKE '%SLEEP%'",
      );
      await client.end();
      return (rows as unknown[]).length;
    };
    const abort = new AbortController();
    const query = "SELECT seq AS id, SLEEP(20) FROM seq_1_to_3";
    const reading = read({ ...options, users: { query, id: "id" } }, { signal: abort.signal });
    reading.catch(() => undefined);
    await expect.poll(running).toBe(1);
    abort.abort("enough");
    await expect(reading).rejects.toBe("enough");
    await expect.poll(running).toBe(0);
  });

  test("the certificate is checked, with its name", async () => {
    const { options } = await make();
    const at = (host: string, sslmode: string): object => ({
      ...options,
      url: `${options.url.replace(/@[^/]*/, `@${host}:${server.port}`)}?sslmode=${sslmode}`,
      users: { query: "SELECT 1 AS id", id: "id" },
    });
    const ca = server.caFile;
    expect(await described({ ...at("localhost", "verify-full"), ca })).toContainEqual(
      expect.stringMatching(/ at localhost:\d+\/test\d+, TLSv1\.3, certificate of CN=localhost/),
    );
    await expect(read(at("localhost", "verify-full"))).rejects.toThrow(RefusedError);
    await expect(read(at("localhost", "verify-full"))).rejects.toThrow(
      /: the certificate is not accepted: .*self-signed/,
    );
    await expect(read(at("127.0.0.1", "verify-full"))).rejects.toThrow(/verify-full needs the name of the host/);
    expect(await read({ ...at("127.0.0.1", "verify-ca"), ca })).toHaveLength(1);
    await server.rename("db.example.com");
    await expect(read({ ...at("localhost", "verify-full"), ca })).rejects.toThrow(
      /: the certificate is not accepted: .*altnames/,
    );
    expect(await read({ ...at("localhost", "verify-ca"), ca })).toHaveLength(1);
  });
});
