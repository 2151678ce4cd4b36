import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { beforeEach, describe, expect, test } from "vitest";
import { HeldError } from "#errors.ts";
import { compileRules } from "#principals/compile.ts";
import { useStaff } from "../e2e/sync/staff.ts";

/** Runs against a real service, into which something is put between two of their steps. */

const staff = useStaff();
const { people, syncOf, runIt, users, create } = staff;
beforeEach(() => people("ada", "grace"));

describe("somebody else changes the target during a run", () => {
  test("before the preview: the run is held, and nothing is applied", async () => {
    const { list } = syncOf().target;
    const meanwhile = syncOf({
      list: async (read, signal) => {
        await list(read, signal);
        await create("newcomer");
      },
    });
    await expect(runIt(meanwhile)).rejects.toMatchObject({
      problems: ["the service would delete the user newcomer; that is not planned"],
    });
    expect(await users()).toEqual(["admin", "newcomer"]);
  });

  test("after the preview: a plan that deletes nobody deletes nobody; the run says that the target is not what was planned", async () => {
    const { sync: send } = syncOf().target;
    const meanwhile = syncOf({
      sync: async (request, destination, signal) => {
        if (request.applyChanges) await create("newcomer");
        await send(request, destination, signal);
      },
    });
    await expect(runIt(meanwhile)).rejects.toBeInstanceOf(HeldError);
    expect(await users()).toEqual(["ada", "admin", "grace", "newcomer"]);
    expect(await runIt(syncOf())).toMatchObject({ outcome: "no change" });
  });

  test("after the apply: the service says that it did something else than was planned", async () => {
    const { sync: send } = syncOf().target;
    const other = syncOf({
      sync: async (request, destination, signal) => {
        await send(request, destination, signal);
        if (!request.applyChanges) return;
        const answer = JSON.parse(await readFile(destination, "utf8")) as object;
        await writeFile(destination, JSON.stringify({ ...answer, usersAdded: ["ada"] }));
      },
    });
    await expect(runIt(other)).rejects.toMatchObject({
      problems: ["the plan is to create the user grace; the service did not"],
    });
  });

  test("between two runs, and the target says that its list is the same: the second run lists it again", async () => {
    await runIt(syncOf());
    await create("newcomer");
    await people("ada", "grace", "zoe");
    const mistaken = syncOf({ isStill: async () => true });
    await expect(runIt(mistaken)).rejects.toMatchObject({
      problems: ["the service would delete the user newcomer; that is not planned"],
    });
    expect(await runIt(mistaken)).toMatchObject({ outcome: "applied" });
    expect(await users()).toEqual(["ada", "admin", "grace", "newcomer", "zoe"]);
  });

  test("a target that answers an empty list is not believed", async () => {
    await runIt(syncOf());
    await create("local");
    const forgetful = syncOf({
      list: async (read) => {
        await read(Readable.from([Buffer.from("[]")]));
        return undefined;
      },
    });
    await expect(runIt(forgetful)).rejects.toBeInstanceOf(HeldError);
    expect(await users()).toEqual(["ada", "admin", "grace", "local"]);
  });
});

describe("what a sync owns", () => {
  test("is known although the answer to the apply was lost", async () => {
    const { sync: send } = syncOf().target;
    const lost = syncOf({
      sync: async (request, destination, signal) => {
        await send(request, destination, signal);
        if (request.applyChanges) throw new Error("the answer was lost");
      },
    });
    await expect(runIt(lost)).rejects.toThrow("the answer was lost");
    await people("ada");
    expect(await runIt(syncOf())).toMatchObject({ outcome: "applied", counts: { users: { delete: 1 } } });
    expect(await users()).toEqual(["ada", "admin"]);
  });

  test("it owns in that target alone: where another one has the same name, it is somebody else's", async () => {
    await runIt(syncOf());
    await people("ada");
    const other = syncOf({}, { place: "https://another.example" });
    expect(await runIt(other)).toMatchObject({ outcome: "no change" });
    expect(await users()).toEqual(["ada", "admin", "grace"]);
  });

  test("is its own: another sync to the same target has another list of it", async () => {
    await runIt(syncOf());
    await people("zoe");
    expect(await runIt(syncOf({}, { name: "partners" }))).toMatchObject({
      counts: { users: { create: 1, delete: 0 } },
    });
    expect(await users()).toEqual(["ada", "admin", "grace", "zoe"]);
    // All whom it owns: a plan that limits would hold.
    const overrides = ["deletes"] as const;
    expect(await runIt(syncOf(), false, { overrides })).toMatchObject({ counts: { users: { create: 0, delete: 2 } } });
  });
});

test("a rule that leaves everybody out is held, and not taken for everybody having left", async () => {
  const names = Array.from({ length: 11 }, (_, index) => `user${index}`);
  await people(...names);
  await runIt(syncOf());
  const mistaken = compileRules({
    users: { name: "entry.login", displayName: "entry.login", include: 'entry.login == "active"' },
  });
  for (const apply of [false, true]) {
    await expect(runIt(syncOf({}, { rules: mistaken }), apply)).rejects.toThrow(/held by the limit on deletions/);
  }
  expect(await users()).toHaveLength(12);
});

test("a dry run leaves nothing behind, and clears away what a killed process left", async () => {
  const work = join(staff.folder(), "daemon", "work");
  await runIt(syncOf(), false);
  expect(await readdir(join(staff.folder(), "daemon"))).toEqual(["work"]);
  expect(await readdir(work)).toEqual([]);
  // No process has so large an id.
  await writeFile(join(work, "2147483646-abandoned"), "");
  await writeFile(join(work, "not-ours"), "");
  await runIt(syncOf());
  const [ledger = ""] = await readdir(join(staff.folder(), "daemon", "ledgers"));
  const before = await readFile(join(staff.folder(), "daemon", "ledgers", ledger));
  await people("ada", "zoe");
  expect(await runIt(syncOf(), false)).toMatchObject({ outcome: "planned" });
  expect(await readdir(work)).toEqual(["not-ours"]);
  expect(await readFile(join(staff.folder(), "daemon", "ledgers", ledger))).toEqual(before);
  expect(await users()).toEqual(["ada", "admin", "grace"]);
});
