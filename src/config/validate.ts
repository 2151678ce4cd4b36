import type { z } from "zod";
import { nearest, didYouMean } from "#text.ts";
import type { ConfigurationDocument } from "./document.ts";
import type { Path, Problem } from "./problems.ts";

export type Validated<Value> =
  | { readonly value: Value; readonly problems: readonly [] }
  | { readonly value: undefined; readonly problems: readonly Problem[] };

/**
 * Validates one part of the file. A value that is one substitution becomes a number or a boolean where the schema wants one.
 * Where the schema wants text, it stays text: a password `123` is not a number.
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

/** The places where some form of the value needs a number or a boolean. */
function wanted(issue: z.core.$ZodIssue): { path: (string | number)[]; expected: string }[] {
  const path = issue.path as (string | number)[];
  if (issue.code === "invalid_union")
    return issue.errors
      .flat()
      .flatMap((inner) => wanted(inner).map((found) => ({ path: [...path, ...found.path], expected: found.expected })));
  if (issue.code !== "invalid_type" || !["number", "int", "boolean"].includes(issue.expected)) return [];
  return [{ path, expected: issue.expected }];
}

/** A copy with another value at a path. */
function replace(value: unknown, path: Path, leaf: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return leaf;
  if (Array.isArray(value)) return value.with(Number(step), replace(value[Number(step)], rest, leaf));
  const record = value as Record<string, unknown>;
  return { ...record, [step]: replace(record[step], rest, leaf) };
}

type Issue = z.core.$ZodIssue;

/** The issues of a validation as problems with places. Their messages come from `expectation` or the schema. */
function explain(issues: readonly Issue[], document: ConfigurationDocument, base: Path): Problem[] {
  return issues.flatMap((issue) => plainIssues(issue, base)).flatMap((issue) => problemsOf(issue, document));
}

/** Resolves unions: of the forms a value may have, takes the one it comes closest to. `path` is from the top. */
function plainIssues(issue: Issue, base: Path): Issue[] {
  const path = [...base, ...issue.path] as (string | number)[];
  if (issue.code === "invalid_key") {
    return [{ code: "custom", path, message: issue.issues[0]?.message ?? issue.message, params: { key: true } }];
  }
  if (issue.code !== "invalid_union") return [{ ...issue, path }];
  if (issue.errors.length === 0) {
    const options = "options" in issue ? (issue.options ?? []) : [];
    return [{ code: "invalid_value", path, values: options, message: `expected ${alternatives(options.map(String))}` }];
  }
  const forms = issue.errors.map((errors) => errors.flatMap((error) => plainIssues(error, path)));
  const meant = forms.filter((found) => !found.some((one) => one.path.length === path.length && isOfAnotherForm(one)));
  if (meant.length > 0) return meant.reduce((best, form) => (form.length < best.length ? form : best));
  const values = forms.flatMap((found) => found.flatMap((one) => (one.code === "invalid_value" ? one.values : [])));
  const expected = forms.flatMap((found) => found.slice(0, 1).map(({ message }) => message.replace(/^expected /, "")));
  const message = issue.message === "" ? `expected ${alternatives([...new Set(expected)])}` : issue.message;
  return [{ code: "invalid_value", path, values, message }];
}

function isOfAnotherForm(issue: Issue): boolean {
  return issue.code === "invalid_type" || issue.code === "invalid_value" || issue.code === "custom";
}

function problemsOf(issue: Issue, document: ConfigurationDocument): Problem[] {
  const path = issue.path as (string | number)[];
  if (issue.code === "unrecognized_keys") {
    const known = issue.message.split("\n").filter((key) => key !== "");
    return issue.keys.map((key) => document.problem([...path, key], "key", `unknown key; ${didYouMean(key, known)}`));
  }
  if (issue.code === "custom" && issue.params?.["key"] === true) return [document.problem(path, "key", issue.message)];
  if (document.broken(path)) return [];
  const value = document.at(path);
  if (value === undefined) {
    const missing = issue.message.startsWith("expected ") ? "missing; " : "";
    return [document.problem(path, "parent", `${missing}${issue.message}`)];
  }
  return [document.problem(path, "value", `${issue.message}${found(issue, value, path, document)}`)];
}

/** `, not …` and what was probably meant, unless the value is secret. */
function found(issue: Issue, value: unknown, path: Path, document: ConfigurationDocument): string {
  if (!issue.message.startsWith("expected ")) return "";
  const origins = document.origins(path);
  if (origins.length > 0)
    return ` (the value comes from ${alternatives(origins)}${value === "" ? ", and is empty" : ""})`;
  if (value === null) return "; the key has no value";
  if (typeof value === "object") {
    if (issue.code === "too_small" || issue.code === "too_big") return "";
    return Array.isArray(value) ? ", not a list" : ", not keys with values";
  }
  const shown = JSON.stringify(value);
  const isTextWanted = issue.code === "invalid_type" && issue.expected === "string";
  if (document.secret(path)) return isTextWanted ? "; put it in quotes" : "";
  if (isTextWanted) return `, not ${shown}; put it in quotes: "${shown}"`;
  const word = typeof value === "string" ? value : shown;
  const meant = issue.code === "invalid_value" ? nearest(word, issue.values.map(String)) : undefined;
  return `${shown.length > 60 ? "" : `, not ${shown}`}${meant === undefined ? "" : `; did you mean ${JSON.stringify(meant)}?`}`;
}

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
 * The messages of schemas without their own: `expected …`, so that a connector's options read like the rest.
 * Two of them are only for `explain`: unknown keys list the known ones, and a union says nothing.
 */
const expectation: z.core.$ZodErrorMap = (issue) => {
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

/** Whether a number schema takes only whole numbers. */
function isWhole(schema: unknown): boolean {
  return (schema as { _zod?: { def?: { format?: string } } } | undefined)?._zod?.def?.format === "safeint";
}

/** The keys of the object schema that met an unknown one. */
function knownKeys(schema: unknown): readonly string[] {
  const shape = (schema as { _zod?: { def?: { shape?: object } } } | undefined)?._zod?.def?.shape;
  return Object.keys(shape ?? {});
}
