import type { z } from "zod";
import type { ConfigurationDocument } from "./document.ts";
import { expectation } from "./expectations.ts";
import { explain } from "./explain.ts";
import type { Path, Problem } from "./problem.ts";

export type Validated<Value> =
  | { readonly value: Value; readonly problems: readonly [] }
  | { readonly value: undefined; readonly problems: readonly Problem[] };

/**
 * Validates one part of the file. A value that is wholly a substitution becomes a number or a boolean where the schema
 * wants one and the text is one; where a text is wanted it stays a text (a password `123` is no number).
 * @param input the value at `base`, perhaps without some of its keys
 */
export async function validate<Value>(
  schema: z.ZodType<Value>,
  input: unknown,
  base: Path,
  document: ConfigurationDocument,
): Promise<Validated<Value>> {
  const parse = (value: unknown) => schema.safeParseAsync(value, { error: expectation });
  let result = await parse(input);
  if (!result.success) {
    const converted = convert(input, result.error.issues, base, document);
    if (converted !== input) result = await parse(converted);
  }
  if (result.success) return { value: result.data, problems: [] };
  return { value: undefined, problems: explain(result.error.issues, document, base) };
}

function convert(
  input: unknown,
  issues: readonly z.core.$ZodIssue[],
  base: Path,
  document: ConfigurationDocument,
): unknown {
  let result = input;
  for (const { path, expected } of issues.flatMap((issue) => wanted(issue))) {
    const text = document.at([...base, ...path]);
    if (typeof text !== "string" || !document.substituted([...base, ...path])) continue;
    if (expected === "boolean" && /^(?:true|false)$/i.test(text))
      result = replace(result, path, text.toLowerCase() === "true");
    if (expected !== "boolean" && /^-?\d+(?:\.\d+)?$/.test(text)) result = replace(result, path, Number(text));
  }
  return result;
}

/** Where a number or a boolean was wanted, in any of the forms a value may have. */
function wanted(issue: z.core.$ZodIssue): { path: (string | number)[]; expected: string }[] {
  const path = issue.path as (string | number)[];
  if (issue.code === "invalid_union")
    return issue.errors
      .flat()
      .flatMap((inner) => wanted(inner).map((found) => ({ path: [...path, ...found.path], expected: found.expected })));
  if (issue.code !== "invalid_type" || !["number", "int", "boolean"].includes(issue.expected)) return [];
  return [{ path, expected: issue.expected }];
}

/** A copy with another value at a path; what is not on the path is shared. */
function replace(value: unknown, path: Path, leaf: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return leaf;
  if (Array.isArray(value)) return value.with(Number(step), replace(value[Number(step)], rest, leaf));
  const record = value as Record<string, unknown>;
  return { ...record, [step]: replace(record[step], rest, leaf) };
}
