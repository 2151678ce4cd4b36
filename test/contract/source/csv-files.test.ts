import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import csv from "#connectors/csv/index.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-csv-files-"));
});

afterEach(() => rm(folder, { recursive: true }));

async function read(options: object): Promise<readonly SourceRecord[]> {
  const source = csv.open(csv.options.parse(options), { name: "corp", folder });
  return (await Array.fromAsync(source.read({ signal: new AbortController().signal, warn: () => {} }))).flat();
}

async function write(name: string, content: string | Buffer): Promise<void> {
  await writeFile(join(folder, name), content);
}

const users = { file: "users.csv", id: "id" };

test("tells gzip by its bytes, whatever the file is called", async () => {
  await write("users.csv", gzipSync("id,name\n1,Ada\n"));
  expect(await read({ users })).toMatchObject([{ id: "1", origin: "users.csv:2" }]);
});

test("refuses a file whose end was reserved and never written, whatever else is allowed", async () => {
  const zeros = (length: number) => Buffer.alloc(length);
  const whole = "id,name\n1,Ada\n2,Bob\n";
  for (const written of [whole, whole.slice(0, -2), ""]) {
    await write("users.csv", Buffer.concat([Buffer.from(written), zeros(5_000)]));
    for (const options of [{}, { minRows: 1, shortRows: true }, { encoding: "windows-1252" }]) {
      const failure: unknown = await read({ users: { ...users, ...options } }).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(IncompleteReadError);
      expect(failure).toMatchObject({
        message: expect.stringMatching(/^users\.csv ends in zero bytes: /),
        advice: "retry",
      });
    }
  }
  // The last newline of UTF-16 ends in a zero byte.
  await write("users.csv", Buffer.from(`\u{FEFF}${whole}`, "utf16le"));
  expect(await read({ encoding: "utf-16", users })).toHaveLength(2);
  // A compressed file proves by itself where it ends.
  await write("users.csv", Buffer.concat([gzipSync(whole), zeros(512)]));
  expect(await read({ users })).toHaveLength(2);
});

test("reads gzip that was appended to", async () => {
  await write("users.csv", Buffer.concat([gzipSync("id\n1\n"), gzipSync("2\n")]));
  expect(await read({ users })).toMatchObject([{ id: "1" }, { id: "2" }]);
});

test("reads files that are written in different ways", async () => {
  await write("users.csv", Buffer.from("id\tname\n1\tJörg\n", "latin1"));
  await write("groups.csv", "id;name\n1;'a;b'\n");
  const records = await read({
    delimiter: ";",
    users: { ...users, delimiter: "\t", encoding: "latin1" },
    groups: { file: "groups.csv", id: "id", quote: "'" },
  });
  expect(records).toMatchObject([{ attributes: { name: "Jörg" } }, { attributes: { name: "a;b" } }]);
});

test("names the line of bytes that are not of the encoding", async () => {
  await write("users.csv", Buffer.from(`id,name\n${"1,a\n".repeat(50_000)}2,"b\r\nc"\n3,J\u{f6}rg\n`, "latin1"));
  const failure: unknown = await read({ users }).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(InputError);
  expect(failure).toMatchObject({ message: expect.stringMatching(/^users\.csv:50004: .* not utf-8; set encoding/) });
});

test("allows a file without rows where that is asked for", async () => {
  await write("users.csv", "id,name");
  expect(await read({ users: { ...users, minRows: 0 } })).toEqual([]);
  await expect(read({ users })).rejects.toThrow("users.csv has too few rows: 0 after the header, expected at least 1");
});

test("leaves records with one id to be reported with both origins", async () => {
  await write("users.csv", "id\n1\n1\n");
  expect(await read({ users })).toMatchObject([{ origin: "users.csv:2" }, { origin: "users.csv:3" }]);
});

test("refuses what is not a file, without waiting for it", async () => {
  await mkdir(join(folder, "users.csv"));
  await promisify(execFile)("mkfifo", [join(folder, "groups.csv")]);
  for (const file of ["users.csv", "groups.csv"]) {
    const failure: unknown = await read({ users: { ...users, file } }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(IncompleteReadError);
    expect(failure).toMatchObject({ message: `${file} is not a file` });
  }
});

test("says what a file is that is no CSV, and where a link leads", async () => {
  const failure = async (): Promise<string> => {
    const error: unknown = await read({ users }).catch((thrown: unknown) => thrown);
    return error instanceof Error ? error.message : "";
  };
  for (const [content, is] of [
    [
      "<!doctype html><html><body>Sign in</body></html>\n",
      "a web page (HTML), not CSV; look at it: it may be a sign-in",
    ],
    ['[{"id": "1"}]\n', "JSON, not CSV; write its table as CSV"],
    [Buffer.from("\xff\xfe\0\0i\0\0\0d\0\0\0", "latin1"), "UTF-32 text, not CSV; convert it, for instance: iconv"],
    ["%PDF-1.7\n", "a PDF document, not CSV; ask for the table as CSV"],
  ] as const) {
    await write("users.csv", content);
    expect(await failure()).toContain(`users.csv is ${is}`);
  }
  await write("users.csv", Buffer.from("id\n1\n", "utf16le"));
  expect(await failure()).toMatch(/this looks like UTF-16: set encoding/);
  await rm(join(folder, "users.csv"));
  await symlink("gone.csv", join(folder, "users.csv"));
  expect(await failure()).toMatch(
    /^users\.csv does not exist \(looked in \S+, where it is a link to a file that is not/,
  );
  await rm(join(folder, "users.csv"));
  await symlink("users.csv", join(folder, "users.csv"));
  expect(await failure()).toBe("users.csv does not exist: it is a link that leads back to itself");
});

test("names the file as it is configured", async () => {
  const failure: unknown = await read({ users: { ...users, file: "../nowhere/people.csv" } }).catch(
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(IncompleteReadError);
  expect(failure).toMatchObject({ message: expect.stringMatching(/^\.\.\/nowhere\/people\.csv does not exist/) });
  expect(String(failure)).toMatch(/ \(looked in \/[^)]*nowhere\); check the path and the export$/);
});

test("does no work before it is read", () => {
  expect(() => csv.open(csv.options.parse({ users }), { name: "corp", folder: "/nowhere" })).not.toThrow();
});
