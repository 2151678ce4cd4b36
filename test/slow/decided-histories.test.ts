import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { LimitName } from "#plan/limits.ts";
import type { Approval } from "#sync/coordinator/coordinator.ts";
import csv from "#connectors/csv/index.ts";
import { Attributes } from "#principals/attributes.ts";
import { compileRules } from "#principals/compile.ts";
import type { RunRecord } from "#state/record.ts";
import type { Sync } from "#sync/sync.ts";
import { ada, coordinated } from "../e2e/sync/coordinated.ts";
import { useObjects } from "../e2e/sync/objects.ts";
import { attributesOfObjects, objectTarget } from "../support/object-target.ts";
import type { ObjectStore } from "../support/object-target.ts";
import { cases } from "../support/random.ts";

/*
 * What people decide about plans: they approve, reject or forget them, override limits, apply a part, undo it, and undo that. Groups
 * nest, become empty and are filled again; users and groups get other names, and one user another key.
 */

const objects = useObjects();

interface Company {
  readonly people: readonly {
    readonly key: string;
    readonly login: string;
    readonly title: string;
    readonly teams: readonly string[];
  }[];
  readonly teams: readonly { readonly key: string; readonly name: string; readonly parent: string }[];
}

const keys = ["t0", "t1", "t2"];
const teamsOf = fc.subarray(keys);
const title = fc.constantFrom("", "Countess", "Admiral");

/** Names that depend on others, such as swapped ones, are held: everybody has two of their own. */
const company: fc.Arbitrary<Company> = fc.record({
  people: fc
    .tuple(
      fc.record({ key: fc.constantFrom("p0", "p9"), login: fc.constant("ada"), title, teams: teamsOf }),
      ...["Grace", "joan", "edith"].map((login) =>
        fc.record({ key: fc.constant(login), login: fc.constantFrom(login, `${login}.x`), title, teams: teamsOf }),
      ),
    )
    .chain((all) => fc.subarray(all, { minLength: 1 })),
  teams: fc.tuple(
    ...keys.map((key) =>
      fc.record({
        key: fc.constant(key),
        name: fc.constantFrom(key, `Team ${key}`),
        parent: fc.constantFrom("", ...keys),
      }),
    ),
  ),
});

const step = fc.record({
  company,
  byHand: fc.constantFrom(
    "nothing",
    "nothing",
    "nothing",
    "title",
    "rename",
    "remove user",
    "remove group",
    "empty group",
  ),
  decision: fc.oneof(
    { weight: 3, arbitrary: fc.constant<Approval["selection"] | "reject" | "leave">({}) },
    fc.constantFrom("reject" as const, "leave" as const),
    fc.record({ only: fc.constantFrom(["create" as const], ["update" as const], ["delete" as const]) }),
    fc
      .constantFrom("these" as const, "except" as const)
      .map((how) => ({ [how]: [{ kind: "user" as const, name: "ada" }] })),
  ),
  undoes: fc.constantFrom(0, 1, 2, 3),
});

function doByHand(store: ObjectStore, what: string): void {
  const [user, group] = ["user", "group"].map((kind) => store.all().find((each) => each.kind === kind));
  if (what === "title" && user !== undefined) store.change("user", user.name, { title: "Queen" });
  if (what === "rename" && user !== undefined) store.change("user", user.name, { userName: `${user.name}-renamed` });
  if (what === "remove user" && user !== undefined) store.remove("user", user.name);
  if (what === "remove group" && group !== undefined) store.remove("group", group.name);
  if (what === "empty group" && group !== undefined) group.members = [];
}

/** Titles of users and members of groups. */
function stateOf(store: ObjectStore): object {
  const users = Object.entries(store.people()).map(([name, { title = "" }]) => [name, title]);
  return { users: Object.fromEntries(users), groups: store.groups() };
}

function wanted({ people, teams }: Company): object {
  const members = (team: string): string[] => [
    ...people.filter((each) => each.teams.includes(team)).map(({ login }) => login),
    ...teams.filter(({ parent }) => parent === team).map(({ name }) => name),
  ];
  return {
    users: Object.fromEntries(people.map((each) => [each.login, each.title])),
    groups: Object.fromEntries(teams.map(({ key, name }) => [name, members(key).toSorted()])),
  };
}

function syncOf(renames: "inPlace" | "apply"): Partial<Sync> {
  const folder = objects.folder();
  const options = csv.options.parse({
    users: { file: "people.csv", id: "key", memberOf: { column: "teams", separator: ";" } },
    groups: { file: "teams.csv", id: "key", memberOf: { column: "parent" } },
  });
  const users = { name: "entry.login", displayName: "entry.login", title: "entry.title" };
  return {
    sources: [{ name: "company", source: csv.open(options, { name: "company", folder }) }],
    rules: compileRules(
      { users, groups: { name: "entry.name" } },
      undefined,
      undefined,
      undefined,
      undefined,
      new Attributes(attributesOfObjects, { leavesOthers: true }),
    ),
    target: objectTarget(objects.store(), { nestsGroups: true }),
    departures: { after: 0, renames, reusedNames: "apply", administrators: [] },
    limits: { sources: {}, floor: 0, action: "hold", deletes: { count: 1, per: "run" } },
  };
}

const histories = fc.tuple(
  fc.constantFrom("inPlace" as const, "apply" as const),
  fc.array(step, { minLength: 1, maxLength: 3 }),
);

test("an undo leaves alone whom a run was refused to create, and what was not in the part of a plan that was applied", async () => {
  const store = objects.store();
  const { run, approve, undo } = await coordinated(objects, {}, () => syncOf("apply"));
  const person = (login: string) => ({ key: login, login, title: "", teams: [] });
  await writeCompany({
    people: [person("ada"), person("grace"), person("joan")],
    teams: [{ key: "t0", name: "t0", parent: "" }],
  });
  store.faults = { refuses: ["ada"] };
  const selection = { except: [{ kind: "user" as const, name: "joan" }] };
  const first = await approve((await run()).id, { selection });
  expect(first).toMatchObject({ state: "held", heldBy: "verification" });
  expect(Object.keys(store.people())).toEqual(["grace"]);
  // They are somebody else's, and the next run adopts them.
  store.faults = {};
  store.add("user", "ada", { displayName: "ada" });
  store.add("user", "joan", { displayName: "joan" });
  expect(await run()).toMatchObject({ state: "no change" });
  await approve((await undo(first.id)).id);
  expect(Object.keys(store.people())).toEqual(["ada", "joan"]);
});

test("an undo leaves alone whom a run was refused to create, also where the target could not be read after that", async () => {
  const store = objects.store();
  const { run, approve, undo } = await coordinated(objects, {}, () => syncOf("apply"));
  const person = (login: string) => ({ key: login, login, title: "", teams: [] });
  await writeCompany({ people: [person("ada"), person("grace")], teams: [{ key: "t0", name: "t0", parent: "" }] });
  const { id } = await run();
  store.faults = { refuses: ["ada"], taken: () => (store.faults.unreadable = true) };
  const first = await approve(id);
  expect(first).toMatchObject({ state: "failed" });
  store.faults = {};
  store.add("user", "ada", { displayName: "ada" });
  expect(await run()).toMatchObject({ state: "no change" });
  await approve((await undo(first.id)).id);
  expect(Object.keys(store.people())).toEqual(["ada"]);
});

test("what is not approved changes nothing, an undo is exact, and the target ends as planned", async () => {
  await fc.assert(
    fc.asyncProperty(histories, async ([renames, steps]) => {
      await objects.renew();
      const store = objects.store();
      const { run, approve, undo, coordinator } = await coordinated(objects, {}, () => syncOf(renames));
      /** The plan that waits; undefined: there is nothing to do. */
      const plan = async (): Promise<RunRecord | undefined> => {
        await run();
        return coordinator.runs().find(({ state }) => state === "pending" || state === "held");
      };
      const decide = (waiting: RunRecord, selection?: Approval["selection"]): Promise<RunRecord> => {
        const overrides = waiting.limits.flatMap(({ limit, tripped }) => (tripped ? [limit as LimitName] : []));
        return approve(waiting.id, { ...(overrides.length > 0 && { overrides }), ...(selection && { selection }) });
      };
      /** The first run since somebody changed something by hand, and the state before it. */
      let first: { readonly id: string; readonly before: object } | undefined;
      for (const { company: next, byHand, decision, undoes } of steps) {
        await writeCompany(next);
        doByHand(store, byHand);
        if (byHand !== "nothing") first = undefined;
        const before = stateOf(store);
        const waiting = await plan();
        expect(stateOf(store)).toEqual(before);
        if (waiting === undefined || decision === "leave") continue;
        if (decision === "reject") {
          await coordinator.reject(waiting.id, { by: ada, reason: "no" });
          continue;
        }
        // A selection may leave nothing, or name somebody whom the plan does not change.
        let last = await decide(waiting, decision).catch(() => undefined);
        if (decision !== undefined && Object.keys(decision).length === 0)
          expect(last).toMatchObject({ state: "applied" });
        const after = stateOf(store);
        if (last?.state === "applied") first ??= { id: last.id, before };
        for (let count = 0; count < undoes && last?.state === "applied"; count++) {
          const undoing = await undo(last.id);
          expect(stateOf(store)).toEqual(count % 2 === 0 ? after : before);
          last = await decide(undoing);
          expect(last).toMatchObject({ state: "applied" });
          expect(stateOf(store)).toEqual(count % 2 === 0 ? before : after);
        }
      }
      if (first !== undefined) {
        const undoing = await undo(first.id);
        // All may be undone already.
        if (undoing.state !== "no change") expect(await decide(undoing)).toMatchObject({ state: "applied" });
        expect(stateOf(store)).toEqual(first.before);
      }
      for (let waiting = await plan(); waiting !== undefined; waiting = await plan())
        expect(await decide(waiting)).toMatchObject({ state: "applied" });
      expect(store.twice).toEqual([]);
      expect(stateOf(store)).toEqual(wanted(steps.at(-1)?.company ?? { people: [], teams: [] }));
    }),
    { numRuns: cases(2) },
  );
});

test("an undo of several runs follows the names that they gave", async () => {
  const store = objects.store();
  const { run, approve, undo } = await coordinated(objects, {}, () => syncOf("inPlace"));
  const states: object[] = [];
  const ids: string[] = [];
  const become = async (login: string, title: string, team: string, teams: readonly string[]): Promise<void> => {
    const own = [{ key: "t0", name: team, parent: "" }] as const;
    await writeCompany({ people: [{ key: "p0", login, title, teams }], teams: own });
    const { id } = await approve((await run()).id);
    ids.push(id);
    states.push(stateOf(store));
  };
  await become("ada", "", "engines", []);
  await become("ada", "Countess", "engines", ["t0"]);
  await become("ada.king", "Countess", "machines", ["t0"]);
  await become("ada.king", "Baroness", "machines", ["t0"]);
  await become("ada.lovelace", "Baroness", "machines", []);
  const undone = await approve((await undo(ids[1] ?? "")).id);
  expect(undone).toMatchObject({ state: "applied" });
  expect(stateOf(store)).toEqual(states[0]);
  expect(await approve((await undo(undone.id)).id)).toMatchObject({ state: "applied" });
  expect(stateOf(store)).toEqual(states[4]);
});

test("an undo gives nothing of those who were deleted to whoever has their names since", async () => {
  const store = objects.store();
  const { run, approve, undo } = await coordinated(objects, {}, () => syncOf("inPlace"));
  const become = async (...[people, teams]: [Company["people"], readonly [string, string][]]): Promise<string> => {
    await writeCompany({ people, teams: teams.map(([key, name]) => ({ key, name, parent: "" })) });
    const { id, state } = await approve((await run()).id);
    expect(state).toBe("applied");
    return id;
  };
  const edith = (...teams: readonly string[]) => ({ key: "edith", login: "edith", title: "", teams });
  const other = (login: string) => ({ key: "other", login, title: "", teams: [] });
  const bob = { key: "bob", login: "bob", title: "Admiral", teams: ["t1"] };
  await become(
    [edith("t0"), other("ada"), bob],
    [
      ["t0", "sales"],
      ["t1", "field"],
    ],
  );
  const id = await become([edith(), other("ada")], [["t1", "field"]]);
  const state = stateOf(store);
  await become([edith(), other("bob")], [["t1", "sales"]]);
  const undone = await approve((await undo(id)).id);
  expect(undone).toMatchObject({ state: "applied" });
  expect(stateOf(store)).toEqual(state);
  expect(undone.notes.map(({ text }) => text).join("\n")).toContain("2 principals not restored");
});

async function writeCompany({ people, teams }: Company): Promise<void> {
  const write = (name: string, lines: readonly string[]): Promise<void> =>
    writeFile(join(objects.folder(), name), [...lines, ""].join("\n"));
  await write("people.csv", [
    "key,login,title,teams",
    ...people.map((each) => `${each.key},${each.login},${each.title},${each.teams.join(";")}`),
  ]);
  await write("teams.csv", ["key,name,parent", ...teams.map(({ key, name, parent }) => `${key},${name},${parent}`)]);
}
