import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import csv from "#connectors/csv/index.ts";
import { UnavailableError } from "#errors.ts";
import { compileRules } from "#principals/compile.ts";
import type { Sync } from "#sync/sync.ts";
import { ada, byHand, coordinated, directoryOf } from "../e2e/sync/coordinated.ts";
import { useStaff } from "../e2e/sync/staff.ts";

const staff = useStaff();
const url = (): string => staff.syncOf().place;
const user = (name: string, displayName = name) => ({
  name,
  displayName,
  principalTypeEnum: "LOCAL_USER",
  password: "x",
});

/** The staff's sync with groups, from a file of them. */
function withGroups(): Partial<Sync> {
  const options = csv.options.parse({
    users: { file: "people.csv", id: "login" },
    groups: { file: "groups.csv", id: "id" },
  });
  return {
    sources: [{ name: "company", source: csv.open(options, { name: "company", folder: staff.folder() }) }],
    rules: compileRules({
      users: { name: "entry.login", displayName: "entry.login" },
      groups: { name: "entry.id", displayName: "entry.id" },
    }),
    protection: { manage: "owned", makesGroups: true, users: ["admin"], groups: ["Administrator", "All"] },
  };
}

const groups = (...ids: readonly string[]): Promise<void> =>
  writeFile(join(staff.folder(), "groups.csv"), ["id", ...ids, ""].join("\n"));

describe("what waits for approval", () => {
  test("is applied as it was shown, also when the source has changed since; the same again is not a second one", async () => {
    const { run, approve, find, events, told } = await coordinated(staff);
    await staff.people("ada", "grace");
    const { id, state, digest, counts } = await run();
    expect(state).toBe("pending");
    expect(await run()).toMatchObject({ state: "superseded", sameAs: id });
    expect(find(id)).toMatchObject({ state: "pending", foundAgain: { count: 1 } });
    expect(await staff.users()).not.toContain("ada");

    await staff.people("ada", "zoe");
    const applied = await approve(id, digest === undefined ? {} : { digest });
    expect(applied).toMatchObject({ id, state: "applied", digest, counts });
    expect(applied.decisions).toMatchObject([{ decision: "approved", by: ada, digest }]);
    expect((await staff.users()).filter((name) => ["ada", "grace", "zoe"].includes(name))).toEqual(["ada", "grace"]);
    expect(await told()).toEqual(["approved", "ended applied"]);
    expect(events.map((event) => event.type === "run" && event.run.state)).toEqual([
      "running",
      "pending",
      "running",
      "superseded",
      "running",
      "applied",
    ]);
    // What the next run finds is what the source says now.
    expect(await run()).toMatchObject({ state: "pending", counts: { users: { create: 1, delete: 1 } } });
  });

  test("is refused when the target has changed since, with what is different; and still waits", async () => {
    const { run, approve, find, told, coordinator } = await coordinated(staff);
    await staff.people("ada", "grace");
    const { id, digest } = await run();
    await byHand(url(), user("ada", "Somebody else"));
    const refused = await approve(id);
    expect(refused).toMatchObject({ state: "pending", digest, error: { advice: "stop" } });
    expect(refused.error?.message).toMatch(
      /the plan of run .* is out of date: the target has changed since; .*\. Plan again: `rollcall plan staff`/,
    );
    expect(refused.error?.problems).toEqual(["user ada: it was to be created, and would be updated now"]);
    expect(await staff.users()).not.toContain("grace");
    expect(await told()).toEqual(["approved", "ended pending"]);
    expect(coordinator.syncs()[0]).toMatchObject({ pending: id });
    // The next run plans from what there is now.
    const next = await run();
    expect(next).toMatchObject({ state: "pending", counts: { users: { create: 1, update: 1 } } });
    expect(find(id)?.state).toBe("superseded");
  });

  test("is applied although others have changed other principals of the target since, which stay as they are now", async () => {
    const { run, approve, find } = await coordinated(staff);
    await staff.people("ada", "grace");
    await approve((await run()).id);
    await byHand(url(), user("leaver"), user("joiner"));
    await staff.people("ada", "zoe");
    const { id, digest } = await run();
    await byHand(url(), user("joiner", "Joined"), user("newcomer"));
    expect(await approve(id, { digest: digest ?? "" })).toMatchObject({ state: "applied", digest });
    expect(await staff.users()).toEqual(["ada", "admin", "joiner", "leaver", "newcomer", "zoe"]);
    expect(await directoryOf(url())).toContain('"name":"joiner","displayName":"Joined"');
    expect(find(id)).toMatchObject({ counts: { users: { create: 1, delete: 1 } } });
    expect(await run()).toMatchObject({ state: "no change" });
  });

  test("is refused when somebody has joined a group that it deletes", async () => {
    const { run, approve } = await coordinated(staff, {}, withGroups);
    await staff.people("ada");
    await groups("old", "new");
    await approve((await run()).id);
    await groups("new");
    const { id } = await run();
    await byHand(url(), { ...user("newcomer"), groupNames: ["old"] });
    expect(await approve(id)).toMatchObject({
      state: "pending",
      error: { problems: ["user newcomer: it has joined the group old, which was to be deleted"] },
    });
  });

  test("is renewed when it is found again", async () => {
    const { run, approve } = await coordinated(staff);
    await staff.people("ada", "grace");
    const { id } = await run();
    const stored = join(staff.folder(), "daemon", "runs", id, "assembled.parquet");
    const before = await stat(stored);
    expect(await run()).toMatchObject({ state: "superseded", sameAs: id });
    expect((await stat(stored)).ino).not.toBe(before.ino);
    expect(await approve(id)).toMatchObject({ state: "applied" });
  });

  test("is as it was shown after a part of it could not be applied", async () => {
    let isAway = false;
    const { run, approve } = await coordinated(staff, {}, () => {
      const { target } = staff.syncOf();
      const sync: typeof target.sync = (request, ...rest) =>
        isAway ? Promise.reject(new UnavailableError("the target is away")) : target.sync(request, ...rest);
      return { target: { ...target, sync } };
    });
    await staff.people("ada", "grace");
    const { id, digest, counts } = await run();
    isAway = true;
    const selection = { except: [{ kind: "user", name: "grace" }] } as const;
    const failed = await approve(id, { selection });
    expect(failed).toMatchObject({ state: "pending", digest, counts, error: { message: "the target is away" } });
    isAway = false;
    expect(await approve(id)).toMatchObject({ state: "applied", digest });
  });

  test("in part: that is applied, and the next run finds the rest", async () => {
    const { run, approve, find } = await coordinated(staff, {}, () => ({
      limits: { sources: {}, floor: 0, action: "hold", deletes: { count: 0, per: "run" } },
    }));
    await staff.people("ada", "grace");
    await approve((await run()).id);
    await staff.people("ada", "zoe", "eve");
    const { id, state, digest } = await run();
    expect(state).toBe("held");
    await expect(approve(id)).rejects.toThrow(`rollcall approve ${id} --override deletes`);
    // Without the deletions there is nothing that a limit is about.
    const selection = { only: ["create"], except: [{ kind: "user", name: "eve" }] } as const;
    const part = await approve(id, { selection });
    expect(part).toMatchObject({ state: "applied", counts: { users: { create: 1, delete: 0 } } });
    expect(part.digest).not.toBe(digest);
    expect(part.decisions[0]).toMatchObject({ digest, selection });
    expect(part.decisions[0]?.overrides).toBeUndefined();
    const next = await run();
    expect(next).toMatchObject({ state: "held", counts: { users: { create: 1, delete: 1 } } });
    expect(find(id)).toMatchObject({ state: "applied", kept: true });

    await expect(approve(next.id, { overrides: ["updates"] })).rejects.toThrow(/--override deletes/);
    const passed = await approve(next.id, { overrides: ["deletes"] });
    expect(passed).toMatchObject({ state: "applied", decisions: [{ overrides: ["deletes"] }] });
    expect(await run()).toMatchObject({ state: "no change" });
  });

  test("can be decided about once: of two at once, one is told what the other did", async () => {
    const { run, coordinator, find } = await coordinated(staff);
    await staff.people("ada");
    const { id } = await run();
    const [first, ...others] = await Promise.allSettled([
      coordinator.approve(id, { by: ada }),
      coordinator.approve(id, { by: ada }),
      coordinator.reject(id, { by: ada }),
    ]);
    expect(first.status).toBe("fulfilled");
    for (const each of others)
      expect(each).toMatchObject({ status: "rejected", reason: { message: expect.stringMatching(/it is running/) } });
    if (first.status === "fulfilled") await first.value.ended;
    expect(find(id)?.state).toBe("applied");
    expect(find(id)?.decisions).toHaveLength(1);
  });

  test("expires, and is then found anew; or is rejected with a reason", async () => {
    const { run, approve, find, ahead, coordinator, told } = await coordinated(staff, { approvalExpires: 60_000 });
    await staff.people("ada");
    const { id } = await run();
    ahead(59_000);
    expect(await run()).toMatchObject({ sameAs: id });
    ahead(61_000);
    await expect(approve(id)).rejects.toThrow(`the run ${id} cannot be approved: it is expired`);
    const next = await run();
    expect(next.state).toBe("pending");
    const rejected = await coordinator.reject(next.id, { by: ada, reason: "not today" });
    expect(rejected).toMatchObject({
      state: "rejected",
      decisions: [{ decision: "rejected", by: ada, reason: "not today" }],
    });
    await expect(approve(next.id)).rejects.toThrow(/it is rejected/);
    await expect(coordinator.reject(next.id, { by: ada })).rejects.toThrow(/cannot be rejected: it is rejected/);
    expect(find(next.id)?.endedAt).toBeDefined();
    expect(await told()).toEqual(["ended expired", "rejected"]);
  });
});

describe("a plan that drift holds", () => {
  const held = async () => {
    const all = await coordinated(staff, { approval: "automatic" }, () => ({
      drift: { policy: "hold", ignore: [] },
    }));
    await staff.people("ada", "grace");
    await all.run();
    await byHand(url(), user("ada", "Somebody else"));
    await staff.people("ada", "grace", "zoe");
    const run = await all.run();
    expect(run).toMatchObject({ state: "held", heldBy: "limits" });
    return { ...all, id: run.id };
  };
  const drift = (value: number, overridden: boolean) =>
    expect.objectContaining({ limit: "drift", value, tripped: value > 0, overridden });

  test("is applied when that is overridden, which its record says", async () => {
    const { approve, id } = await held();
    const applied = await approve(id, { overrides: ["drift"] });
    expect(applied).toMatchObject({ state: "applied", limits: expect.arrayContaining([drift(1, true)]) });
  });

  test("holds a part of it that has drift, and no other", async () => {
    const { approve, id } = await held();
    const next = `rollcall approve ${id} --only updates --except user:zoe --override drift`;
    const selection = { only: ["update"], except: [{ kind: "user", name: "zoe" }] } as const;
    expect(await approve(id, { selection })).toMatchObject({ state: "held", heldBy: "limits", error: { next } });
    expect(await directoryOf(url())).toContain("Somebody else");
    const applied = await approve(id, { selection: { only: ["create"] } });
    expect(applied).toMatchObject({ state: "applied", limits: expect.arrayContaining([drift(0, false)]) });
    expect(await staff.users()).toContain("zoe");
    expect(await directoryOf(url())).toContain("Somebody else");
  });
});

describe("automatic-within-limits", () => {
  test("applies what is within the limits, and leaves pending what is not: an approval passes them", async () => {
    const { run, approve } = await coordinated(staff, { approval: "automatic-within-limits" }, () => ({
      limits: { sources: {}, floor: 0, action: "hold", creates: { count: 1, per: "run" } },
    }));
    await staff.people("ada");
    expect(await run()).toMatchObject({ state: "applied", decisions: [] });
    await staff.people("ada", "grace", "zoe");
    const beyond = await run();
    expect(beyond).toMatchObject({ state: "pending", limits: [{ limit: "creates", tripped: true }, {}] });
    expect(await approve(beyond.id)).toMatchObject({ state: "applied", decisions: [{ overrides: ["creates"] }] });
  });
});

test("a digest is an approval, where one is required; of another plan, nothing that waits is lost", async () => {
  const { run, coordinator, find, told } = await coordinated(staff);
  await staff.people("ada");
  const { id, digest = "" } = await run();
  const begin = async (wanted: string) =>
    (await coordinator.begin({ sync: "staff", cause: "demand", by: ada, digest: wanted, overrides: ["deletes"] }))
      .ended;
  expect(await begin("f".repeat(64))).toMatchObject({ state: "held", heldBy: "digest", digest });
  expect(find(id)?.state).toBe("pending");
  expect(await begin(digest)).toMatchObject({
    state: "applied",
    decisions: [{ by: ada, digest, overrides: ["deletes"] }],
  });
  expect(find(id)?.state).toBe("superseded");
  const passing = ["asked", "overridden"];
  expect(await told()).toEqual([...passing, "ended held", ...passing, "ended superseded", "ended applied"]);
});

describe("undo", () => {
  test("waits for approval, and the directory is what it was; what others have changed stays; then caution", async () => {
    const { run, approve, undo, find, coordinator } = await coordinated(staff, { approval: "automatic" });
    await byHand(url(), user("local"));
    await staff.people("ada", "bob", "grace");
    await run();
    const before = await directoryOf(url());
    await staff.people("ada", "bob", "zoe");
    const changed = await run();
    await staff.people("ada", "bob", "zoe", "eve");
    await run();
    await byHand(url(), user("another"));

    const back = await undo(changed.id);
    expect(back).toMatchObject({ state: "pending", cause: "undo", undoes: changed.id });
    expect(back).toMatchObject({ counts: { users: { create: 1, delete: 2 } } });
    expect(back.notes[0]?.text).toMatch(/^1 user created again, without the passwords/);
    // A run that finds nothing to do does not take it away.
    expect(await run()).toMatchObject({ state: "no change" });
    expect(await approve(back.id)).toMatchObject({ state: "applied" });
    await staff.people("ada", "grace");
    expect((await directoryOf(url())).replace(/^.*"another".*\n?/m, "").trim()).toBe(before);

    await staff.people("ada", "grace", "zoe");
    const next = await run();
    expect(next).toMatchObject({
      state: "pending",
      notes: expect.arrayContaining([
        { text: `ada has undone the run ${changed.id}: every run needs approval until one is approved` },
      ]),
    });
    expect(coordinator.state("staff").caution).toBeDefined();
    await approve(next.id);
    expect(coordinator.state("staff").caution).toBeUndefined();
    // the undo of an undo.
    expect(await undo(back.id)).toMatchObject({ state: "pending" });
    expect(find(changed.id)?.state).toBe("applied");
  });

  test("is for the place that a run has written to, whatever the target is called now", async () => {
    const change = { approval: "automatic" as const, target: "analytics", place: "here" };
    const { run, undo } = await coordinated(staff, change);
    await staff.people("ada");
    const { id } = await run();
    change.place = "there";
    await staff.people("ada", "bob");
    await run();
    await expect(undo(id)).rejects.toThrow("for the target analytics at here, and analytics is at there now");
    Object.assign(change, { target: "reports", place: "here" });
    // What the other run has changed there is no part of it.
    expect(await undo(id)).toMatchObject({ state: "pending", counts: { users: { delete: 1 } } });
  });

  test("whom the sync only took over is nobody's again: gone from the source, they stay", async () => {
    const { run, approve, undo } = await coordinated(staff, { approval: "automatic" });
    await byHand(url(), user("local", "By hand"));
    await staff.people("local", "ada");
    const taken = await run();
    expect(taken).toMatchObject({ state: "applied", counts: { users: { create: 1, update: 1 } } });
    await approve((await undo(taken.id)).id);
    expect(await directoryOf(url())).toContain("By hand");
    await staff.people("ada");
    await approve((await run()).id);
    expect(await staff.users()).toContain("local");
  });

  test("deletes a group that a run made, also when somebody has put another into it by hand since", async () => {
    const { run, approve, undo } = await coordinated(staff, { approval: "automatic" }, withGroups);
    await staff.people("ada");
    await groups("old");
    await run();
    const before = await directoryOf(url());
    await groups("old", "new");
    const made = await run();
    expect(made).toMatchObject({ state: "applied", counts: { groups: { create: 1 } } });
    await byHand(url(), { ...user("ada"), groupNames: ["new"] });
    const back = await undo(made.id);
    expect(back).toMatchObject({ state: "pending", counts: { groups: { delete: 1 }, membershipsRemoved: 1 } });
    expect(await approve(back.id)).toMatchObject({ state: "applied" });
    expect(await directoryOf(url())).toBe(before);
  });

  test("is refused for what applied nothing, and for what is no longer kept", async () => {
    const { run, undo } = await coordinated(staff, { approval: "automatic" }, undefined, { lists: 1 });
    await staff.people("ada");
    const first = await run();
    const nothing = await run();
    await expect(undo(nothing.id)).rejects.toThrow(/changed nothing, so there is nothing to undo/);
    await staff.people("ada", "grace");
    await run();
    await expect(undo(first.id)).rejects.toThrow(/are no longer stored \(see journal\.lists in the configuration\)/);
  });
});
