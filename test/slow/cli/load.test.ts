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
import { atTerminal, keys } from "../../support/rollcall/terminal.ts";
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
    const first = await load("rows.csv", "--max-ignored-rows", "1");
    expect(first.code, first.stderr).toBe(0);
    expect(first.stdout).toMatch(/^d\.t: 1 row loaded, 1 row ignored; 12 bytes in .* s \(.* MB\/s\)$/m);
    expect(first.stdout).toContain('  row 2, column id: "x" is not a BIGINT\n');
    expect(first.stdout).toContain("The rejected rows are in rows.csv.bad\n");
    // The spelling of earlier versions.
    const second = await load("rows.csv", "--max_ignored_rows", "1");
    expect(second.stdout).toContain("The rejected rows are in rows.csv.2.bad\n");
    expect(await readFile(join(folder, "rows.csv.bad"), "utf8")).toBe("x,b,0\n");
    for (const [args, told] of [
      [
        ["rows.csv", "--bad-records", "none/x.bad"],
        `--bad-records none/x.bad: there is no folder ${folder}/none; make`,
      ],
      [["rows.csv", "--bad-records", ""], "--bad-records is empty: name a file"],
      [[""], "the name of a file is empty"],
    ] as const)
      expect((await load(...args)).stderr).toContain(told);
    expect(await readFile(join(folder, "rows.csv.2.bad"), "utf8")).toBe("x,b,0\n");
  });

  test("a format that is one letter off fails with what the service says, and loads nothing", async () => {
    await write("rows.csv", "id;name;since\n1;a;2024-01-31\n2;b;2024-02-29\n");
    const flags = ["--field-separator", ";", "--has-header-row"];
    const wrong = await load("rows.csv", ...flags, "--date-format", "%Y-%d-%m");
    expect(wrong.code).toBe(1);
    expect(wrong.stdout).toBe("");
    expect(wrong.stderr).toMatch(
      /^rollcall: the load into d\.t failed: 2 rows were rejected, and max_ignored_rows allows 0/,
    );
    expect(wrong.stderr).toContain('row 1, column since: "2024-01-31" does not match %Y-%d-%m');
    expect(wrong.stderr).toContain("Nothing was loaded; the table is unchanged.");
    const right = await load("rows.csv", ...flags, "--date-format", "%Y-%m-%d");
    expect(right.code, right.stderr).toBe(0);
    expect(right.stdout).toContain("d.t: 2 rows loaded; ");
  });

  test("--guess finds out header, separator, dates, booleans and nulls, and says the options that mean the same", async () => {
    await run("sql", "CREATE TABLE d.people (id BIGINT, name VARCHAR, since DATE, active BOOLEAN, seen TIMESTAMP)");
    const rows = "id;name;since;active;seen\n1;Zoë;31.01.2024;ja;2024-01-31T10:11:12\n2;;01.02.2024;nein;\n";
    await write("people.csv", rows);
    await write("people.csv.gz", gzipSync(rows));
    const says = ` people.csv --table d.people --field-separator ";" --has-header-row --date-format %d.%m.%Y --date-time-format %Y-%m-%dT%H:%M:%S --true-format ja --false-format nein --no-guess\n`;
    const guessed = await run("load", "people.csv", "--table", "d.people", "--guess");
    expect(guessed.code, guessed.stderr).toBe(0);
    expect(guessed.stdout).toContain("d.people: 2 rows loaded");
    expect(guessed.stderr).toContain(says);
    expect(guessed.stderr).toMatch(/^ {2}since +DATE +"31\.01\.2024", "01\.02\.2024"$/m);
    const packed = await run("load", "people.csv.gz", "--table", "d.people", "--guess", "--json", "--empty-target");
    expect(JSON.parse(packed.stdout)).toMatchObject({ code: "OK", written: 2 });
    const pasted = await run("load", ...says.trim().replaceAll('"', "").split(" "));
    expect(pasted.code, pasted.stderr).toBe(0);
    const { stdout } = await run("sql", "SELECT DISTINCT * FROM d.people ORDER BY id", "--json");
    expect(JSON.parse(stdout).rows).toEqual([
      [1, "Zoë", "2024-01-31", true, "2024-01-31T10:11:12"],
      [2, "", "2024-02-01", false, null],
    ]);
  });

  test("--guess leaves to a person what only a person can decide, and loads nothing then", async () => {
    await run("sql", "CREATE TABLE d.texts (login VARCHAR, team VARCHAR); CREATE TABLE d.days (since DATE)");
    for (const [content, table, told] of [
      ["team,login\nx,ada\n", "d.texts", "columns are loaded by position, and in the file team, login are elsewhere"],
      ["01/02/2024\n03/04/2024\n", "d.days", "dates may be %d/%m/%Y or %m/%d/%Y; give --date-format with one of them"],
      [Buffer.from("Zo\u00eb,x\n", "latin1"), "d.texts", "is not UTF-8; convert it, for instance: iconv"],
      [Buffer.from("\uFEFFa,b\n", "utf16le"), "d.texts", "iconv -f utf-16 -t utf-8"],
      ['"ada,x\n', "d.texts", 'rows.csv: row 1: no closing "'],
      [
        "since\n45321\n36526\n",
        "d.days",
        "2024-01-30 as a day of a spreadsheet; if they are seconds, give --converted-to",
      ],
      ["Konto;Gruppe\nada;x\n", "d.texts", 'is the first row ("Konto", "Gruppe") a header? Nothing tells; give'],
      ["login,team\rada,x\r", "d.texts", "lines end in a carriage return (\\r) without a newline"],
      ["", "d.texts", "rows.csv is empty"],
    ] as const) {
      await write("rows.csv", content);
      const refused = await run("load", "rows.csv", "--table", table, "--guess");
      expect(refused, told).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining(told) });
    }
    await write("a.csv", "login,team\nada,x\n");
    const twice = await run("load", "a.csv", "a.csv", "--table", "d.texts", "--guess");
    expect(twice.stderr).toContain("a.csv begins with the header, too");
    // What is copied from there stops as well, until it is decided.
    await write("rows.csv", "ada;x\ngrace;y\n");
    const open = await run("load", "rows.csv", "--table", "d.texts", "--guess");
    expect(open.stderr).toContain(` rows.csv --table d.texts --field-separator ";" --guess\n`);
    const all = await run("load", "rows.csv", "--table", "d.texts", "--guess", "--no-has-header-row", "--json");
    expect(JSON.parse(all.stdout)).toMatchObject({ written: 2 });
    expect((await run("sql", "SELECT count(*) AS n FROM d.days", "--csv")).stdout).toBe("n\n0\n");
  });

  test("a table is not emptied by a file whose lines end in returns, by a header alone, or by what is no table", async () => {
    await write("rows.csv", "7,kept,0\n");
    await load("rows.csv");
    for (const [content, told] of [
      ["id,name,since\r1,a,0\r2,b,0\r", "rows.csv: lines end in a carriage return (\\r) without a newline"],
      ["id,name,since\n", "rows.csv: a header without rows would leave the table empty"],
      [
        Buffer.from("id,name,since\n1,a,0\n", "utf16le"),
        "rows.csv is UTF-16 text, not CSV or delimited text; convert it",
      ],
      [Buffer.from("PK\x03\x04[Content_Types].xml xl/", "latin1"), "rows.csv is an Excel workbook (.xlsx), not CSV"],
      ["<!doctype html>\n<html>", "rows.csv is a web page (HTML), not CSV"],
      ['[{"id": 1}]', "rows.csv is JSON, not CSV"],
      ["sep=,\nid,name,since\n1,a,0\n", "rows.csv begins with a line for spreadsheets (sep=,), which would be loaded"],
    ] as const) {
      await write("rows.csv", content);
      const refused = await load("rows.csv", "--has-header-row", "--empty-target");
      expect(refused, told).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining(told) });
      const piped = startRollcall(["load", "-", "--table", "d.t", "--has-header-row", "--empty-target"], {
        cwd: folder,
        stdin: typeof content === "string" ? content : Buffer.from(content),
      });
      expect(await piped.ended, told).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(told.replace("rows.csv", "standard input")),
      });
    }
    expect((await run("sql", "SELECT name FROM d.t", "--csv")).stdout).toBe("name\nkept\n");
  });

  test("the command of a guess names a file that begins with a dash so that it is none of its options", async () => {
    await write("-x.csv", "1,a,0\n");
    const loaded = await run("load", "--table", "d.t", "--guess", "--yes", "--", "-x.csv");
    expect(loaded.stderr).toContain(" load ./-x.csv --table d.t");
  });

  test("without a terminal nothing is guessed unasked; an error is said once, and a missing table's neighbours", async () => {
    await write("rows.csv", "id;name\n1;a\n2;b\n");
    const failed = await load("rows.csv");
    expect(failed.stderr.match(/row 1, column/g)).toHaveLength(1);
    expect(failed.stderr).toContain("  row 2, column");
    expect(failed.stderr).toContain("`--guess` guesses the format from the file");
    expect(failed.stderr).toContain('The first line has no separator ",": "id;name". --field-separator says');
    for (const [name, told] of [
      ["d.tt", 'there is no table d.tt; did you mean "d.t"?'],
      ["x.t", 'there is no table x.t; did you mean "d.t"?'],
      ["d.quarterly", "there is no table d.quarterly; expected one of: d.t."],
      ["department.u", "there is no table department.u; expected one of: d.t."],
    ])
      expect((await run("load", "rows.csv", "--table", name ?? "")).stderr).toContain(told);
  });

  test("at a terminal, nothing is loaded before what was guessed was seen", async () => {
    await write("rows.csv", "id;name;since\n1;a;2024-01-31\n");
    const args = ["load", "rows.csv", "--table", "d.t"];
    const declined = atTerminal(args, { cwd: folder });
    await declined.answer("--date-format %Y-%m-%d --no-guess", "");
    await declined.answer("Load it like this? [y/N]", `n${keys.enter}`);
    expect(await declined.ended).toBe(1);
    expect(declined.shown()).toContain("Nothing was loaded.");
    const confirmed = atTerminal(args, { cwd: folder });
    await confirmed.answer("Load it like this? [y/N]", `y${keys.enter}`);
    expect(await confirmed.ended).toBe(0);
    const unasked = atTerminal([...args, "--yes"], { cwd: folder });
    expect(await unasked.ended).toBe(0);
    expect((await run("sql", "SELECT count(*) AS n FROM d.t", "--csv")).stdout).toBe("n\n2\n");
  });

  test("what cannot be read or is not understood is named, and nothing is left behind", async () => {
    await write("rows.csv", "1,a,0\n");
    await write("cut.csv.gz", gzipSync("1,a,0\n").subarray(0, 20));
    await write("plain.csv.gz", "1,a,0\n");
    await write("copied.csv", `1,a,0\n${"\0".repeat(500)}`);
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
      [["copied.csv"], /^rollcall: copied\.csv ends in zero bytes: a copy of it has not come to its end/],
      [["plain.csv.gz"], /^rollcall: plain\.csv\.gz ends in \.gz, but its content is not gzip/],
      [["rows.csv", "--type", "cvs"], /argument 'cvs' is invalid\. expected csv or delimited\./],
      [["rows.csv", "--field-separator", "::"], /argument '::' is invalid\. expected one character/],
      [["rows.csv", "--has-header-rows"], /unknown option '--has-header-rows'\s+\(Did you mean --has-header-row\?\)/],
      [["rows.csv", "--max-ignored-rows", "-1"], /expected a whole number/],
      [["rows.csv", "--target", "other"], /^rollcall: no target is called other/],
    ] as const) {
      const { code, stdout, stderr } = await load(...args);
      expect(code).toBe(1);
      expect(stdout).toBe("");
      expect(stderr).toMatch(message);
    }
    const table = await run("load", "rows.csv", "--table", "d.other");
    expect(table.stderr).toMatch(/^rollcall: there is no table d\.other; expected one of: d\.t\. To make it, /);
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
