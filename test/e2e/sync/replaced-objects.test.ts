import { describe, expect, test } from "vitest";
import { coordinated } from "./coordinated.ts";
import { useObjects } from "./objects.ts";

/* An object that the sync made is gone from the target, and another one has its name. */

const objects = useObjects();
const { people, runIt, store } = objects;

/** Somebody deletes the user `ada`, and makes another one of that name. @returns its id */
function replaceAda(attributes = {}): string {
  store().remove("user", "ada");
  return store().add("user", "ada", {
    displayName: "ada",
    emails: ["ada@example.com"],
    costCentre: "1",
    ...attributes,
  });
}

describe("who has the name of somebody whose object is gone", () => {
  test("is left alone where the sources no longer have the name", async () => {
    await people("ada,,,maths", "grace,,,maths");
    await runIt();
    const other = replaceAda();
    await people("grace,Admiral,,maths");
    const notes: string[] = [];
    expect(
      await runIt(undefined, { report: async (plan) => void notes.push(...plan.notes.map(({ text }) => text)) }),
    ).toMatchObject({
      outcome: "applied",
      counts: { users: { update: 1, delete: 0 } },
    });
    expect(notes).toContainEqual(expect.stringContaining("1 name of this sync"));
    expect(store().get(other)).toMatchObject({ name: "ada", version: 1 });
    await people("grace,,,maths");
    expect(await runIt()).toMatchObject({ counts: { users: { update: 1, delete: 0 } } });
    expect(store().get(other)).toBeDefined();
  });

  test("is adopted where the sources have it, and deleted once they don't", async () => {
    await people("ada,Countess,,maths", "grace,,,maths");
    await runIt();
    const other = replaceAda();
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { create: 0, update: 1 } } });
    expect(store().get(other)).toMatchObject({ attributes: { title: "Countess" } });
    expect(store().groups()).toEqual({ maths: ["ada", "grace"] });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    await people("grace,,,maths");
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { delete: 1 } } });
    expect(Object.keys(store().people())).toEqual(["grace"]);
  });

  test("is left alone after a run that ended between a deletion and the ledger", async () => {
    await people("ada,,,", "grace,,,");
    await runIt();
    await people("grace,,,");
    store().faults = {
      taken: ({ action }) => {
        if (action === "delete") throw new Error("the power failed");
      },
    };
    await expect(runIt()).rejects.toThrow("the power failed");
    store().faults = {};
    const other = replaceAda();
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    expect(store().get(other)).toBeDefined();
  });

  test("is not who a plan was approved for", async () => {
    const { run, approve } = await coordinated(objects);
    await people("ada,,,", "grace,,,");
    await approve((await run()).id);
    await people("grace,,,");
    const waiting = await run();
    expect(waiting).toMatchObject({ state: "pending", counts: { users: { delete: 1 } } });
    const other = replaceAda();
    expect(await approve(waiting.id)).toMatchObject({
      error: {
        message: expect.stringContaining("out of date"),
        problems: ["user ada: it was to be deleted, which is no longer needed"],
      },
    });
    expect(store().get(other)).toBeDefined();
  });

  test("is not who an undo takes back", async () => {
    const { run, undo, approve } = await coordinated(objects);
    await people("grace,,,");
    await approve((await run()).id);
    await people("ada,,,", "grace,Admiral,,");
    const created = await run();
    await approve(created.id);
    const other = replaceAda();
    const undone = await approve((await undo(created.id)).id);
    expect(undone).toMatchObject({ state: "applied", counts: { users: { update: 1, delete: 0 } } });
    expect(store().get(other)).toMatchObject({ version: 1 });
  });
});
