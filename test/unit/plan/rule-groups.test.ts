import { expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { depart } from "#plan/departures.ts";
import { combine, freeze } from "#plan/protect.ts";
import { addRuleGroups, leaveEmptyOut } from "#plan/rule-groups.ts";
import { tablesOf } from "#plan/tables.ts";
import type { Principal } from "#principals/principal.ts";
import { ruleSource } from "#principals/tables.ts";
import { useConnection } from "../../support/duckdb.ts";
import { fill } from "./directories.ts";

const tables = tablesOf(serviceAttributes);

const connection = useConnection();
const day = 86_400_000;

/** `user ada`, in these groups: `["user ada", "Delft"]`. */
type Written = readonly [principal: string, ...groups: string[]];

interface Scene {
  readonly sources: readonly Written[];
  /** The groups that rules name. */
  readonly named: readonly string[];
  readonly target: readonly Written[];
  /** What the sync owns: of the rules where it begins with `+`. */
  readonly owns?: readonly string[];
  /** Users of quarantined records. */
  readonly doubtful?: readonly string[];
  readonly unread?: readonly string[];
  readonly manage?: "owned" | "everything";
  readonly makesGroups?: boolean;
  readonly protect?: readonly string[];
  readonly after?: number;
  readonly since?: Readonly<Record<string, number>>;
  readonly now?: number;
}

function principalOf([principal, ...groupNames]: Written): Principal {
  const [kind, name] = split(principal);
  return { kind, name, displayName: name, groupNames };
}

function split(principal: string): [Principal["kind"], string] {
  const [kind, name = ""] = principal.split(" ");
  return [kind === "group" ? "group" : "user", name];
}

async function play(scene: Scene) {
  const { sources, named, target, owns = [], doubtful = [], unread = [], manage = "owned", after = 0, now = 0 } = scene;
  for (const table of ["quarantined", "contributor", "ledger", "leaving_since", "record", "rule_group"] as const)
    await connection().run(`CREATE OR REPLACE TABLE ${table} (${tables[table]})`);
  await fill(connection(), "assembled", sources.map(principalOf));
  await connection().run(`
    ALTER TABLE assembled ADD COLUMN source VARCHAR DEFAULT 'hr'; ALTER TABLE assembled ADD COLUMN source_id VARCHAR;
    ALTER TABLE assembled ADD COLUMN origin VARCHAR DEFAULT 'people.csv:2'; ALTER TABLE assembled ADD COLUMN kept UTINYINT DEFAULT 0;
    UPDATE assembled SET source_id = name`);
  await fill(connection(), "actual", target.map(principalOf));
  for (const name of named)
    await connection().run("INSERT INTO rule_group VALUES (?, ?, NULL, 'a rule')", [name, name]);
  for (const each of owns) {
    const [kind, name] = split(each.replace("+", ""));
    await connection().run("INSERT INTO ledger VALUES (?, ?, ?, ?)", [
      kind,
      name,
      each.startsWith("+") ? ruleSource : unread.includes(name) ? "vpn" : "hr",
      name,
    ]);
  }
  for (const name of doubtful)
    await connection().run("INSERT INTO quarantined VALUES ('user', ?, 'hr', ?, 'people.csv:3', 'broken')", [
      name,
      name,
    ]);
  for (const [name, since] of Object.entries(scene.since ?? {}))
    await connection().run("INSERT INTO leaving_since VALUES ('user', ?, ?)", [name, BigInt(since)]);
  const notOwned = await addRuleGroups(connection(), { manage }, true);
  const { makesGroups = true, protect: groups = [] } = scene;
  await freeze(connection(), { manage, makesGroups, users: [], groups }, unread.length > 0 ? ["vpn"] : []);
  const departures = await depart(
    connection(),
    { after, renames: "apply", reusedNames: "hold", administrators: [] },
    now,
  );
  await leaveEmptyOut(connection());
  await combine(connection(), serviceAttributes);
  const rows = await connection().rows<{ kind: string; name: string; group_names: string[] }>(
    "SELECT kind, name, group_names FROM desired ORDER BY kind, name",
  );
  return {
    notOwned,
    departures,
    desired: rows.map(({ kind, name, group_names: of }) => [kind, name, ...of].join(" ")),
  };
}

test("a group that rules name is made, also where there are no rules for groups, and goes when they name it no more", async () => {
  const scene: Scene = { sources: [["user ada", "Delft"]], named: ["Delft"], target: [], makesGroups: false };
  expect((await play(scene)).desired).toEqual(["group Delft", "user ada Delft"]);
  const target = [["group Delft"], ["group other"], ["user ada", "Delft", "other"]] as const satisfies Written[];
  const moved = { ...scene, target, sources: [["user ada", "Essen"]], named: ["Essen"] } as const;
  const owns = ["user ada", "+group Delft"];
  expect((await play({ ...moved, owns })).desired).toEqual(["group Essen", "group other", "user ada Essen other"]);
  // Without its record in the ledger it is not the sync's to delete.
  expect((await play({ ...moved, owns: ["user ada"] })).desired).toContain("group Delft");
});

test("one that the target has and the sync does not own is not taken over, unless it manages everything", async () => {
  const target = [["group Delft"], ["user local", "Delft"]] as const satisfies Written[];
  const scene: Scene = { sources: [["user ada", "Delft"]], named: ["Delft"], target };
  const { desired, notOwned } = await play(scene);
  expect(desired).toEqual(["group Delft", "user ada Delft", "user local Delft"]);
  expect(notOwned).toEqual({ count: 1, examples: ["Delft"] });
  expect(await connection().rows("FROM assembled WHERE kind = 'group'")).toEqual([]);
  expect((await play({ ...scene, manage: "everything" })).notOwned.count).toBe(0);
  expect((await play({ ...scene, owns: ["group Delft"] })).notOwned.count).toBe(0);
});

test("it stays for whom the sync leaves as they are: in doubt, leaving, not read, somebody else's, and groups in it", async () => {
  const sources = [["user ada"]] as const satisfies Written[];
  const owns = ["user ada", "user bob", "+group Delft", "+group Essen"];
  const target = [
    ["group Delft"],
    ["group Essen"],
    ["user ada", "Delft", "Essen"],
    ["user bob", "Delft"],
  ] as const satisfies Written[];
  const scene: Scene = { sources, named: [], target, owns };
  expect((await play(scene)).desired).toEqual(["user ada"]);
  // Whom the rules put elsewhere leaves it all the same.
  const stays = ["group Delft", "user ada", "user bob Delft"];
  expect((await play({ ...scene, doubtful: ["bob"] })).desired).toEqual(stays);
  expect((await play({ ...scene, unread: ["bob"] })).desired).toEqual(stays);
  expect((await play({ ...scene, owns: owns.filter((each) => each !== "user bob") })).desired).toEqual(stays);
  const nested = [
    ["group Essen"],
    ["group Delft", "Essen"],
    ["user ada"],
    ["user bob", "Delft"],
  ] as const satisfies Written[];
  expect((await play({ ...scene, target: nested, doubtful: ["bob"] })).desired).toEqual([
    "group Delft Essen",
    "group Essen",
    "user ada",
    "user bob Delft",
  ]);
});

test("its own grace period begins when nobody is in it any more", async () => {
  const scene: Scene = {
    sources: [],
    named: [],
    target: [["group Delft"], ["user bob", "Delft"]],
    owns: ["user bob", "+group Delft"],
    after: 7 * day,
  };
  const first = await play(scene);
  expect(first.desired).toEqual(["group Delft", "user bob Delft"]);
  expect(first.departures.leaving.examples).toMatchObject([{ name: "bob" }]);
  const later = await play({ ...scene, since: { bob: 0 }, now: 7 * day });
  expect(later.desired).toEqual(["group Delft"]);
  expect(later.departures.leaving.examples).toMatchObject([{ kind: "group", name: "Delft" }]);
});

test("none is made that nobody would be in: its name is protected, or those in it are held", async () => {
  const scene: Scene = { sources: [["user ada", "Delft"]], named: ["Delft"], target: [] };
  expect((await play({ ...scene, protect: ["Del*"] })).desired).toEqual(["user ada"]);
  await play(scene);
  await connection().run("INSERT INTO held_back VALUES ('user', 'ada')");
  await leaveEmptyOut(connection());
  await combine(connection(), serviceAttributes);
  expect(await connection().rows("SELECT name FROM desired WHERE kind = 'group'")).toEqual([]);
});
