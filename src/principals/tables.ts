import { ddlOf } from "./attributes.ts";
import type { Attributes } from "./attributes.ts";

/** The source, in rows, of the groups that the configuration itself defines. No real source has this name. */
export const ownSource = "(configuration)";

/** The source, in rows, of the groups that rules make of values. No real source has this name. */
export const ruleSource = "(rules)";

const record = `seq INTEGER, source INTEGER, kind VARCHAR, source_id VARCHAR, origin VARCHAR, join_key VARCHAR,
  reason VARCHAR, attributes VARCHAR`;

/**
 * The temporary tables that records are staged in, while `assemble` runs. `seq` numbers entries, `source` is a place in
 * the list of sources. Excluded entries have no row in `staged_entry`, but their keys are known, without `seq`: so a reference to
 * them is told from one to nobody. What an entry refers to is a JSON list, since a row per reference takes several times
 * as long.
 */
export const stagedTables = {
  /** The sources. Made by `stage`, read by `assemble`. */
  staged_source: "source INTEGER, name VARCHAR",
  /**
   * The entries that are in scope; those with a `reason` are quarantined. `id_is_key`: 1 where the id is the one key of the
   * record. Further columns are its attributes (`Attributes.staged`), and what the rules read of it (`KeptAttributes`). Made by
   * `stage`, read by everything after it.
   */
  staged_entry: `seq INTEGER, source INTEGER, kind VARCHAR, source_id VARCHAR, id_is_key INTEGER, origin VARCHAR, name VARCHAR,
    kept INTEGER, reason VARCHAR`,
  /**
   * Entries that cannot be judged before everything is read: they may be joined, or rules ask for their groups. Further columns as
   * above. Made by `stage`, read by `judgeRaw` and `assemble`.
   */
  staged_raw: record,
  /** Raw entries that share their source and join key, and whether the rules exclude each by itself. `judgeRaw` only. */
  staged_alone: "seq INTEGER, excluded INTEGER",
  /** The further records that an entry was made of. Made by `judgeRaw`, read by `assemble`. */
  joined_record: "seq INTEGER, source INTEGER, kind VARCHAR, source_id VARCHAR, origin VARCHAR",
  /** Entries that the rules leave out, unless they may be joined. Further columns as above. Made by `stage`, read by `assemble`. */
  staged_excluded: "seq INTEGER, source INTEGER, kind VARCHAR, source_id VARCHAR, id_is_key INTEGER",
  /** The source's groups and their names there, NULL where that is not known. Made by `stage`, read by `findGroups`. */
  staged_group: "seq INTEGER, name VARCHAR",
  /** Groups that a rule puts an entry into. Made by `stage`, read by `assemble`. */
  staged_group_name: "member INTEGER, name VARCHAR",
  /** The keys that others refer to an entry by, without those of `id_is_key`: see `entryKeys`. Made by `stage`. */
  staged_key: "source INTEGER, kind VARCHAR, key VARCHAR, seq INTEGER",
  /** The groups that an entry says it is in. Made by `stage`, read by `createLinks`. */
  staged_member_of: "source INTEGER, member INTEGER, group_keys VARCHAR",
  /** The members that a group says it has, by the kind that it names. Made by `stage`, read by `createLinks`. */
  staged_members: "source INTEGER, grp INTEGER, member_kind VARCHAR, member_keys VARCHAR",
  /** Memberships that are records of their own. Made by `stage`, read by `createLinks`. */
  staged_pair: "source INTEGER, group_key VARCHAR, member_kind VARCHAR, member_key VARCHAR, origin VARCHAR",
  /** Memberships that are lines of a file; `line` counts from 1. Made by `stage`, read by `createLinks`. */
  staged_line: "file INTEGER, line INTEGER, group_key VARCHAR, member_key VARCHAR",
  /** These files, and what their lines have in common. Made by `stage`, read by `createLinks`. */
  staged_file: "file INTEGER, name VARCHAR, source INTEGER, member_kind VARCHAR",
} as const;
export type StagedTable = keyof typeof stagedTables;

/** A query of `(source, kind, key, seq)`: the keys that others refer to entries by; of excluded ones without `seq`. */
export const entryKeys = `(
    SELECT source, kind, key, seq FROM staged_key
    UNION ALL
    SELECT source, kind, source_id, seq FROM staged_entry ANTI JOIN staged_raw USING (seq) WHERE id_is_key = 1
    UNION ALL
    SELECT source, kind, source_id, NULL FROM staged_excluded WHERE id_is_key = 1)`;

/** The temporary tables that are made of the staged ones, while `assemble` runs. */
export const assemblyTables = {
  /**
   * Raw entries with the `seq` of the person that each is a record of, and the one that its groups are found by. Made and
   * read by `judgeRaw`.
   */
  person: `${record}, person INTEGER, unit INTEGER, place BIGINT`,
  /** Excluded entries that another one of the same source and join key takes the place of. `judgeRaw` only. */
  superseded: "seq INTEGER",
  /** Join keys that several entries of one source have. Made by `judgeRaw`, read by `holdAmbiguousJoins`. */
  ambiguous_key: "kind VARCHAR, join_key VARCHAR",
  /** The staged records, and the entry that each belongs to. Made by `findGroups`, like all up to `component_above`. */
  identity: "seq INTEGER, kind VARCHAR, person INTEGER",
  /** The records that have a key; `is_shared`: they belong to several entries. */
  key_holder: "source INTEGER, kind VARCHAR, key VARCHAR, seq INTEGER, person INTEGER, is_shared BOOLEAN",
  /** What is said about memberships, a row for each reference. */
  stated: `source INTEGER, member INTEGER, member_key VARCHAR, grp INTEGER, group_key VARCHAR, member_kind VARCHAR`,
  /** Groups that are only mentioned, by a key: `grp` is below zero. */
  mentioned_group: "source INTEGER, key VARCHAR, grp INTEGER",
  /** The groups of the sources, whatever the rules say. */
  source_group: "grp INTEGER, name VARCHAR",
  /** Their direct members: `seq` is the record, `member` the entry. */
  source_membership: "kind VARCHAR, seq INTEGER, member INTEGER, grp INTEGER, is_certain BOOLEAN",
  group_of_group: "member INTEGER, grp INTEGER, is_certain BOOLEAN",
  /** By list of the scope: the groups that count, and the `name` that matches, of the group itself or of one around it. */
  scope_reach: "list INTEGER, name VARCHAR, grp INTEGER, is_certain BOOLEAN",
  /** By list of the scope: the entries in these groups. */
  scope_way: "list INTEGER, seq INTEGER, person INTEGER, name VARCHAR, is_certain BOOLEAN",
  /** The entries that the lists leave out, or may leave out: then with a reason. */
  scope_verdict: "person INTEGER, is_out BOOLEAN, reason VARCHAR",
  /** The names of the groups that entries are directly in, of the kinds whose rules ask. */
  entry_group: "person INTEGER, seq INTEGER, name VARCHAR, is_certain BOOLEAN",
  /** The groups of the sources; `component`: the group itself, or one of those that it is in a cycle with. */
  group_component: "grp INTEGER, component INTEGER, name VARCHAR",
  /** The groups that entries are directly in, of the kinds whose rules ask for those around them. */
  entry_component: "person INTEGER, seq INTEGER, component INTEGER, is_certain BOOLEAN",
  /** The same in a text: `1,2?;1`, where `?` is an uncertain one and `;` separates records. */
  entry_components: "person INTEGER, key VARCHAR",
  component_of_component: "member INTEGER, component INTEGER, is_certain BOOLEAN",
  /** The groups that those of entries are in, themselves included. */
  component_above: "component INTEGER, above INTEGER, is_certain BOOLEAN",
  /** The groups that decided about a record, as JSON. Made by `collectSaid`, read by `assemble`. */
  said_group: "seq INTEGER, said VARCHAR",
  /**
   * The entries that get unique names: `base` is what the rule says, `name` what they get, `reason` why they get none, and
   * `place` their order. This and what follows: made and read by `giveNames`, where a rule `unique` asks for it.
   */
  naming: "seq INTEGER, kind VARCHAR, base VARCHAR, name VARCHAR, reason VARCHAR, place BIGINT",
  /** The names that the sync owns, and the records they are of. */
  owned_name: "kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR",
  /** The names that an entry owns. */
  own_name: "seq INTEGER, kind VARCHAR, base VARCHAR, name VARCHAR, turn BIGINT",
  /** The names that others have in the target, as `taken_name` has them. */
  present_name: "kind VARCHAR, name VARCHAR",
  /** The names that entries keep, and the number that gives them. */
  kept_name: "seq INTEGER, name VARCHAR, number INTEGER",
  /** Those that own no name, and how many share theirs: the name of the rule, as `taken_name` has it. */
  newcomer: "seq INTEGER, kind VARCHAR, name VARCHAR, place BIGINT, sharing BIGINT, turn BIGINT",
  /** The names that are given, or may not be: in lower case where case makes no other name. */
  taken_name: "kind VARCHAR, name VARCHAR",
  /** The names to try next, and those of them that are free. */
  name_candidate: "kind VARCHAR, base VARCHAR, n INTEGER, name VARCHAR",
  free_name: "kind VARCHAR, base VARCHAR, name VARCHAR, turn BIGINT",
  /** Those that still need one, and those that have got one so. */
  unnamed: "seq INTEGER, kind VARCHAR, base VARCHAR, place BIGINT",
  given_name: "seq INTEGER, kind VARCHAR, name VARCHAR",
  /** The entries that are quarantined, a row for each reason. Made in quarantine.ts, read by `assemble`. */
  held: "seq INTEGER, reason VARCHAR",
  /**
   * What each key stands for, by kind: nothing (NULL), the entry's `seq`, 0 where only excluded entries have it, or -1 where
   * several have it. Made and read by `createLinks`.
   */
  key_owner: "source INTEGER, key VARCHAR, user_seq INTEGER, group_seq INTEGER",
  /**
   * A row for each reference: the entries that it connects, numbered as in `key_owner`. `is_listed`: not the member says so. Made by
   * `createLinks`, read by `assemble`.
   */
  link: "source INTEGER, member INTEGER, grp INTEGER, is_listed BOOLEAN",
  /**
   * A row for each reference that connects nothing: `key` is what was looked for, and `state` is NULL (nobody has it), `excluded`
   * or `several`. `origin` is there where a record of its own says so. Made by `createLinks`, read by `assemble`.
   */
  lost_link: `source INTEGER, origin VARCHAR, member INTEGER, grp INTEGER, key VARCHAR, kind VARCHAR, state VARCHAR`,
  /** Keys and lost references that are others without invisible characters. `holdHiddenReferences` only. */
  hidden_key: "source INTEGER, key VARCHAR, meant VARCHAR, shown VARCHAR",
  /** The names of groups in their order, and the entries that count and have them. Made and read by `createPrincipals`. */
  group_place: "seq INTEGER, name VARCHAR, place INTEGER",
  /** Groups that rules would make and cannot describe. Made by `createRuleGroups`, read by `assemble`. */
  held_rule_group: "name VARCHAR, origin VARCHAR, reason VARCHAR",
  /** Names of quarantined groups: memberships in them stay what they are. Made and read by `assemble`. */
  held_group: "name VARCHAR",
  /** `defaultGroups`, without quarantined ones. Made by `assemble`, read by it and `membershipsOf`. */
  default_group: "name VARCHAR",
} as const;

/** What `assemble` makes of the sources' records, and planning reads. */
export const assembledTables = {
  /**
   * The entries in scope of which it is unknown what they become: a rule fails; another entry has the same id or name; a
   * reference may mean this one or another. `name` is NULL when not even that is known.
   */
  quarantined: `kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR, origin VARCHAR, reason VARCHAR`,
  /** The further records that a principal was made of, where several sources are joined. */
  contributor: "kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR",
  /**
   * The records that were read, and what the rules made of them: `scope` is `in`, `excluded`, `unlisted` (by lists of groups)
   * or `quarantined`; `name`, the DN of the entry above it and what the rules read of it as JSON, where that is known.
   * Without causes, the excluded ones alone.
   */
  record: `kind VARCHAR, name VARCHAR, source VARCHAR, source_id VARCHAR, scope VARCHAR, container VARCHAR, attributes VARCHAR`,
  /** The memberships that rules make of an entry's own attributes. Empty without causes. */
  rule_membership: "kind VARCHAR, name VARCHAR, grp VARCHAR",
  /** Keys that nothing in their source has, and the principal whose entry refers to them. */
  lost_reference: "source VARCHAR, key VARCHAR, kind VARCHAR, name VARCHAR",
} as const;

/** The same with the attributes that a target declares. */
export function assembledOf(attributes: Attributes) {
  return {
    /**
     * The principals that the sources and the rules make, and where each is from. `kept` is a sum of `Attributes.bitOf`: the
     * target's value takes the place of the one here, which is for a principal that is created.
     */
    assembled: `${attributes.ddl}, source VARCHAR NOT NULL, source_id VARCHAR NOT NULL, origin VARCHAR NOT NULL,
      kept INTEGER NOT NULL`,
    /** Groups that rules put somebody into and no source has. Made by `createRuleGroups`, read by `addRuleGroups`. */
    rule_group: ["name VARCHAR", ...attributes.of("group").map(ddlOf), "origin VARCHAR"].join(", "),
    ...assembledTables,
  };
}
