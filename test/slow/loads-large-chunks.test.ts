import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "#service/loads/parse.ts";
import { columnsOf, defaults, useParsing } from "../contract/service/loads/parsing.ts";

const { load, connection, folder } = useParsing();

test("A.7 one odd row at the end of a large chunk changes nothing for the others", async () => {
  const columns = ["a INTEGER", "b VARCHAR"];
  // More than one of DuckDB's buffers, of 32 MiB, in few rows: to look at each of them is what takes time.
  const count = 40_000;
  const text = (i: number): string => `name "${i % 1000}"${", and more of the text".repeat(50)}`;
  const lines = Array.from({ length: count }, (_, i) => `${i},"${text(i).replaceAll('"', '""')}"\n`).join("");
  expect(lines.length).toBeGreaterThan(33 * 2 ** 20);
  for (const [odd, rejected] of [
    ["", 0],
    ['"x"y,1\n', 1],
    ["1\n", 1],
    ["\xFF,1\n", 1],
  ] as const) {
    const { rows, numbers, ...rest } = await load(columns, {}, Buffer.from(lines + odd, "latin1"), "7,8\n");
    expect(rest).toMatchObject({ accepted: count + 1, rejected, bad: rejected === 0 ? undefined : odd });
    expect(numbers.at(-1)).toBe(count + 1 + rejected);
    expect(rows.every(([n], i) => n === String(i) || i === count)).toBe(true);
    expect(rows[12_345]).toEqual(["12345", text(345)]);
  }
});

test("A.7 values of several lines that look like rows", async () => {
  const value = (i: number) => "\n,a,b".repeat(4000 + (i % 3));
  const lines = Array.from({ length: 4000 }, (_, i) => `${i},"${value(i)}"\n`).join("");
  const { rows, rejected } = await load(["a INTEGER", "b VARCHAR"], {}, lines);
  expect(rejected).toBe(0);
  expect(rows.every(([n, text], i) => n === String(i) && text === value(i))).toBe(true);
});

test("A.9 a load that is stopped ends with the signal's reason, and leaves the connection usable", async () => {
  const path = join(folder(), "large");
  const badRecords = join(folder(), "bad");
  for (const [end, delay] of [
    ["", 5],
    ["", 60],
    ["", 200],
    ['"a"b,1\n', 60],
    ['"a"b,1\n', 400],
  ] as const) {
    await writeFile(path, `${"123,some text that is long enough\n".repeat(1_000_000)}${end}`);
    const controller = new AbortController();
    const reason = new Error("stopped");
    setTimeout(() => controller.abort(reason), delay);
    const columns = columnsOf("a INTEGER", "b VARCHAR");
    const input = { chunks: [path, path], format: defaults, columns, maxErrors: 100, badRecords };
    const stage = { connection: connection(), close: async () => undefined };
    await expect(parse(stage, input, controller.signal)).rejects.toBe(reason);
    expect((await load(["a INTEGER"], {}, "1\n")).rows).toEqual([["1"]]);
  }
  expect((await readdir(folder())).filter((name) => name.includes(".rows"))).toEqual([]);
});
