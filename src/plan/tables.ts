import type { Attributes } from "#principals/attributes.ts";
import { assembledOf, assembledTables } from "#principals/tables.ts";

const identity = "kind VARCHAR, name VARCHAR";
const origin = `${identity}, source VARCHAR, source_id VARCHAR`;
const change = `action VARCHAR, ${identity}`;
const foreign = `${identity}, type VARCHAR, group_names VARCHAR[], json VARCHAR`;

/**
 * The relations that a plan is made of in the workbench, in the order they are made, but for those of principals, which are
 * in `tablesOf`; the tables inside `assemble` are in principals/tables.ts. A test holds them to these columns.
 */
export const tables = {
  /** What the sync owns in the target, by the records' ids. Made by `Ledger.open`, read by every step of planning. */
  ledger: origin,
  /** Principals that earlier runs missed in the sources, and since when (epoch milliseconds). Made by `Ledger.open`, read by `depart`. */
  leaving_since: `${identity}, since BIGINT`,

  /** What the other syncs of the configuration own in the target. Made by `Ledger.open`, read by `freeze`. */
  owned_by_others: identity,
  /** What syncs that the configuration no longer has own in the target. Made by `Ledger.open`, read by `ownedBefore`. */
  owned_before: `${identity}, sync VARCHAR`,
  /** Memberships that the last applied run left, and that the sync has not given. Made by `Ledger.open`, read by `findByHand`. */
  by_hand: `${identity}, grp VARCHAR`,
  /** How many members each group has lost in the last 24 hours. Made by `Ledger.open`, read by `measure`. */
  lost_recently: "name VARCHAR, lost BIGINT",

  // Made by `assemble`, read by every step of planning and by the ledger.
  ...assembledTables,

  /**
   * Principals of other types in the target, as it lists them: `kind` is what their type ends with, NULL where that is
   * neither. Made by `readPrincipals`, read by `freeze`, `depart`, `combine`, notes and `writePrincipals`.
   */
  actual_foreign: foreign,
  /** The target's own fields of users and groups, as members of a JSON object. Made by `readPrincipals`, read by `writePrincipals`. */
  actual_extra: `${identity}, fields VARCHAR`,

  /** What is in the target and not in the sources. Made by `freeze`, read by `depart`. */
  absent: identity,
  /** Principals that keep the target's state, and why. Made by `freeze`, extended by `depart`, read by `combine`, limits and notes. */
  frozen: `${identity}, reason VARCHAR`,
  /** What another sync owns, too, and decides about now. Made by `freeze`, read by `combine`. */
  given_up: identity,
  /** Principals of the sources that are neither created nor changed. Made by `freeze`, extended by `depart`, read by `combine`. */
  held_back: identity,
  /** The renames that are applied. Made by `freeze`, filled by `depart`, read by `combine`. */
  renamed: "kind VARCHAR, was VARCHAR, becomes VARCHAR",

  /** New names of principals that stay themselves in the target. Made by `renameInPlace`, stored with plans. */
  renamed_in_place: "kind VARCHAR, was VARCHAR, becomes VARCHAR, source VARCHAR, source_id VARCHAR",

  /** All records that principals are made of. A view, made by `findRenames`, read by it and the ledger. */
  assembled_origin: origin,
  /** Records in the ledger whose principal is no longer made of them. `findRenames` only. */
  unmatched: origin,
  /** The part of it whose principal nothing else keeps as it is. `findRenames` only. */
  strayed: origin,
  /** Records whose principal has a new name, `becomes`. Made by `findRenames`, read by `holdRenames`. */
  move: "kind VARCHAR, was VARCHAR, becomes VARCHAR, source VARCHAR, source_id VARCHAR",
  /** Names that another record of the same source has now. Made by `findRenames`, read by `holdRenames`. */
  reused: `${identity}, source VARCHAR, was_id VARCHAR, is_id VARCHAR`,
  /**
   * Held names of which only the ids of their records have changed. Made by `findRenames`, filled by `holdRenames`, read by
   * `createPlan` and `adoptNames`.
   */
  adoptable: `${identity}, source VARCHAR, was_id VARCHAR, is_id VARCHAR`,
  /** Principals that would leave the target. Made by `depart`, read by it and `holdRenames`. */
  doomed: identity,
  /** The rows of `move` whose old name nobody has any more. `holdRenames` only. */
  rename: "kind VARCHAR, was VARCHAR, becomes VARCHAR, source VARCHAR, source_id VARCHAR",
  /** Everyone whose name depends on one that is held. `holdRenames` only. */
  held_name: `${identity}, reason VARCHAR`,
  /** Principals missing in the sources, and since when (epoch milliseconds). Made by `depart`, read by notes and the ledger. */
  gone: `${identity}, since BIGINT`,

  /** Those of them that are suspended by now, where the target can suspend. Made by `depart`, read by `combine` and `findCauses`. */
  suspended: identity,

  /** Memberships of the target that the sources do not say, in groups of the sync where they may stay. `findByHand` only. */
  extra_membership: `${identity}, grp VARCHAR`,
  /** Memberships that somebody added. Made by `freeze`, filled by `findByHand`, read by `keepOccupied` and `combine`. */
  added_by_hand: `${identity}, grp VARCHAR`,
  /** The added memberships that stay. Made by `combine`, read by notes, `explain` and the ledger. */
  kept_by_hand: `${identity}, grp VARCHAR`,

  /** The names of the groups that there will be. `combine` only. */
  remaining_group: "name VARCHAR",
  /** The groups that nobody joins. `combine` only. */
  protected_group: "name VARCHAR",
  /** Memberships in `wanted` that nobody gets, because the group is protected or there is none. `combine` only. */
  odd_membership: `${identity}, g VARCHAR, is_protected BOOLEAN`,
  /** What of it the sync decides on. Made by `combine`, narrowed with `desired`, read by the ledger. */
  managed: identity,

  /** Principals that differ. Made by `createPlan`, read by limits and selection. */
  changes: change,
  /** The ids of the causes of each change. Made by `createPlan`, filled by `findCauses`. */
  change_cause: `${identity}, causes VARCHAR[]`,

  /**
   * The groups that stay and lose members: how many they have, how many of those who stay leave them now and did in the 24
   * hours before, how many they will have, and whether that is more than a group may lose. Made by `measure`,
   * read by `withhold` and the ledger.
   */
  group_loss: "name VARCHAR, members BIGINT, lost BIGINT, earlier BIGINT, remaining BIGINT, beyond BOOLEAN",

  /** Changes that are left out of a plan, with those that depend on them. `narrow` only. */
  excluded: identity,
  /** Principals that are not created after all. Made by SQL of `uncreate`, for `withhold` and `narrow`. */
  uncreated: identity,
  /** Members that emptied groups get back, and the groups that these were in. `withhold` only. */
  returned: identity,

  /** The only principals that a run is about. `narrowTo` only. */
  chosen: identity,
  /** Groups that the chosen would be in, and that are not there. `narrowTo` only. */
  lost_group: "name VARCHAR, members BIGINT",

  /** What of a plan is not applied with the rest: limits or a selection leave it out. Made before they do, read by `storeBaseline`. */
  left_out: identity,
  /** The parts of changes that take back what somebody changed in the target. Made by `findCauses`, read by `leaveDrift` and `planFromStore`. */
  drift_item: `${change}, aspect VARCHAR, grp VARCHAR`,
  /** Drift that stays. Made by `leaveDrift`, read by `storeBaseline`. */
  drift_left: `${change}, aspect VARCHAR, grp VARCHAR, is_ignored BOOLEAN`,
  /** The records that the last applied run read, as in `record`; `scope` may be `left out`. Made by `loadBaseline`, read by `findCauses`. */
  baseline_record: assembledTables.record,
  /** The memberships that rules made then. Made by `loadBaseline`, read by `findCauses`. */
  baseline_membership: "kind VARCHAR, name VARCHAR, grp VARCHAR",

  /** Records whose absence from a read is looked into. `refuseTorn` only. */
  suspect: `source VARCHAR, kind VARCHAR, source_id VARCHAR, name VARCHAR, leaves BOOLEAN`,

  /** The service's answer to the list that was sent. Made by `readSyncAnswer`, read by `compareOpinions`. */
  opinion: change,
  /** Principals of other types in `arrived`. Made by `readPrincipals`, read by the verification. */
  arrived_foreign: foreign,
  /** Its fields of its own. Made by `readPrincipals`, read by `storeLastList`. */
  arrived_extra: `${identity}, fields VARCHAR`,
  /** What did not arrive. Made by `createChanges`, read by the verification. */
  missing: change,
  /** Planned creates and deletes that were refused, or not tried. Made by the verification, or by the recovery of a run; stored with plans. */
  unwritten: change,
} as const satisfies Record<string, string>;

/** Every relation of the workbench, with the attributes that the target declares. */
export function tablesOf(attributes: Attributes) {
  const assembled = assembledOf(attributes);
  return {
    ...tables,
    ...assembled,
    /** The target as it is. Made by `readPrincipals`, read by every step of planning. */
    actual: attributes.ddl,
    /** Groups that rules make no more and somebody is still in. `keepOccupied` only. */
    occupied: attributes.ddl,
    /** What the sources want of users and groups that are neither frozen nor held back. A view. `combine` only. */
    wanted: assembled.assembled,
    /** The target as it will be: the list that is sent. Made by `combine`, narrowed by `withhold` and `narrow`. */
    desired: attributes.ddl,
    /** Principals that differ between `actual` and `desired`, with both sides; NULL where a side has none. `createPlan` only. */
    change_pair: `${change}, before ${attributes.side}, after ${attributes.side}`,
    /** The same with both sides and causes. A view, made by `createPlan` or `openStored`, read by `Plan.changes`. */
    change_sides: `${change}, before ${attributes.side}, after ${attributes.side}, causes VARCHAR[]`,
    /** Principals that are not deleted after all. Made by SQL of `restore`, for `withhold` and `narrow`. */
    restored: attributes.ddl,
    /** The principals of `drift_left` as the sources want them. Made by `leaveDrift`, read by `storeBaseline`. */
    drift_wanted: attributes.ddl,
    /** The target as the last applied run left it. Made by `loadBaseline`, read by `findCauses`. */
    baseline_target: attributes.ddl,
    /** The target after applying. Made by `readPrincipals`, read by the verification. */
    arrived: attributes.ddl,
  } as const satisfies Record<string, string>;
}

/** A relation with `Attributes.relation`. `principals` is the one of an export. */
export type PrincipalTable = "actual" | "desired" | "arrived" | "principals";

/** A relation `(action, kind, name)`. */
export type ChangeTable = "changes" | "opinion" | "missing";
