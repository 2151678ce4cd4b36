import { countValues } from "#completeness.ts";
import type { ValueCounts } from "#completeness.ts";
import type { Entry, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { formatNumber, lettersOf, nearest, nfc } from "#text.ts";
import { resembling } from "./header.ts";
import type { Column, Header } from "./header.ts";
import type { GroupsOptions, UsersOptions } from "./options.ts";

/** Fewer memberships than these may well end at a time. */
const fewReferences = 10;

const advice = "if the file may be without it, list it under optionalColumns";

/** The attributes that rules name, for the records of one kind. */
export class NamedAttributes {
  readonly #of: "users" | "groups";
  readonly #context: ReadContext;
  readonly #optional: ReadonlySet<string>;
  readonly #required: readonly string[];
  readonly #named: readonly string[];
  readonly #values: ValueCounts;
  readonly #referenceColumns: readonly string[];
  #references = 0;

  constructor(kind: Kind, options: UsersOptions | GroupsOptions, context: ReadContext) {
    const of = `${kind}s` as const;
    this.#of = of;
    this.#context = context;
    this.#optional = new Set(options.optionalColumns?.map(nfc));
    this.#required = (context.required?.[of] ?? []).map(nfc);
    this.#named = [...new Set([...this.#required, ...(context.attributes?.[of] ?? []).map(nfc)])];
    this.#values = countValues(kind, this.#named, context, this.#optional);
    const references = [options.memberOf, "members" in options ? options.members : undefined];
    this.#referenceColumns = references.flatMap((each) => (each === undefined ? [] : [nfc(each.column)]));
  }

  /**
   * The columns of a file, under the names that rules use.
   * @throws {InputError} a rule needs a column that the file does not have
   */
  columns(columns: readonly Column[], header: Header, file: string): readonly Column[] {
    const own = new Set(columns.map(({ name }) => nfc(name)));
    const found = columns.flatMap((column) => {
      const others = this.#named.filter((name) => !own.has(name) && header.same(name, column.name));
      const isNamed = this.#named.includes(nfc(column.name)) || others.length === 0;
      return [...(isNamed ? [column] : []), ...others.map((name) => ({ name, index: column.index }))];
    });
    const names = new Set(found.map(({ name }) => nfc(name)));
    for (const name of this.#named) {
      if (names.has(name) || this.#optional.has(name)) continue;
      const had = this.#values.before(name);
      if (!this.#required.includes(name) && had === 0) continue;
      const why = had > 0 ? `, and ${formatNumber(had)} ${this.#of} had a value there at the last good read` : "";
      throw new InputError(
        `${file}:${header.line}: no column gives entry.${name}, which a rule reads${why}; ${hint(name, [...own])}; ${advice}`,
      );
    }
    return found;
  }

  /** The columns of a file that rules read; all, where that is not known. */
  readOf(header: Header): readonly Column[] {
    if (this.#context.attributes === undefined) return header.columns;
    return header.columns.filter(({ name }) => this.#named.some((one) => header.same(one, name)));
  }

  /** Counts the values of a record. */
  count(entry: Entry): void {
    this.#values.add(entry);
    this.#references += entry.memberOf.length + entry.members.length;
  }

  /** @throws {IncompleteReadError} a column that had values at the last good read has none */
  end(): void {
    this.#assertReferences();
    const [name] = this.#values.end();
    if (name === undefined) return;
    throw new IncompleteReadError(
      `the column of entry.${name} is empty for all ${this.#of}, and ${formatNumber(this.#values.before(name))} had a value there at the last good read; ${advice}`,
    );
  }

  #assertReferences(): void {
    const columns = this.#referenceColumns;
    const title = `memberships of ${this.#of}`;
    const before = this.#context.lastCounts?.[title] ?? 0;
    if (columns.length > 0) this.#context.count?.(title, this.#references);
    if (this.#references > 0 || before < fewReferences || columns.some((name) => this.#optional.has(name))) return;
    throw new IncompleteReadError(
      `the ${this.#of} have no memberships (${columns.join(", ")}), and ${formatNumber(before)} at the last good read; ${advice}`,
    );
  }
}

/** How many columns a message lists. */
const listed = 20;

function hint(name: string, columns: readonly string[]): string {
  const own = lettersOf(name);
  const meant =
    nearest(name, columns) ??
    columns.find((column) => {
      const [short = "", long = ""] = [own, lettersOf(column)].sort((a, b) => a.length - b.length);
      return short.length > 2 && long.includes(short);
    });
  const near = meant === undefined ? undefined : `did you mean ${JSON.stringify(meant)}?`;
  const more = columns.length > listed ? ", …" : "";
  return resembling(name, columns) ?? near ?? `there are ${columns.slice(0, listed).join(", ")}${more}`;
}
