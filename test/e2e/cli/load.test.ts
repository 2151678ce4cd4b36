import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { mkdtemp, open, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";
import { startRollcall } from "../../support/rollcall/rollcall.ts";
import type { Ended } from "../../support/rollcall/rollcall.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-load-"));
  await write(
    "tables.sql",
    "CREATE DATABASE IF NOT EXISTS d; CREATE TABLE IF NOT EXISTS d.t (id BIGINT, name VARCHAR, since DATE);",
  );
  await write(
    "rollcall.yaml",
    `service: { listen: "127.0.0.1:0", data: data, tables: tables.sql, administrator: { password: secret }, loads: { minFreeDisk: 1MiB } }`,
  );
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const write = (name: string, content: string | Buffer) => writeFile(join(folder, name), content);
const run = (...args: string[]): Promise<Ended> => rollcall(args, { cwd: folder });
const load = (...args: string[]): Promise<Ended> => run("load", ...args, "--table", "d.t");

describe("load", () => {
  test("files by name and pattern, gzip, zstd and standard input are loaded together", async () => {
    await write("a1.csv", "1,a,0\n");
    await write("a2.csv", "2,b,0\n");
    await write("b.csv.gz", gzipSync("3,c,0\n"));
    await write("packed", zstdCompressSync("4,d,0\n"));
    const running = startRollcall(["load", "a*.csv", "b.csv.gz", "packed", "-", "--table", "d.t", "--json"], {
      cwd: folder,
      stdin: gzipSync("5,e,0\n"),
    });
    const { code, stdout, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ target: "embedded", table: "d.t", code: "OK", written: 5, bytes: 30 });
  });

  test("rejected rows are saved beside the input, and overwrite nothing", async () => {
    await write("rows.csv", "1,a,0\nx,b,0\n");
    const first = await load("rows.csv", "--max_ignored_rows", "1");
    expect(first.code, first.stderr).toBe(0);
    expect(first.stdout).toMatch(/^d\.t: 1 row loaded, 1 row ignored; 12 bytes in .* s \(.* MB\/s\)$/m);
    expect(first.stdout).toContain('  row 2, column id: "x" is not a BIGINT\n');
    expect(first.stdout).toContain("The rejected rows are in rows.csv.bad\n");
    const second = await load("rows.csv", "--max_ignored_rows", "1");
    expect(second.stdout).toContain("The rejected rows are in rows.csv.2.bad\n");
    expect(await readFile(join(folder, "rows.csv.bad"), "utf8")).toBe("x,b,0\n");
    expect(await readFile(join(folder, "rows.csv.2.bad"), "utf8")).toBe("x,b,0\n");
  });

  test("a format that is one letter off fails with what the service says, and loads nothing", async () => {
    await write("rows.csv", "id;name;since\n1;a;2024-01-31\n2;b;2024-02-29\n");
    const flags = ["--field_separator", ";", "--has_header_row"];
    const wrong = await load("rows.csv", ...flags, "--date_format", "%Y-%d-%m");
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toBe("");
    expect(wrong.stderr).toMatch(
      /^rollcall: the load into d\.t failed: 2 rows were rejected, and max_ignored_rows allows 0/,
    );
    expect(wrong.stderr).toContain('row 1, column since: "2024-01-31" does not match %Y-%d-%m');
    expect(wrong.stderr).toContain("Nothing was loaded; the table is unchanged.");
    const right = await load("rows.csv", ...flags, "--date_format", "%Y-%m-%d");
    expect(right.code, right.stderr).toBe(0);
    expect(right.stdout).toContain("d.t: 2 rows loaded; ");
  });

  test("what cannot be read or is not understood is named, and nothing is left behind", async () => {
    await write("rows.csv", "1,a,0\n");
    await write("cut.csv.gz", gzipSync("1,a,0\n").subarray(0, 20));
    await write("plain.csv.gz", "1,a,0\n");
    const before = await readdir(folder);
    for (const [args, message] of [
      [["none.csv"], /^rollcall: none\.csv does not exist \(looked in .*\)/],
      [["none*.csv"], /^rollcall: no file matches none\*\.csv$/m],
      [["data"], /^rollcall: data does not exist \(looked in .*\)/],
      [["."], /^rollcall: \. is a folder; to load its files, name \*\.csv$/m],
      [
        ["cut.csv.gz"],
        /^rollcall: cut\.csv\.gz is damaged or incomplete: it cannot be unpacked as gzip \(unexpected end/,
      ],
      [["plain.csv.gz"], /^rollcall: plain\.csv\.gz ends in \.gz, but its content is not gzip/],
      [["rows.csv", "--type", "cvs"], /argument 'cvs' is invalid\. expected csv or delimited\./],
      [["rows.csv", "--field_separator", "::"], /argument '::' is invalid\. expected one character/],
      [["rows.csv", "--has_header_rows"], /unknown option '--has_header_rows'\s+\(Did you mean --has_header_row\?\)/],
      [["rows.csv", "--max_ignored_rows", "-1"], /expected a whole number/],
      [["rows.csv", "--target", "other"], /^rollcall: no target is called other/],
    ] as const) {
      const { code, stdout, stderr } = await load(...args);
      expect(code).toBe(1);
      expect(stdout).toBe("");
      expect(stderr).toMatch(message);
    }
    const table = await run("load", "rows.csv", "--table", "d.other");
    expect(table.stderr).toMatch(
      /into d\.other was refused \(400\): .*\n {2}Unable to find table\. Cannot load data\./,
    );
    expect((await readdir(folder)).filter((name) => name !== "data")).toEqual(before);
  });

  test("Ctrl-C cancels the load at the service and says what became of it", async () => {
    const running = startRollcall(["load", "-", "--table", "d.t", "--json", "-v"], { cwd: folder, stdin: null });
    running.process.stdin.write("1,a,0\n");
    // The start of the load was answered: what follows waits for the rest of standard input.
    await running.wrote(/"path":"\/ts_dataservice\/v1\/public\/loads","status":202/);
    running.process.kill("SIGINT");
    const { code, stdout, stderr } = await running.ended;
    expect(code).toBe(1);
    expect(JSON.parse(stdout).error.message).toBe(
      "target embedded: the load into d.t was cancelled: the table is as it was",
    );
    expect(stderr).toMatch(/\/cancel","status":200/);
  });

  test.each(["nobody writes into", "somebody writes into, and stops"])(
    "Ctrl-C ends the load of a named pipe that %s; what comes through one is loaded",
    async (how) => {
      const pipe = join(folder, "pipe");
      await promisify(execFile)("mkfifo", [pipe]);
      const running = startRollcall(["load", "pipe", "--table", "d.t", "--json", "-v"], { cwd: folder });
      await running.wrote(/"path":"\/ts_dataservice\/v1\/public\/loads","status":202/);
      const writer = how.startsWith("somebody") ? await open(pipe, "w") : undefined;
      await writer?.write("1,a,0\n");
      running.process.kill("SIGINT");
      const { code, stdout } = await running.ended;
      expect(code).toBe(1);
      expect(JSON.parse(stdout).error.message).toContain("was cancelled: the table is as it was");
      await writer?.close();

      const whole = load("pipe", "--json");
      await writeFile(pipe, "2,b,0\n3,c,0\n");
      expect(JSON.parse((await whole).stdout)).toMatchObject({ code: "OK", written: 2 });
    },
  );

  test("standard input of any length takes no more memory", async () => {
    await run("sql", "CREATE TABLE d.long (id BIGINT, name VARCHAR)");
    const service = startRollcall(["start", "--only", "service"], { cwd: folder });
    try {
      await service.wrote("the service is listening");
      const load = async (megabytes: number): Promise<number> => {
        const running = startRollcall(["load", "-", "--table", "d.long", "--json"], { cwd: folder, stdin: null });
        const line = `1,"${"text, and ".repeat(100)}"\n`;
        const block = Buffer.from(line.repeat(Math.floor(2 ** 20 / line.length)));
        const blocks = Readable.from(
          (function* () {
            for (let sent = 0; sent < megabytes; sent += 1) yield block;
          })(),
        );
        let highest = 0;
        const watching = setInterval(() => {
          void memoryOf(running.process.pid).then((memory) => (highest = Math.max(highest, memory)));
        }, 50);
        blocks.pipe(running.process.stdin);
        const { code, stdout, stderr } = await running.ended;
        clearInterval(watching);
        expect(code, stderr).toBe(0);
        expect(JSON.parse(stdout).bytes).toBe(block.length * megabytes);
        return highest;
      };
      const few = await load(40);
      const many = await load(240);
      expect(many - few).toBeLessThan(100);
    } finally {
      service.process.kill("SIGTERM");
      await service.ended;
    }
  });
});

/** The memory of a process in MiB; 0 when it has ended. */
async function memoryOf(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1024;
}
