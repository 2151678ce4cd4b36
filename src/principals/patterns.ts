import { createRequire } from "node:module";
import type * as re2js from "re2js";
import { firstLineOf } from "#errors.ts";

/** Loaded when a rule uses it: most have none. */
const load = createRequire(import.meta.url);

/**
 * Regular expressions of rules, by their text. They are RE2's: a match takes time linear in the length of the text,
 * whatever pattern and text are. Only what stands in a rule is compiled, so that there are few.
 */
const compiled = new Map<string, re2js.RE2JS>();

/** What keeps a text from being a regular expression; undefined when it is one. */
export function objectionToPattern(pattern: string): string | undefined {
  try {
    patternOf(pattern);
    return undefined;
  } catch (error) {
    return `${firstLineOf(error).replace(/^error parsing regexp: /, "the regular expression is not valid: ")} (see https://github.com/google/re2/wiki/Syntax)`;
  }
}

/** Does the pattern match anywhere in the text? */
export function matches(text: string, pattern: string): boolean {
  return patternOf(pattern).matcher(text).find();
}

/** What the first group of the first match holds; the whole match when the pattern has no group; null for no match. */
export function extract(text: string, pattern: string): string | null {
  const expression = patternOf(pattern);
  const matcher = expression.matcher(text);
  if (!matcher.find()) return null;
  return matcher.group(Math.min(1, expression.groupCount()));
}

function patternOf(pattern: string): re2js.RE2JS {
  let found = compiled.get(pattern);
  if (found === undefined) compiled.set(pattern, (found = (load("re2js") as typeof re2js).RE2JS.compile(pattern)));
  return found;
}
