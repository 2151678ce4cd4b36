import { describe, expect, test } from "vitest";
import { HeldError, ObjectRefusedError, UnavailableError } from "#errors.ts";
import type { RunOptions } from "#sync/context.ts";
import type { Faults } from "../../support/object-target.ts";
import { useObjects } from "./objects.ts";

const { people, runIt, store, syncOf } = useObjects();

/** What was written since the last call. */
function written(): string[] {
  return store()
    .written.splice(0)
    .map(({ action, name }) => `${action} ${name}`);
}

async function refused(promise: Promise<unknown>): Promise<readonly string[]> {
  const error: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof HeldError)) throw new Error(`not held: ${String(error)}`);
  return error.problems;
}

describe("a plan is written object by object", () => {
  test("in an order in which nobody loses access first, and is empty after that", async () => {
    await people("ada,Countess,+1 555,maths;engines", "grace,Admiral,,navy");
    expect(await runIt()).toMatchObject({
      outcome: "applied",
      counts: { users: { create: 2 }, groups: { create: 3 } },
    });
    expect(store().people()).toMatchObject({ ada: { title: "Countess", emails: ["ada@example.com"], active: true } });
    expect(store().groups()).toEqual({ engines: ["ada"], maths: ["ada"], navy: ["grace"] });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    written();
    await people("ada,Countess,,navy", "edith,,,navy", "joan,,,navy");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(written()).toEqual([
      "create edith",
      "create joan",
      "update ada",
      "members navy",
      "delete engines",
      "delete maths",
      "delete grace",
    ]);
    expect(store().groups()).toEqual({ navy: ["ada", "edith", "joan"] });
    expect(store().people()).toMatchObject({ ada: { title: "Countess" } });
    expect(store().people()["ada"]).not.toHaveProperty("phone");
  });

  test("with as many members at a time as the target takes", async () => {
    await people(...Array.from({ length: 8 }, (_, index) => `user${index},,,all`));
    await runIt();
    expect(written().filter((each) => each === "members all")).toHaveLength(3);
    expect(store().groups()["all"]).toHaveLength(8);
  });

  test("a dry run writes nothing", async () => {
    await people("ada,,,maths");
    expect(await runIt(syncOf(), { apply: false })).toMatchObject({ outcome: "planned" });
    expect(store().all()).toEqual([]);
  });

  test("what somebody changed in the target is changed back, and what is given at creation alone is not", async () => {
    await people("ada,Countess,,maths");
    await runIt();
    store().change("user", "ada", { title: "Baroness", costCentre: "2" });
    store().remove("group", "maths");
    expect(await runIt()).toMatchObject({
      outcome: "applied",
      counts: { users: { update: 1 }, groups: { create: 1 } },
    });
    expect(store().people()["ada"]).toMatchObject({ title: "Countess", costCentre: "2" });
    expect(store().groups()).toEqual({ maths: ["ada"] });
  });

  test("a limit holds it before anything is written", async () => {
    await people(...Array.from({ length: 30 }, (_, index) => `user${index},,,`));
    await runIt();
    written();
    await people("user1,,,");
    const limits = { sources: {}, floor: 10, action: "hold", deletes: { percent: 50, per: "run" } } as const;
    await expect(runIt(syncOf({}, { limits }))).rejects.toThrow("held by");
    expect(written()).toEqual([]);
  });
});

describe("objects are known by their ids", () => {
  test("who was renamed in the target is the same, and gets the name back", async () => {
    await people("ada,,,maths", "grace,,,maths");
    await runIt();
    written();
    store().change("user", "ada", { userName: "countess" });
    store().change("group", "maths", { displayName: "mathematics" });
    expect(await runIt()).toMatchObject({
      outcome: "applied",
      counts: { users: { update: 1 }, groups: { update: 1 } },
    });
    expect(written().toSorted()).toEqual(["update countess", "update mathematics"]);
    expect(store().groups()).toEqual({ maths: ["ada", "grace"] });
  });

  test("who is there already is adopted by name, whatever its case", async () => {
    store().add("user", "ADA", { title: "Countess" });
    store().add("group", "Maths");
    await people("ada,Countess,,maths");
    expect(await runIt()).toMatchObject({
      outcome: "applied",
      counts: { users: { create: 0 }, groups: { create: 0 } },
    });
    expect(Object.keys(store().people())).toEqual(["ADA"]);
    // Rules only add members to a group that somebody else made.
    expect(store().groups()).toEqual({ Maths: ["ADA"] });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    await people("grace,,,maths");
    expect(await runIt()).toMatchObject({ counts: { users: { delete: 1 } } });
    expect(Object.keys(store().people())).toEqual(["grace"]);
  });

  test("or however the target writes an accent, which stays so, and a protected one is left alone", async () => {
    const [ada, cafe] = ["A\u0301da", "Cafe\u0301"];
    store().add("user", ada, { title: "Countess" });
    store().add("group", cafe);
    store().add("user", "Rene\u0301");
    await people("Áda,Baroness,,Café", "René,Count,,Café");
    const protection = { manage: "owned", makesGroups: true, users: ["ren*", "Ren\u00e9"], groups: [] } as const;
    const sync = syncOf({}, { protection: { ...protection, ignoresCase: true } });
    expect(await runIt(sync)).toMatchObject({ outcome: "applied", counts: { users: { create: 0, update: 1 } } });
    expect(store().people()).toMatchObject({ [ada]: { title: "Baroness" }, "Rene\u0301": { active: true } });
    expect(store().groups()).toEqual({ [cafe]: [ada] });
    expect(await runIt(sync)).toMatchObject({ outcome: "no change" });
  });

  test("of several groups of one name the one that the sync made stays its own, and none is touched where none is", async () => {
    await people("ada,,,maths");
    await runIt();
    const strange = store().add("group", "other");
    store().change("group", "other", { displayName: "maths" });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    store().add("group", "twice");
    store().add("group", "second");
    store().change("group", "second", { displayName: "twice" });
    await people("ada,Countess,,maths");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(store().get(strange)?.members).toEqual([]);
  });

  test("whoever was in doubt meanwhile is still the same object", async () => {
    await people("ada,,,", "grace,,,");
    await runIt();
    await people("ada,,,", "ada,Countess,,", "grace,,,");
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    store().change("user", "ada", { userName: "countess" });
    await people("ada,,,", "grace,,,");
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { create: 0, update: 1, delete: 0 } } });
    expect(Object.keys(store().people())).toEqual(["ada", "grace"]);
  });

  test("of several objects of one name only the one that the sync made is written", async () => {
    await people("ada,,,maths", "grace,,,");
    await runIt();
    const [user, group] = [store().add("user", "twin", { title: "Twin" }), store().add("group", "twin")];
    store().change("user", "twin", { userName: "ada" });
    store().change("group", "twin", { displayName: "maths" });
    const twins = (): unknown => structuredClone([store().get(user), store().get(group)]);
    const before = twins();
    await people("ada,Countess,,navy", "grace,,,maths");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(store().groups()["navy"]).toEqual(["ada"]);
    expect(twins()).toEqual(before);
    // Alone with their names, they are still not the sync's.
    await people("grace,,,");
    expect(await runIt()).toMatchObject({
      outcome: "applied",
      counts: { users: { delete: 1 }, groups: { delete: 2 } },
    });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    expect(twins()).toEqual(before);
    expect(store().all()).toHaveLength(3);
  });
});

describe("a target that stores something else than it is sent", () => {
  test("is not written again and again, and is told once", async () => {
    store().faults = { normalises: true };
    await people("Ada,Countess,+1 555-17,maths");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(store().people()).toMatchObject({ ada: { phone: "+155517" } });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    await people("Ada,Countess,+1 555-18,maths");
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { update: 1 } } });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
    store().change("user", "ada", { phone: "+9" });
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { update: 1 } } });
    expect(store().people()).toMatchObject({ ada: { phone: "+155518" } });
  });

  test("or nothing: the run says so, each time", async () => {
    await people("ada,Countess,,");
    await runIt();
    store().faults = { ignoresUpdates: true };
    await people("ada,Baroness,,");
    expect(await refused(runIt())).toEqual(["still to update: user ada (title)"]);
    expect(await refused(runIt())).toEqual(["still to update: user ada (title)"]);
    store().faults = {};
    expect(await runIt()).toMatchObject({ outcome: "applied" });
  });

  test("or forgets an attribute: the run says so", async () => {
    store().faults = { forgets: "title" };
    await people("ada,Countess,,maths");
    expect(await refused(runIt())).toEqual(["still to update: user ada (title)"]);
    expect(store().groups()).toEqual({ maths: ["ada"] });
  });

  test("or changes an attribute that it was not sent: the run says so, and the next one changes it back", async () => {
    await people("ada,Countess,+1 555,");
    await runIt();
    store().faults = { derives: () => ({ phone: "none" }) };
    await people("ada,Baroness,+1 555,");
    expect(await refused(runIt())).toEqual(["still to update: user ada (phone)"]);
    store().faults = {};
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { update: 1 } } });
    expect(store().people()).toMatchObject({ ada: { title: "Baroness", phone: "+1 555" } });
    // What it has always made of another attribute follows that one.
    store().faults = { derives: ({ title }) => ({ phone: `phone of ${String(title)}` }) };
    await people("ada,Baroness,+1 556,");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    await people("ada,Queen,+1 556,");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
  });
});

describe("a target whose lists are late", () => {
  const soon = (lags: readonly number[]) => runIt(syncOf(), { lags });

  test("is read again until they show what was written", async () => {
    await people("ada,Countess,,maths");
    await runIt();
    store().faults = { taken: () => Object.assign(store().faults, { lag: 2 }) };
    await people("ada,Baroness,,maths", "grace,,,maths");
    expect(await soon([1, 1])).toMatchObject({ outcome: "applied" });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
  });

  test("gets nobody twice, however late they are", async () => {
    await people("ada,Countess,,");
    await runIt();
    store().faults = { lag: 99 };
    await people("ada,Countess,,", "grace,Admiral,,navy");
    for (let time = 0; time < 3; time++)
      expect(await refused(soon([1]))).toEqual(["still to create: group navy", "still to create: user grace"]);
    await people("ada,Countess,,", "grace,Commodore,,navy");
    expect(await refused(soon([]))).toEqual([
      expect.stringMatching(/^user grace: not created: the target has it \(id user-\d\), and does not list it/),
      "still to create: group navy",
      "still to create: user grace",
    ]);
    expect(store().twice).toEqual([]);
    store().faults = {};
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { create: 0, update: 1 } } });
    expect(store().groups()).toEqual({ navy: ["grace"] });
  });

  test("gets whoever was removed there by hand once more", async () => {
    store().faults = { lag: 99 };
    await people("ada,Countess,,");
    expect(await refused(soon([]))).toEqual(["still to create: user ada"]);
    store().remove("user", "ada");
    store().faults = {};
    expect(await runIt()).toMatchObject({ outcome: "applied", counts: { users: { create: 1 } } });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
  });
});

test.each<[string, Faults, string, string]>([
  [
    "while another attribute changes",
    { derives: () => ({ phone: "none" }) },
    "ada,Countess,+1 555,",
    "ada,Baroness,+1 555,",
  ],
  [
    "while two values are cut to the same",
    { derives: ({ title }) => ({ title: String(title).slice(0, 5) }) },
    "ada,Countess,,",
    "ada,Countdown,,",
  ],
  [
    "where it does not say what that is",
    { normalises: true, silent: true },
    "ada,Countess,+1 555-17,",
    "ada,Countess,+1 555-18,",
  ],
])("what a target makes of a value is no difference %s", async (_, faults, ...lines) => {
  store().faults = faults;
  for (const line of lines) {
    await people(line);
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(await runIt()).toMatchObject({ outcome: "no change" });
  }
});

describe("what cannot be written", () => {
  test("does not stop the rest, is listed, and is planned again", async () => {
    store().faults = { refuses: ["grace"] };
    await people("ada,,,maths", "edith,,,maths", "grace,,,maths");
    expect(await refused(runIt())).toEqual([
      "user grace: not created: the value is not allowed",
      "still to create: user grace",
    ]);
    expect(store().groups()).toEqual({ maths: ["ada", "edith"] });
    store().faults = {};
    written();
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(written()).toEqual(["create grace", "members maths"]);
  });

  test("because of a new version is looked at again: the lost answer may have been to this very change", async () => {
    await people("ada,Countess,,");
    await runIt();
    const stale = [new ObjectRefusedError("it has changed since it was read", { status: 412 })];
    store().faults = {
      taken: () => {
        const error = stale.pop();
        if (error !== undefined) throw error;
      },
    };
    await people("ada,Baroness,,");
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(stale).toEqual([]);
  });

  test("since the target answers with somebody else is not given to that account", async () => {
    const id = store().add("user", "lovelace", { title: "Countess", emails: ["ada@example.com"] });
    store().faults = { confuses: { ada: "lovelace" } };
    await people("ada,Baroness,,maths", "grace,,,maths");
    expect(await refused(runIt())).toEqual([
      expect.stringContaining(
        `user ada: not created: the target answered with the user lovelace (id ${id}), which was`,
      ),
      "still to create: user ada",
    ]);
    expect(store().groups()).toEqual({ maths: ["grace"] });
    expect(store().people()).toMatchObject({ lovelace: { title: "Countess", userName: "lovelace" } });
  });

  test("because somebody has changed it meanwhile stays as it is", async () => {
    await people("ada,Countess,,", "grace,Admiral,,");
    await runIt();
    store().faults = {
      meanwhile: (change) => {
        if (change.action !== "create" || change.name !== "edith") return;
        store().change("user", "ada", { title: "Queen" });
      },
    };
    await people("ada,Baroness,,", "edith,,,", "grace,Commodore,,");
    expect(await refused(runIt())).toEqual([
      "user ada: not updated: it has changed in the target since the plan was made: title",
      "still to update: user ada (title)",
    ]);
    expect(store().people()).toMatchObject({ ada: { title: "Queen" }, grace: { title: "Commodore" }, edith: {} });
  });

  test("since the account may not write: nothing else is tried", async () => {
    store().faults = { forbidden: true };
    await people("ada,,,", "grace,,,");
    await expect(runIt()).rejects.toThrow("the token may not write");
    expect(store().all()).toEqual([]);
  });

  test.each([true, false])("because no answer came: nothing is created twice (it had arrived: %s)", async (after) => {
    store().faults = { unavailable: { of: ({ action }) => action === "create", after } };
    await people("ada,,,", "grace,,,");
    const problems = await refused(runIt());
    expect(problems.filter((each) => each.startsWith("user"))).toHaveLength(2);
    store().faults = {};
    written();
    expect(await runIt()).toMatchObject({ outcome: after ? "no change" : "applied" });
    expect(Object.keys(store().people())).toEqual(["ada", "grace"]);
    expect(store().twice).toEqual([]);
  });

  test("since the target answers now and then: the others are written", async () => {
    store().faults = { unavailable: { of: ({ name }) => /[02468]$/.test(name), after: false } };
    await people(...Array.from({ length: 20 }, (_, index) => `user${index},,,`));
    const [first] = await refused(runIt(syncOf({ concurrency: 1 })));
    expect(first).toMatch(/^user user0: not created: /);
    expect(Object.keys(store().people())).toHaveLength(10);
  });

  test("because the target is away: the rest is left to the next run", async () => {
    store().faults = { unavailable: { of: () => true, after: false } };
    await people(...Array.from({ length: 40 }, (_, index) => `user${index},,,`));
    const [first] = await refused(runIt());
    expect(first).toMatch(/^the rest was not written: the target did not answer \d+ changes in a row/);
  });

  test("since the lease was lost: nothing more is sent, and the run fails", async () => {
    await people(...Array.from({ length: 6 }, (_, index) => `user${index},,,`));
    const sending = (): void => {
      if (store().written.length === 2) throw new UnavailableError("the lease is lost");
    };
    await expect(runIt(syncOf({ concurrency: 1 }), { sending })).rejects.toThrow("the lease is lost");
    expect(written()).toEqual(["create user0", "create user1"]);
  });

  test("since the run was stopped is left to the next one", async () => {
    const stop = new AbortController();
    const abandon = new AbortController().signal;
    store().faults = {
      meanwhile: ({ name }) => {
        if (name === "user2") stop.abort();
      },
    };
    await people(...Array.from({ length: 20 }, (_, index) => `user${index},,,`));
    const held = await refused(runIt(syncOf({ concurrency: 1 }), { interruption: { stop: stop.signal, abandon } }));
    expect(held[0]).toBe("the rest was not written: it was stopped");
    expect(written().length).toBeLessThan(20);
    store().faults = {};
    expect(await runIt()).toMatchObject({ outcome: "applied" });
    expect(Object.keys(store().people())).toHaveLength(20);
  });

  test("of people who were just created is no limit's business: the rest of their creation", async () => {
    await people(...Array.from({ length: 30 }, (_, at) => `u${at},title,,team`));
    const limits = { sources: {}, floor: 10, action: "hold", updates: { percent: 50, per: "day" } } as const;
    const stop = new AbortController();
    const sync = syncOf({ concurrency: 1 }, { limits });
    const interruption = { stop: stop.signal, abandon: new AbortController().signal };
    const progress = (stage: string, written?: number): void => {
      if (stage === "apply" && written === 31) stop.abort();
    };
    await refused(runIt(sync, { interruption, progress }));
    expect(Object.keys(store().people())).toHaveLength(30);
    // A run for one of them finishes nobody else.
    expect(await runIt(syncOf({}, { limits }), { for: ["u0"] })).toMatchObject({ outcome: "applied" });
    expect(store().groups()).toEqual({ team: ["u0"] });
    expect(await runIt(syncOf({}, { limits }))).toMatchObject({ outcome: "applied" });
    await people(...Array.from({ length: 30 }, (_, at) => `u${at},other,,team`));
    await expect(runIt(syncOf({}, { limits }))).rejects.toThrow("held by the limit on updates");
  });
});

test("a plan says what it would write that is probably a mistake, once", async () => {
  const told: string[] = [];
  const report: RunOptions["report"] = async ({ notes }) => {
    told.push(...notes.flatMap(({ details = [] }) => details.map(({ text }) => text)));
  };
  await people("ada,Countess\u00A0,,", "grace@x,,,");
  await runIt(syncOf(), { report });
  expect(told).toEqual([String.raw`user ada: title "Countess\u{00a0}"`, 'user grace@x: emails "grace@x@example.com"']);
  await people("ada,Countess\u00A0,1,", "grace@x,,,");
  await runIt(syncOf(), { report });
  expect(told).toHaveLength(2);
});

test("a target that does not say who is in a group gets what it was not given yet", async () => {
  const blind = syncOf({ readsMembers: false });
  await people("ada,,,maths", "grace,,,maths;navy");
  expect(await runIt(blind)).toMatchObject({ outcome: "applied" });
  expect(await runIt(blind)).toMatchObject({ outcome: "no change" });
  written();
  await people("ada,,,maths", "grace,,,navy");
  expect(await runIt(blind)).toMatchObject({ outcome: "applied", counts: { membershipsRemoved: 1 } });
  expect(written()).toEqual(["members maths"]);
  expect(store().groups()).toEqual({ maths: ["ada"], navy: ["grace"] });
});

test.each([true, false])(
  "a member whose addition was not answered is added again, or removed (it had arrived: %s)",
  async (after) => {
    const blind = syncOf({ readsMembers: false });
    await people("ada,,,maths", "grace,,,maths");
    store().faults = { unavailable: { of: ({ action }) => action === "members", after } };
    await refused(runIt(blind));
    store().faults = {};
    expect(store().groups()).toEqual({ maths: after ? ["ada", "grace"] : [] });
    await people("ada,,,", "grace,,,maths");
    expect(await runIt(blind)).toMatchObject({ outcome: "applied" });
    expect(store().groups()).toEqual({ maths: ["grace"] });
  },
);

test("a member whose removal had not arrived is removed by the next run", async () => {
  const blind = syncOf({ readsMembers: false });
  await people("ada,,,maths", "grace,,,maths");
  await runIt(blind);
  store().faults = { unavailable: { of: ({ action }) => action === "members", after: false } };
  await people("ada,,,", "grace,,,maths");
  await refused(runIt(blind));
  store().faults = {};
  expect(await runIt(blind)).toMatchObject({ outcome: "applied" });
  expect(store().groups()).toEqual({ maths: ["grace"] });
});
