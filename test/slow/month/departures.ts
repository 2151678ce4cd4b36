import { expect, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";
import { copyOf, remove, restore } from "./company.ts";
import type { Company } from "./company.ts";
import { note, tripped } from "./life.ts";
import type { Life } from "./life.ts";
import { hour } from "./office.ts";
import { noteLines } from "#plan/note.ts";

/** Many who leave at once, and many who leave little by little; and what commands say at the end of the month. */
export function departures(life: Life): void {
  let before: Company;
  let ids: ReadonlyMap<string, string>;
  let batches: readonly (readonly number[])[];

  test("day 23: that a whole place has left fails the read, and is held where that is allowed; a person says that it is so, and they are leaving", async () => {
    life.toDay(23);
    const gone = [...life.company.people].filter(([, { site }]) => site === "oslo").map(([number]) => number);
    remove(life.company, ...gone);
    await life.save();
    expect((await life.run("failed")).error?.message).toContain("no users below ou=oslo,");
    await life.office.configure({ emptyContainers: "allowed" });
    const held = await life.run("held");
    expect(tripped(held)).toEqual(["shrink"]);
    await life.approve(held, "no change", { overrides: ["shrink"] });
    expect(noteLines((await life.run("no change")).notes)).toEqual(
      note(/^\d{2,3} users.* gone from the sources, staying/),
    );
    expect(gone.length).toBeGreaterThan(80);
    await life.office.configure({});
  });

  test("day 24: of a slow bleed, two in a hundred with every run of a day, nothing is applied yet", async () => {
    life.toDay(24);
    before = copyOf(life.company);
    ids = await life.directory.backup();
    const people = [...life.company.people].filter(([, { type, site }]) => type === "employee" && site === "berlin");
    batches = [0, 1, 2, 3].map((batch) => people.slice(batch * 4, batch * 4 + 4).map(([number]) => number));
    for (const batch of batches) {
      life.office.pass(hour);
      remove(life.company, ...batch);
      await life.save();
      await life.run("no change");
    }
    expect([...life.known.gone.values()].filter((since) => since > life.office.now() - 5 * hour)).toHaveLength(16);
  });

  test("day 27: who was gone before the reorganisation and its undoing leaves on the day that was said", async () => {
    life.toDay(27);
    expect((await life.run("applied")).counts).toMatchObject({ users: { delete: 1 }, groups: { delete: 0 } });
    life.office.pass(2 * hour);
    expect((await life.run("applied")).counts).toMatchObject({ users: { delete: 0 }, groups: { delete: 2 } });
    expect(life.known.target.has("user u1081")).toBe(false);
  });

  test("day 30: the place that has left for good is held by the limit on deletions, and approved", async () => {
    life.toDay(30);
    life.office.pass(hour);
    const pending = await life.run("pending");
    expect(tripped(pending)).toEqual(["deletes"]);
    expect(pending.counts?.users.delete).toBeGreaterThan(80);
    await life.approve(pending, "applied");
  });

  test("day 31: the slow bleed is caught by the limit on 24 hours; the rest comes back", async () => {
    life.toDay(31);
    for (const deleted of [4, 4]) {
      life.office.pass(hour + 60_000);
      const { counts } = await life.run("applied");
      expect(counts).toMatchObject({ users: { create: 0, update: 0, delete: deleted } });
    }
    life.office.pass(hour + 60_000);
    const caught = await life.run("pending");
    expect(caught.limits.filter((limit) => limit.tripped)).toMatchObject([
      { limit: "deletes", of: "users", value: 12, earlier: 8 },
    ]);
    // A person looks, and finds that they have not left at all.
    restore(life.company, before);
    remove(life.company, ...batches.slice(0, 2).flat());
    await life.save(ids);
    await life.run("no change");
    expect(life.newest(caught.id)).toMatchObject({ state: "superseded" });
  });

  test("after the month, commands find it as it was left: nothing to do, an unbroken audit log, and what happened", async () => {
    await life.office.leave();
    const ask = async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await rollcall([...args, "--config", life.office.config]);
      expect({ code, stderr }, args.join(" ")).toMatchObject({ code: 0 });
      return stdout;
    };
    expect(JSON.parse(await ask("plan", "--json"))).toMatchObject({ runs: [{ outcome: "no change" }] });
    await ask("audit", "verify");
    expect(await ask("history", "u1012")).toContain("u1012");
    expect(await ask("runs", "--all")).toContain("applied");
    await life.compare();
  });
}
