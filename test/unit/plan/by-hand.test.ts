import { expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { findByHand, keptByHand } from "#plan/by-hand.ts";
import { depart } from "#plan/departures.ts";
import { combine, freeze } from "#plan/protect.ts";
import { tablesOf } from "#plan/tables.ts";
import type { Principal } from "#principals/principal.ts";
import { ruleSource } from "#principals/tables.ts";
import { useConnection } from "../../support/duckdb.ts";
import { fill } from "./directories.ts";

const tables = tablesOf(serviceAttributes);

const connection = useConnection();

/** `user ada`, in these groups: `["user ada", "team"]`. */
type Written = readonly [principal: string, ...groups: string[]];

interface Scene {
  readonly sources: readonly Written[];
  readonly target: readonly Written[];
  /** What the last applied run left; null: that is not known. */
  readonly left: readonly Written[] | null;
  /** What the sync owned then, all of what it left unless said otherwise; `user eve=ada`: made of the record of ada. */
  readonly owns?: readonly string[];
  /** Memberships that were known to be by hand: `ada team`. */
  readonly known?: readonly string[];
  readonly groups?: readonly string[];
  readonly ignoresCase?: boolean;
  readonly doubtful?: readonly string[];
  readonly protect?: readonly string[];
}

function principalOf([principal, ...groupNames]: Written): Principal {
  const [kind, name = ""] = principal.split(" ");
  return { kind: kind === "group" ? "group" : "user", name, displayName: name, groupNames };
}

async function play(scene: Scene) {
  const { sources, target, left, known = [], groups = ["*"], doubtful = [], protect = [] } = scene;
  const owns = scene.owns ?? (left ?? target).map(([principal]) => principal);
  for (const table of ["quarantined", "contributor", "ledger", "leaving_since", "by_hand"] as const)
    await connection().run(`CREATE OR REPLACE TABLE ${table} (${tables[table]})`);
  await fill(connection(), "assembled", sources.map(principalOf));
  await connection().run(`
    ALTER TABLE assembled ADD COLUMN source VARCHAR DEFAULT 'hr'; ALTER TABLE assembled ADD COLUMN source_id VARCHAR;
    ALTER TABLE assembled ADD COLUMN origin VARCHAR DEFAULT 'people.csv:2'; ALTER TABLE assembled ADD COLUMN kept UTINYINT DEFAULT 0;
    UPDATE assembled SET source_id = name`);
  await fill(connection(), "actual", target.map(principalOf));
  await fill(connection(), "baseline_target", (left ?? []).map(principalOf));
  for (const each of owns) {
    const [kind = "", name = "", id = name] = each.replace("+", "").split(/[ =]/);
    const source = each.startsWith("+") ? ruleSource : "hr";
    await connection().run("INSERT INTO ledger VALUES (?, ?, ?, ?)", [kind, name, source, id]);
  }
  for (const each of known) await connection().run("INSERT INTO by_hand VALUES ('user', ?, ?)", each.split(" "));
  for (const name of doubtful)
    await connection().run("INSERT INTO quarantined VALUES ('user', ?, 'hr', ?, 'people.csv:3', 'broken')", [
      name,
      name,
    ]);
  await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: protect });
  const undecided = await findByHand(connection(), groups, left !== null, scene.ignoresCase);
  await depart(connection(), { after: 0, renames: "apply", reusedNames: "hold", administrators: [] }, 0);
  await combine(connection(), serviceAttributes);
  const { examples } = await keptByHand(connection());
  const rows = await connection().rows<{ kind: string; name: string; group_names: string[] }>(
    "SELECT kind, name, group_names FROM desired ORDER BY kind, name",
  );
  return {
    undecided,
    kept: examples.map(({ name, group }) => `${name} ${group}`),
    desired: rows.map(({ kind, name, group_names: of }) => [kind, name, ...of].join(" ")),
  };
}

const sources = [["user ada", "staff"], ["group staff"], ["group team"], ["group team-x"]] as const satisfies Written[];
const before: Scene = { sources, target: sources, left: sources };

test("groups are named in other letters where the target takes both for one", async () => {
  const target = [["user ada", "staff", "team", "team-x"], ...sources.slice(1)] as const satisfies Written[];
  expect((await play({ ...before, target, groups: ["TEAM"] })).kept).toEqual([]);
  expect((await play({ ...before, target, groups: ["TEAM"], ignoresCase: true })).kept).toEqual(["ada team"]);
});

test("what somebody has added since the last run stays, in the groups that are named", async () => {
  const target = [["user ada", "staff", "team", "team-x"], ...sources.slice(1)] as const satisfies Written[];
  const scene = { ...before, target };
  const all = await play(scene);
  expect(all.kept).toEqual(["ada team", "ada team-x"]);
  expect(all.desired).toContain("user ada staff team team-x");
  expect((await play({ ...scene, groups: ["team-*"] })).desired).toContain("user ada staff team-x");
  expect((await play({ ...scene, groups: [] })).desired).toContain("user ada staff");
  expect((await play({ ...scene, protect: ["team"] })).kept).toEqual(["ada team-x"]);
});

test("what it gave and the sources say no more is taken away, and what it gave comes back", async () => {
  const left = [["user ada", "staff", "team"], ...sources.slice(1)] as const satisfies Written[];
  expect(await play({ ...before, target: left, left })).toMatchObject({
    kept: [],
    desired: expect.arrayContaining(["user ada staff"]),
  });
  const target = [["user ada"], ...sources.slice(1)] as const satisfies Written[];
  expect((await play({ ...before, target })).desired).toContain("user ada staff");
  // What was by hand then is by hand still, although the last run left it.
  expect((await play({ ...before, target: left, left, known: ["ada team"] })).kept).toEqual(["ada team"]);
  // Once the sources say it, too, it is theirs.
  const said = [["user ada", "staff", "team"], ...sources.slice(1)] as const satisfies Written[];
  expect((await play({ ...before, sources: said, target: left, left, known: ["ada team"] })).kept).toEqual([]);
});

test("whoever or whatever the sync did not own has nothing that it gave", async () => {
  const left = [["user ada", "staff", "team"], ...sources.slice(1)] as const satisfies Written[];
  const scene = { ...before, target: left, left };
  expect((await play({ ...scene, owns: ["user ada", "group staff"] })).kept).toEqual(["ada team"]);
  expect((await play({ ...scene, owns: ["group staff", "group team"] })).kept).toEqual(["ada team"]);
});

test("without a baseline only what was known is by hand, and a target that is adopted", async () => {
  const target = [["user ada", "staff", "team", "team-x"], ...sources.slice(1)] as const satisfies Written[];
  const scene: Scene = { ...before, target, left: null };
  expect(await play({ ...scene, known: ["ada team"] })).toMatchObject({ kept: ["ada team"], undecided: 1 });
  expect(await play({ ...scene, owns: [] })).toMatchObject({ kept: ["ada team", "ada team-x"], undecided: 0 });
});

test("renamed users and groups take it along; who is in doubt keeps it, and stays known", async () => {
  const target = [["user eve", "staff", "old"], ["group staff"], ["group old"]] as const satisfies Written[];
  const renamed: Scene = {
    sources: [["user ada", "staff"], ["group staff"], ["group team"]],
    target,
    left: [["user eve", "staff"], ["group staff"], ["group old"]],
    owns: ["user eve=ada", "group staff", "group old=team"],
  };
  const { kept, desired } = await play(renamed);
  expect(kept).toEqual(["ada team"]);
  expect(desired).toEqual(["group staff", "group team", "user ada staff team"]);
  const doubtful: Scene = {
    ...before,
    sources: sources.slice(1),
    target: [["user ada", "staff", "team"], ...sources.slice(1)],
    doubtful: ["ada"],
  };
  expect(await play(doubtful)).toMatchObject({ kept: ["ada team"] });
  expect((await play(doubtful)).desired).toContain("user ada staff team");
});

test("a group that rules have made stays while somebody is in it by hand", async () => {
  const left = [["user ada", "Delft"], ["user bob"], ["group Delft"]] as const satisfies Written[];
  const scene: Scene = {
    sources: [["user ada"], ["user bob"]],
    target: [["user ada", "Delft"], ["user bob", "Delft"], ["group Delft"]],
    left,
    owns: ["user ada", "user bob", "+group Delft"],
  };
  expect((await play(scene)).desired).toEqual(["group Delft", "user ada", "user bob Delft"]);
  expect((await play({ ...scene, target: left })).desired).toEqual(["user ada", "user bob"]);
});
