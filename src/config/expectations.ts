import type { z } from "zod";

const kinds: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  tuple: "a list",
  object: "keys with values",
  record: "keys with values",
  null: "nothing",
  never: "nothing",
};

/**
 * What a schema says where it has no words of its own: `expected …`, so that a connector's options read like the rest.
 * Two messages are for `explain` alone: unknown keys give the known ones, a union of forms says nothing.
 */
export const expectation: z.core.$ZodErrorMap = (issue) => {
  switch (issue.code) {
    case "invalid_type":
      return `expected ${isWhole(issue.inst) ? kinds["int"] : (kinds[issue.expected] ?? issue.expected)}`;
    case "invalid_value":
      return `expected ${alternatives(issue.values.map((value) => String(value)))}`;
    case "unrecognized_keys":
      return knownKeys(issue.inst).join("\n");
    case "invalid_union":
      return "";
    case "too_small":
      return bound(issue, Number(issue.minimum), issue.inclusive === false ? "more than" : "at least");
    case "too_big":
      return bound(issue, Number(issue.maximum), issue.inclusive === false ? "less than" : "at most");
    case "not_multiple_of":
      return `expected a multiple of ${issue.divisor}`;
    case "invalid_format":
      return issue.format === "regex" ? `expected text that matches ${issue.pattern}` : `expected ${issue.format}`;
    case "invalid_key":
    case "invalid_element":
    case "custom":
    default:
      return "expected something else";
  }
};

/** `a`, `a or b`, `a, b or c`. */
export function alternatives(names: readonly string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}

function bound(issue: { origin: string; exact?: boolean | undefined }, limit: number, words: string): string {
  const amount = `${issue.exact === true ? "exactly" : words} ${limit}`;
  const plural = limit === 1 ? "" : "s";
  if (issue.origin === "string")
    return limit === 1 && words === "at least"
      ? "expected text that is not empty"
      : `expected ${amount} character${plural}`;
  if (issue.origin === "array" || issue.origin === "set") return `expected ${amount} item${plural}`;
  return `expected a number, ${amount}`;
}

/** Whether a schema of numbers takes whole ones only. */
function isWhole(schema: unknown): boolean {
  return (schema as { _zod?: { def?: { format?: string } } } | undefined)?._zod?.def?.format === "safeint";
}

/** The keys of the object schema that met an unknown one. */
function knownKeys(schema: unknown): readonly string[] {
  const shape = (schema as { _zod?: { def?: { shape?: object } } } | undefined)?._zod?.def?.shape;
  return Object.keys(shape ?? {});
}
