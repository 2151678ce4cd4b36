import { mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadPinboards } from "#config/pinboards.ts";
import { InputError } from "#errors.ts";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-pinboards-"));
});

afterEach(() => rm(folder, { recursive: true }));

const write = (name: string, content: string | Uint8Array): Promise<void> => writeFile(join(folder, name), content);

async function problems(): Promise<readonly string[]> {
  try {
    await loadPinboards(folder);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return error.problems.map((line) => line.replaceAll(`${folder}/`, ""));
  }
  throw new Error("the pinboards load");
}

const id = (digit: string): string => `${digit.repeat(8)}-0000-4000-8000-000000000000`;

const valid = `id: ${id("a")}
name: Sales
visualizations:
  - id: ${id("b")}
    name: total
    title: Total
    type: HEADLINE
    database: shop
    sql: SELECT sum(net) FROM orders
`;

test("a pinboard is read from its file, with the file's times", async () => {
  await write(
    "sales.yaml",
    `${valid}  - { id: ${id("c")}, name: n, title: t, type: CHART, database: d, sql: "SELECT 1",
      chart: { mark: line, x: month, y: net, series: region } }
description: ""
author: ${id("F")}
`,
  );
  await utimes(join(folder, "sales.yaml"), 1_700_000_000, 1_700_000_000.25);
  expect(await loadPinboards(folder)).toEqual([
    {
      id: id("a"),
      name: "Sales",
      description: "",
      author: id("F"),
      created: 1_700_000_000_250,
      modified: 1_700_000_000_250,
      visualizations: [
        {
          id: id("b"),
          name: "total",
          title: "Total",
          type: "HEADLINE",
          database: "shop",
          sql: "SELECT sum(net) FROM orders",
        },
        {
          id: id("c"),
          name: "n",
          title: "t",
          type: "CHART",
          database: "d",
          sql: "SELECT 1",
          chart: { mark: "line", x: "month", y: "net", series: "region" },
        },
      ],
    },
  ]);
});

test("a chart says as much as it likes; the rest is guessed from the columns", async () => {
  await write("a.yaml", `${valid}    chart: { mark: line }\n`);
  expect((await loadPinboards(folder))[0]?.visualizations[0]?.chart).toEqual({ mark: "line" });
  await write("a.yaml", `${valid}    chart: {}\n`);
  expect((await loadPinboards(folder))[0]?.visualizations[0]?.chart).toEqual({});
});

test("all .yaml and .yml files of the folder except hidden ones, by name", async () => {
  await write("b.yaml", valid);
  await write("a.yml", valid.replace("Sales", "First").replace(id("a"), id("1")).replace(id("b"), id("2")));
  await write(".hidden.yaml", "broken: [");
  await write("README.md", "not a pinboard");
  await write("c.yaml~", "broken: [");
  await mkdir(join(folder, "more"));
  expect((await loadPinboards(folder)).map(({ name }) => name)).toEqual(["First", "Sales"]);
});

test("a pinboard may have no visualizations yet, and a folder no pinboards", async () => {
  expect(await loadPinboards(folder)).toEqual([]);
  await write("a.yaml", `id: ${id("a")}\nname: n\nvisualizations: []\n`);
  expect(await loadPinboards(folder)).toMatchObject([{ visualizations: [] }]);
});

test("${ is nothing special in a pinboard: SQL may hold it", async () => {
  const sql = "SELECT '${env:HOME}' || $${x}$$";
  await write(
    "a.yaml",
    valid.replace("SELECT sum(net) FROM orders", () => sql),
  );
  expect((await loadPinboards(folder))[0]?.visualizations[0]?.sql).toBe(sql);
});

const guid = "expected a GUID like 6f1c2a52-0d8e-4a57-9f0b-6d2d2b8a7c11";

test.each([
  [valid.replace("id:", "Id:"), ["1:1: id: missing; " + guid, '1:1: Id: unknown key; did you mean "id"?']],
  [valid.replace(id("a"), "5"), [`1:5: id: ${guid}, not 5; put it in quotes: "5"`]],
  [valid.replace(id("a"), "sales"), [`1:5: id: ${guid}, not "sales"`]],
  [valid.replace("    title: Total\n", ""), ["4:5: visualizations[0].title: missing; expected a title"]],
  [valid.replace("Total", "''"), ['6:12: visualizations[0].title: expected a title, not ""']],
  [
    valid.replace("HEADLINE", "headline"),
    ['7:11: visualizations[0].type: expected TABLE, CHART or HEADLINE, not "headline"; did you mean "HEADLINE"?'],
  ],
  [
    `${valid}    chart: { mark: pie, x: a, z: b }\n`,
    [
      '10:20: visualizations[0].chart.mark: expected bar, line, area or dot, not "pie"',
      '10:31: visualizations[0].chart.z: unknown key; did you mean "x"?',
    ],
  ],
  [`${valid}    chart: line\n`, ['10:12: visualizations[0].chart: expected keys with values, not "line"']],
  [`${valid}author: me\n`, [`10:9: author: ${guid}, not "me"`]],
  [`id: ${id("a")}\nname: n\n`, ["1:1: visualizations: missing; expected a list of visualizations"]],
  [
    `id: ${id("a")}\nname: n\nvisualizations:\n`,
    ["3:1: visualizations: expected a list of visualizations; the key has no value"],
  ],
  ["", ["1:1: the file is empty; a pinboard has id, name and visualizations"]],
  ["- a\n", ["1:1: expected keys with values, not a list"]],
  ["name: [\n", ["2:1: not YAML: "]],
])("what is wrong with %j", async (text, expected) => {
  await write("a.yaml", text);
  const found = await problems();
  expect(found.map((line, index) => line.slice(0, `a.yaml:${expected[index] ?? ""}`.length))).toEqual(
    expected.map((line) => `a.yaml:${line}`),
  );
});

describe("every problem of every file at once", () => {
  test("files that cannot be read among them", async () => {
    await write("a.yaml", valid.replace("name: Sales", "nam: Sales"));
    await write("b.yaml", Buffer.from([0xff, 0xfe]));
    await mkdir(join(folder, "c.yaml"));
    expect(await problems()).toEqual([
      "a.yaml:1:1: name: missing; expected a name",
      'a.yaml:2:1: nam: unknown key; did you mean "name"?',
      "b.yaml:1:1: cannot be read: it is not UTF-8 text",
      "c.yaml:1:1: cannot be read: it is a folder",
    ]);
  });

  test("ids are there once in all files, whatever the letters' case, and whatever else is wrong", async () => {
    await write("a.yaml", valid);
    await write("b.yaml", valid.replace(id("a"), id("B")).replace(id("b"), id("c")).replace("HEADLINE", "x"));
    await write("c.yaml", valid.replace(id("a"), id("d")).replace(id("b"), id("d")));
    expect(await problems()).toEqual([
      "b.yaml:1:5: id: the same id as in a.yaml:4; give everything an id of its own",
      'b.yaml:7:11: visualizations[0].type: expected TABLE, CHART or HEADLINE, not "x"',
      "c.yaml:4:9: visualizations[0].id: the same id as in c.yaml:1; give everything an id of its own",
    ]);
  });
});

test("a folder that is not there", async () => {
  await expect(loadPinboards(join(folder, "none"))).rejects.toThrow(/none cannot be read: it does not exist/);
});
