import { describe, expect, test } from "vitest";
import { tables } from "#plan/tables.ts";
import { Attributes, serviceAttributes } from "#principals/attributes.ts";
import { combine, freeze, usersOfOthers } from "#plan/protect.ts";
import type { Protection } from "#plan/protect.ts";
import type { Kind, Principal } from "#principals/principal.ts";
import { useConnection } from "../../support/duckdb.ts";
import { fill } from "./directories.ts";

const connection = useConnection();

const user = (name: string, groupNames: string[] = [], displayName = name): Principal => ({
  kind: "user",
  name,
  displayName,
  groupNames,
});
const group = (name: string, groupNames: string[] = [], displayName = name): Principal => ({
  kind: "group",
  name,
  displayName,
  groupNames,
});

interface Scene {
  readonly sources: readonly Principal[];
  readonly target: readonly Principal[];
  /** What the sync owns, by name: its source id is the name with `#`. */
  readonly owns?: readonly (readonly [Kind, string])[];
  /** What another sync to the target owns. Absent: there is no other sync. */
  readonly ownedByOthers?: readonly (readonly [Kind, string])[];
  /** Whom its sources have lost before. */
  readonly leaving?: readonly string[];
  /** Memberships that somebody added by hand: user and group. */
  readonly byHand?: readonly (readonly [string, string])[];
  /** What it owns from a source `vpn`, beside what it owns anyway. */
  readonly ownsFromVpn?: readonly (readonly [Kind, string])[];
  /** Names of sources that could not be read. */
  readonly unread?: readonly string[];
  /** Names of sources that know everybody. Absent: all do. */
  readonly complete?: readonly string[];
  /** Users whom a rule, or the absence from a list, leaves out, with the scope of their record. */
  readonly leftOut?: Readonly<Record<string, "excluded" | "unlisted">>;
  /** Groups of the configuration that it owns. */
  readonly ownsConfigured?: readonly string[];
  readonly quarantined?: readonly { kind: Kind; name: string | null; id: string }[];
  readonly protection?: Partial<Protection>;
  /** Bits of what is kept, by the user's name. */
  readonly kept?: Readonly<Record<string, number>>;
  /** What the target declares. Absent: what the service does. */
  readonly attributes?: Attributes;
}

async function desiredOf({
  sources,
  target,
  owns = [],
  ownsConfigured = [],
  quarantined = [],
  protection = {},
  kept = {},
  ownsFromVpn = [],
  ownedByOthers,
  leaving = [],
  byHand = [],
  unread = [],
  complete,
  leftOut = {},
  attributes = serviceAttributes,
}: Scene) {
  await fill(connection(), "assembled", sources, attributes);
  await connection().run(`
    ALTER TABLE assembled ADD COLUMN source VARCHAR; ALTER TABLE assembled ADD COLUMN source_id VARCHAR; ALTER TABLE assembled ADD COLUMN origin VARCHAR;
    ALTER TABLE assembled ADD COLUMN kept UTINYINT DEFAULT 0;
    UPDATE assembled SET source = 'hr', source_id = name || '#', origin = 'people.csv:2';
    CREATE OR REPLACE TABLE quarantined (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR, origin VARCHAR, reason VARCHAR);
    CREATE OR REPLACE TEMP TABLE ledger (kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR)`);
  await fill(connection(), "actual", target, attributes);
  for (const [name, bits] of Object.entries(kept))
    await connection().run("UPDATE assembled SET kept = ? WHERE name = ?", [bits, name]);
  for (const { kind, name, id } of quarantined) {
    await connection().run("INSERT INTO quarantined VALUES (?, ?, 'hr', ?, 'people.csv:3', 'broken')", [
      kind,
      name,
      id,
    ]);
  }
  for (const [kind, name] of owns)
    await connection().run("INSERT INTO ledger VALUES (?, ?, 'hr', ? || '#')", [kind, name, name]);
  for (const name of ownsConfigured)
    await connection().run("INSERT INTO ledger VALUES ('group', ?, '(configuration)', ?)", [name, name]);
  for (const [kind, name] of ownsFromVpn)
    await connection().run("INSERT INTO ledger VALUES (?, ?, 'vpn', ? || '#')", [kind, name, name]);
  const others = ownedByOthers === undefined ? [] : ["other"];
  await connection().run("CREATE OR REPLACE TEMP TABLE owned_by_others (kind VARCHAR, name VARCHAR)");
  for (const [kind, name] of ownedByOthers ?? [])
    await connection().run("INSERT INTO owned_by_others VALUES (?, ?)", [kind, name]);
  await connection().run(`
    CREATE OR REPLACE TEMP TABLE by_hand (${tables.by_hand}); CREATE OR REPLACE TEMP TABLE leaving_since (${tables.leaving_since})`);
  for (const each of byHand) await connection().run("INSERT INTO by_hand VALUES ('user', ?, ?)", [...each]);
  for (const name of leaving) await connection().run("INSERT INTO leaving_since VALUES ('user', ?, 0)", [name]);
  const rules = { manage: "owned", makesGroups: true, users: [], groups: [], others, ...protection } as const;
  await connection().run(
    "CREATE OR REPLACE TEMP TABLE record (kind VARCHAR, source VARCHAR, source_id VARCHAR, scope VARCHAR)",
  );
  for (const [name, scope] of Object.entries(leftOut))
    await connection().run("INSERT INTO record VALUES ('user', 'hr', ? || '#', ?)", [name, scope]);
  await freeze(connection(), rules, unread, complete);
  const withheld = await usersOfOthers(connection(), rules);
  const frozen = await combine(connection(), attributes);
  const rows = await connection().rows<{
    kind: Kind;
    name: string;
    display_name: string;
    mail: string | null;
    group_names: string[];
  }>("FROM desired ORDER BY kind, name");
  return {
    frozen,
    withheld: withheld.examples.map(({ name, origin }) => `${name} ${origin}`),
    left: (await connection().rows<{ name: string }>("SELECT name FROM ledger ORDER BY name")).map(({ name }) => name),
    mail: Object.fromEntries(rows.map(({ name, mail }) => [name, mail])),
    desired: rows.map((row) => `${row.kind} ${row.name} "${row.display_name}" [${row.group_names.join(" ")}]`),
  };
}

describe("manage: owned", () => {
  test("what is neither in the sources nor owned stays as it is", async () => {
    const { desired, frozen } = await desiredOf({
      sources: [user("ada")],
      target: [user("ada", [], "old"), user("local", ["ops"]), group("ops"), user("gone")],
      owns: [["user", "gone"]],
    });
    expect(desired).toEqual(['group ops "ops" []', 'user ada "ada" []', 'user local "local" [ops]']);
    expect(frozen).toMatchObject({ unmanaged: 2, protected: 0, quarantined: 0, withheld: 0 });
  });

  test("memberships in groups that are not owned stay, and rules may add to them", async () => {
    const { desired } = await desiredOf({
      sources: [user("ada", ["staff"]), user("bob", ["local", "staff"]), group("staff")],
      target: [user("ada", ["local"]), group("local")],
    });
    expect(desired).toContain('user ada "ada" [local staff]');
    expect(desired).toContain('user bob "bob" [local staff]');
  });

  test("a carried-over principal loses only its memberships in groups that are deleted", async () => {
    const { desired } = await desiredOf({
      sources: [],
      target: [user("local", ["keeps", "leaves"]), group("keeps"), group("leaves")],
      owns: [["group", "leaves"]],
    });
    expect(desired).toEqual(['group keeps "keeps" []', 'user local "local" [keeps]']);
  });
});

describe("another sync to the target", () => {
  test("keeps its users as they are, and those whom it owns are not created a second time", async () => {
    const { desired, frozen, withheld } = await desiredOf({
      sources: [user("ada", ["staff"], "another Ada"), user("eve"), user("new"), group("staff")],
      target: [user("ada", ["ops"]), group("ops")],
      ownedByOthers: [
        ["user", "ada"],
        ["user", "eve"],
        ["group", "ops"],
      ],
    });
    expect(desired).toEqual([
      'group ops "ops" []',
      'group staff "staff" []',
      'user ada "ada" [ops]',
      'user new "new" []',
    ]);
    expect(withheld).toEqual(["ada people.csv:2", "eve people.csv:2"]);
    expect(frozen).toMatchObject({ unmanaged: 2 });
  });

  test("decides about what both own, once the sources here no longer have it", async () => {
    const { desired, left, withheld } = await desiredOf({
      sources: [user("bob", [], "Bob")],
      target: [user("ada", ["ops"]), user("bob"), user("eve"), group("ops")],
      owns: [
        ["user", "ada"],
        ["user", "bob"],
        ["user", "eve"],
        ["group", "ops"],
      ],
      ownedByOthers: [
        ["user", "ada"],
        ["user", "bob"],
        ["group", "ops"],
      ],
    });
    expect(desired).toEqual(['group ops "ops" []', 'user ada "ada" [ops]', 'user bob "Bob" []']);
    expect(left).toEqual(["bob", "eve"]);
    expect(withheld).toEqual([]);
  });

  test("keeps whom it has taken over, also once they are back here; they leave the groups of this one", async () => {
    const { desired, left, withheld } = await desiredOf({
      sources: [user("ada", ["staff"], "Ada as she was"), group("staff"), group("safe"), group("chess")],
      target: [
        user("ada", ["staff", "safe", "ops", "chess"]),
        ...["staff", "safe", "ops", "chess"].map((each) => group(each)),
      ],
      owns: [
        ["user", "ada"],
        ["group", "staff"],
        ["group", "safe"],
        ["group", "chess"],
      ],
      leaving: ["ada"],
      byHand: [["ada", "chess"]],
      ownedByOthers: [["user", "ada"]],
      protection: { groups: ["safe"] },
    });
    expect(desired).toContain('user ada "ada" [chess ops safe]');
    expect(left).toEqual(["chess", "safe", "staff"]);
    expect(withheld).toEqual(["ada people.csv:2"]);
  });

  test("is given nothing whose record is only in doubt", async () => {
    const { desired, left } = await desiredOf({
      sources: [],
      target: [user("ada"), user("vpn-user")],
      owns: [["user", "ada"]],
      ownsFromVpn: [["user", "vpn-user"]],
      unread: ["vpn"],
      quarantined: [{ kind: "user", name: "ada", id: "ada#" }],
      ownedByOthers: [
        ["user", "ada"],
        ["user", "vpn-user"],
      ],
    });
    expect(desired).toEqual(['user ada "ada" []', 'user vpn-user "vpn-user" []']);
    expect(left).toEqual(["ada", "vpn-user"]);
  });

  test("shares groups: both put their own users in", async () => {
    const { desired } = await desiredOf({
      sources: [user("bob", ["staff"]), group("staff")],
      target: [user("ada", ["staff"]), group("staff")],
      ownedByOthers: [
        ["user", "ada"],
        ["group", "staff"],
      ],
    });
    expect(desired).toEqual(['group staff "staff" []', 'user ada "ada" [staff]', 'user bob "bob" [staff]']);
  });
});

describe("manage: everything", () => {
  test("what the sources do not have is deleted", async () => {
    const { desired } = await desiredOf({
      sources: [user("ada")],
      target: [user("ada"), user("local", ["ops"]), group("ops")],
      protection: { manage: "everything" },
    });
    expect(desired).toEqual(['user ada "ada" []']);
  });
});

describe("what the sources say nothing about is not absent", () => {
  test.each(["owned", "everything"] as const)(
    "rules that make no groups leave every group alone (manage: %s)",
    async (manage) => {
      const { desired } = await desiredOf({
        sources: [user("ada")],
        target: [user("ada", ["once", "local"]), user("gone"), group("once"), group("local")],
        owns: [
          ["group", "once"],
          ["user", "gone"],
        ],
        protection: { manage, makesGroups: false },
      });
      expect(desired).toEqual(['group local "local" []', 'group once "once" []', 'user ada "ada" [local once]']);
    },
  );

  test("while a record has no name and nobody knows whose it was, it may be anybody that is not known to be another", async () => {
    const scene = {
      sources: [],
      target: [user("maybe"), user("known"), group("other")],
      owns: [["user", "known"]],
      protection: { manage: "everything" },
    } as const satisfies Scene;
    const { desired, frozen } = await desiredOf({ ...scene, quarantined: [{ kind: "user", name: null, id: "9" }] });
    expect(desired).toEqual(['user maybe "maybe" []']);
    expect(frozen).toMatchObject({ quarantined: 1, unmanaged: 0 });
    expect((await desiredOf({ ...scene, quarantined: [{ kind: "user", name: null, id: "known#" }] })).desired).toEqual([
      'user known "known" []',
    ]);
  });

  test("a login that was renamed is another user; one that differs in case too", async () => {
    const { desired } = await desiredOf({
      sources: [user("Ada"), user("grace-new")],
      target: [user("ada"), user("grace")],
      owns: [
        ["user", "ada"],
        ["user", "grace"],
      ],
    });
    expect(desired).toEqual(['user Ada "Ada" []', 'user grace-new "grace-new" []']);
  });

  test("where a target takes both for one, a protected name in other letters is protected", async () => {
    const { desired, frozen } = await desiredOf({
      sources: [user("root", [], "New"), user("ada"), group("owners", [], "New")],
      target: [user("root"), group("owners")],
      protection: { users: ["Ro*"], groups: ["Owners"], ignoresCase: true },
    });
    expect(desired).toEqual(['group owners "owners" []', 'user ada "ada" []', 'user root "root" []']);
    expect(frozen).toMatchObject({ protected: 2, withheld: 2 });
  });

  test.each(["ΟΔΟΣ", "οδος", "İnci", "Ο*Σ"])("%s is protected where it is written like this", async (name) => {
    const { frozen } = await desiredOf({
      sources: [],
      target: [user(name)],
      owns: [["user", name]],
      protection: { users: [name], ignoresCase: true },
    });
    expect(frozen).toMatchObject({ protected: 1 });
  });

  test("a group that loses its last member stays", async () => {
    const { desired } = await desiredOf({
      sources: [user("ada"), group("staff")],
      target: [user("ada", ["staff"]), group("staff")],
      owns: [["group", "staff"]],
    });
    expect(desired).toEqual(['group staff "staff" []', 'user ada "ada" []']);
  });

  test("a target that lists nothing is a target to be filled, whatever the ledger remembers", async () => {
    const { desired } = await desiredOf({ sources: [user("ada")], target: [], owns: [["user", "gone"]] });
    expect(desired).toEqual(['user ada "ada" []']);
  });
});

describe("protect", () => {
  test("a protected name is not created, changed or deleted; `*` stands for any characters and nothing else is special", async () => {
    const { desired, frozen } = await desiredOf({
      sources: [user("svc-new"), user("svc-known", [], "changed"), user("svcXplain")],
      target: [user("svc-known"), user("svc-gone"), user("a.b"), user("axb")],
      owns: [
        ["user", "svc-gone"],
        ["user", "a.b"],
        ["user", "axb"],
      ],
      protection: { manage: "everything", users: ["svc-*", "a.b"] },
    });
    expect(desired).toEqual([
      'user a.b "a.b" []',
      'user svc-gone "svc-gone" []',
      'user svc-known "svc-known" []',
      'user svcXplain "svcXplain" []',
    ]);
    expect(frozen).toMatchObject({ protected: 3, withheld: 2 });
  });

  test("patterns of users and of groups are apart", async () => {
    const { desired } = await desiredOf({
      sources: [],
      target: [user("x"), group("x")],
      protection: { manage: "everything", groups: ["x"] },
    });
    expect(desired).toEqual(['group x "x" []']);
  });

  test("nobody joins or leaves a protected group", async () => {
    const { desired } = await desiredOf({
      sources: [user("in"), user("out", ["board"]), group("board")],
      target: [user("in", ["board"]), user("out"), group("board", [], "The Board")],
      protection: { manage: "everything", groups: ["board"] },
    });
    expect(desired).toEqual(['group board "The Board" []', 'user in "in" [board]', 'user out "out" []']);
  });
});

describe("what the sources lack of an attribute", () => {
  test("is kept as the target has it; who is created has what the rules say", async () => {
    await desiredOf({
      sources: [
        { ...user("ada"), mail: "new@example.com" },
        { ...user("bob", [], "bob"), description: "new" },
        { ...user("eve", [], "eve"), mail: "eve@example.com" },
        { ...user("zoe"), mail: "new@example.com" },
      ],
      target: [
        { ...user("ada", [], "Ada"), mail: "ada@example.com", description: "old" },
        { ...user("bob", [], "Bob"), description: "old" },
        { ...user("zoe", [], "Zoe"), mail: "old@example.com" },
      ],
      owns: [["user", "ada"]],
      kept: { ada: 4, bob: 3, eve: 7, zoe: 0 },
    });
    expect(await connection().rows("SELECT name, display_name, description, mail FROM desired ORDER BY name")).toEqual([
      { name: "ada", display_name: "ada", description: null, mail: "ada@example.com" },
      { name: "bob", display_name: "Bob", description: "old", mail: null },
      { name: "eve", display_name: "eve", description: null, mail: "eve@example.com" },
      { name: "zoe", display_name: "zoe", description: null, mail: "new@example.com" },
    ]);
  });
});

test("while a source does not know everybody, only who came from another, or is left out by a rule, is gone", async () => {
  const { desired, frozen } = await desiredOf({
    sources: [user("ada")],
    target: ["ada", "excluded", "unlisted", "from vpn", "quiet"].map((name) => user(name)),
    owns: ["ada", "excluded", "unlisted", "quiet"].map((name) => ["user", name] as const),
    ownsFromVpn: [["user", "from vpn"]],
    leftOut: { excluded: "excluded", unlisted: "unlisted" },
    complete: ["vpn"],
  });
  expect(desired).toEqual(['user ada "ada" []', 'user quiet "quiet" []']);
  expect(frozen).toMatchObject({ awaited: 1, unmanaged: 0 });
});

test("without rules for groups, the sync has the groups of the configuration alone, and deletes one that left it", async () => {
  const { desired } = await desiredOf({
    sources: [group("new")],
    target: [group("old"), group("other"), group("local")],
    ownsConfigured: ["old"],
    owns: [["group", "other"]],
    protection: { makesGroups: false },
  });
  expect(desired).toEqual(['group local "local" []', 'group new "new" []', 'group other "other" []']);
});

describe("a source that could not be read", () => {
  test("deletes and changes nothing that came from it, also where another source tells of it too", async () => {
    const scene: Scene = {
      sources: [user("both", [], "changed"), user("ada", ["team"]), group("team")],
      target: [
        user("both", ["team", "vpn"]),
        user("ada"),
        user("only", ["vpn"]),
        group("vpn"),
        group("team"),
        user("gone"),
      ],
      owns: [
        ["user", "both"],
        ["user", "gone"],
        ["group", "team"],
      ],
      ownsFromVpn: [
        ["user", "both"],
        ["user", "only"],
        ["group", "vpn"],
      ],
    };
    const { desired, frozen } = await desiredOf({ ...scene, unread: ["vpn"] });
    expect(desired).toEqual([
      'group team "team" []',
      'group vpn "vpn" []',
      'user ada "ada" [team]',
      'user both "both" [team vpn]',
      'user only "only" [vpn]',
    ]);
    expect(frozen).toMatchObject({ unread: 3, unmanaged: 0, quarantined: 0 });
    expect((await desiredOf(scene)).desired).toEqual([
      'group team "team" []',
      'user ada "ada" [team]',
      'user both "changed" []',
    ]);
  });

  test("may have anybody whom nobody knows to come from elsewhere, where everything is managed", async () => {
    const { desired, frozen } = await desiredOf({
      sources: [user("ada")],
      target: [user("ada"), user("unknown"), user("gone"), group("unknown")],
      owns: [["user", "gone"]],
      unread: ["vpn"],
      protection: { manage: "everything" },
    });
    expect(desired).toEqual(['group unknown "unknown" []', 'user ada "ada" []', 'user unknown "unknown" []']);
    expect(frozen).toMatchObject({ unread: 2, quarantined: 0 });
  });

  test("does not make a second principal of a record that was renamed meanwhile", async () => {
    const scene: Scene = { sources: [user("new")], target: [user("old")], ownsFromVpn: [["user", "old"]] };
    const ledgered = { ...scene, unread: ["vpn"] };
    expect((await desiredOf(ledgered)).desired).toEqual(['user new "new" []', 'user old "old" []']);
    await connection().run("UPDATE assembled SET source_id = 'person'");
    await connection().run("INSERT INTO ledger VALUES ('user', 'old', 'hr', 'person')");
    await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: [] }, ["vpn"]);
    await combine(connection(), serviceAttributes);
    expect(await connection().rows("SELECT name FROM desired")).toEqual([{ name: "old" }]);
  });

  test("takes nobody away whose record was another principal's", async () => {
    const scene: Scene = { sources: [user("new")], target: [user("old"), user("new")], ownsFromVpn: [["user", "old"]] };
    await desiredOf(scene);
    await connection().run("INSERT INTO ledger VALUES ('user', 'old', 'hr', 'new#'), ('user', 'new', 'phones', '7')");
    await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: [] }, ["vpn"]);
    await combine(connection(), serviceAttributes);
    expect(await connection().rows("SELECT name FROM desired ORDER BY name")).toEqual([
      { name: "new" },
      { name: "old" },
    ]);
  });
});

describe("quarantine: unknown is not absent", () => {
  test("no second principal is made of a record whose principal is in doubt under its earlier name", async () => {
    const scene: Scene = { sources: [user("new")], target: [user("old")], owns: [["user", "old"]] };
    const doubts: readonly Partial<Scene>[] = [
      { quarantined: [{ kind: "user", name: null, id: "old#" }] },
      { complete: [] },
    ];
    for (const doubt of doubts) {
      await desiredOf({ ...scene, ...doubt });
      await connection().run("INSERT INTO ledger VALUES ('user', 'old', 'phones', 'new#')");
      await connection().run("UPDATE assembled SET source = 'phones'");
      await freeze(connection(), { manage: "owned", makesGroups: true, users: [], groups: [] }, [], doubt.complete);
      await combine(connection(), serviceAttributes);
      expect(await connection().rows("SELECT name FROM desired")).toEqual([{ name: "old" }]);
    }
  });

  test("a principal whose record is in doubt stays, found by its name or by what the ledger knows of its record", async () => {
    const { desired, frozen } = await desiredOf({
      sources: [],
      target: [user("double"), user("nameless"), user("gone")],
      owns: [
        ["user", "double"],
        ["user", "nameless"],
        ["user", "gone"],
      ],
      quarantined: [
        { kind: "user", name: "double", id: "7" },
        { kind: "user", name: null, id: "nameless#" },
      ],
      protection: { manage: "everything" },
    });
    expect(desired).toEqual(['user double "double" []', 'user nameless "nameless" []']);
    expect(frozen.quarantined).toBe(2);
  });

  test("a record whose id hides a character is in doubt, unless the one without it is there, too", async () => {
    const scene = {
      target: [user("ada"), user("bob")],
      owns: [
        ["user", "ada"],
        ["user", "bob"],
      ],
      quarantined: [{ kind: "user", name: null, id: "ada\u{AD}#" }],
    } as const;
    const { desired, frozen } = await desiredOf({ ...scene, sources: [] });
    expect(desired).toEqual(['user ada "ada" []']);
    expect(frozen.quarantined).toBe(1);
    const both = await desiredOf({ ...scene, sources: [user("ada", [], "Ada")] });
    expect(both.desired).toEqual(['user ada "Ada" []']);
  });

  test("members of a quarantined group stay in it", async () => {
    const { desired } = await desiredOf({
      sources: [user("ada")],
      target: [user("ada", ["ops"]), group("ops")],
      owns: [["group", "ops"]],
      quarantined: [{ kind: "group", name: "ops", id: "9" }],
    });
    expect(desired).toEqual(['group ops "ops" []', 'user ada "ada" [ops]']);
  });
});

test("a group that a rule adds must exist in the sources or in the target; the error names the group and the record", async () => {
  await expect(
    desiredOf({ sources: [user("ada", ["typo"]), user("bob", ["typo"])], target: [] }),
  ).rejects.toMatchObject({
    problems: [
      "group typo: user ada (people.csv:2) and 1 more",
      expect.stringMatching(/`staticGroups`.*`groupsFromRules: create`.*in the target/),
    ],
  });
});

test("an address that is given at creation alone is the mail of who is there as the target has it", async () => {
  const declared = (onlyAtCreation?: true): Attributes =>
    new Attributes([
      { name: "userName", type: "text", kind: "user", isName: "user" },
      { name: "mail", type: "text", kind: "user" },
      { name: "workMail", type: "text", kind: "user", besides: "mail", onlyAtCreation },
    ]);
  const mailOf = async (attributes: Attributes) => {
    const person = (name: string, rest: object): Principal => ({ kind: "user", name, groupNames: [], ...rest });
    const sources = [person("ada", { workMail: "new@x" }), person("bob", { workMail: "bob@x" })];
    const target = [person("ada", { mail: "old@x", workMail: "old@x" })];
    return (await desiredOf({ sources, target, owns: [["user", "ada"]], attributes })).mail;
  };
  expect(await mailOf(declared(true))).toEqual({ ada: "old@x", bob: "bob@x" });
  expect(await mailOf(declared())).toEqual({ ada: "new@x", bob: "bob@x" });
});
