import { expect, test } from "vitest";
import { fingerprint } from "#config/differences.ts";
import { parseAddress } from "#postgres/address.ts";
import { load, problemsOf } from "./support.ts";

const file = (engine: string): string => `service:\n  engine: ${engine}\n`;

test("duckdb is the default", async () => {
  for (const text of ["service:\n", file("duckdb")])
    expect((await load(text)).configuration.service?.engine).toBe("duckdb");
});

test("the URL comes from the environment, and its password is a secret", async () => {
  const environment = { DATABASE_URL: "postgres://rollcall:open%2Fsesame@db.example.com/rollcall" };
  for (const url of ["${env:DATABASE_URL}", environment.DATABASE_URL]) {
    const { configuration } = await load(file(`{ postgres: "${url}", poolSize: 3, statementTimeout: 1m }`), {
      environment,
    });
    expect(configuration.service?.engine).toEqual({
      postgres: environment.DATABASE_URL,
      poolSize: 3,
      statementTimeout: 60_000,
      sslrootcert: undefined,
    });
    expect(configuration.secrets).toEqual(expect.arrayContaining(["open%2Fsesame", "open/sesame"]));
    expect(JSON.stringify(fingerprint(configuration, Buffer.from("key")))).not.toMatch(/sesame/);
  }
});

test.each([
  ["sqlite", "service.engine: expected duckdb, or { postgres: URL }"],
  [
    "{ postgres: db.example.com }",
    "service.engine.postgres: expected a URL like postgres://user:password@host:5432/database",
  ],
  ["{ postgres: 'mysql://u:hush@h/d' }", "service.engine.postgres: expected a URL like postgres://"],
  ["{ postgres: 'postgres://u:hush@h' }", "service.engine.postgres: expected a URL like .*: the database is missing"],
  ["{ postgres: 'postgres://h/d' }", "service.engine.postgres: expected a URL like .*: the user is missing"],
  [
    "{ postgres: 'postgres://u:hush%ZZ@h/d' }",
    "service.engine.postgres: the user, the password or the database has a %",
  ],
  [
    "{ postgres: 'postgres://u:hush@h/d?sslmode=prefer' }",
    "service.engine.postgres: sslmode=prefer would send everything unencrypted",
  ],
  [
    "{ postgres: 'postgres://u:hush@h/d?sslmode=on' }",
    "service.engine.postgres: sslmode is verify-full, verify-ca, require or disable",
  ],
  ["{ postgres: 'postgres://u:hush@h,/d' }", 'service.engine.postgres: the URL has "" among its hosts'],
  ["{ postgres: 'postgres://u:hush@h,i:x/d' }", 'service.engine.postgres: the URL has "i:x" among its hosts'],
  [
    "{ postgres: 'postgres://u:hush@h,i/d?host=/run' }",
    "service.engine.postgres: the URL has several hosts, and `host`",
  ],
  ["{ postgres: 'postgres://u:hush@h/d?sslrootcert=x' }", "service.engine.postgres: write `sslrootcert` as a key"],
  ["{ postgres: 'postgres://u:hush@h/d?options=-c' }", 'service.engine.postgres: the URL has the parameter "options"'],
  [
    "{ postgres: 'postgres://u:hush@h/d', sslrootcert: nosuch.pem }",
    "service.engine.sslrootcert: nosuch.pem does not exist",
  ],
  [
    "{ postgres: 'postgres://u:hush@h/d', poolsize: 3 }",
    "service.engine.poolsize: unknown key; did you mean .?poolSize",
  ],
  [
    "{ postgres: 'postgres://u:hush@h/d', poolSize: 0 }",
    "service.engine.poolSize: expected a whole number, at least 1",
  ],
])("engine: %s", async (engine, message) => {
  const problems = await problemsOf(file(engine));
  expect(problems).toHaveLength(1);
  expect(problems[0]).toMatch(new RegExp(`^rollcall.yaml:2:\\d+: ${message.replaceAll(/[{}]/g, "\\$&")}`));
  expect(problems[0]).not.toMatch(/hush/);
});

test.each([
  [
    "postgres://u:p%40ss@db.example.com/d",
    { hosts: [{ host: "db.example.com", port: 5432 }], password: "p@ss", sslmode: "verify-full" },
  ],
  [
    "postgresql://u@localhost:6432/d",
    { hosts: [{ host: "localhost", port: 6432 }], password: undefined, sslmode: "disable" },
  ],
  ["postgres://u:p@127.0.0.1/d?sslmode=require", { sslmode: "require", place: "127.0.0.1:5432/d" }],
  [
    "postgres://u:p@[fd00::1]/d%20b?application_name=x",
    { hosts: [{ host: "fd00::1", port: 5432 }], database: "d b", applicationName: "x", place: "[fd00::1]:5432/d b" },
  ],
  ["postgres://u@localhost/d?host=/run/postgresql", { hosts: [{ host: "/run/postgresql" }], sslmode: "disable" }],
  [
    "postgres://u:p@db1:5433,[fd00::1],localhost/d?application_name=a,b",
    {
      hosts: [
        { host: "db1", port: 5433 },
        { host: "fd00::1", port: 5432 },
        { host: "localhost", port: 5432 },
      ],
      password: "p",
      applicationName: "a,b",
      sslmode: "verify-full",
      place: "db1:5433,[fd00::1]:5432,localhost:5432/d",
    },
  ],
  ["postgres://u@localhost,127.0.0.1:6/d", { sslmode: "disable" }],
])("%s", (url, parts) => {
  expect(parseAddress(url)).toMatchObject(parts);
});
