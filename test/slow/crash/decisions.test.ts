import { beforeAll, describe, expect, test } from "vitest";
import { useCrashes } from "./crashes.ts";
import { everyThird } from "../../support/random.ts";
import { by, other } from "../../support/rollcall/installation.ts";

/** Processes that are killed while they do what a person has decided, at every third point of it, as the seed chooses. */

const { installation, next, settle, crash, goOn, waiting } = useCrashes({
  partners: { approval: "required" },
  guarded: { limits: { creates: 0 } },
  shared: { approval: { required: true, people: 2 } },
  undone: {},
});

describe("a plan that a person approves", () => {
  beforeAll(() => settle("partners"));
  test.each(
    everyThird([
      "audit approved:before",
      "audit approved:after",
      "journal running:after",
      "stage preview:before",
      "journal running sent:after",
      "request bodySent",
      "apply:after",
      "audit ended:before",
      "journal applied:before",
      "journal applied:after",
    ]),
  )("%s", async (point) => {
    const sides = await next("partners");
    const { id } = await waiting("partners");
    const run = await crash("partners", { action: { do: "approve", run: id }, point }, sides);
    if (run?.sentAt === undefined) expect(run?.state).toBe("pending");
    expect(await goOn("partners", run)).toEqual(sides.after);
  });

  test.each(
    everyThird([
      "file:^runs/.*.part.partial/assembled.parquet",
      "file:^runs/.*.part$",
      "journal running sent:before",
      "journal running sent:after",
      "request bodySent",
      "apply:after",
      "export:before",
      "journal applied:before",
      "journal applied:after",
    ]),
  )("a part of it: %s", async (point) => {
    const sides = await next("partners");
    const { id } = await waiting("partners");
    const name = `partners-${sides.n}`;
    const after = { ...sides.before, [name]: sides.after[name] ?? "" };
    const action = { do: "approve", run: id, selection: { only: ["create"] } } as const;
    const run = await crash("partners", { action, point }, { before: sides.before, after });
    const applied = await installation().converge("partners");
    expect(applied).toHaveLength(1);
    expect(applied[0]?.counts?.users.create).toBe(run?.state === "applied" ? 0 : 1);
    expect(await installation().directory("partners")).toEqual(sides.after);
  });

  test.each(
    everyThird(["audit rejected:before", "audit rejected:after", "journal rejected:before", "journal rejected:after"]),
  )("rejected: %s", async (point) => {
    const sides = await next("partners");
    const { id } = await waiting("partners");
    const run = await crash("partners", { action: { do: "reject", run: id }, point }, sides);
    expect(run?.state).toBe(point === "journal rejected:after" ? "rejected" : "pending");
    expect(await goOn("partners", run)).toEqual(sides.after);
  });
});

describe("a plan that two people approve", () => {
  beforeAll(() => settle("shared"));
  test.each(["audit approved:before", "audit approved:after", "journal pending:after"])(
    "the first: %s",
    async (point) => {
      const sides = await next("shared");
      const { id } = await waiting("shared");
      const run = await crash("shared", { action: { do: "approve", run: id }, point }, sides);
      // What is written down counts; what is not must be said again.
      expect(run).toMatchObject({ state: "pending", decisions: [] });
      expect(run?.approvals ?? []).toHaveLength(point.startsWith("journal") ? 1 : 0);
      expect(await goOn("shared", run)).toEqual(sides.after);
    },
  );

  test.each(["audit approved:after", "journal running:after", "journal running sent:after", "apply:after"])(
    "the last: %s",
    async (point) => {
      const sides = await next("shared");
      const { id } = await waiting("shared");
      const first = await installation().work(
        async (coordinator) => (await coordinator.approve(id, { by: other })).ended,
      );
      expect(first).toMatchObject({ state: "pending", approvals: [{ by: other }] });
      const run = await crash("shared", { action: { do: "approve", run: id }, point }, sides);
      // Until the run goes on, the first approval waits; from then on both are decisions about it.
      const isBegun = point !== "audit approved:after";
      expect(run?.approvals?.map((each) => each.by.name)).toEqual(isBegun ? undefined : ["grace"]);
      expect(run?.decisions.map((each) => each.by.name)).toEqual(isBegun ? ["grace", "ada"] : []);
      expect(await goOn("shared", run)).toEqual(sides.after);
    },
  );
});

describe("a held run that a person lets pass", () => {
  beforeAll(() => settle("guarded"));
  test.each(
    everyThird(["audit approved:after", "journal running sent:after", "request bodySent", "audit ended:before"]),
  )("%s", async (point) => {
    const sides = await next("guarded");
    const { id } = await waiting("guarded");
    const action = { do: "approve", run: id, overrides: ["creates"] } as const;
    const run = await crash("guarded", { action, point }, sides);
    if (run?.sentAt === undefined) expect(run).toMatchObject({ state: "held", heldBy: "limits" });
    expect(await goOn("guarded", run)).toEqual(sides.after);
  });
});

describe("a run that is undone", () => {
  beforeAll(() => settle("undone"));

  test.each(everyThird(["audit undone:after", "stage plan:before", "journal pending:before", "journal pending:after"]))(
    "its undo is planned: %s",
    async (point) => {
      const { after } = await next("undone");
      const [applied] = await installation().converge("undone");
      const action = { do: "undo", run: applied?.id ?? "" } as const;
      await crash("undone", { action, point }, { before: after, after });
      expect(await installation().converge("undone")).toEqual([]);
    },
  );

  test.each(
    everyThird([
      "journal running sent:after",
      "request bodySent",
      "apply:after",
      "audit ended:after",
      "journal applied:after",
    ]),
  )("its undo is applied: %s", async (point) => {
    const { before, after } = await next("undone");
    const [applied] = await installation().converge("undone");
    const undoing = await installation().work(
      async (coordinator) => (await coordinator.undo(applied?.id ?? "", { by })).ended,
    );
    expect(undoing.state).toBe("pending");
    const sides = { before: after, after: before };
    const run = await crash("undone", { action: { do: "approve", run: undoing.id }, point }, sides);
    // What a person has taken back is not applied again before a person says so.
    if (run?.state === "applied") expect((await waiting("undone")).state).toBe("pending");
    expect(await installation().converge("undone")).toHaveLength(run?.state === "applied" ? 1 : 0);
    expect(await installation().directory("undone")).toEqual(after);
  });
});
