import { expect, test } from "vitest";
import { createDirectory, differenceOf } from "../../bench/crowd/directory.ts";
import { judge } from "../../bench/crowd/judge.ts";
import type { Observation } from "../../bench/crowd/judge.ts";
import { loadIn, loadsOf, rowsOf, rowsPerLoad, sumsOf } from "../../bench/crowd/tables.ts";

/** What holds the answers of `npm run bench -- crowd` against the model finds what is wrong with them. */

const versions = [
  { began: 0, ended: 10 },
  { began: 20, ended: 30 },
  { began: 40, ended: Infinity },
];
const seen = (version: number, began: number, ended: number): Observation => ({
  what: "directory",
  by: "a list",
  versions: [version],
  began,
  ended,
});

test.each<[string, readonly Observation[], boolean]>([
  ["the version before, while the next is applied", [seen(0, 22, 25)], true],
  ["the next version, while it is applied", [seen(1, 22, 25)], true],
  ["a version that is not there yet", [seen(1, 12, 15)], false],
  ["a version after the next one was applied", [seen(0, 31, 35)], false],
  ["the old version after somebody has seen the new one", [seen(1, 21, 22), seen(0, 23, 24)], false],
  ["the old version while somebody sees the new one", [seen(1, 21, 24), seen(0, 23, 25)], true],
  [
    "two times of one change",
    [
      { what: "time", version: 1, milliseconds: 5 },
      { what: "time", version: 1, milliseconds: 6 },
    ],
    false,
  ],
])("a directory: %s", (_, observations, isPossible) => {
  expect(judge(observations, versions)).toHaveLength(isPossible ? 0 : 1);
});

const load = (table: "shared" | "replaced", client: number, number: number, at: number): Observation => ({
  what: "load",
  table,
  client,
  load: number,
  began: at,
  ended: at + 10,
});
const shared = (count: number, at: number): Observation => ({
  what: "shared",
  loads: [[1, count]],
  began: at,
  ended: at + 2,
});
const replaced = (client: number, number: number, at: number): Observation => ({
  what: "replaced",
  load: [client, number],
  began: at,
  ended: at + 2,
});

test.each<[string, readonly Observation[], boolean]>([
  ["a load that is being written, not there yet", [load("shared", 1, 1, 0), shared(0, 5)], true],
  ["a load that is being written, there", [load("shared", 1, 1, 0), shared(1, 5)], true],
  ["a load that was done, and is not there", [load("shared", 1, 1, 0), shared(0, 11)], false],
  ["a load that nobody has committed", [load("shared", 1, 1, 20), shared(1, 5)], false],
  ["what is there", [load("replaced", 1, 1, 0), replaced(1, 1, 20)], true],
  [
    "what another load has replaced",
    [load("replaced", 1, 1, 0), load("replaced", 2, 1, 11), replaced(1, 1, 30)],
    false,
  ],
  ["what nobody has loaded", [load("replaced", 1, 1, 0), replaced(2, 1, 30)], false],
])("a table: %s", (_, observations, isPossible) => {
  expect(judge(observations, versions)).toHaveLength(isPossible ? 0 : 1);
});

test("a load that is there in part, or twice, is none", () => {
  const amounts = rowsOf(3, 5)
    .trim()
    .split("\n")
    .map((row) => Number(row.split(",")[3]));
  expect(amounts).toHaveLength(rowsPerLoad);
  expect(amounts.reduce((sum, amount) => sum + amount)).toBe(0);
  const [n = 0, amount = 0, mixed = 0, newest = 0] = sumsOf([1, 2, 3]);
  expect(loadsOf([7, n, amount, mixed, newest])).toBe(3);
  for (const part of [
    [7, n - 1, amount, mixed, newest],
    [7, n, 3, mixed, newest],
    [7, ...sumsOf([1, 3, 3])],
  ])
    expect(() => loadsOf(part)).toThrow("each once and whole");
  expect(loadIn([7, 4, 7, ...sumsOf([4])])).toEqual([7, 4]);
  expect(() => loadIn([7, 3, 7, ...sumsOf([3, 4])])).toThrow("one load");
});

test("every version of the directory differs from the one before as its model says", () => {
  const directory = createDirectory(300);
  for (const version of [1, 2, 3, 6, 150]) {
    const { principals } = directory.state(version);
    const found = differenceOf(principals, directory.state(version - 1), true);
    expect(found.usersAdded).toEqual([`new-${version}`]);
    expect(found.usersDeleted).toEqual(version > 5 ? [`new-${version - 5}`] : []);
    expect(found.groupsAdded).toEqual([`Release ${version}`]);
    expect(found.groupsDeleted).toEqual(version > 3 ? [`Release ${version - 3}`] : []);
    const changed = principals.filter(({ created, modified }) => created < version && modified === version);
    expect(found.usersUpdated).toEqual(changed.map(({ name }) => name));
    expect(found.usersUpdated.length).toBeGreaterThan(10);
  }
});
