import { countValues } from "#completeness.ts";
import type { ValueCounts } from "#completeness.ts";
import type { ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { formatNumber, nfc } from "#text.ts";
import type { GroupsOptions, Options, UsersOptions } from "./options.ts";
import type { Columns } from "./records.ts";

/** Below this, half of them may well leave at a time. */
const fewEnough = 20;

/** Fewer memberships than these may well end at a time. */
const fewReferences = 10;

const parts = ["users", "groups", "memberships"] as const;
type Part = (typeof parts)[number];

/** What a query delivers and what rules read, held against the last good read. */
export class Checks {
  readonly #options: Options;
  readonly #context: ReadContext;
  readonly #place: string;
  readonly #counts = { users: 0, groups: 0, memberships: 0 };
  readonly #references = { users: 0, groups: 0 };
  readonly #values: Readonly<Record<Kind, ValueCounts>>;
  /** The attributes that rules name, by kind. */
  readonly named: Readonly<Record<Kind, readonly string[]>>;

  /** @param place for messages: `hr.example.com:5432/hr` */
  constructor(options: Options, context: ReadContext, place: string) {
    this.#options = options;
    this.#context = context;
    this.#place = place;
    const named = (kind: Kind): readonly string[] =>
      [...(context.required?.[`${kind}s`] ?? []), ...(context.attributes?.[`${kind}s`] ?? [])].map(nfc);
    this.named = { user: named("user"), group: named("group") };
    const values = (kind: Kind): ValueCounts => countValues(kind, this.named[kind], context, this.#optional(kind));
    this.#values = { user: values("user"), group: values("group") };
  }

  /**
   * Asks for the columns that rules read.
   * @throws {InputError} a rule needs a column that the query does not have
   */
  columns(kind: Kind, columns: Columns): void {
    const mapped = new Set(Object.keys(this.#part(kind)?.columns ?? {}).map(nfc));
    const isMapped = mapped.size > 0;
    for (const name of this.named[kind]) {
      if (this.#optional(kind).has(name) || (isMapped ? mapped.has(name) : columns.has(name))) continue;
      const had = this.#values[kind].before(name);
      if (this.#context.required?.[`${kind}s`].map(nfc).includes(name) !== true && had === 0) continue;
      const why = had > 0 ? `, and ${formatNumber(had)} ${kind}s had a value there at the last good read` : "";
      throw new InputError(
        `${columns.place}: no column gives entry.${name}, which a rule reads${why}; ${columns.hint(name)}; ${advice}`,
      );
    }
  }

  add(record: SourceRecord): void {
    const part = `${record.kind}s` as const;
    this.#counts[part] += 1;
    if (record.kind === "membership") return;
    this.#references[`${record.kind}s`] += record.memberOf.length + record.members.length;
    this.#values[record.kind].add(record);
  }

  /**
   * Reports what was counted.
   * @throws {IncompleteReadError} there is less than configured, or than the last good read makes likely
   */
  end(): void {
    for (const part of parts) this.#assertRows(part);
    for (const kind of ["user", "group"] as const) this.#assertValues(kind);
    for (const part of parts) if (this.#options[part]) this.#context.count?.(part, this.#counts[part]);
  }

  #assertRows(part: Part): void {
    const options = this.#options[part];
    if (options === undefined) return;
    const found = this.#counts[part];
    const before = this.#context.lastCounts?.[part] ?? 0;
    const least = options.minRows ?? (before < fewEnough ? 1 : Math.ceil(before / 2));
    if (found >= least) return;
    const isLess = options.minRows === undefined && before > 0;
    const expected = isLess
      ? `and ${formatNumber(before)} at the last good read; if that is right, set minRows: ${found}`
      : `expected at least ${least} (minRows)`;
    throw new IncompleteReadError(`${this.#place}, ${part}: the query has ${formatNumber(found)} rows, ${expected}`);
  }

  #assertValues(kind: Kind): void {
    const options = this.#part(kind);
    if (options === undefined) return;
    const [name] = this.#values[kind].end();
    if (name !== undefined)
      throw new IncompleteReadError(
        `${this.#place}: entry.${name} is empty for all ${kind}s, and ${formatNumber(this.#values[kind].before(name))} had a value there at the last good read; ${advice}`,
      );
    const members = "members" in options ? options.members?.column : undefined;
    const columns = [options.memberOf?.column, members].filter((column) => column !== undefined);
    if (columns.length === 0) return;
    const title = `memberships of ${kind}s`;
    const before = this.#context.lastCounts?.[title] ?? 0;
    const found = this.#references[`${kind}s`];
    if (found === 0 && before >= fewReferences && !columns.some((column) => this.#optional(kind).has(nfc(column))))
      throw new IncompleteReadError(
        `${this.#place}: the ${kind}s have no memberships (${columns.join(", ")}), and ${formatNumber(before)} at the last good read; ${advice}`,
      );
    this.#context.count?.(title, found);
  }

  #part(kind: Kind): UsersOptions | GroupsOptions | undefined {
    return kind === "user" ? this.#options.users : this.#options.groups;
  }

  #optional(kind: Kind): ReadonlySet<string> {
    return new Set(this.#part(kind)?.optionalColumns?.map(nfc));
  }
}

const advice = "if the query may be without it, list it under optionalColumns";
