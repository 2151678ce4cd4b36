import { anySpelling } from "#principals/principal.ts";
import { takenNames } from "#plan/carried.ts";
import { actionBetween, changeOf } from "#plan/change.ts";
import type { Action, Change } from "#plan/change.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { principalOf } from "#plan/diff.ts";
import type { PrincipalRow } from "#plan/diff.ts";
import { patternMatching } from "#plan/patterns.ts";
import type { Subject } from "#plan/selection.ts";
import { stageTimes, stageWords } from "#plan/stages.ts";
import type { StageTimes } from "#plan/stages.ts";
import type { Kind, Principal } from "#principals/principal.ts";
import { ruleSource } from "#principals/tables.ts";
import { principalsCalled } from "#sync/planning/people.ts";
import type { Sync } from "#sync/sync.ts";
import type { Wait } from "./waits.ts";

/** What a run would do with one principal, and why. */
export interface Outcome {
  readonly kind: Kind;
  readonly name: string;
  /** `nothing`: it stays as it is, or does not exist and is not created. */
  readonly action: Action | "nothing";
  readonly why: string;
  /** The principal in the target. */
  readonly actual?: Principal;
  readonly change?: Change;
  /** The records that it was made of, by the ledger. If there are any, this sync owns it. */
  readonly ownedFrom: readonly { readonly source: string; readonly sourceId: string }[];
  /** For each group that it will be in, also through other groups: the shortest path, beginning with a direct membership. */
  readonly groups: readonly (readonly string[])[];
  /** The expectations that it breaks once the plan is applied. Absent: none. */
  readonly breaks?: readonly ExpectationCheck[] | undefined;
  /** The groups among them that somebody added it to by hand, where it stays. */
  readonly byHand: readonly string[];
  /** Why the change waits. Empty: the next run makes it, or there is no change. */
  readonly waits: readonly Wait[];
}

/**
 * The outcomes of the principals (of the kind `only`, if there is one) with that name, mail or display name, in the sources or in
 * the target, and of `names`.
 * Runs after `makeDesired`.
 */
export async function outcomesOf(
  connection: Connection,
  sync: Sync,
  {
    wanted,
    only,
    names,
    limit,
  }: {
    readonly wanted: string;
    readonly only?: Kind | undefined;
    readonly names: readonly Subject[];
    readonly limit: number;
  },
): Promise<Outcome[]> {
  const called = await principalsCalled(connection, sync.rules.declared, wanted, limit);
  const known = called.filter(({ kind }) => only === undefined || kind === only);
  const subjects = new Map([...names, ...known].map((subject) => [JSON.stringify(subject), subject]));
  const outcomes: Outcome[] = [];
  for (const { kind, name } of subjects.values()) outcomes.push(await outcomeOf(connection, sync, { kind, name }));
  return outcomes;
}

/** A principal of the target of another type than the interface's two. */
export interface ForeignPrincipal {
  readonly type: string;
  readonly name: string;
  readonly groups: readonly string[];
}

/** The principals of other types with that name. */
export async function foreignCalled(connection: Connection, wanted: string): Promise<ForeignPrincipal[]> {
  return connection.rows(`
    SELECT type, name, group_names AS groups FROM actual_foreign
    WHERE ${anySpelling("name")} = ${anySpelling(literal(wanted))} ORDER BY ALL LIMIT 20`);
}

async function outcomeOf(connection: Connection, sync: Sync, subject: Subject): Promise<Outcome> {
  const { kind, name } = subject;
  const of = <Row extends object>(table: string, columns = "*"): Promise<Row[]> =>
    connection.rows<Row>(`SELECT ${columns} FROM ${table} WHERE kind = ? AND name = ?`, [kind, name]);
  const { action, actual, desired, change } = await differenceOf(connection, subject);
  const [frozen] = await of<{ reason: string }>("frozen");
  const [assembled] = await of<{ origin: string; source: string }>("assembled");
  const [heldBack] = await of<object>("held_back");
  const [gone] = frozen?.reason === "leaving" ? await of<{ since: bigint }>("gone", "since") : [];
  const [taken] = await connection.rows<{ type: string }>(
    `SELECT type FROM ${takenNames} WHERE kind = ? AND name = ?`,
    [kind, name],
  );
  const quarantined = await of<{ reason: string; origin: string }>("quarantined");
  const ownedFrom = await of<{ source: string; sourceId: string }>("ledger", 'source, source_id AS "sourceId"');
  const why = reasonOf(sync, subject, {
    frozen: frozen?.reason,
    origin: assembled?.origin,
    isFromRules: assembled?.source === ruleSource,
    quarantined: quarantined.map(({ origin, reason }) => `${origin}: ${reason}`),
    isOwned: ownedFrom.length > 0,
    inTarget: actual !== undefined,
    isHeldBack: heldBack !== undefined,
    takenAs: taken?.type,
    isSuspended: actual?.["active"] === false,
    stage: gone && stageTimes(sync.departures, kind, Number(gone.since)),
  });
  return {
    kind,
    name,
    action,
    why,
    actual,
    change,
    ownedFrom,
    byHand: (await of<{ grp: string }>("kept_by_hand", "grp")).map(({ grp }) => grp).sort(),
    groups: await pathsToGroups(connection, "desired", desired?.groupNames ?? []),
    waits: [],
  };
}

/** The two sides of a principal and their difference. */
interface Difference {
  readonly action: Outcome["action"];
  readonly actual?: Principal;
  readonly desired?: Principal;
  readonly change?: Change;
}

/** Compares a principal in the tables `actual` and `desired`, as they are now. */
export async function differenceOf(connection: Connection, { kind, name }: Subject): Promise<Difference> {
  const of = async (table: "actual" | "desired"): Promise<Principal | undefined> => {
    const sql = `SELECT * FROM ${table} WHERE kind = ? AND name = ?`;
    const [row] = await connection.rows<PrincipalRow>(sql, [kind, name]);
    return row === undefined ? undefined : principalOf(kind, row);
  };
  const [actual, desired] = [await of("actual"), await of("desired")];
  const sides = { actual, desired };
  if (actual === undefined && desired === undefined) return { action: "nothing" };
  const action = actionBetween(actual, desired);
  const change = changeOf(action, actual, desired);
  const isSame = change.attributes.length + change.groupsAdded.length + change.groupsRemoved.length === 0;
  return action === "update" && isSame ? { action: "nothing", ...sides } : { action, ...sides, change };
}

interface Circumstances {
  readonly frozen: string | undefined;
  /** The origin of the record that makes it. */
  readonly origin: string | undefined;
  /** Rules make it, and no record does. */
  readonly isFromRules: boolean;
  readonly quarantined: readonly string[];
  readonly isOwned: boolean;
  readonly inTarget: boolean;
  readonly isHeldBack: boolean;
  /** The other type that the target has its name as. */
  readonly takenAs: string | undefined;
  /** In the target, it is not active. */
  readonly isSuspended: boolean;
  /** What becomes of it, if it is leaving. */
  readonly stage: StageTimes | undefined;
}

/** By the reason it is frozen for. */
const stays: Readonly<Record<string, string>> = {
  administrator: "it has no record any more, but administrators are never deleted",
  "last member": "it has no record any more, but without it a protected group would be empty: it is not deleted",
  "foreign member": "it has no record any more, but a principal of another type is in it: it is not deleted",
  renamed: "its record has another name now; it keeps the old one for now (renames)",
  reused: "its name belongs to another person's record now; it stays unchanged (reusedNames)",
};

function reasonOf(sync: Sync, { kind, name }: Subject, circumstances: Circumstances): string {
  const { frozen, origin, quarantined, isOwned, inTarget } = circumstances;
  const { users, groups, ignoresCase } = sync.protection;
  const pattern = patternMatching(name, kind === "user" ? users : groups, ignoresCase);
  if (pattern !== undefined) {
    const how = pattern === name ? "its name is protected" : `its name is protected (${pattern})`;
    return inTarget ? `${how}: it is never touched` : `${how}: it is not created`;
  }
  const doubt = quarantined.length === 0 ? "a record that may be it is quarantined" : quarantined.join("; ");
  if (frozen === "quarantined") return `it stays unchanged while in doubt: ${doubt}`;
  if (frozen === "unread") return "it stays unchanged: a source that it may come from could not be read";
  if (frozen === "awaited")
    return "it stays unchanged: no record makes it yet, and providers are still pushing everybody for the first time";
  const staying = frozen === undefined ? undefined : stays[frozen];
  if (frozen === "leaving")
    return `it has no record any more; ${circumstances.stage === undefined ? "it leaves on the day that deletions.after says" : stageWords(circumstances.stage, circumstances.isSuspended)}`;
  if (staying !== undefined) return staying;
  if (circumstances.takenAs !== undefined)
    return `it is not created: the target has that name as ${circumstances.takenAs}, which this sync does not manage`;
  if (frozen === "unmanaged" && origin !== undefined)
    return `it is left alone: another sync owns it, and a record has its name (${origin})`;
  if (circumstances.isHeldBack)
    return "it is not created: its record has another name in the target, which stays for now";
  if (frozen === "unmanaged") {
    return kind === "group" && !sync.protection.makesGroups
      ? "it is left alone: this sync has no rules for groups"
      : "it is left alone: no record makes it, and this sync neither created nor adopted it";
  }
  if (quarantined.length > 0) return `it is not created while in doubt: ${doubt}`;
  if (origin === undefined) {
    if (!inTarget) return "no record makes it, and the target does not have it";
    return isOwned
      ? "it has no record any more, and this sync owns it"
      : "no record makes it, and this sync manages everything in the target (manage: everything)";
  }
  if (circumstances.isFromRules) {
    const rules = `rules make it (groupsFromRules: ${origin})`;
    return inTarget ? rules : `${rules}, and the target does not have it`;
  }
  if (!inTarget) return `a record makes it (${origin}), and the target does not have it`;
  return `a record makes it (${origin})${isOwned ? "" : "; this sync adopts it"}`;
}

/**
 * The shortest path to each group that somebody is in, beginning with a direct membership; cycles of groups do no harm.
 * @param relation has `Attributes.relation`
 */
export async function pathsToGroups(
  connection: Connection,
  relation: string,
  direct: readonly string[],
): Promise<string[][]> {
  const ways = new Map(direct.map((group) => [group, [group]]));
  let frontier = [...direct];
  while (frontier.length > 0) {
    const rows = await connection.rows<{ name: string; group_names: string[] }>(
      `SELECT name, group_names FROM ${relation} WHERE kind = 'group' AND name IN (${frontier.map(literal).join(", ")}) ORDER BY name`,
    );
    frontier = [];
    for (const { name, group_names: groups } of rows) {
      for (const group of groups) {
        if (ways.has(group)) continue;
        ways.set(group, [...(ways.get(name) ?? [name]), group]);
        frontier.push(group);
      }
    }
  }
  return [...ways.values()];
}
