import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Postgres } from "#postgres/database.ts";
import { inputError } from "#postgres/errors.ts";
import { checkServer, migrate } from "#postgres/migrations.ts";
import type { Schema } from "#postgres/migrations.ts";
import { postgres as options } from "#postgres/options.ts";
import { makeAuthority, makeCertificate } from "../../support/certificates.ts";
import { startPostgres } from "../../support/postgres.ts";
import { startProxy } from "../../support/proxy.ts";
import type { PostgresServer } from "../../support/postgres.ts";

let server: PostgresServer;
let url: string;
let postgres: Postgres;

beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
  postgres = await open(url);
});
afterAll(async () => {
  await postgres.close();
  await server.stop();
});

const open = async (postgres: string, more: object = {}): Promise<Postgres> =>
  Postgres.open(options.parse({ postgres, ...more }));

const thrown = async (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => new Error("nothing was thrown"),
    (error: Error) => error,
  );

test("rows have the types that DuckDB's have", async () => {
  const sql = `SELECT 9007199254740993::int8 AS big, 1 AS small, true AS yes, NULL AS nothing, $1::text AS given,
    DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 10:11:12' AS stamp, ARRAY['a', 'b'] AS list`;
  expect(await postgres.rows(sql, ['it\'s \\ "x"'])).toEqual([
    {
      big: 9007199254740993n,
      small: 1,
      yes: true,
      nothing: null,
      given: 'it\'s \\ "x"',
      day: "2024-02-29",
      stamp: "2024-02-29 10:11:12",
      list: ["a", "b"],
    },
  ]);
});

test("a transaction is written as a whole, or not at all", async () => {
  await postgres.rows("CREATE TABLE numbers (n integer)");
  const result = await postgres.transaction(async (transaction) => {
    expect(await transaction.count("INSERT INTO numbers SELECT generate_series(1, $1)", [5])).toBe(5);
    return "done";
  });
  expect(result).toBe("done");
  const refusal = new Error("no");
  const failing = postgres.transaction(async (transaction) => {
    await transaction.run("INSERT INTO numbers VALUES (6); INSERT INTO numbers VALUES (7)");
    throw refusal;
  });
  expect(await thrown(failing)).toBe(refusal);
  // A failed statement that nobody looked at does not pass as a commit.
  const unseen = postgres.transaction(async (transaction) => {
    await transaction.rows("SELECT 1 / 0").catch(() => undefined);
  });
  expect((await thrown(unseen)).message).toContain("rolled back");
  expect(await postgres.rows("SELECT count(*) AS n FROM numbers")).toEqual([{ n: 5n }]);
});

test("a transaction that reads cannot write, sees one state, and its settings end with it", async () => {
  const reading = postgres.transaction(
    async (transaction) => {
      const [before] = await transaction.rows<{ n: bigint }>("SELECT count(*) AS n FROM numbers");
      await postgres.rows("INSERT INTO numbers VALUES (8)");
      const [after] = await transaction.rows<{ n: bigint }>("SELECT count(*) AS n FROM numbers");
      const [zone] = await transaction.rows("SELECT current_setting('timezone') AS zone");
      expect([after, zone]).toEqual([before, { zone: "Asia/Tokyo" }]);
      await transaction.run("INSERT INTO numbers VALUES (9)");
    },
    { readOnly: true, snapshot: true, settings: { timezone: "Asia/Tokyo" } },
  );
  expect(await thrown(reading)).toMatchObject({
    name: "UnavailableError",
    message: expect.stringContaining("only reads"),
  });
  expect(await postgres.rows("SELECT current_setting('statement_timeout') AS t")).toEqual([{ t: "0" }]);
});

test("COPY streams in and out, and a stream that fails writes nothing", async () => {
  await postgres.transaction(async (transaction) => {
    await pipeline(async function* () {
      yield Buffer.from("10\n11\n");
    }, transaction.copyIn("COPY numbers FROM STDIN"));
    const parts: Buffer[] = [];
    for await (const part of transaction.copyOut("COPY (SELECT n FROM numbers WHERE n > 9) TO STDOUT"))
      parts.push(part as Buffer);
    expect(Buffer.concat(parts).toString()).toBe("10\n11\n");
  });
  const broken = postgres.transaction(async (transaction) => {
    await pipeline(async function* () {
      yield Buffer.from("12\n");
      throw new Error("the source broke");
    }, transaction.copyIn("COPY numbers FROM STDIN"));
  });
  expect((await thrown(broken)).message).toContain("the source broke");
  expect(await postgres.rows("SELECT count(*) AS n FROM numbers WHERE n > 9")).toEqual([{ n: 2n }]);
});

test("a transaction that is stopped stops at the server, and its connection serves the next", async () => {
  const one = await open(url, { poolSize: 1 });
  const stop = new AbortController();
  const reason = new Error("the service stops");
  const sleeping = one.transaction(
    async (transaction) => {
      setTimeout(() => {
        stop.abort(reason);
      }, 50);
      await transaction.rows("SELECT pg_sleep(600)");
    },
    { signal: stop.signal },
  );
  expect(await thrown(sleeping)).toBe(reason);
  expect(
    await one.rows(
      "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()",
    ),
  ).toEqual([{ n: 0n }]);
  expect(await thrown(one.transaction(async () => undefined, { signal: stop.signal }))).toBe(reason);
  await one.close();
});

test("a statement has its time", async () => {
  const sleeping = postgres.transaction(async (transaction) => transaction.rows("SELECT pg_sleep(600)"), {
    timeout: 50,
  });
  expect(await thrown(sleeping)).toMatchObject({
    name: "UnavailableError",
    message: expect.stringContaining("timeout"),
  });
});

test("a lock is waited for, by its name", async () => {
  const order: string[] = [];
  const held = Promise.withResolvers<void>();
  const first = postgres.transaction(async (transaction) => {
    await transaction.lock("a");
    held.resolve();
    await postgres.transaction(async (other) => other.lock("b"));
    order.push("first");
  });
  await held.promise;
  const second = postgres.transaction(async (transaction) => {
    await transaction.lock("a");
    order.push("second");
  });
  await Promise.all([first, second]);
  expect(order).toEqual(["first", "second"]);
});

test("what is wrong with SQL is said; what is not the SQL's fault is not", async () => {
  const wrong = await thrown(postgres.rows("SELECT nosuch FROM numbers"));
  expect(inputError(wrong)).toMatchObject({ name: "InputError", message: 'column "nosuch" does not exist' });
  await postgres.rows("CREATE TABLE keyed (id integer PRIMARY KEY)");
  const twice = await thrown(postgres.rows("INSERT INTO keyed VALUES (1), (1)"));
  expect(inputError(twice)?.message).toContain("Key (id)=(1) already exists");
  expect(inputError(new Error("something else"))).toBeUndefined();
});

describe("migrations", () => {
  const first: Schema = { part: "things", migrations: ["CREATE TABLE IF NOT EXISTS rollcall.things (id integer)"] };
  const second: Schema = {
    part: "things",
    migrations: [...first.migrations, "ALTER TABLE rollcall.things ADD COLUMN IF NOT EXISTS name text"],
  };

  test("bring the schema up to date, by any number of processes at once", async () => {
    const pools = await Promise.all([1, 2, 3].map(() => open(url)));
    await Promise.all(pools.map((pool) => migrate(pool, [first])));
    await postgres.rows("INSERT INTO rollcall.things VALUES (1)");
    await Promise.all(pools.map((pool) => migrate(pool, [second])));
    await migrate(postgres, [second]);
    expect(await postgres.rows("SELECT * FROM rollcall.things")).toEqual([{ id: 1, name: null }]);
    expect(await postgres.rows("SELECT part, number FROM rollcall.migrations ORDER BY number")).toEqual([
      { part: "things", number: 1 },
      { part: "things", number: 2 },
    ]);
    await Promise.all(pools.map((pool) => pool.close()));
  });

  test("an older program refuses a newer schema", async () => {
    expect(await thrown(migrate(postgres, [first]))).toMatchObject({
      name: "InputError",
      message: expect.stringMatching(/newer Rollcall .* things has version 2, and this program knows 1/),
    });
  });

  test("a new database must have an encoding with all characters", async () => {
    const admin = await server.connect();
    for (const encoding of ["LATIN1", "SQL_ASCII"]) {
      const name = `in_${encoding.toLowerCase()}`;
      await admin.query(`CREATE DATABASE ${name} OWNER rollcall ENCODING '${encoding}' LOCALE 'C' TEMPLATE template0`);
      const other = await open(url.replace(/[^/]*$/, name));
      const tried = migrate(other, [first]);
      if (encoding === "SQL_ASCII") await tried;
      else
        expect(await thrown(tried)).toMatchObject({
          name: "InputError",
          message: expect.stringMatching(/encoding LATIN1.*ENCODING 'UTF8' TEMPLATE template0/),
        });
      await other.close();
    }
    await admin.end();
  });

  test("one that fails leaves nothing", async () => {
    const broken = { part: "others", migrations: ["CREATE TABLE rollcall.others (id integer)", "SELECT 1 / 0"] };
    expect((await thrown(migrate(postgres, [second, broken]))).message).toContain("division by zero");
    expect(await postgres.rows("SELECT to_regclass('rollcall.others') AS others")).toEqual([{ others: null }]);
  });

  test("a user who may not create the schema is told what to do", async () => {
    const other = await server.createDatabase();
    const admin = await server.connect(new URL(other).pathname.slice(1));
    await admin.query("CREATE ROLE nobody LOGIN PASSWORD 'secret'");
    await admin.end();
    const pool = await open(other.replace(/\/\/[^@]*@/, "//nobody:secret@"));
    for (const work of [checkServer, (to: Postgres) => migrate(to, [first])])
      expect(await thrown(work(pool))).toMatchObject({
        name: "RefusedError",
        message: expect.stringMatching(/GRANT CREATE ON DATABASE "test\d+" TO nobody/),
      });
    await pool.close();
  });

  test("a user to whom a restored schema does not belong is told what to do", async () => {
    const restored = await server.createDatabase();
    const administrator = await open(restored.replace(/\/\/[^@]*@/, "//keeper:secret@"));
    const pool = await open(restored);
    const admin = await server.connect(new URL(restored).pathname.slice(1));
    await admin.query("CREATE ROLE keeper LOGIN PASSWORD 'secret'");
    await admin.query("CREATE SCHEMA rollcall AUTHORIZATION keeper");
    await migrate(administrator, [first]);
    for (const grant of ["SELECT 1", "GRANT USAGE, CREATE ON SCHEMA rollcall TO rollcall"]) {
      await admin.query(grant);
      expect(await thrown(migrate(pool, [first]))).toMatchObject({
        name: "RefusedError",
        message: expect.stringMatching(
          /belongs to keeper: permission denied .*ALTER SCHEMA rollcall OWNER TO rollcall/,
        ),
      });
    }
    await admin.end();
    await Promise.all([pool.close(), administrator.close()]);
  });
});

describe("a server that is away, or refuses", () => {
  const failing = async (address: string, more: object = {}): Promise<Error> => {
    const pool = await open(address, more);
    const error = await thrown(pool.rows("SELECT 1"));
    await pool.close();
    expect(error.message).not.toContain("a-secret");
    return error;
  };

  test("says so, without the password", async () => {
    const away = await failing("postgres://rollcall:a-secret-word@127.0.0.1:1/db");
    expect(away).toMatchObject({
      name: "UnavailableError",
      message: expect.stringContaining("127.0.0.1:1/db does not answer"),
    });
    const wrong = await failing(url.replace(/:a-secret-of-rollcall@/, ":a-secret-guess@"));
    expect(wrong).toMatchObject({
      name: "RefusedError",
      message: expect.stringContaining("password authentication failed"),
    });
    const missing = await failing(url.replace(/\/test\d+$/, "/nosuch"));
    expect(missing).toMatchObject({ name: "RefusedError", message: expect.stringContaining("nosuch") });
    const plain = await failing(`${url}?sslmode=require`);
    expect(plain).toMatchObject({ name: "RefusedError", message: expect.stringContaining("does not encrypt") });
  });

  test("a connection that is lost during the commit leaves the outcome open, and says so", async () => {
    // Lets everything through, and cuts the connection where a COMMIT is.
    const { port } = new URL(url);
    const cutter = createServer((client) => {
      const upstream = connect(Number(port), "127.0.0.1");
      upstream.on("error", () => undefined).pipe(client.on("error", () => undefined));
      client.on("data", (data: Buffer) => {
        upstream.write(data);
        if (data.includes("COMMIT")) client.destroy();
      });
    }).listen(0, "127.0.0.1");
    await once(cutter, "listening");
    const pool = await open(url.replace(`:${port}/`, `:${(cutter.address() as AddressInfo).port}/`));
    const error = await thrown(
      pool.transaction(async (transaction) => transaction.run("INSERT INTO numbers VALUES (99)")),
    );
    expect(error).toMatchObject({
      name: "UnavailableError",
      message: expect.stringContaining("may or may not be written"),
    });
    await pool.close();
    cutter.close();
  });

  test("TLS: the certificate is checked, by its authority and its name", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rollcall-tls-"));
    const authority = await makeAuthority();
    await server.encrypt(await makeCertificate({ dns: ["db.example.com"], ip: ["127.0.0.1"] }, { issuer: authority }));
    const files = { sslrootcert: join(folder, "ca.pem"), other: join(folder, "other.pem") };
    await writeFile(files.sslrootcert, authority.cert);
    await writeFile(files.other, (await makeAuthority()).cert);
    const tls = async (address: string, sslrootcert?: string): Promise<unknown> => {
      const pool = await open(address, sslrootcert === undefined ? {} : { sslrootcert });
      const sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
      const result = await pool.rows(sql).catch((error: unknown) => error);
      await pool.close();
      return result;
    };
    // The server takes up its settings in its own time.
    await expect.poll(() => tls(`${url}?sslmode=verify-full`, files.sslrootcert)).toEqual([{ ssl: true }]);
    expect(await tls(url)).toEqual([{ ssl: false }]);
    expect(await tls(`${url}?sslmode=require`)).toEqual([{ ssl: true }]);
    const otherName = url.replace("127.0.0.1", "localhost");
    expect(await tls(`${otherName}?sslmode=verify-ca`, files.sslrootcert)).toEqual([{ ssl: true }]);
    for (const refused of [
      tls(`${url}?sslmode=verify-full`),
      tls(`${url}?sslmode=verify-full`, files.other),
      tls(`${url}?sslmode=verify-ca`, files.other),
      tls(`${otherName}?sslmode=verify-full`, files.sslrootcert),
    ])
      expect(await refused).toMatchObject({
        name: "RefusedError",
        message: expect.stringContaining("is not accepted"),
      });
    expect(await thrown(open(`${url}?sslmode=require`, { sslrootcert: join(folder, "nosuch.pem") }))).toMatchObject({
      name: "InputError",
      message: expect.stringContaining("nosuch.pem"),
    });
    await rm(folder, { recursive: true });
  });

  test("a server that was there is waited for, and found again", async () => {
    const [patient, hasty] = [await open(url), await Postgres.open(options.parse({ postgres: url }), { patience: 0 })];
    for (const each of [patient, hasty]) expect(await each.rows("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    await server.halt();
    expect(await thrown(hasty.rows("SELECT 1"))).toMatchObject({ name: "UnavailableError" });
    const waiting = [patient.rows("SELECT 1 AS one"), patient.transaction((each) => each.rows("SELECT 1 AS one"))];
    await server.start();
    expect(await Promise.all(waiting)).toEqual([[{ one: 1 }], [{ one: 1 }]]);
    expect(await hasty.rows("SELECT 1 AS one")).toEqual([{ one: 1 }]);
    await Promise.all([patient.close(), hasty.close()]);
  });

  test("a server without a connection left is waited for once it was there, and says what to do before", async () => {
    const full = await server.createDatabase();
    const name = new URL(full).pathname.slice(1);
    const one = await open(full);
    await one.rows("SELECT 1");
    await server.asAdministrator(`ALTER DATABASE ${name} CONNECTION LIMIT 1`);
    const { promise: isHeld, resolve: held } = Promise.withResolvers<void>();
    const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
    const holding = one.transaction(async (transaction) => {
      await transaction.rows("SELECT 1");
      held();
      await isOver;
    });
    await isHeld;
    const another = await open(full);
    expect(await thrown(another.rows("SELECT 1"))).toMatchObject({
      name: "UnavailableError",
      message: expect.stringMatching(/has no connection left: too many connections for database .*; raise max_conn/),
    });
    await another.close();
    const waiting = one.rows("SELECT 2 AS n");
    setTimeout(end, 500);
    expect(await waiting).toEqual([{ n: 2 }]);
    await holding;
    await one.close();
  });

  test("only what can be done twice is done again when its connection is lost", async () => {
    await postgres.rows("CREATE TABLE attempts (n integer PRIMARY KEY)");
    // After this commit the connection is lost, as in a failover: nobody is told of it.
    const ending = "SELECT pg_terminate_backend(pg_backend_pid())";
    const one = await open(url, { poolSize: 1 });
    let runs = 0;
    const lose = (isRepeatable: boolean): Promise<number> =>
      one.transaction(
        async (transaction) => {
          runs += 1;
          if (runs % 2 === 1) await transaction.rows(ending);
          return runs;
        },
        { isRepeatable },
      );
    expect(await lose(true)).toBe(2);
    expect(await thrown(lose(false))).toMatchObject({ name: "UnavailableError" });
    expect(runs).toBe(3);
    const insert = `WITH gone AS MATERIALIZED (SELECT count(*) FROM attempts), row AS (INSERT INTO attempts VALUES (1))
      SELECT pg_terminate_backend(pg_backend_pid()) FROM gone`;
    expect(await thrown(one.rows(insert))).toMatchObject({ name: "UnavailableError" });
    await one.close();
  });

  test("a host that answers no more is left for another, whatever is under way", async () => {
    let isStalled = false;
    const proxy = await startProxy(`http://127.0.0.1:${server.port}`, {
      before: () => (isStalled ? new Promise(() => undefined) : Promise.resolve()),
    });
    const at = url.replace("@127.0.0.1:", `@${new URL(proxy.url).host},127.0.0.1:`);
    const both = await Postgres.open(options.parse({ postgres: at }), { watchInterval: 100 });
    const hosts = "SELECT count(*) AS n FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    expect(await both.rows(hosts)).toEqual([{ n: 1n }]);
    const stalled = both.transaction(async (transaction) => {
      isStalled = true;
      return transaction.rows("SELECT 1");
    });
    expect(await thrown(stalled)).toMatchObject({ name: "UnavailableError" });
    expect(await both.rows(hosts)).toEqual([{ n: 1n }]);
    await proxy.close();
    await both.close();
  });
});
