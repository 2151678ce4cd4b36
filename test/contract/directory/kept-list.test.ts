import { readFile, readdir, rename, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { open } from "./opened.ts";
import type { Call, Opened, Outcome } from "./opened.ts";
import { cases } from "../../support/random.ts";

interface Element {
  readonly name: string;
  readonly principalTypeEnum: string;
  readonly [field: string]: unknown;
}

const user = (name: string, fields: object = {}): Element => ({
  name,
  displayName: `User ${name}`,
  principalTypeEnum: "LOCAL_USER",
  groupNames: ["g"],
  ...fields,
});
const group = (name: string, groupNames: readonly string[] = []): Element => ({
  name,
  displayName: `Group ${name}`,
  principalTypeEnum: "LOCAL_GROUP",
  groupNames,
});

const company = [group("g"), group("h", ["g"]), ...Array.from({ length: 20 }, (_, index) => user(`u${index}`))];
const text = (list: readonly unknown[]): string => `[${list.map((each) => JSON.stringify(each)).join(",\n")}]`;
const call = (list: readonly unknown[], others: Partial<Call> = {}): Call => ({
  list: text(list),
  apply: false,
  defaultPassword: "a default",
  ...others,
});

async function opened(): Promise<Opened> {
  const directory = await open();
  onTestFinished(() => directory.close());
  return directory;
}

/** A directory that has been given the company once. */
async function settled(): Promise<Opened> {
  const directory = await opened();
  expect((await directory.call(call(company, { apply: true }))).read).toBe("all");
  return directory;
}

const nothing = {
  usersAdded: [],
  usersDeleted: [],
  usersUpdated: [],
  groupsAdded: [],
  groupsDeleted: [],
  groupsUpdated: [],
};

const names = fc.constantFrom("a", "b", "c", "d", "e", "é", 'q"', "\\", "caller", "admin", "u1", "u2", "u3", "\u0001");
const groups = fc.constantFrom("g", "h", "i", "All", "Administrator", "nobody");
const listed = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .record(
        {
          name: names,
          displayName: fc.constantFrom("x", "y"),
          principalTypeEnum: fc.constant("LOCAL_USER"),
          mail: fc.constantFrom("m", null, ""),
          groupNames: fc.oneof(fc.constant(["g"]), fc.array(groups, { maxLength: 2 })),
        },
        { requiredKeys: ["name", "displayName", "principalTypeEnum"] },
      )
      .map((element) => element as object),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      name: groups,
      displayName: fc.constantFrom("x", "y"),
      principalTypeEnum: fc.constant("LOCAL_GROUP"),
      groupNames: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.array(groups, { maxLength: 2 })),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom<unknown>(
      7,
      {},
      { ...user("a"), password: "own" },
      { ...user("b"), mail: 5 },
      { ...user("c"), extra: { name: "a" }, id: 7 },
      { ...user("d"), description: "line\nbreak é" },
    ),
  },
);

/** What happens to a list before it is sent again. */
const edit = fc.oneof(
  fc.record({ kind: fc.constant("insert" as const), at: fc.nat(), value: listed }),
  fc.record({ kind: fc.constant("replace" as const), at: fc.nat(), value: listed }),
  fc.record({ kind: fc.constant("remove" as const), at: fc.nat() }),
  fc.record({ kind: fc.constant("move" as const), at: fc.nat(), to: fc.nat() }),
  fc.record({ kind: fc.constant("repeat" as const), at: fc.nat(), to: fc.nat() }),
);

function edited(list: readonly unknown[], edits: readonly (typeof edit extends fc.Arbitrary<infer E> ? E : never)[]) {
  const result = [...list];
  for (const each of edits) {
    const at = each.at % (result.length + 1);
    if (each.kind === "insert") result.splice(at, 0, each.value);
    if (each.kind === "replace") result.splice(at, 1, each.value);
    if (each.kind === "remove") result.splice(at, 1);
    if (each.kind === "move") result.splice(each.to % (result.length + 1), 0, ...result.splice(at, 1));
    if (each.kind === "repeat" && at < result.length) result.splice(each.to % (result.length + 1), 0, result[at]);
  }
  return result;
}

const step = fc.record({
  edits: fc.oneof({ weight: 3, arbitrary: fc.array(edit, { maxLength: 2 }) }, fc.array(edit, { maxLength: 8 })),
  apply: fc.boolean(),
  removeDeleted: fc.constantFrom(undefined, true, false),
  defaultPassword: fc.oneof({ weight: 4, arbitrary: fc.constant("a default") }, fc.constant(undefined)),
  caller: fc.constantFrom("admin", "admin", "caller", "u1"),
  form: fc.oneof(
    { weight: 5, arbitrary: fc.constant("urlencoded" as const) },
    { weight: 1, arbitrary: fc.constant("multipart" as const) },
  ),
  pieces: fc.constantFrom(65_536, 100, 7),
  separator: fc.oneof({ weight: 4, arbitrary: fc.constant(",") }, fc.constantFrom(",\n", " ,\t", "\n\n, ")),
  indent: fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, fc.constant(1)),
  restart: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.constant(true)),
});

test("B.8 a list is answered and applied as one that nothing is known of, whatever lists came before", async () => {
  const reads: Outcome["read"][] = [];
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 8 }), async (steps) => {
      const [one, other] = [await open(), await open()];
      try {
        const before = new Map<Opened, Map<string, number>>();
        let list: unknown[] = [group("g"), group("h"), user("caller"), user("u1"), user("u2"), user("u3"), user("a")];
        let isFirst = true;
        for (const { edits, separator, indent, restart, ...others } of steps) {
          const current = isFirst ? list : edited(list, edits);
          const sent: Call = {
            ...others,
            ...(isFirst ? { apply: true, defaultPassword: "a default" } : {}),
            list: `[${current.map((each) => JSON.stringify(each, null, indent)).join(separator)}]`,
          };
          isFirst = false;
          if (restart) await one.reopen();
          for (const place of await other.kept()) await rm(place, { recursive: true });
          const [mine, reference] = [await one.call(sent), await other.call(sent)];
          expect(mine.answer).toEqual(reference.answer);
          expect(reference.read).toBe("all");
          reads.push(mine.read);
          // What is wrong stays in no list, or nothing else would ever be seen.
          if (!("problems" in (mine.answer as object))) list = current;
          const [lists, changed] = [[], []] as [object[][], string[][]];
          for (const each of [one, other]) {
            const principals = await each.list();
            lists.push(principals.map((principal) => ({ ...principal, created: 0, modified: 0 })));
            const seen = before.get(each);
            const now = new Map(
              principals.map(({ modified, ...rest }) => [`${rest.principalTypeEnum} ${rest.name}`, modified]),
            );
            changed.push([...now].filter(([key, modified]) => seen?.get(key) !== modified).map(([key]) => key));
            before.set(each, now);
          }
          expect(lists[0]).toEqual(lists[1]);
          expect(changed[0]).toEqual(changed[1]);
          expect((await one.kept()).length).toBeLessThanOrEqual(1);
        }
      } finally {
        await Promise.all([one.close(), other.close()]);
      }
    }),
    { numRuns: cases(15) },
  );
  // A test of what never happens would be worth nothing.
  expect(new Set(reads)).toEqual(new Set(["all", "difference", "fallback"]));
}, 600_000);

test("only what differs is looked at, wherever it is cut, after a restart too; in another form all of it", async () => {
  const directory = await settled();
  const changed = company.map((each) => (each.name === "u7" ? { ...each, mail: "u7@example.com" } : each));
  const expected = { answer: { ...nothing, usersUpdated: ["u7"] }, read: "difference" };
  expect(await directory.call(call(changed))).toEqual(expected);
  expect(await directory.call(call(changed, { pieces: 10 }))).toEqual(expected);
  expect(await directory.call(call(changed, { form: "multipart" }))).toEqual({ ...expected, read: "all" });
  await directory.reopen();
  expect(await directory.call(call(changed))).toEqual(expected);
  expect(await directory.call(call(changed, { apply: true }))).toEqual(expected);
  expect(await directory.call(call(changed))).toEqual({ answer: nothing, read: "difference" });
  const multipart = { form: "multipart", pieces: 10 } as const;
  expect(await directory.call(call(company, { ...multipart, apply: true }))).toEqual({ ...expected, read: "all" });
  expect(await directory.call(call(changed, multipart))).toEqual(expected);
  expect(directory.log).toEqual([]);
});

test("B.4, 0.7 who was not in the list and stayed is deleted by the next list that does not keep them", async () => {
  const directory = await settled();
  const others = company.filter(({ name }) => name !== "u3" && name !== "u4");
  const kept = await directory.call(call(others, { apply: true, removeDeleted: false }));
  expect(kept).toEqual({ answer: nothing, read: "difference" });
  const byThemselves = await directory.call(call(others, { caller: "u4" }));
  expect(byThemselves).toEqual({ answer: { ...nothing, usersDeleted: ["u3"] }, read: "difference" });
  const gone = await directory.call(call(others, { apply: true }));
  expect(gone).toEqual({ answer: { ...nothing, usersDeleted: ["u3", "u4"] }, read: "difference" });
  expect((await directory.list()).map(({ name }) => name)).not.toContain("u3");
});

test("B.5 every problem of the whole list is named, with its place in it", async () => {
  const directory = await settled();
  const withoutGroup = await directory.call(call(company.slice(1)));
  expect(withoutGroup.read).toBe("fallback");
  expect((withoutGroup.answer as { problems: string[] }).problems).toEqual(
    company
      .slice(1)
      .map((_, index) => `principals[${index}].groupNames: "g" is neither in the list nor stays in the service`),
  );
  const odd = await directory.call(call([...company.slice(0, 5), 7, ...company.slice(5), "8"]));
  const must = (at: number): string => `principals[${at}]: must be an object`;
  expect((odd.answer as { problems: string[] }).problems).toEqual([must(5), must(company.length + 1)]);
  const twice = await directory.call(call([...company, user("u5", { mail: "other" })]));
  expect(twice.read).toBe("fallback");
  expect(twice.answer).toMatchObject({
    problems: [`principals[${company.length}].name: is there before as principals[7]: names of one kind must differ`],
  });
});

test("B.8 a list that was applied while another arrived counts for that one", async () => {
  const directory = await settled();
  const shorter = company.slice(0, -1);
  const meanwhile = (): Promise<Outcome> => directory.call(call(shorter, { apply: true }));
  const late = await directory.call(call([...company, user("new")], { apply: true }), meanwhile);
  expect(late).toEqual({ answer: { ...nothing, usersAdded: ["new", "u19"] }, read: "fallback" });
  expect(await directory.call(call([...company, user("new")]))).toEqual({ answer: nothing, read: "difference" });
  expect(directory.log).toEqual([]);
});

test("a list that brings passwords, or fields that nobody knows, is not kept", async () => {
  const directory = await opened();
  for (const fields of [{ password: "a secret" }, { Password: "a secret" }, { pin: { code: 1 } }, { password: null }]) {
    const list = [...company, user("other", fields)];
    expect((await directory.call(call(list, { apply: true }))).read).toBe("all");
    expect(await directory.kept()).toEqual([]);
  }
  await directory.call(call(company, { apply: true }));
  await directory.call(call([...company, user("other", { password: "a secret" })], { apply: true }));
  expect(await directory.kept()).toEqual([]);
  const usual = [...company, user("other", { id: "1", created: 1, modified: 2, visibility: "DEFAULT" })];
  await directory.call(call(usual, { apply: true }));
  expect(await directory.kept()).toHaveLength(1);
  expect(await readdir(join(directory.folder, "uploads"))).toEqual([]);
});

test("a list in which much differs is read as a whole", async () => {
  const directory = await opened();
  const many = Array.from({ length: 3000 }, (_, index) => user(`u${index}`));
  await directory.call(call([group("g"), ...many], { apply: true }));
  const renamed = many.map((each, index) => (index < 2000 ? { ...each, displayName: "Other" } : each));
  const { answer, read } = await directory.call(call([group("g"), ...renamed]));
  expect(read).toBe("all");
  expect((answer as { usersUpdated: string[] }).usersUpdated).toHaveLength(2000);
  expect((await directory.call(call([group("g"), ...many.slice(0, 1000)]))).answer).toMatchObject({
    usersDeleted: { length: 2000 },
  });
  expect(directory.log).toEqual([]);
});

test("a list of several megabytes is compared where pieces and blocks meet", async () => {
  const directory = await opened();
  const many = [
    group("g"),
    ...Array.from({ length: 30_000 }, (_, index) => user(`u${index}`, { description: "x".repeat(300) })),
  ];
  expect((await directory.call(call(many, { apply: true }))).read).toBe("all");
  const drifted = many
    .filter((_, index) => index % 1000 !== 1)
    .map((each, index) => (index % 1000 === 7 ? { ...each, mail: "new" } : each));
  for (const apply of [false, true]) {
    const { answer, read } = await directory.call(call([...drifted, user("new")], { apply }));
    expect(read).toBe("difference");
    expect(answer).toMatchObject({ usersAdded: ["new"], usersDeleted: { length: 30 }, usersUpdated: { length: 30 } });
  }
  expect(await directory.call(call([...drifted, user("new")]))).toEqual({ answer: nothing, read: "difference" });
  expect(await directory.list()).toHaveLength(drifted.length + 1 + 3);
});

test("a kept list that is damaged is put away, which the log says once, and the answer is right", async () => {
  const damages: ((place: string) => Promise<unknown>)[] = [
    (place) => rm(join(place, "index.json")),
    (place) => writeFile(join(place, "index.json"), "{}"),
    (place) => writeFile(join(place, "index.json"), "{"),
    (place) => rm(join(place, "list")),
    (place) => truncate(join(place, "list"), 100),
    async (place) => {
      const bytes = await readFile(join(place, "list"));
      bytes.writeUInt8(0x41, bytes.indexOf("User+u9"));
      await writeFile(join(place, "list"), bytes);
    },
    async (place) => {
      const lines = (await readFile(join(place, "list"), "utf8")).split("%0A");
      await writeFile(join(place, "list"), lines.toSpliced(5, 1).join("%0A"));
    },
    (place) => rm(join(place, "lengths")),
    (place) => truncate(join(place, "lengths"), 8),
    (place) => writeFile(join(place, "lengths"), Buffer.alloc(4 * company.length)),
  ];
  const shorter = company.slice(0, -1);
  for (const damage of damages) {
    const directory = await settled();
    const [place = ""] = await directory.kept();
    await damage(place);
    for (let time = 0; time < 2; time++) {
      const { answer, read } = await directory.call(call(shorter));
      expect(answer).toEqual({ ...nothing, usersDeleted: ["u19"] });
      expect(read).toBe("all");
    }
    expect(directory.log).toHaveLength(1);
    expect(directory.log[0]).toContain(place);
    expect(await directory.kept()).toEqual([]);
    await directory.call(call(company, { apply: true }));
    expect((await directory.call(call(shorter))).read).toBe("difference");
  }
});

test("a kept list of another revision is not used, and removed at the start", async () => {
  const directory = await settled();
  const [place = ""] = await directory.kept();
  await rename(place, join(directory.folder, "list", "00000000-0000-4000-8000-000000000000"));
  await directory.reopen();
  expect(await directory.kept()).toEqual([]);
  expect((await directory.call(call(company))).read).toBe("all");
  expect(directory.log).toEqual([]);
});

test("a list that cannot be kept is applied all the same", async () => {
  const directory = await settled();
  const folder = join(directory.folder, "list");
  await rm(folder, { recursive: true });
  await writeFile(folder, "in the way");
  const { answer } = await directory.call(call(company.slice(0, -1), { apply: true }));
  expect(answer).toEqual({ ...nothing, usersDeleted: ["u19"] });
  expect(directory.log.map((line) => (JSON.parse(line) as { msg: string }).msg)).toEqual([
    expect.stringContaining("cannot be used"),
    expect.stringContaining("cannot be kept"),
  ]);
  expect(await readdir(join(directory.folder, "uploads"))).toEqual([]);
  await rm(folder);
  await directory.call(call(company.slice(0, -1), { apply: true }));
  const next = await directory.call(call(company.slice(0, -2)));
  expect(next).toEqual({ answer: { ...nothing, usersDeleted: ["u18"] }, read: "difference" });
});
