import fc from "fast-check";
import { expect, test } from "vitest";
import { HeldError, UnavailableError } from "#errors.ts";
import type { RunResult } from "#sync/context.ts";
import { useObjects } from "../e2e/sync/objects.ts";
import type { Faults, ObjectStore } from "../support/object-target.ts";
import { cases } from "../support/random.ts";

const objects = useObjects();

/** The process ended there. */
class Killed extends Error {}

const names = ["Ada", "grace", "Joan", "edith", "radia"] as const;
const teams = ["maths", "Navy", "web"] as const;

interface Person {
  readonly name: (typeof names)[number];
  readonly title: string;
  readonly phone: string;
  readonly teams: readonly string[];
}

const person = fc.record({
  title: fc.constantFrom("", "Countess", "Admiral"),
  phone: fc.constantFrom("", "+1 555-17", "0049 30"),
  teams: fc.subarray([...teams]),
});
const people = fc
  .tuple(fc.subarray([...names], { minLength: 1 }), fc.array(person, { minLength: 5, maxLength: 5 }))
  .map(([chosen, all]) =>
    chosen.map((name, index): Person => Object.assign({ name }, all[index] as Omit<Person, "name">)),
  );

/** What somebody does by hand in the target. */
const byHand = fc.constantFrom("nothing", "title", "rename", "remove user", "remove group", "empty group", "stranger");

/** What goes wrong, at which write. */
const fault = fc.record({
  what: fc.constantFrom("none", "none", "killed", "killed", "lost", "away", "refused", "stopped"),
  at: fc.nat(12),
});

const step = fc.record({ people, byHand, fault });

/** A run is killed once the target has stored `Ada` as `ada`, and she leaves before the next. */
const leftAfterKill = [
  { people: [{ name: "Ada", title: "", phone: "", teams: [] }], byHand: "nothing", fault: { what: "killed", at: 0 } },
  { people: [{ name: "Joan", title: "", phone: "", teams: [] }], byHand: "nothing", fault: { what: "none", at: 0 } },
] satisfies (typeof step extends fc.Arbitrary<infer Step> ? Step : never)[];

/** Whether a run was wholly applied. */
function isClean(result: RunResult | Error): boolean {
  return !(result instanceof Error);
}

function doByHand(store: ObjectStore, what: string): void {
  const user = store.all().find(({ kind, name }) => kind === "user" && name !== "stranger");
  const group = store.all().find(({ kind }) => kind === "group");
  if (what === "title" && user !== undefined) store.change("user", user.name, { title: "Queen" });
  if (what === "rename" && user !== undefined) store.change("user", user.name, { userName: `${user.name}-renamed` });
  if (what === "remove user" && user !== undefined) store.remove("user", user.name);
  if (what === "remove group" && group !== undefined) store.remove("group", group.name);
  if (what === "empty group" && group !== undefined) group.members = [];
  if (what === "stranger" && store.find("user", "stranger") === undefined) store.add("user", "stranger");
}

function faultsOf({ what, at }: { readonly what: string; readonly at: number }, stop: AbortController): Faults {
  let count = 0;
  if (what === "killed")
    return {
      taken: () => {
        if (count++ >= at) throw new Killed();
      },
    };
  if (what === "lost") return { unavailable: { of: () => count++ === at, after: true } };
  if (what === "away") return { unavailable: { of: () => count++ >= at, after: false } };
  if (what === "refused") return { refuses: [names[at % names.length] ?? "", teams[at % teams.length] ?? ""] };
  if (what === "stopped")
    return {
      taken: () => {
        if (count++ >= at) stop.abort();
      },
    };
  return {};
}

test("whatever happens on the way, the target ends as planned, and nothing is created twice", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      fc.boolean(),
      async (steps, normalises, readsMembers) => {
        await objects.renew();
        const store = objects.store();
        const sync = objects.syncOf({ readsMembers });
        let last: RunResult | Error | undefined;
        for (const { people: present, byHand: what, fault: wrong } of steps) {
          const stop = new AbortController();
          await objects.people(
            ...present.map(({ name, title, phone, teams: own }) => `${name},${title},${phone},${own.join(";")}`),
          );
          // Who was renamed before the ledger knew the id would be somebody else. What it does not say, nobody can see.
          const isSafe = last === undefined || isClean(last);
          if (isSafe && (readsMembers || what !== "empty group")) doByHand(store, what);
          store.faults = { ...faultsOf(wrong, stop), normalises };
          last = await objects
            .runIt(sync, { interruption: { stop: stop.signal, abandon: new AbortController().signal } })
            .catch((error: unknown) => {
              if (error instanceof HeldError || error instanceof Killed || error instanceof UnavailableError)
                return error;
              throw error;
            });
        }
        store.faults = { normalises };
        await objects.runIt(sync);
        expect(await objects.runIt(sync)).toMatchObject({ outcome: "no change" });
        expect(store.twice).toEqual([]);
        expect(stateOf(store)).toEqual(wanted(steps.at(-1)?.people ?? [], normalises));
      },
    ),
    { numRuns: cases(2), examples: [[leftAfterKill, true, false]] },
  );
});

/** Users with their titles and phones, groups with their members; without strangers, names in lower case. */
function stateOf(store: ObjectStore): object {
  const users = Object.entries(store.people()).filter(([name]) => name !== "stranger");
  return {
    users: Object.fromEntries(users.map(([name, { title, phone }]) => [name.toLowerCase(), [title, phone]])),
    groups: Object.fromEntries(
      Object.entries(store.groups())
        .filter(([, members]) => members.length > 0)
        .map(([name, members]) => [name, members.map((each) => each.toLowerCase()).toSorted()]),
    ),
  };
}

function wanted(present: readonly Person[], normalises: boolean): object {
  const phoneOf = ({ phone }: Person): string | undefined =>
    phone === "" ? undefined : normalises ? `+${phone.replaceAll(/\D/g, "")}` : phone;
  const members = (team: string): string[] =>
    present
      .filter((each) => each.teams.includes(team))
      .map(({ name }) => name.toLowerCase())
      .toSorted();
  return {
    users: Object.fromEntries(
      present.map((each) => [each.name.toLowerCase(), [each.title === "" ? undefined : each.title, phoneOf(each)]]),
    ),
    groups: Object.fromEntries(
      teams.map((team): [string, string[]] => [team, members(team)]).filter(([, all]) => all.length > 0),
    ),
  };
}
