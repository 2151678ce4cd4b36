import { describe, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { depart, leavingCounts } from "#plan/departures.ts";
import { releasesOf } from "#plan/renames.ts";
import type { DepartureRules } from "#plan/departures.ts";
import { createPlan } from "#plan/diff.ts";
import { measure } from "#plan/limits.ts";
import { combine, freeze } from "#plan/protect.ts";
import type { Protection } from "#plan/protect.ts";
import type { Kind, Principal } from "#principals/principal.ts";
import { useConnection } from "../../support/duckdb.ts";
import { fill } from "./directories.ts";

const connection = useConnection();
const day = 86_400_000;
const now = Date.UTC(2026, 5, 1);

/** `user ada`, in these groups. */
type Written = readonly [kind: Kind, name: string, ...groups: string[]];

interface Scene {
  /** With the id of the record. */
  readonly sources: readonly (readonly [id: string, principal: Written])[];
  readonly target: readonly Written[];
  /** Record id and what the ledger has of it. */
  readonly owns?: readonly (readonly [id: string, kind: Kind, name: string])[];
  readonly leavingSince?: readonly (readonly [kind: Kind, name: string, since: number])[];
  /** Ids of users that a rule leaves out. */
  readonly excluded?: readonly string[] | undefined;
  /** Principals of other types, by name, with their groups. */
  readonly foreign?: Readonly<Record<string, readonly string[]>>;
  readonly rules?: Partial<DepartureRules>;
  readonly protection?: Partial<Protection>;
}

const principalOf = ([kind, name, ...groupNames]: Written): Principal => ({
  kind,
  name,
  displayName: name,
  groupNames,
});

async function play({
  sources,
  target,
  owns = [],
  leavingSince = [],
  excluded = [],
  rules = {},
  protection = {},
  foreign = {},
}: Scene) {
  await fill(
    connection(),
    "assembled",
    sources.map(([, principal]) => principalOf(principal)),
  );
  await connection().run(`
    ALTER TABLE assembled ADD COLUMN source VARCHAR DEFAULT 'hr'; ALTER TABLE assembled ADD COLUMN source_id VARCHAR;
    ALTER TABLE assembled ADD COLUMN origin VARCHAR DEFAULT 'people.csv:2'; ALTER TABLE assembled ADD COLUMN kept UTINYINT DEFAULT 0;
    CREATE OR REPLACE TABLE quarantined (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR, origin VARCHAR, reason VARCHAR);
    CREATE OR REPLACE TABLE contributor (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR);
    CREATE OR REPLACE TABLE record (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR);
    CREATE OR REPLACE TEMP TABLE ledger (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR);
    CREATE OR REPLACE TEMP TABLE leaving_since (kind VARCHAR, name VARCHAR, since BIGINT)`);
  for (const [id, [kind, name]] of sources)
    await connection().run("UPDATE assembled SET source_id = ? WHERE kind = ? AND name = ?", [id, kind, name]);
  await fill(connection(), "actual", target.map(principalOf));
  for (const [id, kind, name] of owns)
    await connection().run("INSERT INTO ledger VALUES (?, ?, 'hr', ?)", [kind, name, id]);
  for (const [kind, name, since] of leavingSince)
    await connection().run("INSERT INTO leaving_since VALUES (?, ?, ?)", [kind, name, BigInt(since)]);
  for (const id of excluded) await connection().run("INSERT INTO record VALUES ('user', NULL, 'hr', ?)", [id]);
  await connection().run("DELETE FROM actual_foreign");
  for (const [name, groups] of Object.entries(foreign))
    await connection().run(
      "INSERT INTO actual_foreign BY NAME SELECT 'DYNAMIC' AS type, ? AS name, from_json(?::JSON, '[\"VARCHAR\"]') AS group_names",
      [name, JSON.stringify(groups)],
    );
  await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: [], ...protection });
  const departures = await depart(
    connection(),
    { after: 0, renames: "apply", reusedNames: "hold", administrators: [], ...rules },
    now,
  );
  await combine(connection(), serviceAttributes);
  const rows = await connection().rows<{ kind: Kind; name: string; group_names: string[] }>(
    "SELECT kind, name, group_names FROM desired ORDER BY kind, name",
  );
  return { departures, desired: rows.map((row) => [row.kind, row.name, ...row.group_names].join(" ")) };
}

describe("the grace period", () => {
  const gone: Scene = {
    sources: [["1", ["user", "ada"]]],
    target: [
      ["user", "ada"],
      ["user", "bob", "staff", "local"],
      ["group", "staff"],
      ["group", "local"],
    ],
    owns: [
      ["1", "user", "ada"],
      ["2", "user", "bob"],
      ["g", "group", "staff"],
    ],
  };

  test("keeps who is gone, with all memberships, until it has passed", async () => {
    const { departures, desired } = await play({
      ...gone,
      rules: { after: 7 * day },
      leavingSince: [["user", "bob", now - 6 * day]],
    });
    expect(desired).toEqual(["group local", "group staff", "user ada", "user bob local staff"]);
    const days = [
      { day: "2026-06-02", users: 1, groups: 0 },
      { day: "2026-06-08", users: 0, groups: 1 },
    ];
    expect(leavingCounts(departures)).toEqual({ users: 1, groups: 1, first: "2026-06-02T00:00:00.000Z", days });
    expect(departures.leaving).toEqual({
      count: 2,
      groups: 1,
      days,
      examples: [
        { kind: "user", name: "bob", on: "2026-06-02T00:00:00.000Z" },
        { kind: "group", name: "staff", on: "2026-06-08T00:00:00.000Z" },
      ],
    });
  });

  test("is over to the millisecond; 0 is none", async () => {
    const since = [["user", "bob", now - 7 * day] as const];
    const after = await play({ ...gone, rules: { after: 7 * day }, leavingSince: since });
    expect(after.desired).toEqual(["group local", "group staff", "user ada"]);
    expect((await play(gone)).desired).toEqual(["group local", "user ada"]);
  });

  test("a group that is gone keeps its members while it stays", async () => {
    const { desired } = await play({
      sources: [["1", ["user", "ada"]]],
      target: [
        ["user", "ada", "staff"],
        ["group", "staff"],
      ],
      owns: [
        ["1", "user", "ada"],
        ["g", "group", "staff"],
      ],
      rules: { after: day },
    });
    expect(desired).toEqual(["group staff", "user ada staff"]);
  });
});

describe("never deleted", () => {
  test("administrators, also through groups in groups, and the groups that make them so", async () => {
    const { departures, desired } = await play({
      sources: [],
      target: [
        ["group", "Administrator"],
        ["group", "platform", "Administrator"],
        ["group", "staff"],
        ["user", "root", "platform"],
        ["user", "bob", "staff"],
      ],
      owns: [
        ["1", "user", "root"],
        ["2", "user", "bob"],
        ["3", "group", "platform"],
        ["4", "group", "staff"],
      ],
      rules: { administrators: ["Administrator"], after: day },
    });
    expect(desired).toContain("user root platform");
    expect(departures.kept).toEqual({
      count: 2,
      examples: [
        { kind: "user", name: "root", because: "administrator" },
        { kind: "group", name: "platform", because: "administrator" },
      ],
    });
    expect(departures.leaving.examples.map(({ name }) => name)).toEqual(["bob", "staff"]);
  });

  test("administrators through a group of another type, whatever kind that is", async () => {
    const { departures, desired } = await play({
      sources: [["9", ["user", "zoe"]]],
      target: [
        ["user", "ada", "dynamic"],
        ["user", "bob"],
        ["user", "zoe"],
        ["group", "Administrator"],
      ],
      owns: [
        ["1", "user", "ada"],
        ["2", "user", "bob"],
        ["9", "user", "zoe"],
      ],
      foreign: { dynamic: ["Administrator"] },
      rules: { administrators: ["Administrator"] },
    });
    expect(desired).toEqual(["group Administrator", "user ada dynamic", "user zoe"]);
    expect(departures.kept.examples).toEqual([{ kind: "user", name: "ada", because: "administrator" }]);
  });

  test("the last members of a protected group, of which none is chosen; others are", async () => {
    const scene = (members: readonly Written[]): Scene => ({
      sources: [["9", ["user", "zoe"]]],
      target: [["group", "board"], ["user", "zoe"], ...members],
      owns: [
        ["1", "user", "ada"],
        ["2", "user", "bob"],
        ["9", "user", "zoe"],
      ],
      protection: { groups: ["board"] },
    });
    const both: Written[] = [
      ["user", "ada", "board"],
      ["user", "bob", "board"],
    ];
    expect((await play(scene(both))).desired).toEqual(["group board", "user ada board", "user bob board", "user zoe"]);
    const third: Written = ["user", "cleo", "board"];
    expect((await play(scene([...both, third]))).desired).toEqual(["group board", "user cleo board", "user zoe"]);
  });
});

describe("a known record with another name", () => {
  const scene: Scene = {
    sources: [
      ["1", ["user", "ada.king", "staff"]],
      ["g", ["group", "staff"]],
    ],
    target: [
      ["user", "ada", "local", "staff"],
      ["group", "local"],
      ["group", "staff"],
    ],
    owns: [
      ["1", "user", "ada"],
      ["g", "group", "staff"],
    ],
  };

  test("is a rename: deleted at once and created, with its memberships in groups of others", async () => {
    const { departures, desired } = await play({ ...scene, rules: { after: 7 * day } });
    expect(desired).toEqual(["group local", "group staff", "user ada.king local staff"]);
    expect(departures.renames).toEqual({
      count: 1,
      examples: [{ kind: "user", from: "ada", to: "ada.king", source: "hr", sourceId: "1", held: false }],
    });
    expect(departures.leaving.count).toBe(0);
  });

  test("is no last member of a protected group that leaves: the new name takes the membership along", async () => {
    const { departures, desired } = await play({ ...scene, protection: { groups: ["local"] } });
    expect(desired).toEqual(["group local", "group staff", "user ada.king local staff"]);
    expect(departures.kept.count).toBe(0);
  });

  test("keeps its name where renames are held, and becomes no second one", async () => {
    const { departures, desired } = await play({ ...scene, rules: { renames: "hold" } });
    expect(desired).toEqual(["group local", "group staff", "user ada local staff"]);
    expect(departures.renames.examples).toMatchObject([{ held: true }]);
  });

  test("an administrator keeps it whatever the rules say: the new one would not have the password", async () => {
    const { desired } = await play({ ...scene, rules: { administrators: ["local"] } });
    expect(desired).toEqual(["group local", "group staff", "user ada local staff"]);
  });

  test("a group that keeps its name keeps its members; who is new in it waits with it", async () => {
    const { desired } = await play({
      sources: [
        ["1", ["user", "ada", "people"]],
        ["2", ["user", "new", "people"]],
        ["g", ["group", "people"]],
      ],
      target: [
        ["user", "ada", "staff"],
        ["group", "staff"],
      ],
      owns: [
        ["1", "user", "ada"],
        ["g", "group", "staff"],
      ],
      rules: { renames: "hold" },
    });
    expect(desired).toEqual(["group staff", "user ada staff", "user new"]);
  });
});

describe("a known name with another record", () => {
  test("is somebody else, who waits; everybody stays who is in the chain of names", async () => {
    const scene: Scene = {
      // 1 gets the name of 2, 2 that of 3, and 3 a new one; 4 has nothing to do with it.
      sources: [
        ["1", ["user", "b"]],
        ["2", ["user", "c"]],
        ["3", ["user", "d"]],
        ["4", ["user", "f"]],
      ],
      target: [
        ["user", "a"],
        ["user", "b"],
        ["user", "c"],
        ["user", "e"],
      ],
      owns: [
        ["1", "user", "a"],
        ["2", "user", "b"],
        ["3", "user", "c"],
        ["4", "user", "e"],
      ],
    };
    const { departures, desired } = await play(scene);
    expect(desired).toEqual(["user a", "user b", "user c", "user f"]);
    expect(departures.reused.examples).toEqual([
      { kind: "user", name: "b", source: "hr", was: "2", is: "1", becomes: "c", held: true },
      { kind: "user", name: "c", source: "hr", was: "3", is: "2", becomes: "d", held: true },
    ]);
    expect(departures.renames).toMatchObject({ count: 2 });
    const applied = await play({ ...scene, rules: { reusedNames: "apply" } });
    expect(applied.desired).toEqual(["user b", "user c", "user d", "user f"]);
  });

  test("can be adopted by name where only the ids are new: the earlier records are gone", async () => {
    const owned = [
      ["1", "user", "a"],
      ["2", "user", "b"],
      ["3", "user", "c"],
    ] as const;
    const target = [["user", "a"] as const, ["user", "b"] as const, ["user", "c"] as const];
    const { departures } = await play({
      sources: [
        ["7", ["user", "a"]],
        ["8", ["user", "b"]],
        ["3", ["user", "c"]],
      ],
      target,
      owns: owned,
    });
    expect(departures).toMatchObject({ reused: { count: 2 }, adoptable: 2 });
    await createPlan(connection(), serviceAttributes);
    const { heldNames } = await measure(connection(), serviceAttributes, { sources: {}, floor: 10, action: "hold" });
    expect(heldNames).toEqual([{ of: "users", held: 2, base: 3 }]);
    const names = "SELECT name, was_id, is_id FROM adoptable ORDER BY name";
    expect(await connection().rows(names)).toEqual([
      { name: "a", was_id: "1", is_id: "7" },
      { name: "b", was_id: "2", is_id: "8" },
    ]);
    // The earlier record is still there under another name, and two who have swapped theirs are two people.
    const successor = await play({
      sources: [
        ["1", ["user", "d"]],
        ["9", ["user", "a"]],
        ["3", ["user", "b"]],
        ["2", ["user", "c"]],
      ],
      target,
      owns: owned,
    });
    expect(successor.departures).toMatchObject({ reused: { count: 3 }, adoptable: 0 });
    expect(successor.departures.reused.examples[0]).toMatchObject({ name: "a", was: "1", is: "9", becomes: "d" });
  });

  test("is still the same principal's while one of its records has it", async () => {
    const { departures, desired } = await play({
      sources: [
        ["1", ["user", "a"]],
        ["2", ["user", "b"]],
      ],
      target: [["user", "a"]],
      owns: [
        ["1", "user", "a"],
        ["2", "user", "a"],
      ],
    });
    expect(departures).toMatchObject({ renames: { count: 0 }, reused: { count: 0 } });
    expect(desired).toEqual(["user a", "user b"]);
  });

  test.each<[string, Partial<Scene>]>([
    ["whose earlier record a rule leaves out", { excluded: ["1"] }],
    ["whose record was another account's", { owns: [["7", "user", "b"]], target: [["user", "b"]] }],
  ])("cannot be adopted by name %s", async (_, { owns = [], target = [], excluded }) => {
    const { departures } = await play({
      sources: [["7", ["user", "a"]]],
      target: [["user", "a"], ...target],
      owns: [["1", "user", "a"], ...owns],
      excluded,
    });
    expect(departures).toMatchObject({ reused: { count: 1 }, adoptable: 0 });
  });

  test("is released with the rename of its successor, where that waits too", async () => {
    const scene = (name: string) => ({
      sources: [["2", ["user", name]] as const],
      target: [["user", "a"] as const, ["user", "b"] as const],
      owns: [["1", "user", "a"] as const, ["2", "user", "b"] as const],
    });
    const released = async (name: string, renames: "hold" | "apply", reusedNames: "hold" | "apply") => {
      await play({ ...scene(name), rules: { renames, reusedNames } });
      return releasesOf(connection(), { renames, reusedNames });
    };
    const both = ["renames", "reusedNames"] as const;
    const held = await released("a", "hold", "hold");
    expect([held.renames.toSorted(), held.reusedNames.toSorted()]).toEqual([both, both]);
    expect(await released("a", "apply", "hold")).toEqual({ renames: ["reusedNames"], reusedNames: ["reusedNames"] });
    expect(await released("c", "hold", "hold")).toMatchObject({ renames: ["renames"] });
    // Neither policy alone lets the successor have the name.
    for (const rules of [{ renames: "apply" }, { reusedNames: "apply" }] as const) {
      const { departures } = await play({ ...scene("a"), rules: { renames: "hold", reusedNames: "hold", ...rules } });
      expect(departures.reused.examples).toMatchObject([{ name: "a", held: true }]);
    }
  });

  test("is nobody else where it only comes from another source now, or was never the target's", async () => {
    const { departures, desired } = await play({
      sources: [["8", ["user", "ada"]]],
      target: [],
      owns: [["1", "user", "ada"]],
    });
    expect(desired).toEqual(["user ada"]);
    expect(departures.reused.count).toBe(0);
  });
});
