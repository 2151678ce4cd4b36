import type { Entry, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { formatNumber, nearest, nfc } from "#text.ts";
import { resembling } from "./header.ts";
import type { Column, Header } from "./header.ts";
import type { UsersOptions } from "./options.ts";

/** The attributes that rules name, for the records of one kind. */
export interface Named {
  /**
   * The columns of a file, under the names that rules use.
   * @throws {InputError} a rule needs a column that the file does not have
   */
  columns(columns: readonly Column[], header: Header, file: string): readonly Column[];
  /** Counts the values of a record. */
  count(entry: Entry): void;
  /** @throws {IncompleteReadError} a column that had values at the last good read has none */
  end(): void;
}

/** A column in which fewer had a value may well become empty. */
const fewValues = 10;

export function namedAttributes(
  kind: Kind,
  { optionalColumns = [] }: Pick<UsersOptions, "optionalColumns">,
  { attributes, required, lastCounts = {}, count }: ReadContext,
): Named {
  const of = `${kind}s` as const;
  const optional = new Set(optionalColumns.map(nfc));
  const needed = new Set((required?.[of] ?? []).map(nfc));
  const counts = new Map([...needed, ...(attributes?.[of] ?? []).map(nfc)].map((name) => [name, 0]));
  const title = (name: string): string => `${of} with ${name}`;
  const before = (name: string): number => (optional.has(name) ? 0 : (lastCounts[title(name)] ?? 0));
  const advice = "if the file may be without it, list it under optionalColumns";

  return {
    columns(columns, header, file) {
      const own = new Set(columns.map(({ name }) => nfc(name)));
      const found = columns.flatMap((column) => {
        const others = [...counts.keys()].filter((name) => !own.has(name) && header.same(name, column.name));
        const isNamed = counts.has(nfc(column.name)) || others.length === 0;
        return [...(isNamed ? [column] : []), ...others.map((name) => ({ name, index: column.index }))];
      });
      const names = new Set(found.map(({ name }) => nfc(name)));
      for (const name of counts.keys()) {
        if (names.has(name) || optional.has(name)) continue;
        const had = before(name);
        if (!needed.has(name) && had === 0) continue;
        const why = had > 0 ? `, and ${formatNumber(had)} ${of} had a value there at the last good read` : "";
        throw new InputError(
          `${file}:${header.line}: no column gives entry.${name}, which a rule reads${why}; ${hint(name, [...own])}; ${advice}`,
        );
      }
      return found;
    },
    count({ attributes }) {
      for (const [name, seen] of counts) if (attributes[name] !== undefined) counts.set(name, seen + 1);
    },
    end() {
      for (const [name, seen] of counts) {
        if (seen > 0 || before(name) < fewValues) continue;
        throw new IncompleteReadError(
          `the column of entry.${name} is empty for all ${of}, and ${formatNumber(before(name))} had a value there at the last good read; ${advice}`,
        );
      }
      for (const [name, seen] of counts) count?.(title(name), seen);
    },
  };
}

/** How many columns a message lists. */
const listed = 20;

function hint(name: string, columns: readonly string[]): string {
  const meant = nearest(name, columns);
  const near = meant === undefined ? undefined : `did you mean ${JSON.stringify(meant)}?`;
  const more = columns.length > listed ? ", …" : "";
  return resembling(name, columns) ?? near ?? `there are ${columns.slice(0, listed).join(", ")}${more}`;
}
