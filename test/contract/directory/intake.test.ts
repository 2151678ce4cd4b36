import { mkdtemp, readFile, readdir, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { decode } from "#service/directory/encoding.ts";
import type { Encoding } from "#service/directory/encoding.ts";
import { createIntake } from "#service/directory/intake.ts";
import type { Intake } from "#service/directory/intake.ts";
import { openKeptLists } from "#service/directory/kept-list.ts";
import type { KeptLists } from "#service/directory/kept-list.ts";
import type { Piece } from "#service/directory/pieces.ts";
import { cases } from "../../support/random.ts";

let folder = "";
let opened = 0;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-intake-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** A list, and how it comes. */
interface Sent {
  readonly list: readonly unknown[];
  readonly encoding: Encoding;
  readonly separators: readonly string[];
  readonly indent: number | undefined;
  readonly places: readonly number[];
}

function textOf({ list, separators, indent }: Sent): string {
  const elements = list.map(
    (each, index) => JSON.stringify(each, null, indent) + (separators[index % separators.length] ?? ","),
  );
  return ` [ ${elements.join("").replace(/\s*,\s*$/, "")} ]\n`;
}

function bytesOf(sent: Sent): Buffer[] {
  const text = textOf(sent);
  const bytes = Buffer.from(sent.encoding === "plain" ? text : new URLSearchParams({ p: text }).toString().slice(2));
  const ends = [...new Set(sent.places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends].map((start, index) => Buffer.from(bytes.subarray(start, ends[index] ?? bytes.length)));
}

/** What has been loaded. */
interface Loaded {
  whole: unknown[];
  changed: unknown[];
  departed: unknown[];
}

async function read({ file, first, behind }: Piece): Promise<unknown[]> {
  const lines = (await readFile(file, "utf8")).split("\n").filter((line) => line.trim() !== "");
  const elements = lines.map((line) => JSON.parse(line) as unknown);
  // An empty list has one line too.
  if (elements.length > 0) expect(elements).toHaveLength(behind - first);
  return elements;
}

function createLoader(): { readonly loaded: Loaded; readonly loader: Parameters<typeof createIntake>[0]["loader"] } {
  const loaded: Loaded = { whole: [], changed: [], departed: [] };
  const loader = {
    clear: async () => {
      loaded.whole = [];
    },
    load: async (piece: Piece) => {
      expect(piece.first).toBe(loaded.whole.length);
      loaded.whole.push(...(await read(piece)));
    },
    complete: async () => undefined,
    loadDifference: async (changed: Piece, departed: Piece) => {
      loaded.changed = await read(changed);
      loaded.departed = await read(departed);
    },
  };
  return { loaded, loader };
}

async function send(sent: Sent, kept: Awaited<ReturnType<KeptLists["open"]>>) {
  const { loaded, loader } = createLoader();
  const { encoding } = sent;
  const intake = createIntake({ folder: join(folder, `in-${opened++}`), encoding, loader, isCopied: true, kept });
  for (const piece of bytesOf(sent)) {
    intake.write(piece);
    await intake.room();
  }
  return { intake, loaded, isWhole: await intake.finish() };
}

/** Keeps a list and reads what is kept. */
async function keep(lists: KeptLists, intake: Intake, revision: string): Promise<unknown[] | undefined> {
  await lists.keep(() => intake.copy(), revision);
  const kept = await lists.open();
  if (kept === undefined) return undefined;
  const elements: unknown[] = [];
  let at = kept.start;
  for (const length of kept.lengths) {
    const text = decode(await kept.readAgain(at, at + length), kept.encoding).toString();
    elements.push(JSON.parse(text.replace(/[\s,\]]*$/, "")));
    at += length;
  }
  kept.close();
  return elements;
}

const text = fc.constantFrom("a", "b", "é", 'q"', "\\", "{", "},{", "\n", "+ &=%", "%41", "x".repeat(700), "\u{1F600}");
const usual: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ name: text, displayName: text }) },
  { weight: 1, arbitrary: fc.record({ name: text, groupNames: fc.array(text) }) },
);
const element = fc.oneof(
  { weight: 8, arbitrary: usual },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(7, null, [], {}, { name: 5 }) },
);
const often = fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, fc.constant(false));
const encoding = fc.constantFrom<Encoding>("urlencoded", "plain");
const way = fc.record({
  separators: fc.oneof(
    { weight: 4, arbitrary: fc.constant([","]) },
    fc.array(fc.constantFrom(",", ",\n", " ,\r\n\t"), { minLength: 1, maxLength: 3 }),
  ),
  indent: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, fc.constant(1)),
  places: fc.array(fc.nat({ max: 100_000 }), { maxLength: 12 }),
});
const edits = fc.array(
  fc.tuple(fc.nat(), fc.constantFrom("insert", "replace", "remove", "move", "cut"), element, fc.nat()),
  { maxLength: 4 },
);

function edited(list: readonly unknown[], changes: typeof edits extends fc.Arbitrary<infer E> ? E : never): unknown[] {
  const result = [...list];
  for (const [place, kind, value, other] of changes) {
    const at = place % (result.length + 1);
    if (kind === "insert") result.splice(at, 0, value);
    if (kind === "replace") result.splice(at, 1, value);
    if (kind === "remove") result.splice(at, 1);
    if (kind === "move") result.splice(other % (result.length + 1), 0, ...result.splice(at, 1));
    if (kind === "cut") result.splice(at, other % 20);
  }
  return result;
}

const sorted = (list: readonly unknown[]): string[] => list.map((each) => JSON.stringify(each)).toSorted();

test("what differs from the list before is told, or all of it, however it is encoded and wherever it is cut", async () => {
  const seen = { difference: 0, whole: 0, found: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.array(usual, { minLength: 1, maxLength: 40 }),
      edits,
      fc.tuple(way, way),
      fc.tuple(encoding, often, often),
      async (list, changes, [first, second], [code, isSameWay, isSameCode]) => {
        const lists = await openKeptLists(join(folder, `kept-${opened++}`), "none", pino({ level: "silent" }));
        const before: Sent = { ...first, list, encoding: code };
        const one = await send(before, undefined);
        expect(one.isWhole).toBe(true);
        expect(one.loaded.whole).toEqual(list);
        const kept = await keep(lists, one.intake, "first");
        await one.intake.close();
        if (kept === undefined) return;
        expect(kept).toEqual(list);

        const way = isSameWay ? { ...first, places: second.places } : second;
        const other: Encoding = code === "plain" ? "urlencoded" : "plain";
        const after: Sent = { ...way, list: edited(list, changes), encoding: isSameCode ? code : other };
        const two = await send(after, await lists.open());
        const { loaded, isWhole, intake } = two;
        if (!isWhole) {
          seen.difference++;
          seen.found += after.list.length - loaded.changed.length;
          // What both have is taken out of both.
          expect(after.list.length - loaded.changed.length).toBe(list.length - loaded.departed.length);
          expect(sorted([...list, ...loaded.changed])).toEqual(sorted([...after.list, ...loaded.departed]));
          await intake.loadAll();
        } else {
          seen.whole++;
        }
        expect(loaded.whole).toEqual(after.list);
        const next = await keep(lists, intake, "second");
        if (next !== undefined) expect(next).toEqual(after.list);
        await intake.close();
      },
    ),
    { numRuns: cases(200) },
  );
  // A test of what never happens would be worth nothing.
  expect(seen.difference).toBeGreaterThan(30);
  expect(seen.whole).toBeGreaterThan(10);
  expect(seen.found).toBeGreaterThan(50);
  expect((await readdir(folder)).filter((name) => name.startsWith("in-"))).toEqual([]);
}, 300_000);

test("B.5 where a list is not JSON is told in bytes of the whole list, of which much was found in the list before", async () => {
  const list = Array.from({ length: 500 }, (_, index) => ({ name: `é & ${index}`, displayName: "%" }));
  const usual = { list, encoding: "urlencoded" as const, separators: [",\n"], indent: undefined, places: [] };
  const lists = await openKeptLists(join(folder, `kept-${opened++}`), "none", pino({ level: "silent" }));
  const { intake } = await send(usual, undefined);
  expect(await keep(lists, intake, "first")).toHaveLength(500);
  await intake.close();
  const broken = textOf(usual).replace(
    '"displayName":"%"},\n{"name":"é & 451"',
    '"displayName":"%"},\n{"name" "é & 451"',
  );
  const at = Buffer.from(broken).indexOf('"é & 451"');
  for (const kept of [await lists.open(), undefined]) {
    const { loader } = createLoader();
    const other = createIntake({ folder: join(folder, "in"), encoding: "urlencoded", loader, isCopied: true, kept });
    other.write(Buffer.from(new URLSearchParams({ p: broken }).toString().slice(2)));
    await other.room();
    await expect(other.finish()).rejects.toThrow(`principals: not valid JSON at byte ${at}: expected a colon`);
    await other.close();
  }
});

test("lists that are closed wherever they stand leave no file, and none is open", async () => {
  const places = Array.from({ length: 60 }, () => join(folder, `closed-${opened++}`));
  const closing = places.map(async (place, index) => {
    const { loader } = createLoader();
    const intake = createIntake({ folder: place, encoding: "plain", loader, isCopied: true });
    intake.write(Buffer.from(`["${"x".repeat(index * 30_000)}"`));
    if (index % 2 === 0) await intake.room();
    await intake.close();
    return openFiles(place);
  });
  expect((await Promise.all(closing)).flat()).toEqual([]);
  expect((await readdir(folder)).filter((name) => name.startsWith("closed-"))).toEqual([]);
});

/** What this process has open below a folder; of systems that cannot tell, nothing. */
async function openFiles(place: string): Promise<string[]> {
  const open = await readdir("/proc/self/fd").catch(() => []);
  const names = await Promise.all(open.map((file) => readlink(`/proc/self/fd/${file}`).catch(() => "")));
  return names.filter((name) => name.startsWith(place));
}

test("a list before that cannot be read once more fails the list that needs it, and no other", async () => {
  const list = Array.from({ length: 50 }, (_, index) => ({ name: `u${index}` }));
  const usual = { list, encoding: "plain" as const, separators: [","], indent: undefined, places: [] };
  const logged: string[] = [];
  const log = pino({}, { write: (line) => logged.push(line) });
  const lists = await openKeptLists(join(folder, `kept-${opened++}`), "none", log);
  const first = await send(usual, undefined);
  expect(await keep(lists, first.intake, "first")).toHaveLength(50);
  await first.intake.close();
  const kept = await lists.open();
  if (kept === undefined) throw new Error("the list is not kept");
  const { intake, isWhole } = await send(usual, { ...kept, readAgain: () => Promise.reject(new Error("not there")) });
  expect(isWhole).toBe(false);
  await expect(intake.loadAll()).rejects.toThrow("not there");
  await intake.close();
  expect(logged).toHaveLength(1);
  expect(logged[0]).toContain("cannot be used (not there)");
  expect(await lists.open()).toBeUndefined();
});
