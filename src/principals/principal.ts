export type Kind = "user" | "group";

/** What a principal has of an attribute: a text, true or false, or several texts, sorted by code point and each once. */
export type PrincipalValue = string | boolean | readonly string[];

/** The attributes of a principal by their names. Undefined: it is unset. */
export type PrincipalValues = Readonly<Record<string, PrincipalValue | undefined>>;

/**
 * A user or a group as a target knows it. `name` identifies it together with `kind`; names are compared exactly (B.5).
 * `groupNames` is a set, sorted by code point (B.6). All else are its attributes (decision 8); undefined or absent: unset.
 */
export interface Principal {
  readonly kind: Kind;
  readonly name: string;
  readonly groupNames: readonly string[];
  readonly [attribute: string]: PrincipalValue | undefined;
}

/** The longest name or display name, in code points (B.5). */
const longestName = 255;

/**
 * SQL of what all spellings of a name have in common, of SQL of the name. DuckDB folds both sides of a comparison: JavaScript's lower
 * case of İ and of a final Σ is another one. Who ignores case looks at a letter and its accent as one, too (RFC 8265, 3.3): what
 * sources give is normalised, and a target may have it otherwise.
 */
export function sameName(ignoresCase: boolean): (name: string) => string {
  return (name) => (ignoresCase ? anySpelling(name) : name);
}

/** SQL of the same, for names of a target whose case does not matter. */
export function anySpelling(name: string): string {
  return `lower(nfc_normalize(${name}))`;
}

const control = /\p{Cc}/u;

/** What is wrong with a text as a name or display name (B.5); undefined when nothing is. */
export function objectionToName(text: string): string | undefined {
  if (text === "") return "is empty";
  // A code point takes one or two units: only in between do they have to be counted.
  const { length } = text;
  if (length > longestName && (length > 2 * longestName || Array.from(text).length > longestName))
    return `is longer than ${longestName} characters`;
  if (control.test(text)) return "has control characters";
  return undefined;
}
