import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import csv from "#connectors/csv/index.ts";
import { HeldError } from "#errors.ts";
import { Plans } from "#state/plans.ts";
import { filesIn } from "#state/folder/store.ts";
import { compileRules } from "#principals/compile.ts";
import { Attributes } from "#principals/attributes.ts";
import type { Report, RunOptions, RunResult } from "#sync/context.ts";
import { planUndo } from "#sync/plans/undo.ts";
import { planFromStore } from "#sync/plans/stored.ts";
import type { RunRecord } from "#state/record.ts";
import type { Sync } from "#sync/sync.ts";
import { attributesOfObjects } from "../support/object-target.ts";
import { useObjects } from "../e2e/sync/objects.ts";

const objects = useObjects();
const { store } = objects;
const day = 86_400_000;
const start = Date.UTC(2026, 5, 1);

const rules = compileRules(
  {
    users: { name: "entry.login", displayName: "entry.login", title: "entry.title" },
    groups: { name: "entry.name" },
  },
  undefined,
  undefined,
  undefined,
  undefined,
  new Attributes(attributesOfObjects),
);

/** `id,login,title`, and groups as `id,name,members`. */
async function write(users: readonly string[], groups: readonly string[] = []): Promise<void> {
  await writeFile(join(objects.folder(), "people.csv"), ["id,login,title", ...users, ""].join("\n"));
  await writeFile(join(objects.folder(), "teams.csv"), ["id,name,members", ...groups, ""].join("\n"));
}

function staff(departures: Partial<Sync["departures"]> = {}, rest: Partial<Sync> = {}): Sync {
  const { folder, syncOf } = objects;
  const options = csv.options.parse({
    users: { file: "people.csv", id: "id" },
    groups: { file: "teams.csv", id: "id", minRows: 0, members: { column: "members" } },
  });
  const usual = { after: 0, never: ["user"], suspend: 0, renames: "inPlace", reusedNames: "hold" } as const;
  return syncOf(
    {},
    {
      sources: [{ name: "hr", source: csv.open(options, { name: "hr", folder: folder() }) }],
      rules,
      departures: { ...usual, administrators: [], ...departures },
      limits: { sources: {}, floor: 0, action: "hold" },
      ...rest,
    },
  );
}

interface Told {
  readonly result: RunResult;
  readonly changes: readonly string[];
  readonly notes: readonly string[];
  readonly causes: readonly string[];
  readonly stored: Pick<RunRecord, "id" | "seal">;
}

let runs = 0;

/** Runs the sync, and stores its plan. */
async function runAt(at: number, sync = staff(), options: Partial<RunOptions> = {}): Promise<Told> {
  const id = `run-${++runs}`;
  const plans = plansNow();
  let report: Omit<Told, "result" | "stored"> = { changes: [], notes: [], causes: [] };
  let seal: string | undefined;
  const result = await objects.runIt(sync, {
    id,
    now: at,
    report: async ({ plan, notes, causes = [] }: Report) => {
      const all = await Array.fromAsync(plan.changes());
      report = {
        changes: all.map(({ action, name }) => `${action} ${name}`),
        notes: notes.flatMap(({ text, details = [] }) => [text, ...details.map((each) => each.text)]),
        causes: causes.map(({ kind }) => kind),
      };
    },
    store: async (workbench, planned) => {
      seal = await plans.save(id, workbench.connection, planned);
    },
    ...options,
  });
  return { result, ...report, stored: { id, seal } };
}

function plansNow(): Plans {
  return new Plans(filesIn(join(objects.folder(), "daemon")));
}

const idOf = (name: string): string | undefined => store().find("user", name)?.id;
const isActive = (name: string): unknown => store().find("user", name)?.attributes["active"];

describe("who leaves the sources", () => {
  const team = ["t,team,1;2;3"];
  const three = ["1,ada,", "2,bob,", "3,cem,"];

  test("is suspended with the account and memberships, is active again once back, and an undo is the reverse", async () => {
    await write(three, team);
    await runAt(start);
    const id = idOf("bob");
    await write(["1,ada,", "3,cem,"], ["t,team,1;3"]);
    const left = await runAt(start + day);
    expect(left.changes).toEqual(["suspend bob"]);
    expect(left.causes).toEqual(["gone"]);
    expect(left.notes).toContain("1 principal gone from the sources and never deleted (deletions.delete):");
    expect(isActive("bob")).toBe(false);
    expect(store().groups()).toEqual({ team: ["ada", "bob", "cem"] });
    expect((await runAt(start + 200 * day)).result.outcome).toBe("no change");
    const undone = await runAt(start + 200 * day, staff(), {
      planner: planUndo(plansNow(), [left.stored]),
      undoes: left.stored.id,
    });
    expect(undone.changes).toEqual(["reactivate bob"]);
    expect(isActive("bob")).toBe(true);
    expect((await runAt(start + 201 * day)).changes).toEqual(["suspend bob"]);
    await write(three, team);
    const back = await runAt(start + 202 * day);
    expect(back.changes).toEqual(["reactivate bob"]);
    expect(back.causes).toEqual(["new"]);
    expect([isActive("bob"), idOf("bob")]).toEqual([true, id]);
  });

  test("is deleted once the time has come, and groups at once", async () => {
    await write(three, [...team, "o,old,"]);
    await runAt(start);
    await write(["1,ada,", "3,cem,"], ["t,team,1;3"]);
    const sync = staff({ suspend: 7 * day, after: 90 * day, never: undefined });
    const left = await runAt(start, sync);
    expect(left.changes).toEqual([]);
    expect(left.notes).toContain(
      "user bob is leaving on 2026-08-30T00:00:00.000Z, suspended from 2026-06-08T00:00:00.000Z on",
    );
    const suspended = await runAt(start + 7 * day, sync);
    expect(suspended.changes).toEqual(["suspend bob"]);
    expect(suspended.causes).toEqual(["grace"]);
    expect((await runAt(start + 89 * day, sync)).changes).toEqual([]);
    const deleted = await runAt(start + 90 * day, sync);
    expect(deleted.changes).toEqual(["delete old", "delete bob"]);
    expect(store().groups()).toEqual({ team: ["ada", "cem"] });
  });

  test("by hundreds, is held by a limit before anything is written", async () => {
    const many = Array.from({ length: 40 }, (_, n) => `${n},user${n},`);
    await write(many);
    const sync = staff(
      {},
      { limits: { sources: {}, floor: 0, action: "hold", suspends: { percent: 10, per: "day" } } },
    );
    await runAt(start, sync);
    await write(many.slice(0, 20));
    const error: unknown = await runAt(start + day, sync).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(HeldError);
    expect((error as HeldError).problems).toEqual(["suspends: 20 users, at most 4 (10% of 40)"]);
    expect(
      store()
        .all()
        .every(({ attributes }) => attributes["active"] === true),
    ).toBe(true);
  });

  test("is not created by an undo of a creation, and suspended where nobody is ever deleted", async () => {
    await write(three, team);
    const made = await runAt(start);
    const undone = await runAt(start + 1, staff(), {
      planner: planUndo(plansNow(), [made.stored]),
      undoes: made.stored.id,
    });
    expect(undone.changes).toEqual(["delete team", "suspend ada", "suspend bob", "suspend cem"]);
    expect(undone.notes.join("\n")).toContain("3 principals that the undone runs created: not deleted");
  });
});

describe("a new name", () => {
  test("is given to the same account, in the same groups; an undo takes it back", async () => {
    await write(["1,ada,Countess", "2,bob,"], ["t,team,1;2"]);
    await runAt(start);
    const id = idOf("ada");
    store().written.splice(0);
    await write(["1,lovelace,Countess", "2,bob,"], ["t,mathematicians,1;2"]);
    const renamed = await runAt(start + day);
    expect(renamed.changes).toEqual(["update mathematicians", "update lovelace"]);
    expect(renamed.causes).toEqual(["rename", "rename"]);
    expect(renamed.notes).toContain("user ada is now lovelace (hr 1)");
    expect(store().written.map(({ action }) => action)).toEqual(["update", "update"]);
    expect(idOf("lovelace")).toBe(id);
    expect(store().groups()).toEqual({ mathematicians: ["bob", "lovelace"] });
    expect((await runAt(start + 2 * day)).result.outcome).toBe("no change");
    const undone = await runAt(start + 2 * day, staff(), {
      planner: planUndo(plansNow(), [renamed.stored]),
      undoes: renamed.stored.id,
    });
    expect(undone.changes).toEqual(["update mathematicians", "update lovelace"]);
    expect(idOf("ada")).toBe(id);
    expect(store().groups()).toEqual({ team: ["ada", "bob"] });
    expect((await runAt(start + 3 * day)).changes).toEqual(["update mathematicians", "update lovelace"]);
    expect(idOf("lovelace")).toBe(id);
  });

  test("that may have arrived is neither given twice nor lost", async () => {
    await write(["1,ada,", "2,bob,"], ["t,team,1;2"]);
    await runAt(start);
    const id = idOf("ada");
    for (const [arrives, called] of [
      [true, "lovelace"],
      [false, "countess"],
    ] as const) {
      await write([`1,${called},`, "2,bob,"], ["t,team,1;2"]);
      const send = store().write.bind(store());
      store().write = (change) => {
        if (arrives) send(change);
        throw new Error("killed");
      };
      await expect(runAt(start + day)).rejects.toThrow("killed");
      store().write = send;
      const again = await runAt(start + day);
      expect(again.changes).toEqual(arrives ? [] : ["update countess"]);
      expect(store().people()).toMatchObject({ [called]: { userName: called, active: true }, bob: {} });
      expect(Object.keys(store().people())).toHaveLength(2);
      expect(idOf(called)).toBe(id);
      expect(store().groups()).toEqual({ team: ["bob", called] });
    }
  });

  test("waits in a stored plan, and is given when that is approved", async () => {
    await write(["1,ada,", "2,bob,"], ["t,team,1;2"]);
    await runAt(start);
    const id = idOf("ada");
    await write(["1,lovelace,", "2,bob,"], ["t,team,1;2"]);
    const shown = await runAt(start + day, staff(), { approval: "required" });
    expect(shown.result.outcome).toBe("pending");
    expect(idOf("lovelace")).toBeUndefined();
    const record = { ...shown.stored, ...shown.result, waiting: [], notes: [], decisions: [] } as unknown as RunRecord;
    const approved = await runAt(start + day, staff(), { planner: planFromStore(plansNow(), record) });
    expect(approved.changes).toEqual(["update lovelace"]);
    expect(idOf("lovelace")).toBe(id);
    expect((await runAt(start + 2 * day)).result.outcome).toBe("no change");
  });

  test("that depends on another, or is somebody's, is held", async () => {
    await write(["1,ada,", "2,bob,", "3,cem,"]);
    await runAt(start);
    await write(["1,bob,", "2,ada,", "3,cem,"]);
    const swapped = await runAt(start + day);
    expect(swapped.changes).toEqual([]);
    store().add("user", "Dan");
    await write(["1,ada,", "2,bob,", "3,dan,"]);
    const taken = await runAt(start + 2 * day);
    expect(taken.changes).not.toContain("update dan");
    expect(idOf("cem")).toBeDefined();
    await write(["1,ada,", "2,bob,", "3,CEM,"]);
    expect((await runAt(start + 3 * day)).changes).toEqual(["update CEM"]);
  });
});

describe("who is deleted by hand while leaving, and returns,", () => {
  test.each(["leave", "hold", "revert"] as const)("is created again (drift: %s)", async (policy) => {
    const sync = staff({ suspend: undefined, never: [], after: 30 * day }, { drift: { policy, ignore: [] } });
    await write(["1,ada,", "2,bob,"]);
    await runAt(start, sync);
    await write(["1,ada,"]);
    await runAt(start + day, sync);
    store().remove("user", "bob");
    await write(["1,ada,", "2,bob,"]);
    const back = await runAt(start + 2 * day, sync);
    expect([back.changes, back.causes]).toEqual([["create bob"], ["new"]]);
    expect((await runAt(start + 3 * day, sync)).changes).toEqual([]);
  });
});

test("a deletion that was undone is planned again as one that was undone, whatever else has changed", async () => {
  const sync = (settings: Sync["settings"]): Sync => staff({ suspend: undefined, never: [] }, { settings });
  await write(["1,ada,", "2,bob,"]);
  await runAt(start, sync({}));
  await write(["1,ada,"]);
  const left = await runAt(start + day, sync({}));
  expect([left.changes, left.causes]).toEqual([["delete bob"], ["gone"]]);
  await runAt(start + 2 * day, sync({}), { planner: planUndo(plansNow(), [left.stored]), undoes: left.stored.id });
  for (const settings of [{}, { "limits.creates": "5%" }]) {
    const again = await runAt(start + 3 * day, sync(settings), { apply: false });
    expect([again.changes, again.causes]).toEqual([["delete bob"], ["left out"]]);
  }
});

describe("who moves from the source of one sync to that of another", () => {
  const partners = (): Sync => {
    const options = csv.options.parse({ users: { file: "partners.csv", id: "id" } });
    return staff(undefined, {
      name: "partners",
      sources: [{ name: "partners", source: csv.open(options, { name: "partners", folder: objects.folder() }) }],
      protection: { manage: "owned", makesGroups: true, users: [], groups: [], others: ["staff"] },
    });
  };
  const own = (departures?: Partial<Sync["departures"]>): Sync =>
    staff(departures, {
      protection: { manage: "owned", makesGroups: true, users: [], groups: [], others: ["partners"] },
    });
  const writePartners = (...users: readonly string[]): Promise<void> =>
    writeFile(join(objects.folder(), "partners.csv"), ["id,login,title", ...users, ""].join("\n"));

  test.each([
    ["is suspended", {}],
    ["waits for that", { suspend: 30 * day }],
    ["waits for being deleted", { suspend: undefined, never: [], after: 30 * day }],
  ])("and %s keeps the account, and leaves the groups of the first", async (_, departures) => {
    await write(["1,ada,", "2,bob,"], ["t,team,1;2"]);
    await writePartners("9,max,");
    await runAt(start, own(departures));
    await runAt(start, partners());
    const ada = idOf("ada");
    await write(["2,bob,"], ["t,team,2"]);
    await writePartners("9,max,", "10,ada,consultant");
    expect((await runAt(start + day, partners())).changes).toEqual([]);
    await runAt(start + day, own(departures));
    await runAt(start + day, partners());
    expect(isActive("ada")).toBe(true);
    expect(store().find("user", "ada")).toMatchObject({ id: ada, attributes: { title: "consultant" } });
    expect((await runAt(start + 2 * day, own(departures))).changes).toEqual(["update ada"]);
    expect(
      store()
        .find("group", "team")
        ?.members.map(({ id }) => id),
    ).toEqual([idOf("bob")]);
    // Back at the first one, too: it is the other one's now.
    await write(["1,ada,", "2,bob,"], ["t,team,1;2"]);
    for (const sync of [own(departures), partners(), own(departures)])
      expect((await runAt(start + 40 * day, sync)).changes).toEqual([]);
    expect(isActive("ada")).toBe(true);
  });
});
