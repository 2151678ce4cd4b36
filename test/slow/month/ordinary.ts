import { expect, test } from "vitest";
import { hire, personOf, remove, team, teamOf } from "./company.ts";
import { grace, note } from "./life.ts";
import type { Life } from "./life.ts";
import { hour, person as olga } from "./office.ts";
import { noteLines } from "#plan/note.ts";

/** Hires, leavers, moves and changed names. */
export function ordinaryDays(life: Life): void {
  test("day 1: what is there already is adopted or left alone, and 300 people in 30 groups come in", async () => {
    await life.service.byHand((principals) => [
      ...principals,
      { kind: "group", name: "Tools", displayName: "Tools", description: "by hand", groups: [] },
      { kind: "user", name: "integration", displayName: "Integration", mail: "it@example.com", groups: ["Tools"] },
      { kind: "user", name: "svc-backup", displayName: "Backup", groups: [] },
      { kind: "user", name: "u1007", displayName: "By Hand", mail: "wrong@example.com", groups: ["Tools"] },
    ]);
    life.known = { target: await life.service.list(), owned: new Map(), gone: new Map() };
    // Names that no sync may touch.
    hire(life.company, 301, { uid: "admin", name: "Not The Administrator" }, team.everybody);
    hire(life.company, 302, { uid: "svc-monitor" });
    await life.save();
    const first = await life.run("applied");
    expect(first.counts).toMatchObject({ users: { create: 284, update: 1, delete: 0 }, groups: { create: 30 } });
    expect(noteLines(first.notes)).toEqual(note("^2 records withheld"));
    life.office.pass(hour);
    const second = await life.run("no change");
    expect(noteLines(second.notes)).toEqual(note("^sources unchanged since"));
  });

  test("day 2: hires, one of them a contractor, who does not count", async () => {
    life.toDay(2);
    hire(life.company, 311, { name: "Zoë Łódź-Ünal, PhD", title: 'Head of "Ça ira"' }, team.of(0, 1), team.project(2));
    hire(life.company, 312, { uid: "O'Hara+1" }, team.of(1, 0));
    hire(life.company, 313, { site: "oslo", mail: undefined, title: undefined }, team.of(4, 3));
    hire(life.company, 314, { type: "contractor" }, team.of(2, 2));
    await life.save();
    expect((await life.run("applied")).counts).toMatchObject({ users: { create: 3, update: 0, delete: 0 } });
  });

  test("day 3: leavers stay for now, and it is said until when", async () => {
    life.toDay(3);
    remove(life.company, 11, 12, 13);
    personOf(life.company, 14).type = "contractor";
    await life.save();
    const { notes } = await life.run("no change");
    expect(life.known.gone.size).toBe(4);
    for (const uid of ["u1011", "u1012", "u1013", "u1014"])
      expect(noteLines(notes)).toEqual(leavingOn(uid, life.office.now()));
  });

  test("day 4: moves between places, departments and teams, promotions and a marriage; a leaver is back again", async () => {
    life.toDay(4);
    for (const number of [21, 22, 23]) personOf(life.company, number).site = "berlin";
    for (const number of [26, 31, 36]) {
      personOf(life.company, number).department = "Finance";
      teamOf(life.company, team.of(number % 5, Math.floor(number / 5) % 4)).people.delete(number);
      teamOf(life.company, team.of(3, 0)).people.add(number);
    }
    Object.assign(personOf(life.company, 41), { title: "Chief Executive", name: "Married Name" });
    Object.assign(personOf(life.company, 42), { mail: undefined, title: undefined });
    personOf(life.company, 14).type = "employee";
    await life.save();
    const { counts, notes } = await life.run("applied");
    expect(counts).toMatchObject({ users: { create: 0, delete: 0, update: 5 }, membershipsRemoved: 3 });
    expect(noteLines(notes)).toEqual(note("^3 users gone"));
    expect(noteLines(notes).join("\n")).not.toContain("u1014");
  });

  test("day 5: changed names are the same people", async () => {
    life.toDay(5);
    personOf(life.company, 51).uid = "maria";
    personOf(life.company, 52).uid = "José";
    Object.assign(personOf(life.company, 53), { uid: "moved-too", site: "lyon" });
    teamOf(life.company, team.project(0)).name = "Aurora, renamed";
    await life.save();
    const { counts, notes } = await life.run("applied");
    expect(counts).toMatchObject({ users: { create: 3, delete: 3 }, groups: { create: 1, delete: 1 } });
    expect(noteLines(notes)).toEqual(note("^4 renames"));
  });

  test("day 6: a name of somebody who has left is given to somebody else: held, until a person says so", async () => {
    life.toDay(6);
    hire(life.company, 315, { uid: "u1011", name: "Somebody Else" }, team.of(0, 0));
    await life.save();
    const held = await life.run("no change");
    expect(noteLines(held.notes)).toEqual(note("^1 name of another record now"));
    await life.run("applied", {
      reusedNames: true,
      request: { overrides: ["reusedNames"], cause: "demand", by: olga },
    });
    expect(noteLines((await life.run("no change")).notes)).toEqual(note("^2 users gone"));
  });

  test("day 7: an administrator who leaves the company stays one, until a person takes that away", async () => {
    life.toDay(7);
    await life.service.byHand((principals) =>
      principals.map((each) =>
        each.name === "u1033" ? { ...each, groups: [...each.groups, "Administrator"].toSorted() } : each,
      ),
    );
    life.known = { ...life.known, target: await life.service.list() };
    remove(life.company, 33);
    await life.save();
    expect(noteLines((await life.run("no change")).notes)).toEqual(note('user "?u1033"?: an administrator'));
  });

  test("days 9 and 10: after seven days the leavers are gone, not a day before", async () => {
    life.toDay(9);
    await life.run("no change");
    expect(life.known.gone.size).toBe(2);
    life.toDay(10);
    const { counts } = await life.run("applied");
    expect(counts).toMatchObject({ users: { delete: 2, create: 0, update: 0 } });
    expect(life.known.target.has("user u1012")).toBe(false);
    expect(life.known.target.has("user u1011")).toBe(true);
    expect(life.known.target.has("user u1033")).toBe(true);
  });

  test("day 11: the name of somebody who is gone for good is free", async () => {
    life.toDay(11);
    hire(life.company, 316, { uid: "u1012", name: "The Next One" }, team.of(2, 0));
    await life.save();
    expect((await life.run("applied")).counts).toMatchObject({ users: { create: 1, update: 0, delete: 0 } });
  });
}

function leavingOn(uid: string, since: number): unknown {
  return note(`user "?${uid}"? is leaving on ${new Date(since + grace).toISOString()}`);
}
