import { expect, test } from "vitest";
import { coordinated } from "../e2e/sync/coordinated.ts";
import { useObjects } from "../e2e/sync/objects.ts";

const objects = useObjects();
const { people, store } = objects;

test("a plan that waited is applied as it was shown, unless the target has changed since", async () => {
  const { run, approve } = await coordinated(objects);
  store().add("user", "GRACE");
  await people("ada,Countess,,maths", "grace,Admiral,,");
  const waiting = await run();
  expect(waiting).toMatchObject({ state: "pending", counts: { users: { create: 1, update: 1 } } });
  expect(await approve(waiting.id)).toMatchObject({ state: "applied" });
  expect(Object.keys(store().people())).toEqual(["GRACE", "ada"]);

  await people("ada,Baroness,,maths", "grace,Admiral,,");
  const second = await run();
  store().change("user", "ada", { title: "Queen" });
  expect(await approve(second.id)).toMatchObject({
    state: "pending",
    error: { message: expect.stringContaining("out of date") },
  });
  expect(store().people()["ada"]).toMatchObject({ title: "Queen" });
});

test("a part of a plan is applied alone, and undone alone", async () => {
  const { run, approve, undo } = await coordinated(objects);
  await people("ada,,,maths", "grace,,,navy");
  await approve((await run()).id);
  await people("ada,Countess,,maths", "joan,,,maths");
  const { id } = await run();
  const part = await approve(id, { selection: { only: ["delete"] } });
  expect(part).toMatchObject({ state: "applied" });
  expect(Object.keys(store().people())).toEqual(["ada"]);
  expect(store().people()["ada"]).not.toHaveProperty("title");
  const undone = await undo(id);
  expect(undone).toMatchObject({ state: "pending", counts: { users: { create: 1 } } });
  expect(await approve(undone.id)).toMatchObject({ state: "applied" });
  expect(store().groups()).toMatchObject({ navy: ["grace"] });
});

test("a run that wrote a part says what it left, holds the success, and the next one plans the rest", async () => {
  const { run, approve, find } = await coordinated(objects);
  store().faults = { refuses: ["grace"] };
  await people("ada,,,maths", "grace,,,maths");
  const { id } = await run();
  expect(await approve(id)).toMatchObject({
    state: "held",
    heldBy: "verification",
    error: {
      message: "target app: 3 changes written, but not all of the plan; the next run plans what is left",
      problems: ["user grace: not created: the value is not allowed", "still to create: user grace"],
    },
  });
  expect(find(id)?.sentAt).toBeDefined();
  store().faults = {};
  const rest = await run();
  expect(rest).toMatchObject({ state: "pending", counts: { users: { create: 1 } } });
  expect(await approve(rest.id)).toMatchObject({ state: "applied" });
  expect(store().groups()).toEqual({ maths: ["ada", "grace"] });
  await people("ada,,,maths");
  const gone = await run();
  expect(await approve(gone.id)).toMatchObject({ state: "applied" });
  expect(Object.keys(store().people())).toEqual(["ada"]);
});

test("an account that lost its rights on the way fails the run, which says how far it came", async () => {
  const { run, approve } = await coordinated(objects);
  store().faults = {
    meanwhile: ({ action }) => {
      if (action === "members") store().faults = { forbidden: true };
    },
  };
  await people("ada,,,maths", "grace,,,navy");
  const failed = await approve((await run()).id);
  expect(failed).toMatchObject({ state: "failed", error: { message: "the token may not write" } });
  expect(failed.recovery).toContain("it matches neither its earlier state nor the plan");
  store().faults = {};
  expect(await approve((await run()).id)).toMatchObject({ state: "applied" });
  expect(store().twice).toEqual([]);
});

test("an undo takes back nothing that an interrupted run did not come to write", async () => {
  const { run, approve, undo } = await coordinated(objects);
  store().faults = {
    meanwhile: () => {
      store().faults = { forbidden: true };
    },
  };
  await people("ada,,,", "grace,Admiral,,");
  const { id } = await run();
  expect(await approve(id)).toMatchObject({ state: "failed" });
  expect(Object.keys(store().people())).toEqual(["ada"]);
  store().faults = {};
  // Somebody else creates her, and the next run takes her over.
  store().add("user", "grace");
  expect(await approve((await run()).id)).toMatchObject({ state: "applied" });
  expect(store().people()["grace"]).toMatchObject({ title: "Admiral" });
  const undone = await undo(id);
  expect(undone).toMatchObject({ state: "pending", counts: { users: { delete: 1, update: 1 } } });
  expect(await approve(undone.id)).toMatchObject({ state: "applied" });
  expect(Object.keys(store().people())).toEqual(["grace"]);
});

test("an undo of a part that was interrupted takes back nothing of the rest", async () => {
  const { run, approve, undo } = await coordinated(objects);
  await people("ada,,,", "grace,,,");
  await approve((await run()).id);
  await people("ada,Countess,,", "joan,,,", "zoe,,,");
  const { id } = await run();
  store().faults = {
    meanwhile: () => {
      store().faults = { forbidden: true };
    },
  };
  const part = await approve(id, { selection: { only: ["create"] } });
  expect(part).toMatchObject({ state: "failed", counts: { users: { create: 2, update: 0, delete: 0 } } });
  store().faults = {};
  expect(Object.keys(store().people())).toEqual(["ada", "grace", "joan"]);
  // Somebody else does what was not selected.
  store().remove("user", "grace");
  const undone = await undo(id);
  expect(undone).toMatchObject({ state: "pending", counts: { users: { create: 0, update: 0, delete: 1 } } });
  expect(await approve(undone.id)).toMatchObject({ state: "applied" });
  expect(Object.keys(store().people())).toEqual(["ada"]);
});
