import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startReplicas } from "../../support/replicas/replicas.ts";
import type { Replicas } from "../../support/replicas/replicas.ts";

/** What people decide, at several daemons at once, and at one that is killed meanwhile; and commands of other machines. */

const isAll = process.env["ROLLCALL_TEST_KILLS"] === "all";

function some<Item>(items: readonly Item[], every: number): readonly Item[] {
  return isAll ? items : items.filter((_, index) => index % every === 0);
}

let replicas: Replicas;
beforeAll(async () => {
  replicas = await startReplicas({
    syncs: {
      partners: { approval: "required", schedule: "*/2 * * * * *" },
      visitors: {},
      shared: { approval: { required: true, people: 2 } },
    },
    others: 2,
  });
  await replicas.startAll();
});
afterAll(() => replicas.close());

/** Approves what waits until the target is as the source says. */
async function approveAll(): Promise<void> {
  const { id } = await replicas.waiting("partners");
  const { code, stderr } = await replicas.command(await replicas.leader(), "approve", id);
  expect(code, stderr).toBe(0);
  await replicas.settled("partners");
}

describe("a plan that a person decides about", () => {
  beforeAll(async () => {
    await replicas.next("partners");
    await approveAll();
  });

  test.each(
    some(
      [
        "audit approved:after",
        "audit approved:before",
        "journal running:before",
        "journal running:after",
        "journal running sent:after",
        "apply bodySent",
        "files ledgers sent:after",
        "journal applied:commit",
        "journal applied:after",
      ],
      9,
    ),
  )("approved: %s", async (point) => {
    await replicas.startAll();
    await replicas.next("partners");
    const { id } = await replicas.waiting("partners");
    const { fallen } = await replicas.trap(point, "SIGKILL");
    const at = await replicas.leader();
    const command = replicas.command((at + 1) % 3, "approve", id);
    await fallen();
    await command;
    await expect.poll(async () => (await replicas.runs()).filter(({ state }) => state === "running")).toEqual([]);
    const run = (await replicas.runs()).find((each) => each.id === id);
    // What was about to be sent and was not does not wait again: another plan does.
    if (run?.state === "failed") expect(run.recovery).toContain("nothing of it was applied");
    else expect(["pending", "applied"]).toContain(run?.state);
    // Who is told of it, is told of what waits, at least once.
    await expect.poll(() => replicas.told.runs).toContain(id);
    if (run?.state === "applied") await replicas.settled("partners");
    else await approveAll();
  });

  test.each(some(["audit rejected:after", "journal rejected:commit", "journal rejected:after"], 3))(
    "rejected: %s",
    async (point) => {
      await replicas.startAll();
      await replicas.next("partners");
      const { id } = await replicas.waiting("partners");
      const { fallen } = await replicas.trap(point, "SIGKILL");
      const command = replicas.command(0, "reject", id);
      await fallen();
      await command;
      const run = async () => (await replicas.runs()).find((each) => each.id === id);
      await expect
        .poll(async () => (await run())?.state)
        .toBe(point.endsWith(":after") && point.startsWith("journal") ? "rejected" : "pending");
      await approveAll();
    },
  );

  test.each(some(["audit undone:after", "journal running:after", "journal pending:commit"], 3))(
    "undone: %s",
    async (point) => {
      await replicas.startAll();
      await replicas.next("partners");
      await approveAll();
      const applied = (await replicas.runs()).findLast(
        ({ state, undoes }) => state === "applied" && undoes === undefined,
      );
      const { fallen } = await replicas.trap(point, "SIGKILL");
      const command = replicas.command(1, "undo", applied?.id ?? "");
      await fallen();
      await command;
      await expect.poll(async () => (await replicas.runs()).filter(({ state }) => state === "running")).toEqual([]);
      await replicas.settled("partners");
      for (const { id, state, undoes } of await replicas.runs())
        if (undoes !== undefined && state === "pending") await replicas.command(await replicas.leader(), "reject", id);
    },
  );

  test("approved at one and rejected at another, at the same moment: one of them wins", async () => {
    await replicas.startAll();
    for (let round = 0; round < (isAll ? 5 : 1); round++) {
      await replicas.next("partners");
      const { id } = await replicas.waiting("partners");
      const [approved, rejected] = await Promise.all([
        replicas.command(round % 3, "approve", id),
        replicas.command((round + 1) % 3, "reject", id),
      ]);
      expect([approved.code, rejected.code].filter((code) => code === 0)).toHaveLength(1);
      const { stderr } = approved.code === 0 ? rejected : approved;
      expect(stderr).toContain(
        approved.code === 0
          ? `the run ${id} cannot be rejected: it is `
          : `the run ${id} cannot be approved: it is rejected`,
      );
      if (rejected.code === 0) await approveAll();
      else await replicas.settled("partners");
    }
  });
});

test("two commands on other machines at once, beside the daemons: one applies, and the other finds nothing left", async () => {
  await replicas.startAll();
  await replicas.next("visitors");
  const ended = await Promise.all([replicas.command(3, "apply", "visitors"), replicas.command(4, "apply", "visitors")]);
  expect(ended.map(({ code, stderr }) => (code === 0 ? 0 : stderr))).toEqual([0, 0]);
  await replicas.settled("visitors");
  const states = (await replicas.runs()).filter(({ sync }) => sync === "visitors").map(({ state }) => state);
  expect(states.sort()).toEqual(["applied", "no change"]);
});

test("an approval that one daemon has taken counts at the others", async () => {
  await replicas.startAll();
  await replicas.next("shared");
  expect(await replicas.command(0, "apply", "shared", "--yes")).toMatchObject({ code: 3 });
  const { id } = await replicas.waiting("shared");
  const first = await replicas.command(1, "approve", id);
  expect([first.code, first.stdout + first.stderr]).toEqual([3, expect.stringContaining("1 of 2 approved")]);
  // Holders of the data folders are one person, whichever daemon they ask.
  const again = await replicas.command(2, "approve", id);
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("has approved the run")]);
  expect((await replicas.runs()).find((run) => run.id === id)).toMatchObject({ state: "pending", approvals: [{}] });
  expect(await replicas.command(0, "reject", id)).toMatchObject({ code: 0 });
});
