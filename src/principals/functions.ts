import { EvaluationError } from "@marcbachmann/cel-js";
import type { Environment } from "@marcbachmann/cel-js";
import { shown } from "./text.ts";

/**
 * The functions that rules have beside CEL's own. All take null for what an entry may lack, and give null for it, so
 * that `lower(entry.mail)` is null where there is no mail. Integers count as their decimal text.
 */
const functions: Readonly<Record<string, (...values: never[]) => unknown>> = {
  /** In lower case. */
  "lower(dyn): dyn": (value: unknown) => withText("lower", value, (text) => text.toLowerCase()),
  /** In upper case. */
  "upper(dyn): dyn": (value: unknown) => withText("upper", value, (text) => text.toUpperCase()),
  /** Without white space at either end. */
  "trim(dyn): dyn": (value: unknown) => withText("trim", value, (text) => text.trim()),
  /** Every occurrence of a text replaced by another one. */
  "replace(dyn, string, string): dyn": (value: unknown, search: string, replacement: string) =>
    withText("replace", value, (text) => text.replaceAll(search, () => replacement)),
  /** At most so many characters from the start. */
  "truncate(dyn, int): dyn": (value: unknown, length: bigint) =>
    withText("truncate", value, (text) =>
      Array.from(text)
        .slice(0, Math.max(0, Number(length)))
        .join(""),
    ),
  /** The parts between separators, as a list. */
  "split(dyn, string): dyn": (value: unknown, separator: string) =>
    withText("split", value, (text) => text.split(separator)),
  /** The values of a list with a separator between them. Nulls are left out; null when nothing is left. */
  "join(dyn, string): dyn": (value: unknown, separator: string) => {
    const texts = valuesOf(value).flatMap((each) => asText("join", each) ?? []);
    return texts.length === 0 ? null : texts.join(separator);
  },
  /** The first value of a list; a value that is no list as it is; null when there is none. */
  "first(dyn): dyn": (value: unknown) => valuesOf(value)[0] ?? null,
  /** A list, whether there are no values, one or several. */
  "values(dyn): list<dyn>": valuesOf,
  /** The first that is not null. */
  "coalesce(dyn, dyn): dyn": coalesce,
  "coalesce(dyn, dyn, dyn): dyn": coalesce,
  "coalesce(dyn, dyn, dyn, dyn): dyn": coalesce,
};

/** Makes the functions known to the environment. */
export function registerFunctions(environment: Environment): void {
  for (const [signature, handler] of Object.entries(functions)) {
    environment.registerFunction(signature, handler, { async: false });
  }
}

function withText(name: string, value: unknown, change: (text: string) => unknown): unknown {
  const text = asText(name, value);
  return text === null ? null : change(text);
}

function asText(name: string, value: unknown): string | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "bigint") return value.toString();
  const hint = Array.isArray(value) ? '; use first(…) or join(…, ", ")' : "";
  throw new EvaluationError(`${name}() needs a text, not ${shown(value)}${hint}`);
}

function valuesOf(value: unknown): unknown[] {
  if (value === null) return [];
  return Array.isArray(value) ? value : [value];
}

function coalesce(...values: readonly unknown[]): unknown {
  return values.find((value) => value !== null) ?? null;
}
