import { literal } from "#duckdb/database.ts";
import { sameName } from "#principals/principal.ts";
import { nfc, patternExpression } from "#text.ts";

/** An SQL condition: the column matches one of the names; `*` stands for any characters. */
export function matches(column: string, names: readonly string[], ignoresCase = false): string {
  const patterns = names.filter((name) => name.includes("*"));
  const same = sameName(ignoresCase);
  // A list of plain names takes DuckDB a tenth of the time.
  const plain = names.filter((name) => !name.includes("*")).map((name) => same(literal(name)));
  const text = ignoresCase ? `nfc_normalize(${column})` : column;
  const expressions = patterns.map((pattern) => patternExpression(ignoresCase ? nfc(pattern) : pattern));
  const conditions = [
    ...(plain.length === 0 ? [] : [`${same(column)} IN (${plain.join(", ")})`]),
    ...(patterns.length === 0
      ? []
      : [`regexp_full_match(${text}, ${literal(expressions.join("|"))}, '${ignoresCase ? "si" : "s"}')`]),
  ];
  return conditions.length === 0 ? "false" : `(${conditions.join(" OR ")})`;
}

/** The first pattern that a name matches; `*` stands for any characters. */
export function patternMatching(name: string, names: readonly string[], ignoresCase = false): string | undefined {
  const form = (text: string): string => (ignoresCase ? nfc(text) : text);
  const flags = ignoresCase ? "si" : "s";
  return names.find((pattern) => new RegExp(`^${patternExpression(form(pattern))}$`, flags).test(form(name)));
}
