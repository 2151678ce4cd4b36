import { countValues } from "#connector.ts";
import type { Entry, ReadContext } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { Kind } from "#principals/principal.ts";
import { formatNumber, nearest, nfc } from "#text.ts";
import { resembling } from "./header.ts";
import type { Column, Header } from "./header.ts";
import type { GroupsOptions, UsersOptions } from "./options.ts";

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

/** Fewer memberships than these may well end at a time. */
const fewReferences = 10;

export function namedAttributes(kind: Kind, options: UsersOptions | GroupsOptions, context: ReadContext): Named {
  const of = `${kind}s` as const;
  const optional = new Set(options.optionalColumns?.map(nfc));
  const required = (context.required?.[of] ?? []).map(nfc);
  const attributes = (context.attributes?.[of] ?? []).map(nfc);
  const named = [...new Set([...required, ...attributes])];
  const values = countValues(kind, named, context, optional);
  const referenceColumns = [options.memberOf, "members" in options ? options.members : undefined].flatMap((each) =>
    each === undefined ? [] : [nfc(each.column)],
  );
  const referencesTitle = `memberships of ${of}`;
  let references = 0;
  const advice = "if the file may be without it, list it under optionalColumns";

  return {
    columns(columns, header, file) {
      const own = new Set(columns.map(({ name }) => nfc(name)));
      const found = columns.flatMap((column) => {
        const others = named.filter((name) => !own.has(name) && header.same(name, column.name));
        const isNamed = named.includes(nfc(column.name)) || others.length === 0;
        return [...(isNamed ? [column] : []), ...others.map((name) => ({ name, index: column.index }))];
      });
      const names = new Set(found.map(({ name }) => nfc(name)));
      for (const name of named) {
        if (names.has(name) || optional.has(name)) continue;
        const had = values.before(name);
        if (!required.includes(name) && had === 0) continue;
        const why = had > 0 ? `, and ${formatNumber(had)} ${of} had a value there at the last good read` : "";
        throw new InputError(
          `${file}:${header.line}: no column gives entry.${name}, which a rule reads${why}; ${hint(name, [...own])}; ${advice}`,
        );
      }
      return found;
    },
    count(entry) {
      values.add(entry);
      references += entry.memberOf.length + entry.members.length;
    },
    end() {
      const before = context.lastCounts?.[referencesTitle] ?? 0;
      if (referenceColumns.length > 0) context.count?.(referencesTitle, references);
      if (references === 0 && before >= fewReferences && !referenceColumns.some((name) => optional.has(name))) {
        throw new IncompleteReadError(
          `the ${of} have no memberships (${referenceColumns.join(", ")}), and ${formatNumber(before)} at the last good read; ${advice}`,
        );
      }
      const [name] = values.end();
      if (name === undefined) return;
      throw new IncompleteReadError(
        `the column of entry.${name} is empty for all ${of}, and ${formatNumber(values.before(name))} had a value there at the last good read; ${advice}`,
      );
    },
  };
}

/** How many columns a message lists. */
const listed = 20;

function hint(name: string, columns: readonly string[]): string {
  const own = letters(name);
  const meant =
    nearest(name, columns) ??
    columns.find((column) => {
      const [short = "", long = ""] = [own, letters(column)].sort((a, b) => a.length - b.length);
      return short.length > 2 && long.includes(short);
    });
  const near = meant === undefined ? undefined : `did you mean ${JSON.stringify(meant)}?`;
  const more = columns.length > listed ? ", …" : "";
  return resembling(name, columns) ?? near ?? `there are ${columns.slice(0, listed).join(", ")}${more}`;
}

/** `email` of `E-Mail`. */
function letters(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, "");
}
