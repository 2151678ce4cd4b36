import { expect, test } from "vitest";
import { selectionOf } from "#console/selection.ts";
import type { ReadExcerpts } from "#console/selection.ts";
import type { Excerpts } from "#plan/stored.ts";
import { pendingRun } from "../../support/runs.ts";

const counts = {
  users: { before: 9000, after: 9000, create: 0, update: 3, delete: 0, suspend: 4000, reactivate: 2 },
  groups: { before: 10, after: 10, create: 0, update: 0, delete: 0 },
  membershipsAdded: 0,
  membershipsRemoved: 0,
};
const run = pendingRun("20261121-100000-000001", { counts });

/** The stored plan, as far as boxes ask it: the parts whose boxes are ticked have this many changes. */
function stored(count: number): ReadExcerpts {
  const excerpts: Pick<Excerpts, "subjects"> = {
    subjects: async (parts) => ({
      count,
      subjects: parts.map(({ action, kind }) => ({ kind, name: `${action} ${kind}` })),
    }),
  };
  return (_run, _filter, work) => work(excerpts as Excerpts);
}

function form(...fields: [string, string][]): URLSearchParams {
  return new URLSearchParams(fields);
}

test("a box for all of a section stands for its changes, whatever their action", async () => {
  for (const action of ["create", "update", "suspend", "reactivate", "delete"])
    expect(
      await selectionOf(stored(1), run, form(["pickAll", `${action}-group`], ["pick", "user:ada"], ["as", "these"])),
    ).toEqual({
      these: [
        { kind: "group", name: `${action} group` },
        { kind: "user", name: "ada" },
      ],
    });
});

test("a whole action of more changes than can be named is selected as an action", async () => {
  const ticked = form(["pickAll", "suspend-user"], ["as", "these"]);
  expect(await selectionOf(stored(4000), run, ticked)).toEqual({ only: ["suspend"] });
  const others = form(["pickAll", "suspend-user"], ["as", "except"]);
  expect((await selectionOf(stored(4000), run, others)).only).not.toContain("suspend");
});

test("a form without a ticked box is refused", async () => {
  await expect(selectionOf(stored(0), run, form(["as", "these"]))).rejects.toThrow("no change is ticked");
  await expect(selectionOf(stored(0), run, form(["pickAll", "rename-user"], ["as", "these"]))).rejects.toThrow(
    "no change is ticked",
  );
});
