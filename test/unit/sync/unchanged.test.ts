import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ListTarget, Source } from "#connector.ts";
import type { Connection } from "#duckdb/database.ts";
import { compileRules } from "#principals/compile.ts";
import type { Planned } from "#sync/planning/limits.ts";
import type { Sync } from "#sync/sync.ts";
import { Unchanged } from "#sync/unchanged.ts";
import type { UnchangedOptions } from "#sync/unchanged.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-unchanged-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const at = Date.parse("2026-11-26T12:00:00Z");
const signal = new AbortController().signal;
/** Nothing that is asked here needs a table. */
const noConnection = {} as Connection;

/** What the source and the target have now. */
let now: { version: string; tag: string };
beforeEach(() => {
  now = { version: "1", tag: "a" };
});

function syncOf(change: Partial<Sync> = {}): Sync {
  const source: Pick<Source, "version" | "versionIsDigest"> = {
    version: async () => now.version,
    versionIsDigest: true,
  };
  const target: Pick<ListTarget, "takes" | "name" | "isStill"> = {
    takes: "list",
    name: "analytics",
    isStill: async (tag) => tag === now.tag,
  };
  return {
    name: "staff",
    digest: "as configured",
    sources: [{ name: "company", source: source as Source }],
    rules: compileRules({ users: { name: "entry.login", displayName: "entry.login" } }),
    target: target as ListTarget,
    place: "here",
    protection: { manage: "owned", makesGroups: false, users: [], groups: [] },
    departures: { after: 0, renames: "apply", reusedNames: "hold", administrators: [] },
    causes: true,
    drift: { policy: "revert", ignore: [] },
    keepManual: [],
    settings: {},
    limits: { sources: {}, floor: 10, action: "hold" },
    ...change,
  };
}

const nobody = { before: 2, after: 2, create: 0, update: 0, delete: 0 };
const none = { count: 0, examples: [] };
const planned = {
  plan: {
    digest: "d",
    counts: { users: nobody, groups: nobody, membershipsAdded: 0, membershipsRemoved: 0 },
    async *changes() {},
  },
  checks: [],
  waiting: [],
  amounts: [],
  scope: { sizes: [] },
  notes: [{ text: "a note" }],
  departures: { leaving: { ...none, groups: 0, days: [] } },
  quarantined: 0,
  sources: [{ source: "company", users: 2, groups: 0, quarantined: 0 }],
} as unknown as Planned;

function open(change: Partial<UnchangedOptions> = {}, sync = syncOf()): Promise<Unchanged> {
  return Unchanged.open(sync, { folder, now: at, signal, mayEnd: true, stores: true, ...change });
}

/** What a run that has read and listed all of that leaves in the ledger. */
async function kept(): Promise<string> {
  const unchanged = await open();
  unchanged.read("what was read");
  await unchanged.list(noConnection, async () => now.tag);
  return unchanged.fingerprint(planned, ["a warning"]) ?? "";
}

test("a run ends before reading where source, target and configuration are the same, for a day", async () => {
  const last = await kept();
  const found = await (await open({ kept: last, now: at + 60_000 })).beforeReading();
  expect(found?.warnings).toEqual(["a warning"]);
  expect(found?.planned).toMatchObject({
    plan: { digest: "d" },
    notes: [
      { text: "a note" },
      { text: "nothing has changed since 2026-11-26T12:00:00.000Z; the sources were not read again" },
    ],
    sources: [{ users: 2, unchangedSince: "2026-11-26T12:00:00.000Z" }],
  });
  const isFound = async (change: Partial<UnchangedOptions>, sync?: Sync): Promise<boolean> =>
    (await (await open({ kept: last, ...change }, sync)).beforeReading()) !== undefined;
  expect(await isFound({})).toBe(true);
  expect(await isFound({ now: at + 86_400_000 })).toBe(false);
  expect(await isFound({ now: at - 1 })).toBe(false);
  expect(await isFound({ mayEnd: false })).toBe(false);
  expect(await isFound({}, syncOf({ settings: { limit: 1 } }))).toBe(false);
  now = { version: "2", tag: "a" };
  expect(await isFound({})).toBe(false);
  now = { version: "1", tag: "b" };
  expect(await isFound({})).toBe(false);
});

test("it ends after reading where the same was read, and keeps the version of that", async () => {
  const last = await kept();
  now = { version: "2", tag: "a" };
  const unchanged = await open({ kept: last });
  expect(await unchanged.beforeReading()).toBeUndefined();
  expect(unchanged.mayEndAfterReading).toBe(true);
  unchanged.read("something else");
  expect(await unchanged.afterReading()).toBeUndefined();
  unchanged.read("what was read");
  expect(await unchanged.afterReading()).toMatchObject({ plan: { digest: "d" } });
  const renewed = unchanged.renewedFingerprint(["another warning"]);
  expect((await (await open({ kept: renewed })).beforeReading())?.warnings).toEqual(["another warning"]);
});

test.each([
  ["nothing", ""],
  ["what is no JSON", "{"],
  ["another kind of JSON", "null"],
  ["a document without its fields", "{}"],
  ["a document of another form", '{"digest":"of another release","tag":"a","plannedAt":"2026-11-26T12:00:00.000Z"}'],
])("where the ledger keeps %s, the run reads", async (_, last) => {
  const unchanged = await open({ kept: last });
  expect(await unchanged.beforeReading()).toBeUndefined();
  unchanged.read("what was read");
  expect(await unchanged.afterReading()).toBeUndefined();
});

test.each([
  ["no JSON", "{"],
  ["nothing of a list", "{}"],
  ["a list whose tables are gone", JSON.stringify({ place: "here", tag: "a", listedAt: new Date(at), folder: "gone" })],
])("where what is stored of the last list is %s, the target is listed", async (_, document) => {
  await mkdir(join(folder, "lists"), { recursive: true });
  await writeFile(join(folder, "lists", "staff.json"), document);
  const unchanged = await open();
  let isListed = false;
  const failing = { run: () => Promise.reject(new Error("no such file")) } as unknown as Connection;
  await unchanged.list(failing, async () => {
    isListed = true;
    return "a";
  });
  expect([isListed, unchanged.isAgreed]).toEqual([true, false]);
});

test("nothing is kept of a run after which another may differ although nothing has changed", async () => {
  const unchanged = await open();
  await unchanged.list(noConnection, async () => now.tag);
  const keeps = (change: object): boolean =>
    unchanged.fingerprint(Object.assign({}, planned, change), []) !== undefined;
  expect(keeps({})).toBe(true);
  expect(keeps({ waiting: ["deletes"] })).toBe(false);
  expect(keeps({ checks: [{ limit: "shrink", tripped: true }] })).toBe(false);
  expect(keeps({ departures: { leaving: { ...none, count: 1 } } })).toBe(false);
  expect(keeps({ departures: undefined })).toBe(false);
  expect(keeps({ sources: [{ source: "company", error: { message: "it does not answer" } }] })).toBe(false);
});
