import { expect, test } from "vitest";
import type { RunRecord } from "#state/record.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { dissolve, hire, remove, team, teamOf } from "./company.ts";
import { tripped } from "./life.ts";
import type { Life } from "./life.ts";
import { hour, person as olga } from "./office.ts";
import type { Known } from "./oracle.ts";

/** A reorganisation, which is undone and done again. */
export function reorganisation(life: Life): void {
  let reorganised: RunRecord;
  let before: Known;

  test("day 20: a reorganisation waits for approval, is looked at, and is applied as it was shown", async () => {
    life.toDay(20);
    remove(life.company, 81);
    await life.save();
    await life.run("no change");
    before = life.known;
    life.office.pass(hour);
    // Engineering gets other names, two teams of Support become one with others, and Sales is dealt out anew.
    teamOf(life.company, team.department(0)).name = "Product";
    for (let which = 0; which < 4; which++) teamOf(life.company, team.of(0, which)).name = `Product / ${which + 1}`;
    for (const which of [2, 3]) {
      for (const each of teamOf(life.company, team.of(2, which)).people)
        teamOf(life.company, team.of(2, which - 2)).people.add(each);
      dissolve(life.company, team.of(2, which));
    }
    const sales = [0, 1, 2, 3].map((which) => teamOf(life.company, team.of(1, which)));
    const dealt = sales.map(({ people }) => [...people]);
    for (const [which, each] of sales.entries()) each.people = new Set(dealt[(which + 1) % 4]);
    // Finance is in Support, and a project in another one.
    teamOf(life.company, team.department(2)).teams.add(team.department(3));
    teamOf(life.company, team.everybody).teams.delete(team.department(3));
    teamOf(life.company, team.project(0)).teams.add(team.project(1));
    await life.save();
    reorganised = await life.run("pending");
    expect(tripped(reorganised)).toEqual(["updates", "membershipsLost"]);
    expect(reorganised.counts?.membershipsRemoved).toBeGreaterThan(100);
    const shown = await rollcall(["show", reorganised.id, "--config", life.office.config, "--json"]);
    expect(shown, shown.stderr).toMatchObject({ code: 0 });
    expect(shown.stdout).toContain("Product / 1");
    life.office.pass(2 * hour);
    await life.approve(reorganised, "applied");
    await life.run("no change");
  });

  test("day 21: the reorganisation is undone, and nothing of it comes back by itself", async () => {
    life.toDay(21);
    const { ended } = await life.office.coordinator.undo(reorganised.id, { by: olga });
    const undoing = await ended;
    expect(undoing, JSON.stringify(undoing.error)).toMatchObject({ state: "held", undoes: reorganised.id });
    await life.compare();
    life.office.pass(hour);
    // Whoever is gone from the directory still is: their time goes on.
    const planned = { ...before, gone: life.known.gone };
    await life.approve(undoing, "applied", { overrides: tripped(undoing), planned });
    life.office.pass(hour);
    // What was undone is planned again, and needs a person, who must name every limit now.
    const waits = await life.run("held");
    expect(tripped(waits)).toEqual(["deletes", "updates", "membershipsLost"]);
    expect(life.office.coordinator.syncs()[0]).toMatchObject({ caution: expect.anything(), pending: waits.id });
    // Something small neither.
    hire(life.company, 319, {}, team.of(0, 0));
    await life.save();
    expect(await life.run("held")).not.toMatchObject({ digest: waits.digest });
  });

  test("day 22: it is done again", async () => {
    life.toDay(22);
    life.office.pass(4 * hour);
    const held = await life.run("held");
    expect(tripped(held)).toEqual(["updates", "membershipsLost"]);
    await life.approve(held, "applied", { overrides: tripped(held) });
    expect(life.office.coordinator.syncs()[0]?.caution).toBeUndefined();
    await life.run("no change");
  });
}
