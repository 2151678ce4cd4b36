import { literal } from "#duckdb/database.ts";
import { sameName } from "#principals/principal.ts";
import { nfc, patternExpression } from "#text.ts";

/** An SQL condition: the column matches one of the names; `*` stands for any characters. */
export function matches(column: string, names: readonly string[], ignoresCase = false): string {
  const patterns = names.filter((name) => name.includes("*"));
  const same = sameName(ignoresCase);
  // A list of plain names takes DuckDB a tenth of the time.
  const plain = names.filter((name) => !name.includes("*")).map((name) => same(literal(name)));
  const conditions = [
    ...(plain.length === 0 ? [] : [`${same(column)} IN (${plain.join(", ")})`]),
    ...(patterns.length === 0
      ? []
      : [
          `regexp_full_match(${ignoresCase ? `nfc_normalize(${column})` : column}, ${literal(patterns.map(patternExpression).join("|"))}, '${ignoresCase ? "si" : "s"}')`,
        ]),
  ];
  return conditions.length === 0 ? "false" : `(${conditions.join(" OR ")})`;
}

/** The first pattern that a name matches; `*` stands for any characters. */
export function patternMatching(name: string, names: readonly string[], ignoresCase = false): string | undefined {
  const text = ignoresCase ? nfc(name) : name;
  return names.find((pattern) => new RegExp(`^${patternExpression(pattern)}$`, ignoresCase ? "si" : "s").test(text));
}
