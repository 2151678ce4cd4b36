import { beforeEach, describe, expect, test } from "vitest";
import type { Entry, ReadContext, Source } from "#connector.ts";
import { compileRules } from "#principals/compile.ts";
import type { RunResult } from "#sync/context.ts";
import type { SyncSource } from "#sync/sync.ts";
import { call, login } from "../support/rollcall/service.ts";
import { useStaff } from "../e2e/sync/staff.ts";

/** Runs of a source that changes while it is read, against a real service. */

const staff = useStaff();

const user = (id: string, change: Partial<Entry> = {}): Entry => ({
  kind: "user",
  id,
  origin: `${id},ou=North`,
  attributes: { login: id },
  keys: [`${id},ou=north`],
  memberOf: [],
  members: [],
  ...change,
});
const group = (id: string, ...members: readonly string[]): Entry => ({
  kind: "group",
  id,
  origin: id,
  attributes: { login: id },
  keys: [id],
  memberOf: [],
  members: members.map((key) => ({ key })),
});

/** What each read delivers in turn, the last one for ever; `there` is what the source really has. */
let reads: readonly (readonly Entry[])[];
let there: readonly Entry[];
let number: number;
let asked: string[];
let contexts: ReadContext[];
let warnings: string[];
beforeEach(() => {
  [reads, there, number, asked, contexts, warnings] = [[], [], 0, [], [], []];
});

const source: Source = {
  async *read(context) {
    contexts.push(context);
    context.count?.("users below ou=North", 7);
    yield reads[Math.min(number++, reads.length - 1)] ?? [];
  },
  async *find(records) {
    asked.push(...records.map(({ id }) => id));
    yield there.filter(({ kind, id }) => records.some((each) => each.kind === kind && each.id === id));
  },
};

const rules = compileRules({
  users: { name: "entry.login", displayName: "entry.login", include: "entry.login != 'temp'" },
  groups: { name: "entry.login", displayName: "entry.login" },
});

function runIt(change: Partial<SyncSource> = {}): Promise<RunResult> {
  const sync = staff.syncOf({}, { rules, sources: [{ name: "corp", source, ...change }] });
  return staff.runIt(sync, true, { warn: (message) => warnings.push(message) });
}

/** Applies a first run of these entries; what follows is read afterwards. */
async function begin(...entries: readonly Entry[]): Promise<void> {
  [reads, there] = [[entries], entries];
  await runIt();
  [number, asked, contexts, warnings] = [0, [], [], []];
}

async function groupsOf(name: string): Promise<string[]> {
  const { url } = staff.service();
  const { text } = await call(`${url}/tspublic/v1/user/list`, { session: await login(url) });
  const list = JSON.parse(text) as { name: string; groupNames: string[] }[];
  return list.find((each) => each.name === name)?.groupNames ?? [];
}

describe("a user whom the read did not find", () => {
  test("and who is there was missed: the source is read again, and the user stays", async () => {
    await begin(user("ada"), user("grace"));
    reads = [[user("grace")], [user("ada"), user("grace")]];
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    expect(asked).toEqual(["ada"]);
    expect(warnings).toEqual([
      'source corp: the user "ada" was not read but is there (ada,ou=North): the source changed meanwhile. The sources are read again',
    ]);
  });

  test("twice fails the run; nothing is deleted", async () => {
    await begin(user("ada"), user("grace"));
    reads = [[user("grace")]];
    await expect(runIt()).rejects.toMatchObject({ name: "IncompleteReadError", torn: true });
    expect(number).toBe(2);
    expect(await staff.users()).toEqual(["ada", "admin", "grace"]);
  });

  test("and who is gone is deleted", async () => {
    await begin(user("ada"), user("grace"));
    [reads, there] = [[[user("grace")]], [user("grace")]];
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(await staff.users()).toEqual(["admin", "grace"]);
  });

  test("is not looked up when it was read and the rules leave it out", async () => {
    await begin(user("ada"), user("grace"));
    [reads, there] = [[[user("ada", { attributes: { login: "temp" } }), user("grace")]], [user("ada"), user("grace")]];
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(asked).toEqual([]);
    expect(await staff.users()).toEqual(["admin", "grace"]);
  });
});

describe("a membership that is lost", () => {
  const moved = user("ada", { keys: ["ada,ou=south"], origin: "ada,ou=South" });

  test("since the member was renamed between the reads of users and groups is kept: the source is read again", async () => {
    await begin(user("ada"), user("grace"), group("staff", "ada,ou=north", "grace,ou=north"));
    const groups = group("staff", "ada,ou=south", "grace,ou=north");
    reads = [
      [user("ada"), user("grace"), groups],
      [moved, user("grace"), groups],
    ];
    there = [moved, user("grace"), groups];
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    expect(warnings).toEqual([expect.stringContaining('"ada" moved or was renamed while it was read (ada,ou=South)')]);
    expect(await groupsOf("ada")).toContain("staff");
  });

  test("is taken away when the reference that leads nowhere is to somebody else", async () => {
    await begin(user("ada"), user("grace"), group("staff", "ada,ou=north", "grace,ou=north"));
    reads = [[user("ada"), user("grace"), group("staff", "nobody", "grace,ou=north")]];
    there = reads[0] ?? [];
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(asked).toEqual(["ada"]);
    expect(await groupsOf("ada")).not.toContain("staff");
  });
});

describe("a user who is in no group of the scope any more", () => {
  const listed = compileRules({
    users: { name: "entry.login", displayName: "entry.login", onlyMembersOf: ["staff"] },
    groups: { name: "entry.login", displayName: "entry.login" },
  });
  const runListed = (): Promise<RunResult> =>
    staff.runIt(staff.syncOf({}, { rules: listed, sources: [{ name: "corp", source }] }), true, {
      warn: (message) => warnings.push(message),
    });

  test("stays while the group may mean them by a key of theirs that came during the read", async () => {
    const all = [user("ada"), user("grace"), group("staff", "ada,ou=north", "grace,ou=north")];
    [reads, there] = [[all], all];
    await runListed();
    const moved = user("ada", { keys: ["ada,ou=south"] });
    const after = [moved, user("grace"), group("staff", "ada,ou=south", "grace,ou=north")];
    // Users were read before ada moved, groups after.
    [reads, number, there] = [[[user("ada"), ...after.slice(1)], after], 0, after];
    expect(await runListed()).toMatchObject({ outcome: "no change" });
    expect(warnings.join("\n")).toContain('the user "ada" moved or was renamed while it was read');
    expect(await staff.users()).toContain("ada");
    reads = [[user("ada"), user("grace"), group("staff", "nobody", "grace,ou=north")]];
    there = reads[0] ?? [];
    expect(await runListed()).toMatchObject({ outcome: "applied" });
    expect(await staff.users()).not.toContain("ada");
  });
});

describe("a record that comes twice from a source that delivers each once", () => {
  test.each([
    ["in scope", user("ada")],
    ["left out by the rules", user("ada", { attributes: { login: "temp" } })],
  ])("%s: the source is read again, then the run fails", async (_, ada) => {
    await begin(user("ada"), user("grace"));
    reads = [[ada, ada]];
    await expect(runIt({ source: { ...source, uniqueIds: true } })).rejects.toThrow(
      'source corp: the user with the id "ada" came twice, so others may not have come at all',
    );
    expect(number).toBe(2);
    expect(await staff.users()).toEqual(["ada", "admin", "grace"]);
  });
});

describe("what a source counted", () => {
  test("is given to its next read with the same options, and to no other", async () => {
    reads = [[user("ada")]];
    await runIt({ digest: "one" });
    await runIt({ digest: "one" });
    await runIt({ digest: "two" });
    expect(contexts.map(({ lastCounts }) => lastCounts)).toEqual([undefined, { "users below ou=North": 7 }, undefined]);
  });

  test("by a read that was held is forgotten", async () => {
    const many = Array.from({ length: 30 }, (_, index) => user(`u${index}`));
    reads = [many, [user("u1")], many];
    there = [user("u1")];
    await runIt({ digest: "one" });
    const shrink = {
      limits: { sources: {}, floor: 10, action: "hold", deletes: { percent: 10, per: "run" } } as const,
    };
    const counting: Source = {
      ...source,
      read: (context) => source.read({ ...context, count: (name) => context.count?.(name, 1) }),
    };
    const sync = staff.syncOf({}, { rules, sources: [{ name: "corp", source: counting, digest: "one" }], ...shrink });
    await expect(staff.runIt(sync)).rejects.toThrow("held by the limit on deletions");
    await runIt({ digest: "one" });
    expect(contexts.at(-1)?.lastCounts).toEqual({ "users below ou=North": 7 });
  });

  test("by a read that was held is stored when what was read is applied without another read", async () => {
    const many = Array.from({ length: 30 }, (_, index) => user(`u${index}`));
    reads = [many, [user("u1")], [user("u1")]];
    there = [user("u1")];
    const counting: Source = { ...source, version: async () => "1" };
    const sync = (digest: string, percent: number, fullReadEvery = 60_000): Promise<RunResult> => {
      const sources = [{ name: "corp", source: counting, digest, fullReadEvery }];
      const deletes = { percent, per: "run" } as const;
      const limits = { sources: {}, floor: 10, action: "hold", deletes } as const;
      return staff.runIt(staff.syncOf({}, { rules, sources, limits, digest }));
    };
    await sync("one", 10);
    await expect(sync("two", 10)).rejects.toThrow("held by the limit on deletions");
    expect(await sync("two", 100)).toMatchObject({ outcome: "applied" });
    expect(number).toBe(2);
    await sync("two", 10, 0);
    expect(contexts.at(-1)?.lastCounts).toEqual({ "users below ou=North": 7 });
  });
});
