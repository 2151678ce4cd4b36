import type { OpenContext, ReadContext } from "./connector.ts";
import { IncompleteReadError } from "./errors.ts";
import type { Entry, SourceRecord } from "#principals/entry.ts";
import { formatNumber } from "./text.ts";

/* What connectors share to prove that a read delivered everything: batches, and counts of records and of their values. */

/** Groups may have thousands of members each, so a batch also ends at so many references to groups and members. */
const longestBatch = { records: 1_000, references: 10_000 };

/** Regroups records, however few or many come at a time, into batches of about a thousand. */
export async function* inBatches(
  records: AsyncIterable<readonly SourceRecord[]> | Iterable<readonly SourceRecord[]>,
): AsyncGenerator<readonly SourceRecord[]> {
  let batch: SourceRecord[] = [];
  let references = 0;
  for await (const some of records) {
    for (const record of some) {
      batch.push(record);
      references += record.kind === "membership" ? 1 : record.memberOf.length + record.members.length;
      if (batch.length < longestBatch.records && references < longestBatch.references) continue;
      yield batch;
      batch = [];
      references = 0;
    }
  }
  if (batch.length > 0) yield batch;
}

/** What fewer records have may well become empty. */
const fewValues = 10;

/** How many records of a kind have a value of each attribute that rules read. */
export interface ValueCounts {
  add(entry: Entry): void;
  /** How many had one at the last good read; 0 for attributes that may be empty. */
  before(name: string): number;
  /** The attributes that no record has, and did not at the last good read; without those that may be empty. */
  unknown(): readonly string[];
  /** Reports the counts. @returns the attributes that no record has any more */
  end(): readonly string[];
}

/**
 * Counts values, since a source that no longer shows an attribute reads like one in which everybody's is empty: a column
 * that was renamed, an account that lost a right.
 * @param names the attributes to count, as rules write them
 * @param optional those that may be empty all at once
 */
export function countValues(
  kind: Entry["kind"],
  names: Iterable<string>,
  { lastCounts = {}, count }: Pick<ReadContext, "lastCounts" | "count">,
  optional: ReadonlySet<string> = new Set(),
): ValueCounts {
  const all = [...new Set(names)];
  // For every record: a map from names would take longer than all else here.
  const counts = new Float64Array(all.length);
  const title = (name: string): string => `${kind}s with ${name}`;
  const before = (name: string): number => (optional.has(name) ? 0 : (lastCounts[title(name)] ?? 0));
  return {
    before,
    unknown: () => all.filter((name, index) => counts[index] === 0 && before(name) === 0 && !optional.has(name)),
    add: (entry) => {
      if (entry.kind !== kind) return;
      for (let index = 0; index < all.length; index++)
        if (Object.hasOwn(entry.attributes, all[index] ?? "")) counts[index] = (counts[index] ?? 0) + 1;
    },
    end: () => {
      for (const [index, name] of all.entries()) count?.(title(name), counts[index] ?? 0);
      return all.filter((name, index) => counts[index] === 0 && before(name) >= fewValues);
    },
  };
}

/** Among so many records, at least one should have an attribute that rules read: it may be misspelled, or hidden from the account. */
export function warnOfUnknown(
  values: ValueCounts,
  { subject, kind, count }: { readonly subject: string; readonly kind: Entry["kind"]; readonly count: number },
  { required, warn }: Pick<ReadContext, "required" | "warn">,
): void {
  if (count < fewValues) return;
  const names = values.unknown().filter((name) => required?.[`${kind}s`].includes(name) === true);
  if (names.length === 0) return;
  const shown = names.map((name) => `entry.${name}`).join(", ");
  warn(
    `${subject}: no ${kind} has ${shown}, which the rules read: check how it is spelled, and that the account may read it; if it is right, list it under ${kind}s.optionalAttributes`,
  );
}

/** What a read of a server delivers, and reports as counted. */
const countNames = ["users", "groups", "memberships"] as const;

/** The fewest there must be, and which attributes may be missing everywhere; as the configuration says. */
export interface EnoughOptions {
  readonly minUsers?: number | undefined;
  readonly minGroups?: number | undefined;
  readonly minMemberships?: number | undefined;
  readonly users: { readonly optionalAttributes?: readonly string[] | undefined };
  /** Absent or false: groups are not read. */
  readonly groups?: { readonly optionalAttributes?: readonly string[] | undefined } | false | undefined;
}

/**
 * Counts what a server delivers, since one that lost sight of something says so by success and less. Where the
 * configuration does not say how much there is at least, the last good read does: one, and of 20 or more the half.
 */
export class Enough {
  readonly #options: EnoughOptions;
  readonly #subject: string;
  readonly #context: ReadContext;
  readonly #values: readonly (readonly [Entry["kind"], ValueCounts])[];
  readonly #hint: string;
  readonly #counts = { users: 0, groups: 0, memberships: 0 };

  /** @param subject for messages: `source corp`; hint: what to do when no group has a member, before the setting */
  constructor(options: EnoughOptions, subject: string, context: ReadContext, hint = "") {
    this.#options = options;
    this.#subject = subject;
    this.#context = context;
    this.#hint = hint;
    const values = (kind: Entry["kind"], optional: readonly string[] = []): ValueCounts => {
      const names = [context.required, context.attributes].flatMap((wanted) => wanted?.[`${kind}s`] ?? []);
      return countValues(kind, names, context, new Set(optional));
    };
    const { users, groups } = options;
    this.#values = [
      ["user", values("user", users.optionalAttributes)],
      ...(groups === undefined || groups === false
        ? []
        : [["group", values("group", groups.optionalAttributes)] as const]),
    ];
  }

  /**
   * What a read delivers, counted and regrouped page by page: the next page may take long, or fail.
   * @param hint what to do when no group has a member, before the setting
   * @throws {IncompleteReadError} as `end` does, at the end
   */
  static async *check(
    delivered: AsyncIterable<readonly SourceRecord[]>,
    options: EnoughOptions,
    { name }: Pick<OpenContext, "name">,
    context: ReadContext,
    hint = "",
  ): AsyncGenerator<readonly SourceRecord[]> {
    const enough = new Enough(options, `source ${name}`, context, hint);
    for await (const records of delivered) {
      for (const record of records) enough.add(record);
      yield* inBatches([records]);
    }
    enough.end();
  }

  add(record: SourceRecord): void {
    if (record.kind === "membership") {
      this.#counts.memberships++;
      return;
    }
    this.#counts[`${record.kind}s`]++;
    this.#counts.memberships += record.members.length + record.memberOf.length;
    for (const [, each] of this.#values) each.add(record);
  }

  /**
   * Reports the counts.
   * @throws {IncompleteReadError} there is less, or an attribute that rules read has no value any more
   */
  end(): void {
    for (const name of countNames) this.#assertCount(name);
    for (const [kind, each] of this.#values) {
      warnOfUnknown(each, { subject: this.#subject, kind, count: this.#counts[`${kind}s`] }, this.#context);
      const [name] = each.end();
      if (name === undefined) continue;
      throw new IncompleteReadError(
        `${this.#subject}: no record has entry.${name}, and ${formatNumber(each.before(name))} had it at the last good read; if no record has it, list it under optionalAttributes`,
      );
    }
    for (const name of countNames) this.#context.count?.(name, this.#counts[name]);
  }

  #assertCount(name: (typeof countNames)[number]): void {
    const setting = { users: "minUsers", groups: "minGroups", memberships: "minMemberships" } as const;
    const configured = this.#options[setting[name]];
    const hasGroups = this.#counts.groups > 0;
    // Without groups, and that is right, nobody can be in one.
    if (name === "memberships" && !hasGroups && configured === undefined) return;
    const found = this.#counts[name];
    const before = this.#context.lastCounts?.[name] ?? 0;
    const first = { users: 1, groups: 0, memberships: hasGroups ? 1 : 0 };
    const half = before < fewEnough ? Math.min(before, 1) : Math.ceil(before / 2);
    if (found >= (configured ?? Math.max(first[name], half))) return;
    const problem = (text: string): never => {
      throw new IncompleteReadError(`${this.#subject}: ${text}`);
    };
    if (configured !== undefined)
      problem(`${formatNumber(found)} ${name}, expected at least ${configured} (${setting[name]})`);
    if (before > 0)
      problem(
        `${formatNumber(found)} ${name}, and ${formatNumber(before)} at the last good read; if that is right, set ${setting[name]}: ${found}`,
      );
    if (name === "users") problem(`${formatNumber(found)} users, expected at least 1 (minUsers)`);
    problem(
      `no group has a member, and no user is in a group; ${this.#hint}if all groups are empty, set minMemberships: 0`,
    );
  }
}

/** Below this, half of them may well leave at a time. */
const fewEnough = 20;
