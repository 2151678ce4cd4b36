import { literal } from "#duckdb/database.ts";
import { patternExpression } from "#text.ts";

/** An SQL condition: the column matches one of the names; `*` stands for any characters. */
export function matches(column: string, names: readonly string[]): string {
  if (names.length === 0) return "false";
  return `regexp_full_match(${column}, ${literal(names.map(patternExpression).join("|"))}, 's')`;
}

/** The first pattern that a name matches; `*` stands for any characters. */
export function patternMatching(name: string, names: readonly string[]): string | undefined {
  return names.find((pattern) => new RegExp(`^${patternExpression(pattern)}$`, "s").test(name));
}
