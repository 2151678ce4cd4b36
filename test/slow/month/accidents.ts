import { expect, test } from "vitest";
import type { RunRecord } from "#state/record.ts";
import { copyOf, hire, remove, restore, team } from "./company.ts";
import { note, tripped } from "./life.ts";
import type { Life } from "./life.ts";
import { day, hour, person as olga } from "./office.ts";
import type { Principal } from "./oracle.ts";
import { noteLines } from "#plan/note.ts";

/** An outage, mistakes in the directory and in the configuration, changes by hand, and a service that dies. */
export function accidents(life: Life): void {
  test("days 12 to 14: an outage changes nothing, is noticed, and is over when a run succeeds", async () => {
    life.toDay(12);
    // What waits for approval when the outage begins expires in it, which is no success.
    await life.office.configure({ approval: "required" });
    hire(life.company, 317, {}, team.of(1, 1));
    await life.save();
    const pending = await life.run("pending");
    await life.office.configure({});
    await life.directory.server.kill();
    const failed = await life.run("failed");
    expect(failed.error).toMatchObject({ advice: "retry" });
    life.office.pass(hour);
    await life.run("failed", { request: { cause: "retry" } });
    expect(life.office.coordinator.state("staff").failures?.count).toBe(2);
    life.office.look();
    expect(life.office.coordinator.syncs()).toMatchObject([{ overdue: false, pending: pending.id }]);

    life.toDay(14);
    await life.directory.server.start();
    const limit = (size: string): string =>
      `dn: olcDatabase={1}mdb,cn=config\nchangetype: modify\nreplace: olcSizeLimit\nolcSizeLimit: ${size}\n\n`;
    await life.directory.server.configure(limit("size.soft=100 size.hard=100 size.prtotal=100"));
    const before = life.office.events.length;
    const truncated = await life.run("failed");
    expect(truncated.error).toMatchObject({ advice: "fix", message: expect.stringMatching(/sizeLimitExceeded/i) });
    expect(life.newest(pending.id)).toMatchObject({ state: "expired" });
    expect(life.office.coordinator.state("staff").failures?.count).toBe(3);
    life.office.look();
    life.office.look();
    const [status] = life.office.coordinator.syncs();
    expect(status).toMatchObject({ overdue: true, overdueSince: expect.any(String) });
    await life.directory.server.configure(limit("unlimited"));
    await life.run("applied");
    life.office.look();
    const recovered = life.office.events.slice(before).filter((event) => event.type === "run" && event.recovered);
    expect(recovered).toMatchObject([{ run: { state: "applied" } }]);
    expect(life.office.events.filter(({ type }) => type === "overdue")).toHaveLength(1);
    expect(life.office.coordinator.syncs()[0]).not.toHaveProperty("overdueSince");
    expect(life.office.coordinator.state("staff").failures).toBeUndefined();
  });

  test("day 15: a wiped part of the directory fails the read, is held where that is allowed, and nobody is lost; put back, it is as if nothing had been", async () => {
    life.toDay(15);
    const ids = await life.directory.backup();
    const before = copyOf(life.company);
    remove(
      life.company,
      ...[...life.company.people].filter(([, { site }]) => site === "lyon").map(([number]) => number),
    );
    expect(before.people.size - life.company.people.size).toBeGreaterThan(80);
    await life.save();
    const failed = await life.run("failed");
    expect(failed.error?.message).toMatch(/no users below ou=lyon,ou=people,.* where the last good read found \d+/);
    await life.office.configure({ emptyContainers: "allowed" });
    const held = await life.run("held");
    expect(held).toMatchObject({ heldBy: "limits", error: { advice: "stop" } });
    expect(tripped(held)).toEqual(["shrink"]);
    // Found again, it is no news; when nobody has said anything for a day, it is held anew.
    life.office.pass(hour);
    const again = await life.run("superseded");
    expect(again).toMatchObject({ sameAs: held.id });
    life.office.pass(day);
    const anew = await life.run("held");
    expect(life.newest(held.id)).toMatchObject({ state: "expired", foundAgain: { count: 1 } });
    expect(open(life)).toEqual([anew]);
    restore(life.company, before);
    // Three come back without their ids, by hand.
    for (const number of [63, 66, 69]) ids.delete(`person ${number}`);
    await life.save(ids);
    const restored = await life.run("no change");
    expect(noteLines(restored.notes)).toEqual(note("^3 names of another record now"));
    expect(open(life)).toEqual([]);
    // A person who knows them says that they are the same.
    await life.run("no change", { request: { overrides: ["reusedNames"], cause: "demand", by: olga } });
    expect(noteLines((await life.run("no change")).notes).join("\n")).not.toContain("another record");
    await life.office.configure({});
    await life.run("no change");
  });

  test("day 17: a filter that was edited by mistake is held, with a grace period and without one", async () => {
    life.toDay(17);
    const filter = "(&(objectClass=inetOrgPerson)(departmentNumber=Sales))";
    await life.office.configure({ filter });
    const graceful = await life.run("held");
    expect(tripped(graceful)).toEqual(["shrink", "minUsers"]);
    await life.office.configure({ filter, grace: 0 });
    const pending = await life.run("pending");
    expect(tripped(pending)).toEqual(["deletes", "shrink", "minUsers"]);
    expect(life.newest(graceful.id)).toMatchObject({ state: "superseded" });
    await life.office.configure({ filter, grace: 0, approval: "required" });
    const held = await life.run("held");
    expect(tripped(held)).toEqual(["deletes", "shrink", "minUsers"]);
    expect(life.newest(pending.id)).toMatchObject({ state: "superseded" });
    await expect(life.approve(held, "applied")).rejects.toThrow(/held by limits/);
    const rejected = await life.office.coordinator.reject(held.id, { by: olga, reason: "the filter is wrong" });
    expect(rejected).toMatchObject({ state: "rejected" });
    await life.compare();
    await life.office.configure({});
    await life.run("no change");
  });

  test("day 18: what somebody changes by hand is put right where it is the sync's, and left alone where it is not", async () => {
    life.toDay(18);
    const changes: Readonly<Record<string, (each: Principal) => Principal>> = {
      "user u1071": (each) => ({ ...each, displayName: "Drifted", mail: undefined, groups: [] }),
      "user u1073": (each) => ({ ...each, groups: [...each.groups, "Tools"].toSorted() }),
      "user integration": (each) => ({ ...each, displayName: "By Hand Again", groups: ["Sales 1", "Tools"] }),
      "group Sales": (each) => ({ ...each, description: "by hand", groups: [] }),
    };
    await life.service.byHand((principals) => [
      ...principals
        .filter(({ name }) => name !== "u1074")
        .map((each) => changes[`${each.kind} ${each.name}`]?.(each) ?? each),
      { kind: "group", name: "More Tools", displayName: "More Tools", groups: ["Tools"] },
    ]);
    life.known = { ...life.known, target: await life.service.list() };
    expect(life.known.target.has("user u1074")).toBe(false);
    await life.office.configure({ approval: "required" });
    const pending = await life.run("pending");
    expect(pending.counts).toMatchObject({ users: { create: 1, update: 1, delete: 0 }, groups: { update: 1 } });
    expect((await life.run("superseded")).sameAs).toBe(pending.id);
    await life.approve(pending, "applied", pending.digest === undefined ? {} : { digest: pending.digest });
    await life.office.configure({});
    await life.run("no change");
  });

  test("day 19: the service dies while it is listed, and while a list is applied", async () => {
    life.toDay(19);
    hire(life.company, 318, { title: "Night Watch" }, team.of(3, 3));
    await life.save();
    let died: Promise<void> = Promise.resolve();
    const failed = await life.office.run(
      {},
      {
        progress: (stage) => {
          if (stage === "list") died = life.service.kill();
        },
      },
    );
    expect(failed).toMatchObject({ state: "failed", error: { advice: "retry" } });
    expect(failed).not.toHaveProperty("sentAt");
    await died;
    await life.service.start();
    await life.compare();

    life.office.pass(hour);
    const cutOff = await life.office.run(
      { cause: "retry" },
      {
        progress: (stage) => {
          if (stage === "apply") died = life.service.kill().then(() => life.service.start());
        },
      },
    );
    await died;
    // The request was made again, or its end was found out by reading the target: what the record says is so.
    if (cutOff.state === "applied") life.known = life.foreseen();
    else expect(cutOff).toMatchObject({ state: "failed" });
    await life.run(cutOff.state === "applied" ? "no change" : "applied");
  });
}

function open({ office }: Life): RunRecord[] {
  return office.coordinator.runs().filter(({ state }) => state === "pending" || state === "held");
}
